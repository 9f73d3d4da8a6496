"""A store that was brought back from a backup: a new incarnation, in which nothing acts by itself.

Its open runs do not know what they did after the backup was made, and whoever drove them then may still be
alive somewhere. So every lease is void at once, in one commit, and each open run is held, `restored`, until a
person lets it go on. If this ends half-way, the runs that are left stay with nobody, and doing it again
finishes it. It calls no user's code.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from perdure import codec
from perdure.clock import SYSTEM
from perdure.errors import Damaged, NewerFormat
from perdure.journal import Journal, SnapshotPolicy, restore
from perdure.runtime.holds import brought_back
from perdure.runtime.rowinfo import asks_people, row_info
from perdure.store.pages import every
from perdure.store.protocol import NEVER, RESTORER, Batch, Loaded, Query, RowChange, RunRow, Store
from perdure.timeline.bundle import DECISIONS


class Restored(Struct, frozen=True):
    """What became of the open runs: `held` now; `damaged`, which are held as that; `newer`, which only a
    newer perdure can read and which stay with nobody until it restores them.
    """

    held: tuple[str, ...]
    damaged: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()


async def begin_anew(
    store: Store, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Restored:
    """Void every lease and hold every open run. Raises WorkerTaken if a worker is alive in the store."""
    total = await store.restore()
    held, damaged, newer = list[str](), list[str](), list[str]()
    async for row in every(store, Query(open_only=True)):
        if row.worker != RESTORER:
            continue
        try:
            await _hold(store, row.run_id)
            held.append(row.run_id)
        except NewerFormat:
            newer.append(row.run_id)
        except Damaged as damage:
            await _set_aside(store, row, damage)
            damaged.append(row.run_id)
        progress(len(held) + len(damaged) + len(newer), total)
    return Restored(tuple(held), tuple(damaged), tuple(newer))


async def _hold(store: Store, run_id: str) -> None:
    loaded: Loaded = await store.load(run_id)
    past = await restore(store, loaded)
    journal = Journal(store, past, policy=SnapshotPolicy(None, None), durability="effects", clock=SYSTEM)
    # What would have let it go on was said of another incarnation.
    taken = tuple(item.position for item in loaded.inbox if item.kind in DECISIONS)
    ending = past.record.cancel is not None or any(item.kind == "cancel" for item in loaded.inbox)
    hold = brought_back(run_id, cancelled=ending)
    await journal.append(hold, taken=taken)
    record = journal.record
    info = row_info(record, hold.reason)
    await journal.close(RowChange(status="held", due_at=NEVER, info=info, asks=asks_people(record)))


async def _set_aside(store: Store, row: RunRow, damage: Damaged) -> None:
    info = codec.encode({"reason": "damaged", "detail": damage.what})
    change = RowChange(status="held", due_at=NEVER, info=info, asks=True)
    fresh = await store.row(row.run_id)
    await store.append(Batch(row.run_id, fresh.epoch, fresh.seq, row=change, release=True))
