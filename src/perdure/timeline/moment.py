"""A run as it was at one of its points, with no agent alive: plain state, and where a value in it came from.

It reads and folds (law 5); it writes nothing and sends nothing (law 14).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.errors import BadPoint
from perdure.journal import record_at
from perdure.state import events as e
from perdure.state.fold import fold
from perdure.state.patch import same
from perdure.state.record import RunRecord
from perdure.store.protocol import RunRow, Store
from perdure.timeline.amounts import stamp
from perdure.timeline.place import MISSING, Place, value_at
from perdure.timeline.plain import clean, jsonable


class Moment(Struct, frozen=True):
    """A run at event `seq`: `record.state` is the last state that was committed by then, as plain data.

    `row` is today's: what lists show of the run, and how far it has come.
    """

    row: RunRow
    seq: int
    record: RunRecord

    @property
    def state(self) -> Any:
        """The committed state, as plain data."""
        return self.record.state


async def moment_of(store: Store, run_id: str, seq: int | None = None) -> Moment:
    """The run when event `seq` had been written; None is now.

    Raises BadPoint for an event that it has not, EventsPruned for one before its compaction, Damaged,
    NewerFormat, NoSuchRun, RunGone.
    """
    row = await store.row(run_id)
    if seq is not None and not 1 <= seq <= row.seq:
        raise BadPoint(f"run {clean(run_id)} has the events 1 to {row.seq}, and no event {seq}")
    seq = seq or row.seq
    return Moment(row, seq, await record_at(store, run_id, seq))


class Origin(Struct, frozen=True):
    """An event after which the value at a place was another one: the start, or the commit of step `step`.

    `at` in microseconds. `value` is MISSING where the place was gone.
    """

    seq: int
    at: int
    step: int
    value: Any


def origins(events: Iterable[e.Event], place: Place, base: RunRecord | None = None) -> list[Origin]:
    """Every event that set what lies at a place, in order, of a run's events from its first on; or from
    `base` on, which then counts as the first to set it.
    """
    record, value = base or RunRecord(), MISSING
    found = []
    if base is not None and base.seq:
        value = value_at(base.state, place)
        if value is not MISSING:
            found.append(Origin(base.seq, base.updated_at, base.step, value))
    for event in events:
        record = fold(record, event, codec.decode)
        there = value_at(record.state, place)
        if there is not value and (MISSING in (there, value) or not same(value, there)):
            found.append(Origin(event.seq, event.at, record.step, there))
        value = there
    return found


def moment_document(then: Moment) -> dict[str, Any]:
    """Which point of which run: its event, its step, and the version of its state."""
    return {
        "run_id": jsonable(then.row.run_id),
        "seq": then.seq,
        "step": then.record.step,
        "state_version": then.record.state_version,
    }


def origin_document(one: Origin) -> dict[str, Any]:
    """An event that set a value. `there` is false, and `value` null, where it was taken away."""
    gone = one.value is MISSING
    return {
        "seq": one.seq,
        "at": stamp(one.at),
        "step": one.step,
        "there": not gone,
        "value": None if gone else jsonable(one.value),
    }
