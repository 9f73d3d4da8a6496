"""The command that makes long runs small: compact."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.consent import must_agree
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.progress import progress_bar
from perdure.cli.removal import removing, tell_rest
from perdure.cli.storage import find, point, there, url_of
from perdure.errors import Damaged, NewerFormat, PruneRefused, RunGone
from perdure.journal import Keep
from perdure.store.protocol import Store
from perdure.timeline.amounts import counted, size
from perdure.timeline.compaction import Compacted, compacted, long_runs
from perdure.timeline.plain import clean, jsonable

LEAST = 1000
"""Events that a run must have, for `--all` to take it."""


@click.command(short_help="Take the early events of long runs away. --dry-run first.")
@click.argument("run", required=False)
@click.option("--all", "every", is_flag=True, help="Every run with many events.")
@click.option(
    "--least", default=LEAST, show_default=True, type=click.IntRange(1), help="With --all: so many events."
)
@click.option("--agent", help="With --all: only runs of this agent.")
@removing(
    keep="audit",
    stays="What stays of the events: acts, approvals and answers, or (of ended runs) the keys of the acts.",
    dry_run="Say what would go, and change nothing.",
)
@stored
def compact(
    options: Options,
    run: str | None,
    least: int,
    agent: str | None,
    keep: Keep,
    *,
    every: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Take the early events of a run away, for good: RUN as far as may be, or RUN@41 up to event 41.

    Its state, its open step, its acts, approvals and answers stay; its states in between cannot be looked at
    any more. Live workers are not in the way.
    """
    if every == (run is not None):
        raise click.UsageError("name one run, or say --all")
    if not every and (agent is not None or least != LEAST):
        raise click.UsageError("--agent and --least choose among all runs: say --all")
    if not (dry_run or yes):
        _ask(options, run)
    return asyncio.run(_compact(options, run, least, agent, keep, dry_run=dry_run))


def _ask(options: Options, run: str | None) -> None:
    """Let a person decide. Raises PruneRefused where there is none to ask."""
    what = "early events of every long run" if run is None else f"early events of {clean(run)}"
    must_agree(options, f"remove the {what} for good?", PruneRefused(f"the {what} would be removed for good"))


async def _compact(
    options: Options, text: str | None, least: int, agent: str | None, keep: Keep, *, dry_run: bool
) -> int:
    found, unreadable = list[Compacted](), list[str]()
    async with there(options, look=dry_run) as store:
        names, upto = await _chosen(store, text, least, agent)
        with progress_bar(options, "compacting") as progress:
            for done, (run_id, kept) in enumerate(names, 1):
                try:
                    one = await compacted(
                        store, run_id, upto=upto, keep=keep if kept else "audit", dry_run=dry_run
                    )
                    found.append(one)
                except RunGone:
                    pass
                except (Damaged, NewerFormat):
                    if text is not None:
                        raise
                    unreadable.append(run_id)
                progress(done, len(names))
    _tell(options, found, unreadable, done=not dry_run)
    return 1 if unreadable else 0


async def _chosen(
    store: Store, text: str | None, least: int, agent: str | None
) -> tuple[list[tuple[str, bool]], int | None]:
    """The runs, each with whether `--keep` counts for it, and the event up to which."""
    if text is not None:
        name, upto = point(text)
        return [((await find(store, name)).run_id, True)], upto
    return [(row.run_id, row.terminal) async for row in long_runs(store, least, agent)], None


def _tell(options: Options, found: list[Compacted], unreadable: list[str], *, done: bool) -> None:
    if options.json:
        print_document(
            {
                "store": url_of(options),
                "dry_run": not done,
                "runs": [_document(one) for one in found],
                "unreadable": [jsonable(name) for name in unreadable],
            }
        )
        return
    less = [one for one in found if one.removed]
    for one in less[:20]:
        verb = "begins after" if done else "would begin after"
        click.echo(f"{clean(one.run_id)} {verb} event {one.floor}: {counted(one.removed, 'event')} less")
    if len(less) > 20:
        click.echo(f"… {counted(len(less) - 20, 'run')} more")
    total = sum(one.freed for one in less)
    there_is = f"{size(total)} freed" if done else f"they have {size(total)} now"
    click.echo(f"{counted(len(less), 'run')} compacted, {there_is}" if less else "nothing to take away")
    tell_rest(options, unreadable, removed=done and bool(less))


def _document(one: Compacted) -> dict[str, Any]:
    return {
        "run_id": jsonable(one.run_id),
        "floor": one.floor,
        "events_removed": one.removed,
        "bytes": one.freed,
    }
