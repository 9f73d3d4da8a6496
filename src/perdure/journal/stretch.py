"""A stretch of a run's events, for whoever shows a page of them: read alone, verified within itself.

Each event is held against the digest of the one before it (law 21); what lies before the stretch is not read.
"""

from __future__ import annotations

from perdure.errors import Damaged
from perdure.journal.past import open_stored
from perdure.state import events as e
from perdure.store.protocol import GENESIS, Store


async def stretch(store: Store, run_id: str, after: int, upto: int) -> list[e.Event]:
    """The events with `after` < seq <= `upto`, decoded. None of them may have been taken away.

    Raises Damaged, NewerFormat, NoSuchRun, RunGone.
    """
    events: list[e.Event] = []
    digest, before = GENESIS, 0
    if after:
        [known] = await store.read(run_id, after - 1, 1) or [None]
        if known is None or known.seq != after:
            raise Damaged(f"run {run_id}: event {after} is missing", run_id=run_id, seq=after)
        digest, before = known.digest, after
    while before < upto:
        page = await store.read(run_id, before, upto - before)
        if not page:
            raise Damaged(f"run {run_id}: event {before + 1} is missing", run_id=run_id, seq=before + 1)
        for item in page:
            event, digest = await open_stored(store, run_id, item, before, digest)
            before = event.seq
            events.append(event)
    return events
