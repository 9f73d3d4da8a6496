"""What must hold between the journals of a run and of the runs that it spawned: laws 2, 10, 16 and 17.

Like the oracle it judges what is written and never asks the engine. It reads no store and no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perdure import codec
from perdure.state import events as e

Family = Mapping[str, Sequence[e.Event]]
"""The events of each run, by its id. Not all runs need be there."""


def kin_offences(family: Family) -> list[str]:
    """Everything that should not be between these runs."""
    return [what for run_id, events in family.items() for what in _offences(family, run_id, events)]


def _offences(family: Family, run_id: str, events: Sequence[e.Event]) -> Iterator[str]:
    first = events[0].body if events else None
    if isinstance(first, e.RunStarted) and first.path:
        yield from _spawned(family, run_id, first)
    cancelled = False
    for event in events:
        match event.body:
            case e.CancelRequested():
                cancelled = True
            case e.WaitOpened(kind="child", name=child) if cancelled:
                yield f"{run_id} spawns {child} after a cancel"
            case e.WaitClosed(how="child", by=child, value=value):
                yield from _told(family, run_id, child, value)
    if isinstance(events[-1].body, e.RunFinished):
        yield from _outlived(family, run_id, events)


def _spawned(family: Family, run_id: str, first: e.RunStarted) -> Iterator[str]:
    """A child rests on a durable wait of its parent, and belongs to its trace."""
    parent = family.get(first.parent or "", ())
    waits = [event.body for event in parent if isinstance(event.body, e.WaitOpened)]
    if not any((wait.kind, wait.name, wait.path) == ("child", run_id, first.path) for wait in waits):
        yield f"{run_id} was created, and no wait of {first.parent} says so"
    begun = parent[0].body if parent else None
    if isinstance(begun, e.RunStarted) and begun.trace != first.trace:
        yield f"{run_id} is in another trace than {first.parent}"


def _told(family: Family, run_id: str, child: str, value: bytes) -> Iterator[str]:
    """What the parent was told is what the child came to."""
    told, last = codec.decode(value), family[child][-1].body if family.get(child) else None
    if not isinstance(last, e.RunFinished):
        yield f"{run_id} was told the end of {child}, which has not ended"
    elif (last.status, last.value) != (told["status"], told["value"]):
        yield f"{run_id} was told that {child} {told['status']}, and it {last.status}, or with another value"


def _outlived(family: Family, run_id: str, events: Sequence[e.Event]) -> Iterator[str]:
    """A parent ends after its children."""
    for event in events:
        if isinstance(event.body, e.WaitOpened) and event.body.kind == "child":
            last = family.get(event.body.name, events)[-1].body
            if not isinstance(last, e.RunFinished):
                yield f"{run_id} has ended before its child {event.body.name}"
