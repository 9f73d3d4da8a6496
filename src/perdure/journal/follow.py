"""A run's durable events, as they come: in order, without a gap, from any event on.

A reader without a lease. What it yields is on disk and verified against the chain; it can be asked to go on
from the last event that its caller has seen, in another process, after any time. Writes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure.errors import BadPoint
from perdure.journal.past import beginning, open_stored, pruned
from perdure.state import events as e
from perdure.store.protocol import GENESIS, Store

LOOK_SECONDS = 2.0
"""A follower looks again after so long, whatever it was told or not told."""


async def follow(store: Store, run_id: str, after: int = 0) -> AsyncIterator[e.Event]:
    """Each event with seq > `after`, once it is durable; ends after the run's end.

    0 is the first that is left: a compacted run begins later. Raises NoSuchRun, RunGone, BadPoint for an
    `after` that is no event, EventsPruned if events that were to come were taken away, and Damaged before
    anything that does not verify.
    """
    last, digest = await _start(store, run_id, after)
    seen = 0
    while True:
        page = await store.read(run_id, last)
        if page and page[0].seq > last + 1 and (floor := (await store.row(run_id)).floor) > last:
            raise pruned(run_id, last + 1, floor)
        for item in page:
            event, digest = await open_stored(store, run_id, item, last, digest)
            last = event.seq
            yield event
        if page:
            continue
        row = await store.row(run_id)
        if row.terminal and row.seq <= last:
            return
        if row.seq <= last:
            seen = await store.changed(seen, LOOK_SECONDS)


async def _start(store: Store, run_id: str, after: int) -> tuple[int, bytes]:
    """The event to go on from, and the chain's digest there."""
    floor = (await store.row(run_id)).floor
    if after < floor and after:
        raise pruned(run_id, after + 1, floor)
    if floor and after <= floor:
        first = await beginning(store, run_id)
        return first.seq, first.digest
    if not after:
        return 0, GENESIS
    known = await store.read(run_id, after - 1, 1)
    if not known or known[0].seq != after:
        raise BadPoint(f"run {run_id} has no event {after} to go on from", run_id=run_id, seq=after)
    return after, known[0].digest
