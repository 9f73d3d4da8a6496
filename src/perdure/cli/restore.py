"""The command that opens a store which was brought back from a backup."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import click

from perdure.cli import exits
from perdure.cli.consent import must_agree
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.progress import progress_bar
from perdure.cli.storage import there, url_of
from perdure.errors import RestoreRefused, at_store
from perdure.store.pages import every
from perdure.store.protocol import Query
from perdure.timeline.amounts import counted
from perdure.timeline.plain import clean, jsonable
from perdure.timeline.restoring import Restored, begin_anew


@click.command(short_help="Open a store from a backup: nothing acts by itself.")
@click.option("--yes", is_flag=True, help="Ask nobody.")
@stored
def restore(options: Options, yes: bool) -> int:
    """Open a store that was brought back from a backup as a new incarnation.

    Every lease in it is void, and every open run is held, restored, until a person releases it: it does not
    know what it did after the backup was made. Never for a store that is at work: one in which a worker is
    alive is refused.
    """
    if not yes:
        _ask(options, asyncio.run(_open_runs(options)))
    with progress_bar(options, "holding") as progress:
        found = asyncio.run(_restored(options, progress))
    if options.json:
        print_document({"store": url_of(options), **_document(found)})
    else:
        _tell(options, found)
    return exits.FAILURE if found.damaged or found.newer else exits.OK


async def _open_runs(options: Options) -> int:
    async with there(options) as store:
        return len([row async for row in every(store, Query(open_only=True))])


async def _restored(options: Options, progress: Callable[[int, int], None]) -> Restored:
    async with there(options, look=False) as store:
        return await begin_anew(store, progress)


def _ask(options: Options, count: int) -> None:
    """Let a person decide. Raises RestoreRefused where there is none to ask."""
    runs, place = counted(count, "open run"), clean(url_of(options))
    what = f"{runs} of {place} would be taken from whoever has them, and held"
    question = f"{what}. Is this a store that was brought back from a backup? Go on?"
    must_agree(options, question, RestoreRefused(what))


def _document(found: Restored) -> dict[str, object]:
    return {
        "held": [jsonable(run_id) for run_id in found.held],
        "damaged": [jsonable(run_id) for run_id in found.damaged],
        "newer": [jsonable(run_id) for run_id in found.newer],
    }


def _tell(options: Options, found: Restored) -> None:
    click.echo(f"every lease is void; {counted(len(found.held), 'open run')} held, restored")
    for run_id in found.damaged:
        click.echo(f"  damaged: {clean(run_id)}: perdure verify {clean(run_id)}")
    for run_id in found.newer:
        click.echo(f"  stays with nobody: {clean(run_id)}, which a newer perdure wrote; restore with that")
    if found.held:
        way = at_store(f"perdure release {found.held[0]}", options.store)
        click.echo(f"next  {way}   once you know what it did after the backup")
