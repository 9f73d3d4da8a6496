"""What a compensating cancel undoes: which acts, in which order, and how far it has come.

Pure. The undo of the call at a path is a call of its own, at `undo:PATH`. An act counts as done by what the
journal says of it in the end: by its receipt, by a verdict, or by a receipt that came late and settled it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from perdure.state import events as e
from perdure.state.fork import own_events
from perdure.state.record import RunRecord

PREFIX = "undo:"
"""How the path of an undo begins."""


def undo_path(path: str) -> str:
    """Where the call at `path` is undone."""
    return PREFIX + path


def undone_path(path: str) -> str:
    """The path of the call that the one at `path` undoes; empty if it undoes none."""
    return path.removeprefix(PREFIX) if path.startswith(PREFIX) else ""


def planned(events: Iterable[e.Event], undoable: Callable[[str], bool]) -> e.UndoPlanned:
    """What is to be undone of a run with this history. `undoable` tells it of a tool by name."""
    heads: dict[str, e.CallHead] = {}
    done: dict[str, e.Owed] = {}
    unsure: dict[str, e.Owed] = {}
    stood_in: set[str] = set()
    for event in own_events(list(events)):  # what a fork's origin has done is not the fork's to undo
        body = event.body
        if isinstance(body, e.EffectDecided) and body.how != "act":
            stood_in.add(body.path)
        if isinstance(body, e.CallIntended | e.CallSettled) and body.head is not None:
            heads[body.path] = body.head
        path, known = _learned(body)
        head = heads.get(path)
        if (
            path in stood_in
            or head is None
            or head.effect == "read"
            or undone_path(path)
            or not undoable(head.name)
        ):
            continue
        (done if known else unsure)[path] = e.Owed(path, head.name, event.seq)
    return e.UndoPlanned(_newest_first(done), _newest_first(unsure))


def _learned(body: e.AnyBody) -> tuple[str, bool]:
    """The call that this event says was done (True), or of which nobody will ever know (False)."""
    match body:
        case e.CallSettled(path=path, outcome="done") | e.CallLate(path=path, outcome="done", used=True):
            return path, True
        case e.CallReconciled(path=path, verdict="done" | "left-unknown" as verdict):
            return path, verdict == "done"
        case _:
            return "", False


def _newest_first(acts: dict[str, e.Owed]) -> tuple[e.Owed, ...]:
    return tuple(sorted(acts.values(), key=lambda act: -act.seq))


class Progress(Struct, frozen=True):
    """How far the undos of a run have come.

    `kept`: acts that a person has said stay as they are. `left`: those still to be undone, in their order.
    """

    undone: tuple[e.Owed, ...] = ()
    kept: tuple[e.Owed, ...] = ()
    left: tuple[e.Owed, ...] = ()


def progress(record: RunRecord) -> Progress:
    """What of the plan is done, given up, and left."""
    undone, kept, left = [], [], []
    for act in record.undo or ():
        call = record.calls.get(undo_path(act.path))
        if call is None or not call.settled:
            left.append(act)
        elif call.standing == "done":
            undone.append(act)
        else:
            kept.append(act)
    return Progress(tuple(undone), tuple(kept), tuple(left))
