"""Every byte that a run has left in a store, with nothing hidden by compression: what a search must see.

It knows frames, and nothing of what a test looks for.
"""

from __future__ import annotations

from perdure.codec.frame import body_of
from perdure.journal import read_all
from perdure.store.protocol import Query, Store


async def bytes_of(store: Store) -> bytes:
    """Events, snapshots, messages that wait and rows of every run; blobs are asked for by the events."""
    found: list[bytes] = []
    for row in await store.list(Query(limit=1000)):
        found += [row.info, row.run_id.encode()]
        for item in await read_all(store, row.run_id):
            found += [item.data, bytes(body_of(item.data))]
        for snapshot in await store.snapshots(row.run_id):
            found += [snapshot.data, bytes(body_of(snapshot.data[16:]))]
        found += [message.data for message in await store.inbox(row.run_id)]
    return b"\0".join(found)
