"""The command that asks what today's code would do in the place of a run; nothing acts."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from perdure.cli import exits
from perdure.cli.app import load, named_in
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.replay import holding
from perdure.cli.storage import point, url_of
from perdure.clock import SYSTEM
from perdure.timeline import NO_GOAL
from perdure.timeline.amounts import counted
from perdure.timeline.plain import brief, clean, quoted
from perdure.timeline.simulate import STEP_SECONDS
from perdure.timeline.simulate import simulate as simulated
from perdure.timeline.simulated import Simulated, SimulatedCall, simulated_document
from perdure.timeline.simulation import Given, StandIn

CALLS = 100
"""Calls that are drawn; `--all` draws them all."""

CHANGES = 60
"""Changes of the state that are drawn."""


@click.command(short_help="What would today's code do in the place of a run? Nothing acts.")
@click.argument("run", metavar="RUN[@SEQ]|FILE")
@click.option("--app", "apps", metavar="FILE[:AGENT]", multiple=True, required=True, help="The code.")
@click.option(
    "--stand-in",
    "stand_ins",
    metavar="FILE:NAME",
    multiple=True,
    help="A function named like a tool or model, or a dict of functions by such names.",
)
@click.option("--goal", metavar="GOAL", help="Another goal: text, or JSON for an agent with a goal type.")
@click.option("--anew", metavar="NAME", multiple=True, help="Do not use what this tool or model recorded.")
@click.option(
    "--live", metavar="MODEL", multiple=True, help="Really ask this model where nothing is recorded."
)
@click.option("--all", "whole", is_flag=True, help="Fold nothing away.")
@stored
def simulate(
    options: Options,
    run: str,
    *,
    apps: Sequence[str],
    stand_ins: Sequence[str],
    goal: str | None,
    anew: Sequence[str],
    live: Sequence[str],
    whole: bool,
) -> int:
    """Execute today's code in the place of a run: what it would do, with its tools never acting.

    A call that the run made too comes to what it came to then; for any other a stand-in says, or it stops
    there. Begins at the start, or after event SEQ with the state of that moment. Nothing is written. Exits
    with 0 if it came to an end, with 6 if it stopped, with 1 if the step raised.
    """
    agents = [load(app) for app in apps]
    given = Given(
        stand_ins=_stand_ins(stand_ins), anew=frozenset(anew), live=frozenset(live), goal=_goal(agents, goal)
    )
    # What the user's steps print is not for whoever reads the answer.
    with contextlib.redirect_stdout(sys.stderr):
        found = asyncio.run(_simulated(options, run, agents, given))
    code = exits.FAILURE if found.error else exits.UNFINISHED if found.stops else exits.OK
    if options.json:
        print_document({"store": url_of(options), **simulated_document(found), "exit": code})
    else:
        _draw(found, whole=whole)
    return code


def _stand_ins(names: Sequence[str]) -> dict[str, StandIn]:
    found: dict[str, StandIn] = {}
    for text in names:
        value = named_in(text)
        if isinstance(value, Mapping) and all(callable(one) for one in value.values()):
            found.update({str(name): one for name, one in value.items()})
        elif callable(value):
            found[str(getattr(value, "__name__", text.rpartition(":")[2]))] = value
        else:
            raise click.BadParameter(
                f"{text} is no function and no dict of functions", param_hint="--stand-in"
            )
    return found


def _goal(agents: Sequence[Any], text: str | None) -> Any:
    if text is None:
        return NO_GOAL
    from perdure.cli.run import goal_of

    return goal_of(agents[0], text)


async def _simulated(options: Options, text: str, agents: Sequence[Any], given: Given) -> Simulated:
    from msgspec.structs import replace

    name, seq = point(text)
    async with holding(options, name) as (store, row):
        return await simulated(
            store, agents, SYSTEM, row.run_id, replace(given, at=seq or 0), seconds=STEP_SECONDS
        )


# ------------------------------------------------------------------------------------------------- for people


def _draw(found: Simulated, *, whole: bool) -> None:
    from perdure.cli.screen import Screen
    from perdure.cli.text import Text
    from perdure.cli.tree import draw_change

    screen = Screen()
    begun = f"from event {found.at} on" if found.at else "from its start"
    counts = ", ".join(f"{count} {word}" for word, count in found.counts.items()) or "no calls"
    steps = counted(found.steps, "step")
    screen.draw(f"{clean(found.run_id)} simulated {begun}: {steps}, {counts}; nothing was written")
    shown = found.calls if whole else found.calls[:CALLS]
    if shown:
        screen.draw()
        screen.draw_columns(("CALL", "", "RECORDED", "NOW"), [_row(call) for call in shown])
    if len(found.calls) > len(shown):
        screen.draw(f"… {counted(len(found.calls) - len(shown), 'call')} more: --all")
    if found.changes:
        screen.draw("", f"the state at its end differs in {counted(len(found.changes), 'place')}")
        for change in found.changes if whole else found.changes[:CHANGES]:
            draw_change(screen, change)
    screen.draw()
    pairs = [("ended", f"{_end(found.then_ended, found.then_result)} → {_end(found.ended, found.result)}")]
    pairs.append(("spent", f"{_money(found.then_spent)} → {_money(found.spent)}"))
    if found.error:
        pairs.append(("error", clean(found.error)))
    pairs += [("note", clean(note)) for note in found.notes]
    screen.draw_pairs(pairs)
    for stop in found.stops:
        screen.draw("", Text.of(("stopped", "bold red"), f" in step {stop.step} at {clean(stop.path)}"))
        told = [("asks for", clean(stop.what)), ("why", clean(stop.why))]
        told += [("code", clean(stop.place))] if stop.place else []
        screen.draw_pairs([*told, ("goes on", f"with {clean(stop.way)} (--stand-in FILE:NAME)")])


_COLOURS = {"same": "green", "changed": "yellow", "new": "yellow", "missing": "red"}


def _row(call: SimulatedCall) -> tuple[Any, ...]:
    from perdure.cli.text import Text

    then = _side(call.name, call.then_args, call.then_value, call.then_standing)
    if call.sameness == "missing":
        return (call.path, Text(call.sameness, "red"), then, "-")
    source = f" ({call.source})" if call.source != "recorded" else ""
    asks = ", asks for a permission" if call.asks else ""
    now = "=" if call.sameness == "same" and call.source == "recorded" else ""
    now = now or _side(call.name, call.args, call.value, call.standing)
    return (call.path, Text(call.sameness, _COLOURS[call.sameness]), then, f"{now}{source}{asks}")


def _side(name: str, args: dict[str, Any] | None, value: Any, standing: str) -> str:
    if args is None:
        return "-"
    inside = ", ".join(f"{key}={quoted(one, 40)}" for key, one in args.items())
    end = f" → {quoted(value, 40)}" if standing == "done" else f": {standing}"
    return brief(f"{name}({inside}){end}", 120)


def _end(status: str, result: Any) -> str:
    return f"{status} with {quoted(result, 60)}" if status else "not ended"


def _money(spent: Any) -> str:
    tokens = f", {spent.input_tokens + spent.output_tokens:,} tokens" if spent.input_tokens else ""
    usd = f", ${spent.usd / 1e9:.4f}" if spent.usd else ""
    return f"{counted(spent.calls, 'call')}{tokens}{usd}"
