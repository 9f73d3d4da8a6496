"""Commands that keep runs, carry them elsewhere, and remove them: export, import, prune."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from perdure.cli.consent import must_agree
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.removal import removing, tell_rest
from perdure.cli.storage import find, there, url_of
from perdure.errors import CannotWrite, FileThere, PruneRefused, at_store
from perdure.journal import Keep
from perdure.state.record import TERMINAL
from perdure.store import open_store
from perdure.timeline import bundle as bundles
from perdure.timeline import pruning
from perdure.timeline.amounts import counted, size
from perdure.timeline.plain import clean, jsonable

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Span(click.ParamType[timedelta]):
    """A length of time on the command line: 30d, 12h, 90m, 45s, 2w."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """The length of time. Fails as click does."""
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,6})([smhdw])", str(value))
        if match is None:
            self.fail(f"{value!r} is not a length of time, such as 30d, 12h, 90m or 45s", param, ctx)
        return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


# ---------------------------------------------------------------------------------------------- export


@click.command(short_help="Write one run into one file, readable offline.")
@click.argument("run")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@stored
def export(options: Options, run: str, file: Path | None) -> int:
    """Write one run into one file (default RUN.perdure): every event, verified, with its digests.

    Every command that looks reads it: perdure show RUN --store RUN.perdure. It holds all that the run
    recorded; treat it as you treat the store.
    """
    return asyncio.run(_export(options, run, file))


async def _export(options: Options, text: str, file: Path | None) -> int:
    async with there(options) as store:
        row = await find(store, text)
        bundle = await bundles.bundled(store, row.run_id)
    path = file or Path(f"{row.run_id}.perdure")
    data = bundles.packed(bundle)
    try:
        _write(path, data)
    except FileExistsError:
        raise FileThere(
            f"{path} is there already", remedy=f"choose another name: perdure export {row.run_id} FILE"
        ) from None
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror}") from error
    facts = {"run_id": row.run_id, "file": str(path), "bytes": len(data), "events": len(bundle.events)}
    if options.json:
        print_document({**jsonable(facts), "head": bundle.head.hex()})
        return 0
    events = counted(len(bundle.events), "event")
    click.echo(f"{path}: {clean(row.run_id)}, {events}, {size(len(data))}, head {bundle.head.hex()}")
    click.echo(f"look  perdure show {row.run_id} --store {path}")
    return 0


def _write(path: Path, data: bytes) -> None:
    """A new file, whole and on the disk, or none: the run may be removed next. Raises OSError."""
    with path.open("xb") as target:
        try:
            path.chmod(0o600)
            target.write(data)
            target.flush()
            os.fsync(target.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


# ---------------------------------------------------------------------------------------------- import


@click.command("import", short_help="Carry an exported run into a store, held.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@stored
def import_(options: Options, file: Path) -> int:
    """Carry an exported run into a store, whole or not at all.

    A run that has not ended is held there, imported, until perdure release: its original may still be at
    work.
    """
    return asyncio.run(_import(options, bundles.unpacked(file.read_bytes())))


async def _import(options: Options, bundle: bundles.Bundle) -> int:
    store = open_store(url_of(options))
    await store.open()
    try:
        row, fresh = await bundles.adopt(store, bundle)
    finally:
        await store.close()
    if options.json:
        print_document({"run_id": row.run_id, "imported": fresh, "status": row.status, "events": row.seq})
        return 0
    name, events = clean(row.run_id), counted(row.seq, "event")
    click.echo(f"{name} was there already" if not fresh else f"{name} imported: {row.status}, {events}")
    if fresh and not row.terminal:
        way = at_store(f"perdure release {row.run_id}", options.store)
        click.echo(f"next  {way}   once its original acts no more")
    return 0


# ---------------------------------------------------------------------------------------------- prune


NAMED = 20
"""So many of the runs that would go are named, the newest first."""


@click.command(short_help="Remove runs that have ended. --dry-run first.")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--older", type=Span(), default="0s", metavar="SPAN", help="Ended so long ago: 30d, 12h, 2w.")
@click.option("--status", "statuses", multiple=True, type=click.Choice(sorted(TERMINAL)), help="Only these.")
@click.option("--agent", help="Only runs of this agent.")
@click.option("--newest", default=0, type=click.IntRange(0), help="So many of the newest stay all the same.")
@removing(
    keep="keys",
    stays="What stays of each: the keys of its acts, or also its acts and approvals.",
    dry_run="Say what it would free and lose, and change nothing.",
)
@stored
def prune(
    options: Options,
    runs: tuple[str, ...],
    older: timedelta,
    statuses: tuple[str, ...],
    agent: str | None,
    newest: int,
    keep: Keep,
    *,
    dry_run: bool,
    yes: bool,
) -> int:
    """Remove runs that have ended, for good: those named by their whole ids, or those that the options say.

    No open run is touched, nor one whose parent is open. What stays of each is its id, which is never used
    again, and what --keep says.
    """
    if runs and (older or statuses or agent is not None or newest):
        raise click.UsageError(
            "runs are named, or chosen by --older, --status, --agent and --newest; not both"
        )
    rule = pruning.Rule(older // timedelta(microseconds=1), frozenset(statuses) or TERMINAL, agent, newest)
    return asyncio.run(_prune(options, runs or rule, keep, dry_run=dry_run, yes=yes))


async def _prune(
    options: Options,
    chosen: tuple[str, ...] | pruning.Rule,
    keep: Keep,
    *,
    dry_run: bool,
    yes: bool,
) -> int:
    async with there(options, look=dry_run) as store:
        if isinstance(chosen, pruning.Rule):
            plan = await pruning.planned(store, chosen)
        else:
            plan = await pruning.named(store, chosen)
        if dry_run or not plan.rows:
            _tell(options, plan, keep, pruning.Pruned(0), done=False)
            return 1 if plan.refused else 0
        if not yes:
            _ask(options, plan, keep)
        hidden = options.json or len(plan.rows) < 20
        with click.progressbar(
            length=len(plan.rows), label="removing", hidden=hidden, file=sys.stderr
        ) as bar:
            found = await pruning.prune(store, plan.rows, keep=keep, each=lambda row: bar.update(1))
    _tell(options, plan, keep, found, done=True)
    return 1 if found.unreadable or plan.refused else 0


def _ask(options: Options, plan: pruning.Plan, keep: str) -> None:
    """Let a person decide. Raises PruneRefused where there is none to ask."""
    refusal = PruneRefused(f"{counted(len(plan.rows), 'run')} would be removed for good")
    must_agree(options, f"{_sentence(plan, keep, 'remove')} Go on?", refusal)


def _sentence(plan: pruning.Plan, keep: str, verb: str) -> str:
    left = "their ids and the keys of their acts" if keep == "keys" else "their ids, acts and approvals"
    return f"{verb} {counted(len(plan.rows), 'run')}, {size(plan.freed)}; {left} stay."


def _tell(options: Options, plan: pruning.Plan, keep: str, found: pruning.Pruned, *, done: bool) -> None:
    if options.json:
        print_document(
            {
                "store": url_of(options),
                "dry_run": not done,
                "runs": [jsonable(row.run_id) for row in plan.rows],
                "bytes": plan.freed,
                "removed": found.removed,
                "unreadable": [jsonable(name) for name in found.unreadable],
                "kept": dict(plan.kept),
                "refused": {jsonable(name): why for name, why in plan.refused},
            }
        )
        return
    if not plan.rows:
        click.echo("nothing to remove")
    elif done:
        click.echo(f"removed {counted(found.removed, 'run')}, {size(plan.freed)}")
    else:
        click.echo("would " + _sentence(plan, keep, "remove"))
        for status, count in sorted(Counter(row.status for row in plan.rows).items()):
            click.echo(f"  {count:,} {clean(status)}")
        for row in plan.rows[:NAMED]:
            click.echo(f"  goes: {clean(row.run_id)}, {clean(row.status)}")
        if len(plan.rows) > NAMED:
            click.echo(f"  goes: {len(plan.rows) - NAMED:,} more; --json names all of them")
    for why, count in sorted(plan.kept.items()):
        click.echo(f"  stays: {counted(count, 'ended run')}, {why}")
    for name, why in plan.refused:
        click.echo(f"  stays: {clean(name)}, {clean(why)}")
    tell_rest(options, found.unreadable, removed=bool(found.removed))
