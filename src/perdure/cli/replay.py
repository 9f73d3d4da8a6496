"""The command that holds today's code against what has happened: whole histories, with nothing done.

It only looks (law 14). Many runs are shared out among processes, each of which loads the code and opens the
store for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import asynccontextmanager
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click

from perdure.agent import Agent
from perdure.cli import exits
from perdure.cli.app import load
from perdure.cli.document import print_document
from perdure.cli.keep import Span
from perdure.cli.options import Options, stored
from perdure.cli.progress import execution_bar
from perdure.cli.storage import find, is_exported, there, url_of
from perdure.clock import SYSTEM
from perdure.runtime.spectator import STEP_SECONDS
from perdure.state.record import TERMINAL
from perdure.store.protocol import RunRow, Store
from perdure.timeline.amounts import counted, elapsed
from perdure.timeline.plain import clean
from perdure.timeline.replayed import Replayed, Replays, replayed_document
from perdure.timeline.replays import (
    Choice,
    Progress,
    Replayer,
    chosen,
    of_agents,
    replay_rows,
    since,
)

SHOWN = 20
"""Runs that are told of one by one; the rest are counted."""

SHARE = 25
"""So many runs a process is given at a time."""

STATUSES = sorted({"ready", "running", "waiting", "held"} | TERMINAL)
"""How a run may stand."""


@click.command(short_help="Does today's code still do what was recorded? For CI.")
@click.argument("runs", metavar="[RUN|FILE]...", nargs=-1)
@click.option("--app", "apps", metavar="FILE[:AGENT]", multiple=True, required=True, help="The code.")
@click.option("--all", "every", is_flag=True, help="Every run of these agents.")
@click.option("--since", "span", type=Span(), metavar="SPAN", help="With --all: started within 7d, 12h.")
@click.option("--status", "statuses", multiple=True, type=click.Choice(STATUSES), help="With --all.")
@click.option("--newest", type=click.IntRange(1), help="With --all: no more than so many.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=STEP_SECONDS,
    show_default=True,
    help="How long one step may take.",
)
@click.option("--jobs", type=click.IntRange(1), help="Processes. Default: one for each processor.")
@stored
def replay(
    options: Options,
    runs: Sequence[str],
    *,
    apps: Sequence[str],
    every: bool,
    span: timedelta | None,
    statuses: Sequence[str],
    newest: int | None,
    seconds: float,
    jobs: int | None,
) -> int:
    """Execute every step of a run's whole history again with today's code, each call given what it came to.

    RUN is in the store; FILE is an exported run. Nothing is written or called. Exits with 1 if the code does
    something else than was recorded, and tells the first difference with both sides.
    """
    if every == bool(runs):
        raise click.UsageError("name runs or exported files, or give --all")
    if not every and (span or statuses or newest):
        raise click.UsageError("--since, --status and --newest go with --all")
    agents = [load(app) for app in apps]
    choice = Choice(since(SYSTEM, span), tuple(statuses), most=newest or 0)
    work = _Work(options, tuple(apps), agents, seconds, jobs or os.cpu_count() or 1)
    with execution_bar(options, "replaying") as progress:
        found = asyncio.run(work.all(choice, progress) if every else work.named(runs, progress))
    code = exits.OK if found.ok else exits.FAILURE
    if options.json:
        print_document({"store": url_of(options), "ok": found.ok, **_document(found), "exit": code})
    else:
        _draw(options, found)
    return code


class _Work:
    """What is to be replayed, by which code, and in how many processes."""

    def __init__(
        self,
        options: Options,
        apps: tuple[str, ...],
        agents: Sequence[Agent[Any, Any, Any]],
        seconds: float,
        jobs: int,
    ) -> None:
        self.options = options
        self.apps = apps
        self.agents = agents
        self.seconds = seconds
        self.jobs = jobs

    async def named(self, names: Sequence[str], progress: Progress) -> Replays:
        """These runs and files, in their order."""
        began, found = SYSTEM.monotonic(), list[Replayed]()
        for number, name in enumerate(names, 1):
            async with holding(self.options, name) as (store, row):
                with Replayer(store, self.agents, SYSTEM, self.seconds) as replayer:
                    found.append(await replayer.one(row))
            progress(number, len(names))
        return Replays(tuple(found), 0, SYSTEM.monotonic() - began)

    async def all(self, choice: Choice, progress: Progress) -> Replays:
        """Every run of the store that is chosen, the newest first."""
        began = SYSTEM.monotonic()
        async with there(self.options) as store:
            ours, others = await chosen(store, of_agents(choice, self.agents))
            jobs = min(self.jobs, len(ours) // SHARE)
            if jobs < 2 or store.url.startswith("memory:"):
                found = await replay_rows(
                    store, self.agents, SYSTEM, ours, seconds=self.seconds, progress=progress
                )
            else:
                found = await asyncio.to_thread(self._shared, ours, jobs, progress)
        return Replays(tuple(found), others, SYSTEM.monotonic() - began)

    def _shared(self, rows: Sequence[RunRow], jobs: int, progress: Progress) -> list[Replayed]:
        """The same, by several processes; the runs keep their order."""
        places = {row.run_id: number for number, row in enumerate(rows)}
        shares = [rows[start : start + SHARE] for start in range(0, len(rows), SHARE)]
        found: list[Replayed] = []
        done = 0
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            todo = []
            for share in shares:
                names = [row.run_id for row in share]
                todo.append(pool.submit(_share, self.options, self.apps, names, self.seconds))
            for future in as_completed(todo):
                some = future.result()
                found += some
                for _ in some:
                    progress(done := done + 1, len(rows))
        return sorted(found, key=lambda one: places[one.run_id])


def _share(options: Options, apps: Sequence[str], names: Sequence[str], seconds: float) -> list[Replayed]:
    """In a process of its own: replay these runs."""
    with contextlib.redirect_stdout(sys.stderr):
        return asyncio.run(_some(options, [load(app) for app in apps], names, seconds))


async def _some(
    options: Options, agents: Sequence[Agent[Any, Any, Any]], names: Sequence[str], seconds: float
) -> list[Replayed]:
    async with there(options) as store:
        rows = [await store.row(name) for name in names]
        return await replay_rows(store, agents, SYSTEM, rows, seconds=seconds)


@asynccontextmanager
async def holding(options: Options, name: str) -> AsyncIterator[tuple[Store, RunRow]]:
    """The store that holds a run, and its row: an exported file holds one."""
    path = Path(name)
    if is_exported(path):
        async with there(Options(store=name)) as store:
            [row], _ = await chosen(store, Choice())
            yield store, row
    else:
        async with there(options) as store:
            yield store, await find(store, name)


# ------------------------------------------------------------------------------------------------- for people


def _draw(options: Options, found: Replays) -> None:
    from perdure.cli.screen import Screen
    from perdure.cli.text import Text

    screen = Screen()
    if not found.runs:
        screen.draw(f"no runs of these agents in {clean(url_of(options))}")
        return
    for one in [run for run in found.runs if not run.ok or run.notes][:SHOWN]:
        _draw_one(screen, one)
    odd = sum(1 for run in found.runs if not run.ok)
    if odd > SHOWN:
        screen.draw("", f"and {odd - SHOWN:,} more; --json has them all")
    counts = [
        Text(f"{count:,} {word}", "green" if word == "same" else "bold red")
        for word, count in found.counts.items()
    ]
    steps = counted(sum(run.steps for run in found.runs), "step")
    took = elapsed(int(found.seconds * 1e6))
    told: list[Any] = [part for count in counts for part in (", ", count)][1:]
    total = counted(len(found.runs), "run")
    screen.draw(Text.of(f"{total}, {steps} replayed in {took}: ", *told, "; nothing was written or called"))
    if found.others:
        screen.draw(f"{counted(found.others, 'run')} of other agents were not looked at")


def _draw_one(screen: Any, one: Replayed) -> None:
    from perdure.cli.text import Text

    word = Text(one.verdict, "green" if one.ok else "bold red")
    about = f"  agent {clean(one.agent)}, {clean(one.status)}"
    pairs: list[tuple[str, Any]] = []
    if one.refused:
        pairs.append(("why", clean(one.refused)))
    if (found := one.difference) is not None:
        about += f", step {found.step}" if found.step else ", at its start"
        where = f"{clean(one.run_id)}@{found.seq}" + (f"  {clean(found.path)}" if found.path else "")
        pairs += [("recorded", clean(found.recorded)), ("now", clean(found.now)), ("at", where)]
        if found.place:
            pairs.append(("code", clean(found.place)))
        pairs.append(("why", clean(found.detail)))
    pairs += [("note", clean(note)) for note in one.notes]
    screen.draw(Text.of(Text(clean(one.run_id), "bold"), "  ", word, about))
    screen.draw_pairs(pairs)
    screen.draw()


# ----------------------------------------------------------------------------------------------- for programs


def _document(found: Replays) -> dict[str, Any]:
    return {
        "seconds": round(found.seconds, 3),
        "counts": found.counts,
        "others": found.others,
        "runs": [replayed_document(one) for one in found.runs],
    }
