"""Two points compared, of one run or of two: what of the state differs, and which acts do.

Pure; plain data. Lists are compared item by item from both ends, so that one message more is one change and
not a new list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from perdure.state import events as e
from perdure.state.patch import same
from perdure.timeline.audit import audit
from perdure.timeline.document import call_document
from perdure.timeline.moment import Moment, moment_document
from perdure.timeline.place import MISSING, Place, written
from perdure.timeline.plain import jsonable
from perdure.timeline.view import Call


class Change(Struct, frozen=True):
    """A place where two states differ; a side is MISSING where it has nothing there."""

    place: Place
    was: Any
    now: Any


class Deed(Struct, frozen=True):
    """One act as two points know it: at one path, on one side or on both. `differs`: they are not alike."""

    path: str
    was: Call | None
    now: Call | None
    differs: bool


class Comparison(Struct, frozen=True):
    """What differs between two points. `deeds` are all acts of both sides, those alike included."""

    was: Moment
    now: Moment
    changes: tuple[Change, ...]
    deeds: tuple[Deed, ...]

    @property
    def differing(self) -> tuple[Deed, ...]:
        """The acts that are not alike."""
        return tuple(deed for deed in self.deeds if deed.differs)


def compared(
    was: Moment, now: Moment, events_was: Sequence[e.Event], events_now: Sequence[e.Event]
) -> Comparison:
    """Hold two points against each other; the events are those of each side, up to its point."""
    return Comparison(
        was, now, tuple(changes(was.state, now.state)), tuple(_deeds(audit(events_was), audit(events_now)))
    )


def changes(was: Any, now: Any, place: Place = ()) -> Iterator[Change]:
    """The innermost places at which two plain values differ, in the order in which they stand."""
    if same(was, now):
        return
    if type(was) is dict and type(now) is dict:
        yield from _in_dicts(was, now, place)
    elif type(was) is type(now) and type(was) in (list, tuple):
        yield from _in_lists(was, now, place)
    else:
        yield Change(place, was, now)


def _in_dicts(was: dict[Any, Any], now: dict[Any, Any], place: Place) -> Iterator[Change]:
    keys = [*was, *(key for key in now if key not in was)]
    found = False
    for key in keys:
        for change in changes(was.get(key, MISSING), now.get(key, MISSING), (*place, key)):
            found = True
            yield change
    if not found:  # the same entries in another order
        yield Change(place, was, now)


def _in_lists(was: Sequence[Any], now: Sequence[Any], place: Place) -> Iterator[Change]:
    shorter = min(len(was), len(now))
    head = next((index for index in range(shorter) if not same(was[index], now[index])), shorter)
    tail = next(
        (back for back in range(shorter - head) if not same(was[-1 - back], now[-1 - back])), shorter - head
    )
    old, new = was[head : len(was) - tail], now[head : len(now) - tail]
    for index in range(max(len(old), len(new))):
        one = old[index] if index < len(old) else MISSING
        other = new[index] if index < len(new) else MISSING
        yield from changes(one, other, (*place, head + index))


def _deeds(was: Sequence[Any], now: Sequence[Any]) -> Iterator[Deed]:
    others = {act.call.path: act.call for act in now}
    for act in was:
        other = others.pop(act.call.path, None)
        yield Deed(act.call.path, act.call, other, other is None or not _alike(act.call, other))
    for path, call in others.items():
        yield Deed(path, None, call, True)


def _alike(one: Call, other: Call) -> bool:
    """The same act with the same outcome; when, under which key and in how many tries does not matter."""
    said = [(call.name, call.effect, call.args, call.standing, call.value) for call in (one, other)]
    return same(said[0], said[1])


def comparison_document(found: Comparison, *, brief: bool = False) -> dict[str, Any]:
    """What differs between two points; `brief`: only how much. A change lacks the side that has nothing."""
    document: dict[str, Any] = {
        "was": moment_document(found.was),
        "now": moment_document(found.now),
        "places": len(found.changes),
        "effects": len(found.differing),
    }
    if not brief:
        document["changes"] = [change_document(change) for change in found.changes]
        document["acts"] = [
            {"path": deed.path, "differs": deed.differs, "was": _side(deed.was), "now": _side(deed.now)}
            for deed in found.deeds
        ]
    return document


def change_document(change: Change) -> dict[str, Any]:
    """A place, and what was and is there: a side on which there was nothing is left out."""
    sides = {"was": change.was, "now": change.now}
    there = {name: jsonable(value) for name, value in sides.items() if value is not MISSING}
    return {"place": written(change.place), **there}


def _side(call: Call | None) -> dict[str, Any] | None:
    return None if call is None else call_document(call)
