"""The command that destroys what a run knows of people: erase."""

from __future__ import annotations

import asyncio

import click

from perdure.cli import exits
from perdure.cli.consent import must_agree
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.storage import find, there
from perdure.errors import EraseRefused
from perdure.timeline import erasing
from perdure.timeline.amounts import counted
from perdure.timeline.plain import clean, jsonable


@click.command(short_help="Destroy the personal data of a run that has ended, for good.")
@click.argument("run")
@click.option("--dry-run", is_flag=True, help="Only tell what would be erased.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@stored
def erase(options: Options, run: str, *, dry_run: bool, yes: bool) -> int:
    """Destroy the key of a run's personal data, with those of its children and its forks.

    RUN is its whole id. Its journal stays and verifies; what was personal shows as [erased], for good.
    Backups that were made before are not reached: docs/secrets.md.
    """
    return asyncio.run(_erase(options, run, dry_run=dry_run, yes=yes))


async def _erase(options: Options, text: str, *, dry_run: bool, yes: bool) -> int:
    async with there(options, look=dry_run) as store:
        row = await find(store, text, whole=True)
        found = await erasing.planned(store, row.run_id)
        if not dry_run:
            if not yes and not found.open:
                _ask(options, found)
            found = await erasing.erase(store, row.run_id)
    _tell(options, found)
    return exits.OK if not found.open and (dry_run or found.scrubbed) else exits.FAILURE


def _ask(options: Options, found: erasing.Erasure) -> None:
    """Let a person decide. Raises EraseRefused where there is none to ask."""
    what = f"the personal data of {counted(len(found.runs), 'run')}"
    remedy = "look first with --dry-run, then repeat the command with --yes"
    refusal = EraseRefused(f"{what} would be destroyed for good", remedy=remedy)
    must_agree(options, f"destroy {what}. Go on?", refusal)


def _tell(options: Options, found: erasing.Erasure) -> None:
    if options.json:
        print_document(
            {
                "run_id": jsonable(found.run_id),
                "runs": [jsonable(name) for name in found.runs],
                "sealed": [jsonable(name) for name in found.sealed],
                "open": [jsonable(name) for name in found.open],
                "erased": found.done,
                "scrubbed": found.scrubbed,
            }
        )
        return
    verb = "erased" if found.done else "would erase"
    click.echo(f"{verb} {counted(len(found.runs), 'run')}; {len(found.sealed)} with personal data")
    for name in found.runs:
        what = "not ended" if name in found.open else "personal data" if name in found.sealed else "none"
        click.echo(f"  {clean(name)}: {what}")
    if found.done and not found.scrubbed:
        click.echo("the log of the database still has bytes of the key, for a reader: repeat the command")
