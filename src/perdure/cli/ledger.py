"""What people are asked for and what was done with their permission, as a terminal shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.cli.screen import Screen, age
from perdure.cli.text import Text
from perdure.errors import at_store
from perdure.timeline.amounts import counted, duration, moment
from perdure.timeline.audit import MEANING, Act, Permit
from perdure.timeline.inbox import Entry
from perdure.timeline.plain import brief, clean, quoted

if TYPE_CHECKING:
    from perdure.timeline.pruning import Epitaph

_GOOD = frozenset({"transactional", "key-deduplicated", "once", "reconciled", "settled by a person"})


def draw_inbox(found: Sequence[Entry], now: int, *, more: bool, store: str | None) -> None:
    """Draw what is asked for, at `now` by the store's clock; `more`: other runs ask too."""
    screen = Screen()
    if not found:
        screen.draw("nobody is asked for anything")
        return
    rows: list[list[str | Text]] = [
        [clean(entry.id), entry.kind, _left(entry, now), entry.who, _what(entry)] for entry in found
    ]
    screen.draw_columns(("ID", "ASKS FOR", "LEFT", "WHO", "WHAT"), rows)
    parts = [counted(len(found), "thing") + " asked for", *(["there are more (--limit)"] if more else [])]
    screen.draw(age(" · ".join(parts)))
    screen.draw_commands([at_store(command, store) for command in found[0].commands])


def _left(entry: Entry, now: int) -> str:
    if not entry.until:
        return "-"
    return duration(entry.until - now) if entry.until > now else "expired"


def _what(entry: Entry) -> Text:
    text = Text(entry.what)
    if entry.taken:
        text.append("   a message has come, no worker has taken it up", "dim")
    return text


def draw_audit(run_id: str, acts: Sequence[Act], *, removed: Epitaph | None = None) -> None:
    """Draw the acts of a run, and below them what the guarantees that occur rest on.

    `removed`: what is left of a run that was.
    """
    screen = Screen()
    if removed is not None:
        when = f"it ended {moment(removed.ended_at)} and was removed {moment(removed.removed_at)}"
        keys = counted(len(removed.keys), "key")
        screen.draw(f"run {clean(run_id)} of {clean(removed.agent)}: {clean(removed.status)}; {when}; {keys}")
        if not removed.events:
            screen.draw_pairs([(key, "") for key in map(clean, removed.keys)])
            return
        screen.draw()
    if not acts:
        screen.draw(f"run {clean(run_id)} has done nothing outside")
        return
    screen.draw_columns(("@", "AT", "ACT", "GUARANTEE", "PERMITTED BY", ""), [_row(act) for act in acts])
    screen.draw()
    screen.draw_pairs(
        [(name, MEANING[name]) for name in MEANING if any(act.guarantee == name for act in acts)]
    )


def _row(act: Act) -> list[str | Text]:
    from perdure.cli.drawing import arguments  # a list of what is asked for needs none of it

    style = "" if act.guarantee in _GOOD else "yellow" if act.guarantee == "not made" else "bold red"
    permitted = "; ".join(_permit(permit) for permit in act.permits) or "-"
    what = Text.of(arguments(act.call), (f"   {act.call.path}", "dim"))
    if act.call.undoes:
        what.append(f"   undoes {act.call.undoes}", "dim")
    if act.undo:
        what.append(f"   {act.undo}" + (f" @{act.undone_at}" if act.undone_at else ""), "bold")
    name = clean(act.call.name)
    return [str(act.seq), moment(act.at), name, Text(act.guarantee, style), permitted, what]


def _permit(permit: Permit) -> str:
    who = ", ".join(clean(name) + (f" ({brief(note, 200)})" if note else "") for name, note in permit.agreed)
    edit = ", ".join(f"{clean(name)}={quoted(value)}" for name, value in permit.edit)
    edited = f", edited: {edit}" if edit else ""
    match permit.ended:
        case "used":
            return f"{who}{edited}"
        case "denied":
            return f"denied by {clean(permit.by)}" + (f" ({brief(permit.note, 200)})" if permit.note else "")
        case "granted":
            return f"{who}{edited}, not used"
        case "voided":
            return f"void: {brief(permit.note, 200)}"
        case _:
            return "expired" if permit.ended == "expired" else "asked for"
