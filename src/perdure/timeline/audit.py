"""What a run did to the outside, act by act: which guarantee held for it, and who permitted it.

Read from the journal alone; it asks nobody and judges nothing that is not written. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from perdure.state import events as e
from perdure.state.fork import own_events
from perdure.timeline.view import Call, Line, lines, plain

Guarantee: TypeAlias = Literal[
    "transactional",
    "key-deduplicated",
    "once",
    "reconciled",
    "settled by a person",
    "late receipt",
    "at-least-once",
    "unknown",
    "not made",
    "stand-in",
    "its origin's",
]
"""Why it is known how often an act happened; `MEANING` says each in words."""

MEANING: dict[Guarantee, str] = {
    "transactional": "it and its receipt are one commit of the store",
    "key-deduplicated": "each try carried one key, by which the receiver knows it again",
    "once": "one intent before it, one receipt after it, and no second try",
    "reconciled": "its reply was lost; the tool's hook found out what had happened",
    "settled by a person": "its reply was lost; a person said what had happened",
    "late receipt": "its own receipt came late, and settled it",
    "at-least-once": "it was made again, and an earlier try turned out to have happened too",
    "unknown": "nobody knows whether it happened",
    "not made": "it was refused, and nothing was sent",
    "stand-in": "nothing was sent: a result stood in for it in this fork",
    "its origin's": "its origin made it before the point of the fork, in which it is only served",
}
"""What each guarantee rests on."""


Undo: TypeAlias = Literal["", "undone", "to be undone", "stays", "not undone"]
"""What a compensating cancel has done about an act: nothing; `stays`: a person said so; `not undone`: nobody
knows whether it happened."""


@dataclass(frozen=True, slots=True)
class Permit:
    """One request for a permission, and what became of it. `agreed`: who, with their notes."""

    id: str
    agreed: tuple[tuple[str, str], ...] = ()
    edit: tuple[tuple[str, Any], ...] = ()
    ended: str = "open"
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """One call that acts, or would have. `permits`: the requests at its place, the last one first.

    `undone_at`: the event by which it is known to be undone, 0 if it is not.
    """

    call: Call
    seq: int
    at: int
    step: int
    guarantee: Guarantee
    permits: tuple[Permit, ...] = ()
    undo: Undo = ""
    undone_at: int = 0


@dataclass(slots=True)
class _Desk:
    """The requests read so far, by path, in their order."""

    permits: dict[str, list[Permit]] = field(default_factory=dict)

    def change(self, path: str, **changes: Any) -> None:
        """The newest request at a path has become this."""
        asked = self.permits[path]
        asked[-1] = replace(asked[-1], **changes)


def audit(events: Sequence[e.Event]) -> list[Act]:
    """Every act of a run, in order; reads are none, unless people were asked for them."""
    desk = _permits(events)
    doubled = {
        event.body.path
        for event in events
        if isinstance(event.body, e.RunHeld) and event.body.reason == "conflict"
    }
    late = {event.body.path for event in events if isinstance(event.body, e.CallLate) and event.body.used}
    stood_in = {
        event.body.path
        for event in events
        if isinstance(event.body, e.EffectDecided) and event.body.how != "act"
    }
    own, found, read = own_events(events)[0].seq if events else 0, [], lines(events)
    undos = _undos(events, read)
    for line in read:
        if line.call is None or (line.call.effect == "read" and line.call.path not in desk.permits):
            continue
        permits = tuple(reversed(desk.permits.get(line.call.path, [])))
        path = line.call.path
        guarantee = _guarantee(line, late=path in late, doubled=path in doubled)
        if path in stood_in:
            guarantee = "stand-in"
        elif line.seq < own and line.call.standing not in ("open", "unknown"):
            guarantee = "its origin's"
        undo, undone_at = undos.get(line.call.path, ("", 0))
        found.append(Act(line.call, line.seq, line.at, line.step, guarantee, permits, undo, undone_at))
    return found


def _undos(events: Sequence[e.Event], read: Iterable[Line]) -> dict[str, tuple[Undo, int]]:
    """What has become of the acts that were to be undone, by path."""
    found: dict[str, tuple[Undo, int]] = {}
    for event in events:
        if isinstance(event.body, e.UndoPlanned):
            found |= {act.path: ("to be undone", 0) for act in event.body.acts}
            found |= {act.path: ("not undone", 0) for act in event.body.unsure}
    for line in read:
        call = line.call
        if call is None or not call.undoes:
            continue
        if call.standing == "done":
            found[call.undoes] = ("undone", call.receipt)
        elif call.standing in ("failed", "left-unknown"):
            found[call.undoes] = ("stays", 0)
    return found


def _guarantee(line: Line, *, late: bool, doubled: bool) -> Guarantee:
    call = line.call
    assert call is not None
    if doubled:
        return "at-least-once"
    if call.standing in ("open", "unknown", "left-unknown"):
        return "unknown"
    if call.effect == "transactional":
        return "transactional" if call.standing == "done" else "not made"
    if not call.intent:
        return "not made" if call.effect != "read" else "once"
    if late:
        return "late receipt"
    if call.verdict:
        return "settled by a person" if call.by.startswith("person:") else "reconciled"
    return "key-deduplicated" if call.effect == "idempotent" else "once"


def _permits(events: Iterable[e.Event]) -> _Desk:
    desk = _Desk()
    for event in events:
        body = event.body
        match body:
            case e.ApprovalRequested():
                desk.permits.setdefault(body.path, []).append(Permit(body.id))
            case e.ApprovalGranted():
                edit = tuple((name, plain(value)) for name, value in body.edit)
                before = desk.permits[body.path][-1]
                kept = before.agreed if before.edit == edit else ()
                agreed = (*kept, (body.principal, body.note))
                desk.change(body.path, agreed=agreed, edit=edit, ended="granted")
            case e.ApprovalDenied():
                desk.change(body.path, ended="denied", by=body.principal, note=body.note)
            case e.ApprovalExpired():
                desk.change(body.path, ended="expired")
            case e.ApprovalVoided():
                desk.change(body.path, ended="voided", note=body.why)
            case e.ApprovalUsed():
                desk.change(body.path, ended="used")
            case _:
                pass
    return desk
