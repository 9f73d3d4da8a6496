"""A run as it was: read, verified against its chain, folded. Law 21: damage is never served."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec import Struct

from perdure import codec
from perdure.clock import SYSTEM
from perdure.errors import Damaged, NewerFormat, NoSuchRun, PerdureError
from perdure.journal.outline import BLOB_HEADER, blobs_of, inline
from perdure.journal.snapshots import LOAD_COSTS, pack_snapshot, unpack_snapshot
from perdure.state import events as e
from perdure.state.fold import fold, fold_all
from perdure.state.record import RunRecord
from perdure.store.protocol import (
    GENESIS,
    Blob,
    Inbound,
    Loaded,
    RunRow,
    Store,
    Stored,
)

log = logging.getLogger("perdure.journal")

AT_ONCE = 512
"""So many events are decoded before they are folded: few enough to stay in the processor's cache."""


class Past(Struct, frozen=True):
    """A run as it was loaded: verified and folded.

    `snapshot_seq`, `snapshot_step`, `snapshot_bytes`: of the snapshot that was used, 0 if there was none;
    `tail_bytes`: of the events after it.
    """

    row: RunRow
    record: RunRecord
    digest: bytes
    inbox: tuple[Inbound, ...]
    snapshot_seq: int = 0
    snapshot_step: int = 0
    snapshot_bytes: int = 0
    tail_bytes: int = 0


class Verification(Struct, frozen=True):
    """What `verify` found: `seq` and `what` name the first damage, if there is any.

    `newer`: it is no damage, but an event that a newer perdure has written.
    """

    ok: bool
    events: int
    seq: int = 0
    what: str = ""
    newer: bool = False


async def load(store: Store, run_id: str) -> Past:
    """A run, verified and folded.

    A damaged snapshot is passed over with a warning; a damaged event raises Damaged.
    """
    return await restore(store, await store.load(run_id))


async def restore(store: Store, loaded: Loaded) -> Past:
    """Fold what was loaded: the newest whole snapshot and the events after it, else all events."""
    run_id = loaded.row.run_id
    record, digest, snapshot_bytes = RunRecord(), GENESIS, 0
    stored: Sequence[Stored] = loaded.events
    began = SYSTEM.monotonic()
    if loaded.snapshot is not None:
        try:
            record, digest = unpack_snapshot(loaded.snapshot), loaded.snapshot.digest
            snapshot_bytes = len(loaded.snapshot.data)
            LOAD_COSTS.learn_snapshot(snapshot_bytes, SYSTEM.monotonic() - began)
        except Damaged as damage:
            log.warning("run %s: %s; all events are read instead", run_id, damage.what)
            stored = [item for item in await read_all(store, run_id) if item.seq <= loaded.row.seq]
    base, began = record, SYSTEM.monotonic()
    record, digest = await _folded(store, run_id, record, digest, stored)
    if record.seq != loaded.row.seq:
        raise Damaged(
            f"run {run_id} ends at event {record.seq}, its row says {loaded.row.seq}", run_id=run_id
        )
    LOAD_COSTS.learn_events(len(stored), SYSTEM.monotonic() - began)
    return Past(
        loaded.row,
        record,
        digest,
        loaded.inbox,
        snapshot_seq=base.seq,
        snapshot_step=base.step,
        snapshot_bytes=snapshot_bytes,
        tail_bytes=sum(len(item.data) for item in stored),
    )


async def _folded(
    store: Store, run_id: str, record: RunRecord, digest: bytes, stored: Sequence[Stored]
) -> tuple[RunRecord, bytes]:
    """The record and the chain's digest after these events, which follow it."""
    for start in range(0, len(stored), AT_ONCE):
        before, events = record.seq, list[e.Event]()
        for item in stored[start : start + AT_ONCE]:
            event, digest = _opened(run_id, item, before, digest)
            events.append(await _whole(event, store, run_id) if _outlined(item) else event)
            before = item.seq
        record = fold_all(record, events, codec.decode)
    return record, digest


async def record_at(store: Store, run_id: str, seq: int) -> RunRecord:
    """The run as it was when event `seq` (1 to the row's) had been written: law 5, whatever is kept.

    From the nearest snapshot before it that is whole, else from the first event. Raises Damaged, NewerFormat,
    NoSuchRun, RunGone.
    """
    record, digest = RunRecord(), GENESIS
    for snapshot in reversed(await store.snapshots(run_id)):
        if snapshot.seq > seq:
            continue
        try:
            record, digest = unpack_snapshot(snapshot), snapshot.digest
            break
        except Damaged as damage:
            log.warning("run %s: %s; earlier events are read instead", run_id, damage.what)
    while record.seq < seq:
        page = await store.read(run_id, record.seq, min(seq - record.seq, AT_ONCE))
        if not page:
            raise Damaged(
                f"run {run_id}: event {record.seq + 1} is missing", run_id=run_id, seq=record.seq + 1
            )
        record, digest = await _folded(store, run_id, record, digest, page)
    return record


async def goal_of(store: Store, run_id: str) -> bytes:
    """What a run was started for: from its first event, or from the fold if that was pruned."""
    first = await store.read(run_id, 0, 1)
    if first and first[0].seq == 1:
        event, _ = await open_stored(store, run_id, first[0], 0, GENESIS)
        if isinstance(event.body, e.RunStarted):
            return event.body.goal
    return (await load(store, run_id)).record.goal


async def read_all(store: Store, run_id: str) -> list[Stored]:
    """Every stored event of a run, in order. Raises Damaged if their numbers do not rise."""
    stored: list[Stored] = []
    after = 0
    while page := await store.read(run_id, after):
        if page[-1].seq <= after:
            raise Damaged(f"run {run_id}: event {page[-1].seq} lies after event {after}", run_id=run_id)
        stored.extend(page)
        after = page[-1].seq
    return stored


async def open_stored(
    store: Store, run_id: str, item: Stored, before: int, digest: bytes
) -> tuple[e.Event, bytes]:
    """A stored event with its large values, and the chain's digest after it."""
    event, chained = _opened(run_id, item, before, digest)
    return (await _whole(event, store, run_id) if _outlined(item) else event), chained


def _outlined(item: Stored) -> bool:
    """Whether values of an event may be kept out of line. A compressed frame hides what it holds."""
    return bool(item.data[1]) or BLOB_HEADER in item.data


async def _whole(event: e.Event, store: Store, run_id: str) -> e.Event:
    body = await inline(event.body, store, run_id)
    return event if body is event.body else e.Event(event.seq, event.at, event.epoch, body)


def _opened(run_id: str, item: Stored, before: int, digest: bytes) -> tuple[e.Event, bytes]:
    """A stored event as it is in its frame, and the chain's digest after it. Raises Damaged, NewerFormat."""
    chained = codec.chain(digest, item.data)
    if item.seq != before + 1:
        raise Damaged(f"run {run_id}: event {before + 1} is missing", run_id=run_id, seq=before + 1)
    if chained != item.digest:
        raise Damaged(
            f"run {run_id}: event {item.seq} does not match its digest", run_id=run_id, seq=item.seq
        )
    try:
        event = codec.unpack(item.data, e.Event)
    except (Damaged, NewerFormat) as error:
        raise type(error)(
            f"run {run_id}: event {item.seq}: {error.what}", run_id=run_id, seq=item.seq
        ) from error
    if event.seq != item.seq:
        raise Damaged(
            f"run {run_id}: event {item.seq} carries number {event.seq}", run_id=run_id, seq=item.seq
        )
    return event, chained


async def history(store: Store, run_id: str, after: int = 0) -> list[e.Event]:
    """Every event of a run with seq > after, decoded; the chain is verified from its start.

    Raises Damaged.
    """
    events: list[e.Event] = []
    digest, before = GENESIS, 0
    for item in await read_all(store, run_id):
        event, digest = await open_stored(store, run_id, item, before, digest)
        before = event.seq
        events.append(event)
    return [event for event in events if event.seq > after]


async def gathered(store: Store, run_id: str, upto: int) -> tuple[list[Stored], list[Blob]]:
    """The stored events up to `upto` and every large value that they refer to, verified against the chain.

    Raises Damaged, NewerFormat.
    """
    stored = [item for item in await read_all(store, run_id) if item.seq <= upto]
    digest, before, blobs = GENESIS, 0, dict[bytes, Blob]()
    for item in stored:
        event, digest = _opened(run_id, item, before, digest)
        before = item.seq
        if _outlined(item):
            blobs.update((blob.digest, blob) for blob in await blobs_of(event.body, store, run_id))
    if before != upto:
        raise Damaged(f"run {run_id}: event {before + 1} is missing", run_id=run_id, seq=before + 1)
    return stored, list(blobs.values())


async def verify(store: Store, run_id: str) -> Verification:
    """Check a run's chain, its blobs, its snapshots against a full fold, and its row. Writes nothing."""
    record, digest = RunRecord(), GENESIS
    snapshots = {snapshot.seq: snapshot for snapshot in await store.snapshots(run_id)}
    try:
        row = await store.row(run_id)
        for item in await read_all(store, run_id):
            event, digest = await open_stored(store, run_id, item, record.seq, digest)
            record = fold(record, event, codec.decode)
            if (snapshot := snapshots.pop(record.seq, None)) is not None:
                whole = pack_snapshot(record, digest)
                same = whole.data == snapshot.data or unpack_snapshot(snapshot) == record
                if not same or snapshot.digest != digest:
                    raise Damaged(f"the snapshot at event {record.seq} differs from the fold", seq=record.seq)
        if record.seq < row.seq or not record.seq:
            raise Damaged(f"event {record.seq + 1} is missing", seq=record.seq + 1)
    except NoSuchRun:
        raise
    except NewerFormat as newer:
        return Verification(False, record.seq, getattr(newer, "seq", record.seq + 1), newer.what, newer=True)
    except (Damaged, PerdureError) as damage:
        return Verification(False, record.seq, getattr(damage, "seq", record.seq + 1), damage.what)
    return Verification(True, record.seq)
