"""Commands that look back: state, diff. They load no code of a user's and write nothing (law 14)."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.storage import find, point, there
from perdure.codec.redaction import revealing
from perdure.store.protocol import Store
from perdure.timeline.amounts import counted, moment
from perdure.timeline.comparison import Comparison, Deed, compared, comparison_document
from perdure.timeline.moment import Moment, Origin, moment_document, moment_of, origin_document, origins
from perdure.timeline.place import MISSING, found_at, parsed, written
from perdure.timeline.plain import brief as shortened
from perdure.timeline.plain import clean, jsonable, quoted
from perdure.timeline.view import Call, Reference

LINES = 200
"""Lines of a state that are drawn; `--all` draws them all."""

CHANGES = 60
"""Changes that are drawn; `--all` draws them all."""


# ---------------------------------------------------------------------------------------------- state


@click.command(short_help="Show a run's state at any point.")
@click.argument("run")
@click.argument("place", required=False, default="")
@click.option("--history", is_flag=True, help="Every event that set the value at PLACE.")
@click.option("--all", "whole", is_flag=True, help="Fold nothing away.")
@click.option("--reveal", is_flag=True, help="Show personal data.")
@stored
def state(options: Options, run: str, place: str, *, history: bool, whole: bool, reveal: bool) -> int:
    """Show a run's committed state, or the value at PLACE in it (messages[3].content).

    RUN@41 shows it as it was when event 41 had been written.
    """
    with revealing(reveal):
        return asyncio.run(_state(options, run, place, history=history, whole=whole))


async def _state(options: Options, text: str, place_text: str, *, history: bool, whole: bool) -> int:
    from perdure import journal

    name, seq = point(text)
    place = parsed(place_text)
    async with there(options) as store:
        row = await find(store, name)
        there_then = await moment_of(store, row.run_id, seq)
        if history:
            told = await journal.retold(store, row.run_id)
            later = [event for event in told.later if event.seq <= there_then.seq]
            set_by = origins(later, place, told.base)
            _print_origins(options, there_then, place, set_by)
            return 0
    value = found_at(there_then.state, place)
    if options.json:
        print_document({**moment_document(there_then), "place": written(place), "value": jsonable(value)})
        return 0
    from perdure.cli.screen import Screen
    from perdure.cli.tree import draw_tree

    screen = Screen()
    screen.draw(_heading(there_then))
    screen.draw()
    left = draw_tree(screen, value, most=None if whole else LINES)
    if left:
        screen.draw(f"… {counted(left, 'line')} more: --all, or name a place")
    return 0


async def _events(store: Store, then: Moment) -> list[Any]:
    from perdure import journal

    told = await journal.retold(store, then.row.run_id)
    return [event for event in told.events if event.seq <= then.seq]


def _heading(then: Moment) -> str:
    steps = counted(then.record.step, "step")
    version = then.record.state_version
    return f"{clean(then.row.run_id)}@{then.seq}   the state after {steps} (state version {version})"


def _print_origins(options: Options, then: Moment, place: Any, found: list[Origin]) -> None:
    if options.json:
        listed = [origin_document(one) for one in found]
        print_document({**moment_document(then), "place": written(place), "set_by": listed})
        return
    from perdure.cli.screen import Screen

    screen = Screen()
    if not found:
        screen.draw(f"nothing was ever at {written(place)}")
        return
    rows = [
        (
            f"@{one.seq}",
            moment(one.at),
            f"step {one.step}" if one.step else "start",
            "(gone)" if one.value is MISSING else quoted(one.value, 400),
        )
        for one in found
    ]
    screen.draw_columns(("POINT", "WHEN", "SET BY", written(place)), rows)


# ---------------------------------------------------------------------------------------------- diff


@click.command(short_help="Compare two points, of one run or of two.")
@click.argument("was")
@click.argument("now")
@click.option("--stat", "brief", is_flag=True, help="Only how much differs.")
@click.option("--all", "whole", is_flag=True, help="Fold nothing away.")
@stored
def diff(options: Options, was: str, now: str, *, brief: bool, whole: bool) -> int:
    """Compare two points: what of the state differs, and which acts do. A run without @SEQ is meant as it is.

    Exit 0, whatever differs.
    """
    return asyncio.run(_diff(options, was, now, brief=brief, whole=whole))


async def _diff(options: Options, was: str, now: str, *, brief: bool, whole: bool) -> int:
    async with there(options) as store:
        sides = []
        for text in (was, now):
            name, seq = point(text)
            row = await find(store, name)
            then = await moment_of(store, row.run_id, seq)
            sides.append((then, await _events(store, then)))
    (one, events_one), (other, events_other) = sides
    found = compared(one, other, events_one, events_other)
    if options.json:
        print_document(comparison_document(found, brief=brief))
        return 0
    _draw_comparison(found, brief=brief, whole=whole)
    return 0


def _draw_comparison(found: Comparison, *, brief: bool, whole: bool) -> None:
    from perdure.cli.screen import Screen
    from perdure.cli.tree import draw_change

    screen = Screen()
    was, now = (f"{clean(then.row.run_id)}@{then.seq}" for then in (found.was, found.now))
    places, effects = len(found.changes), len(found.differing)
    screen.draw(f"{was} → {now}   {counted(places, 'place')}, {counted(effects, 'effect')} differ")
    if brief or not (places or effects):
        return
    if effects:
        screen.draw()
        screen.draw_columns(("EFFECT", was, now), [_sides(deed) for deed in found.differing])
    if places:
        screen.draw()
    shown = found.changes if whole else found.changes[:CHANGES]
    for change in shown:
        draw_change(screen, change)
    if len(shown) < places:
        screen.draw(f"  … {places - len(shown)} more: --all")


def _sides(deed: Deed) -> tuple[str, str, str]:
    return deed.path, _side(deed.was), _side(deed.now)


def _side(call: Call | None) -> str:
    if call is None:
        return "-"
    told = (
        f"{name}={value.where if isinstance(value, Reference) else quoted(value, 40)}"
        for name, value in call.args.items()
    )
    end = f" → {quoted(call.value, 60)}" if call.standing == "done" else f": {call.standing}"
    return shortened(f"{call.name}({', '.join(told)}){end}", 160)
