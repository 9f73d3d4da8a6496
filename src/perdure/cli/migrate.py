"""The command that brings parked runs to today's code, or tells what that would do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from perdure.agent import Agent
from perdure.cli import exits
from perdure.cli.app import load
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.progress import execution_bar
from perdure.cli.storage import there, url_of
from perdure.host import Runtime
from perdure.runtime.bringing import MEANING, Brought, Migration, Progress
from perdure.timeline.amounts import counted
from perdure.timeline.plain import clean, jsonable

SHOWN = 20
"""Runs that are told of one by one; the rest are counted."""

_WRONG = ("asks", "failed", "stranded")


@click.command(short_help="Bring the state of parked runs to today's version.")
@click.argument("apps", metavar="FILE[:AGENT]...", nargs=-1, required=True)
@click.option("--plan", is_flag=True, help="Only tell what would come of each run; nothing is written.")
@click.option("--id", "run_id", help="Only this run.")
@stored
def migrate(options: Options, apps: Sequence[str], plan: bool, run_id: str | None) -> int:
    """Bring the open runs of these agents to today's state version, without executing a step.

    Safe beside running workers. It can be stopped with Ctrl-C and begun again; each run is old and whole, or
    new and whole. Exits with 1 if a run could not be brought over.
    """
    agents = [load(app) for app in apps]
    with execution_bar(options, "migrating") as progress:
        found = asyncio.run(_migrated(options, agents, run_id, plan, progress))
    code = exits.OK if found.ok else exits.FAILURE
    if options.json:
        print_document({"store": url_of(options), **document(found), "exit": code})
    else:
        _draw(options, found)
    return code


async def _migrated(
    options: Options, agents: list[Agent[Any, Any, Any]], run_id: str | None, plan: bool, progress: Progress
) -> Migration:
    async with there(options):  # a store that is not there is not made
        pass
    async with Runtime(options.store, agents) as runtime:
        return await runtime.migrate(run_id=run_id, plan=plan, progress=progress)


def _draw(options: Options, found: Migration) -> None:
    from perdure.cli.screen import Screen
    from perdure.cli.text import Text

    screen = Screen()
    if not found.runs:
        screen.draw(f"no open runs of these agents in {clean(url_of(options))}")
        return
    rows = [
        (Text(how, "bold red" if how in _WRONG else "green"), f"{count:,}", MEANING[how])
        for how, count in found.counts.items()
    ]
    screen.draw_columns(("RESULT", "RUNS", "WHAT IT MEANS"), rows)
    told = [run for run in found.runs if run.how in _WRONG]
    for run in told[:SHOWN]:
        screen.draw("", Text.of(Text(clean(run.run_id), "bold"), f"  {run.how}, {_versions(run)}"))
        screen.draw_pairs([("why", clean(run.detail))])
    if len(told) > SHOWN:
        screen.draw("", f"and {len(told) - SHOWN:,} more; --json has them all")
    end = "a plan: nothing was written" if found.planned else "done"
    screen.draw(f"{counted(len(found.runs), 'open run')} looked at; {end}")


def _versions(run: Brought) -> str:
    return f"state version {run.from_version} -> {run.to_version}"


def document(found: Migration) -> dict[str, Any]:
    """The answer for a program."""
    return {
        "plan": found.planned,
        "ok": found.ok,
        "counts": dict(found.counts),
        "runs": [
            {
                "run_id": jsonable(run.run_id),
                "agent": jsonable(run.agent),
                "result": run.how,
                "from_version": run.from_version,
                "to_version": run.to_version,
                "detail": jsonable(run.detail) or None,
            }
            for run in found.runs
        ],
    }
