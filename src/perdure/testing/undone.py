"""What must hold of undos, judged from the journal alone: the exception of law 17, and its own promises.

A cancelled run that was asked to compensate undoes what was done, each act once, the newest first, and
nothing else; at its end none is missing. It asks no engine and no plan: it keeps its own list of what was
done. It reads no store and no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from perdure.state import events as e

_UNDO = "undo:"


@dataclass(slots=True)
class Undone:
    """The undos of one run, read in order. `undoable`: the tools whose acts must be undone, if known."""

    undoable: frozenset[str] = frozenset()
    asked: bool = False
    heads: dict[str, e.CallHead] = field(default_factory=dict)
    done: dict[str, e.Owed] = field(default_factory=dict)
    plan: tuple[e.Owed, ...] | None = None
    settled: set[str] = field(default_factory=set)
    stood_in: set[str] = field(default_factory=set)

    def see(self, event: e.Event) -> Iterator[str]:
        """What should not be about this event."""
        body = event.body
        if isinstance(body, e.CallIntended | e.CallSettled) and body.head is not None:
            yield from self._called(body.path)
            self.heads[body.path] = body.head
        match body:
            case e.CallSettled(path=path, outcome=outcome, final=final) if final or outcome == "done":
                self._settle(event, path, done=outcome == "done")
            case e.CallReconciled(path=path, verdict=verdict) if verdict != "not_done":
                self._settle(event, path, done=verdict == "done")
            case e.CallLate(path=path, outcome=outcome, used=True):
                self._settle(event, path, done=outcome == "done")
            case e.EffectDecided(path=path, how="reuse" | "simulate"):
                self.stood_in.add(path)
            case e.RunForked():  # what its origin has done, and was asked to undo, is not the fork's
                self.done, self.asked, self.plan = {}, False, None
            case e.CancelRequested(compensate=True):
                self.asked = True
            case e.UndoPlanned():
                yield from self._planned(body)
            case e.RunFinished(status="cancelled") if self.asked:
                yield from self._ended()
            case _:
                return

    def _settle(self, event: e.Event, path: str, *, done: bool) -> None:
        if path.startswith(_UNDO):
            self.settled.add(path)
        elif (
            done
            and path not in self.stood_in
            and (head := self.heads.get(path)) is not None
            and head.effect != "read"
        ):
            self.done[path] = e.Owed(path, head.name, event.seq)

    def _planned(self, body: e.UndoPlanned) -> Iterator[str]:
        if not self.asked or self.plan is not None:
            yield "undos are planned, and nobody asked for that, or it was done before"
        self.plan = body.acts
        for act in body.acts:
            if self.done.get(act.path) != act:
                yield f"{act.name} at {act.path} is to be undone, and was not done so"
        if [act.seq for act in body.acts] != sorted({act.seq for act in body.acts}, reverse=True):
            yield "undos are planned in another order than the newest first"
        yield from self._missing({act.name for act in body.acts})

    def _missing(self, tools: set[str]) -> Iterator[str]:
        planned = {act.path for act in self.plan or ()}
        for act in self.done.values():
            if act.name in tools | self.undoable and act.path not in planned:
                yield f"{act.name} at {act.path} was done and is not to be undone"

    def _called(self, path: str) -> Iterator[str]:
        """Before an undo is called everything newer is settled."""
        if not path.startswith(_UNDO):
            return
        for act in self.plan or ():
            if _UNDO + act.path == path:
                return
            if _UNDO + act.path not in self.settled:
                yield f"{path} is called before {_UNDO}{act.path} is settled"
        yield f"{path} is called and is in no plan"

    def _ended(self) -> Iterator[str]:
        for act in self.plan or ():
            if _UNDO + act.path not in self.settled:
                yield f"the run is cancelled, and {act.name} at {act.path} is not undone"
        if self.plan is None:
            yield from self._missing(set())
