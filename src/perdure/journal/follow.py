"""A run's durable events, as they come: in order, without a gap, from any event on.

A reader without a lease. What it yields is on disk and verified against the chain; it can be asked to go on
from the last event that its caller has seen, in another process, after any time. Writes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure.errors import BadPoint
from perdure.journal.past import open_stored
from perdure.state import events as e
from perdure.store.protocol import GENESIS, Store

LOOK_SECONDS = 2.0
"""A follower looks again after so long, whatever it was told or not told."""


async def follow(store: Store, run_id: str, after: int = 0) -> AsyncIterator[e.Event]:
    """Each event with seq > `after`, once it is durable; ends after the run's end.

    Raises NoSuchRun, RunGone, BadPoint for an `after` that is no event, and Damaged before anything that does
    not verify.
    """
    last, digest, seen = after, GENESIS, 0
    if after:
        known = await store.read(run_id, after - 1, 1)
        if not known or known[0].seq != after:
            raise BadPoint(f"run {run_id} has no event {after} to go on from", run_id=run_id, seq=after)
        digest = known[0].digest
    while True:
        page = await store.read(run_id, last)
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
