"""Who listens to what runs do in this process, and how they are told without being able to harm a run.

Listeners are known to the process, not to a Runtime: traces, metrics and logs concern all of it. The engine
knows these protocols and nobody who implements them; where nobody listens, nothing is made, asked or kept.
What a listener is told as `happened` is durable, and is told once by the process that wrote it: a replay
tells nothing. What a listener raises is logged and forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from perdure import codec
from perdure.agent import Agent, Call, Tool
from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store.protocol import Claimed, Store

log = logging.getLogger("perdure.observe")

Doing: TypeAlias = Literal["call", "reconcile"]
"""Whose code runs: the body of a call, or its reconcile hook."""

Over: TypeAlias = Callable[[BaseException | None], None]
"""To be called when that code has ended, with what it raised."""


class Place(Struct, eq=False):
    """Where log records of a drive come from. `step` and `trace` are filled in as they become known."""

    run_id: str
    agent: str
    worker: str
    epoch: int
    step: int = 0
    trace: str = ""


place_scope: ContextVar[Place | None] = ContextVar("perdure_place", default=None)
"""The run that is driven here, for whoever writes log records."""


class Driven(Struct, frozen=True, eq=False):
    """A run that this process has claimed and loaded, before anything of it is carried on.

    `record`: as it was found. `opening`: what its open step has recorded already, after the event with which
    it began, large values left out; empty if that is nothing. `lost`: the owner before is gone without having
    given the lease back.
    """

    run_id: str
    agent: Agent[Any, Any, Any]
    worker: str
    epoch: int
    record: RunRecord
    opening: tuple[e.Event, ...]
    clock: Clock
    lost: bool = False


class Ear(Protocol):
    """Hears one run while it is driven here. `noted`, `happened`, `committed`: see `journal.Hearer`."""

    def noted(self, event: e.Event) -> None:
        """A fact has its number; it may never become durable."""
        ...

    def happened(self, events: Sequence[e.Event], record: RunRecord) -> None:
        """These are durable now."""
        ...

    def committed(self, seconds: float, refused: bool) -> None:
        """A write was answered."""
        ...

    def stepping(self, number: int) -> None:
        """A step is about to be executed, perhaps not for the first time, in the task that is running."""
        ...

    def acting(self, call: Call, tool: Tool[..., Any], doing: Doing) -> Over | None:
        """Code of the user's begins to run for this attempt, in the context that is current now."""
        ...

    def left(self, *, lost: bool) -> None:
        """The drive is over; `lost`: the lease had gone."""
        ...


class Listener(Protocol):
    """Whoever wants to hear runs."""

    def begun(self, driven: Driven) -> Ear:
        """A run was claimed here."""
        ...


class Where(Protocol):
    """The process in which a run is driven: `runtime.drive.Host`."""

    store: Store
    clock: Clock

    @property
    def worker(self) -> str:
        """The incarnation that this process is."""
        ...


_listeners: tuple[Listener, ...] = ()


def listen(listener: Listener) -> Callable[[], None]:
    """Tell it of every run that this process claims from now on; returns what ends that."""
    global _listeners
    _listeners = (*_listeners, listener)

    def end() -> None:
        global _listeners
        _listeners = tuple(one for one in _listeners if one is not listener)

    return end


async def opening(store: Store, run_id: str, record: RunRecord) -> tuple[e.Event, ...]:
    """What the open step has recorded so far, after the event with which it began; nothing if it has recorded
    nothing, or cannot be read any more.
    """
    events: list[e.Event] = []
    try:
        after = record.begun - 1 if record.begun < record.seq else record.seq
        while after < record.seq and (page := await store.read(run_id, after)):
            events += [codec.unpack(item.data, e.Event) for item in page if item.seq <= record.seq]
            after = page[-1].seq
    except PerdureError as error:
        log.warning("run %s: what its open step has recorded is not told of: %s", run_id, error.what)
        return ()
    return tuple(events)


async def ears(place: Where, agent: Agent[Any, Any, Any], claimed: Claimed, record: RunRecord) -> Ears | None:
    """Those of everybody who listens now, who are told of the claim; None if nobody does."""
    if not _listeners:
        return None
    run_id, row = claimed.row.run_id, claimed.row
    driven = Driven(
        run_id,
        agent,
        place.worker,
        row.epoch,
        record,
        await opening(place.store, run_id, record),
        place.clock,
        lost=claimed.died or bool(claimed.previous_until),
    )
    made = Ears()
    for listener in _listeners:
        try:
            made.ears.append(listener.begun(driven))
        except Exception:  # noqa: BLE001  (nobody who listens may harm a run)
            _complain(listener)
    return made


class Ears:
    """Several ears as one, none of which can harm the run."""

    def __init__(self) -> None:
        self.ears: list[Ear] = []

    def noted(self, event: e.Event) -> None:
        """Tell all."""
        self._all("noted", event)

    def happened(self, events: Sequence[e.Event], record: RunRecord) -> None:
        """Tell all."""
        self._all("happened", events, record)

    def committed(self, seconds: float, refused: bool) -> None:
        """Tell all."""
        self._all("committed", seconds, refused)

    def stepping(self, number: int) -> None:
        """Tell all."""
        self._all("stepping", number)

    def left(self, *, lost: bool) -> None:
        """Tell all."""
        self._all("left", lost=lost)

    def acting(self, call: Call, tool: Tool[..., Any], doing: Doing) -> Over:
        """Tell all; what is returned tells all of the end, the last first."""
        ends = [end for end in self._all("acting", call, tool, doing) if end is not None]

        def over(error: BaseException | None) -> None:
            for end in reversed(ends):
                try:
                    end(error)
                except Exception:  # noqa: BLE001  (nobody who listens may harm a run)
                    _complain(end)

        return over

    def _all(self, verb: str, *told: Any, **named: Any) -> list[Any]:
        said = []
        for ear in self.ears:
            try:
                said.append(getattr(ear, verb)(*told, **named))
            except Exception:  # noqa: BLE001  (nobody who listens may harm a run)
                _complain(ear)
        return said


_complained: set[str] = set()


def _complain(who: object) -> None:
    """Say once of each kind of listener that it fails; the rest of it is for those who debug it."""
    name = getattr(who, "__qualname__", type(who).__qualname__)
    level = logging.DEBUG if name in _complained else logging.ERROR
    _complained.add(name)
    log.log(level, "a listener fails, and is not heard: %s", name, exc_info=True)
