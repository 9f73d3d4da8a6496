"""The command that brings a whole store under another key, or under one at all: rotate."""

from __future__ import annotations

import asyncio

import click

from perdure.cli import exits
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.progress import progress_bar
from perdure.cli.storage import there, url_of
from perdure.timeline import rotation
from perdure.timeline.amounts import counted
from perdure.timeline.plain import clean, jsonable


@click.command(short_help="Write all that a store keeps under the first key of PERDURE_KEY.")
@click.option("--encrypt", is_flag=True, help="Encrypt a store that is not. No worker may be alive.")
@click.option(
    "--decrypt", is_flag=True, help="Write an encrypted store in the clear. No worker may be alive."
)
@click.option(
    "--vacuum",
    is_flag=True,
    help="Write the files anew too: nothing that was removed earlier is left in them. --encrypt does.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what lies under which key.")
@stored
def rotate(options: Options, *, encrypt: bool, decrypt: bool, vacuum: bool, dry_run: bool) -> int:
    """Write everything again under the first key of PERDURE_KEY, beside live workers, a little at a time.

    Keys of personal data are wrapped anew too, in whatever store. Interrupted, it is simply called again. The
    older keys must stay in PERDURE_KEY until it says that nothing is left under them.
    """
    if encrypt and decrypt:
        raise click.UsageError("--encrypt or --decrypt, not both")
    aim: rotation.Aim = "encrypted" if encrypt else "plain" if decrypt else "same"
    return asyncio.run(_rotate(options, aim, whole=vacuum or encrypt, dry_run=dry_run))


async def _rotate(options: Options, aim: rotation.Aim, *, whole: bool, dry_run: bool) -> int:
    async with there(options, look=dry_run, below=True) as store:
        if dry_run:
            found = await rotation.found(store)
        else:
            with progress_bar(options, "writing anew") as progress:
                found = await rotation.rotate(store, aim, whole=whole, progress=progress)
    _tell(options, found, dry_run=dry_run)
    return exits.OK if dry_run or (found.done and found.scrubbed) else exits.FAILURE


def _tell(options: Options, found: rotation.Rotation, *, dry_run: bool) -> None:
    if options.json:
        print_document(
            {
                "store": url_of(options),
                "dry_run": dry_run,
                "key": found.key or None,
                "under": {name or "none": count for name, count in sorted(found.under.items())},
                "written": found.written,
                "unreadable": [jsonable(run_id) for run_id in found.unreadable],
                "done": found.done,
                "scrubbed": found.scrubbed,
            }
        )
        return
    lay = "lie" if dry_run else "lay"
    for name, count in sorted(found.under.items()):
        click.echo(f"{counted(count, 'value')} {lay} {f'under the key {name}' if name else 'in the clear'}")
    if dry_run:
        return
    to = f"under the key {found.key}" if found.key else "in the clear"
    click.echo(f"{counted(found.written, 'value')} written anew; the store is {to}")
    for run_id in found.unreadable:
        click.echo(f"  damaged, left as it is: {clean(run_id)}: perdure verify {clean(run_id)}")
    if found.done and found.key:
        click.echo("nothing is left under another key: the older ones may be taken out of PERDURE_KEY")
    if not found.scrubbed:
        click.echo(
            "the log of the database still has what was there before, for a reader: repeat the command"
        )
