"""A run as it was: read, verified against its chain, folded. Law 21: damage is never served."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from perdure import codec
from perdure.clock import SYSTEM
from perdure.errors import Damaged, EventsPruned, NewerFormat, NoSuchRun, PerdureError
from perdure.journal.abridged import unpacked as unpacked_left
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


PAGE = 1000
"""Events that are read in one go."""


class Past(Struct, frozen=True):
    """A run as it was loaded: verified and folded.

    `snapshot_seq`, `snapshot_step`, `snapshot_bytes`: of the snapshot that was used, 0 if there was none;
    `tail_bytes`: of the events after it. `older_seq`: of the snapshot that is kept before it.
    """

    row: RunRow
    record: RunRecord
    digest: bytes
    inbox: tuple[Inbound, ...]
    snapshot_seq: int = 0
    snapshot_step: int = 0
    snapshot_bytes: int = 0
    tail_bytes: int = 0
    older_seq: int = 0


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

    async def look() -> Past:
        return await restore(store, await store.load(run_id))

    return await _steady(store, run_id, look)


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
            log.warning("run %s: %s; earlier events are read instead", run_id, damage.what)
            record, digest = await _nearest(store, run_id, loaded.snapshot.seq - 1)
            stored = [
                item for item in await read_all(store, run_id, record.seq) if item.seq <= loaded.row.seq
            ]
    base, began = record, SYSTEM.monotonic()
    record, digest = await _folded(store, run_id, record, digest, stored)
    if record.seq != loaded.row.seq:
        raise Damaged(
            f"run {run_id} ends at event {record.seq}, its row says {loaded.row.seq}", run_id=run_id
        )
    if (what := misfit(loaded.row, record)) is not None:
        raise Damaged(f"run {run_id}: {what}", run_id=run_id)
    tail_bytes = sum(len(item.data) for item in stored)
    LOAD_COSTS.learn_events(len(stored), tail_bytes, SYSTEM.monotonic() - began)
    return Past(
        loaded.row,
        record,
        digest,
        loaded.inbox,
        snapshot_seq=base.seq,
        snapshot_step=base.step,
        snapshot_bytes=snapshot_bytes,
        tail_bytes=tail_bytes,
        older_seq=loaded.older,
    )


def misfit(row: RunRow, record: RunRecord) -> str | None:
    """What a run's row says that its events do not; None if they agree in all that is not the store's own."""
    ended = record.ended
    if row.agent != record.agent:
        return f"its row is of agent {row.agent}, its events are of {record.agent}"
    if row.parent != record.parent:
        return f"its row names the parent {row.parent}, its events {record.parent}"
    if row.terminal != (ended is not None):
        return f"its row says {row.status}, its events that it has {'' if ended else 'not '}ended"
    if ended is not None and row.status != ended:
        return f"its row says {row.status}, its events that it ended as {ended}"
    return None


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

    From the nearest snapshot before it that is whole, else from the first event. Raises EventsPruned for an
    event before the one that the run begins with, Damaged, NewerFormat, NoSuchRun, RunGone.
    """
    return await _steady(store, run_id, lambda: _record_at(store, run_id, seq))


async def _record_at(store: Store, run_id: str, seq: int) -> RunRecord:
    record, digest = await _nearest(store, run_id, seq)
    while record.seq < seq:
        page = await store.read(run_id, record.seq, min(seq - record.seq, AT_ONCE))
        if not page:
            raise Damaged(
                f"run {run_id}: event {record.seq + 1} is missing", run_id=run_id, seq=record.seq + 1
            )
        record, digest = await _folded(store, run_id, record, digest, page)
    return record


async def _nearest(store: Store, run_id: str, seq: int) -> tuple[RunRecord, bytes]:
    """The newest kept fold at or before `seq`, and the chain's digest there; at worst of no event at all.

    Raises EventsPruned, or Damaged if nothing is left to begin with.
    """
    upto = seq
    while (snapshot := await store.snapshot(run_id, upto)) is not None:
        try:
            return unpack_snapshot(snapshot), snapshot.digest
        except Damaged as damage:
            log.warning("run %s: %s; earlier events are read instead", run_id, damage.what)
        upto = snapshot.seq - 1
    floor = (await store.row(run_id)).floor
    if seq < floor:
        raise pruned(run_id, seq, floor)
    if floor:
        what = f"run {run_id}: the snapshot at event {floor}, with which it begins, is missing or not whole"
        raise Damaged(what, run_id=run_id, seq=floor)
    return RunRecord(), GENESIS


def pruned(run_id: str, seq: int, floor: int) -> EventsPruned:
    """The refusal of what lies before a compacted run's beginning."""
    what = f"event {seq} of run {run_id} was pruned: its events up to {floor} were compacted"
    return EventsPruned(what, run_id=run_id, seq=seq, floor=floor)


T = TypeVar("T")


async def _steady(store: Store, run_id: str, look: Callable[[], Awaitable[T]]) -> T:
    """A look at a run that is compacted meanwhile misses events that it still wanted: it looks again."""
    floor = 0
    while True:
        try:
            return await look()
        except Damaged:
            now = (await store.row(run_id)).floor
            if now == floor:
                raise
            floor = now


class Beginning(Struct, frozen=True):
    """What a run's events go on from: nothing, or the snapshot at its floor (`seq`).

    `kept`: the events up to there that were not taken away, `keys`: those of all acts up to there.
    """

    seq: int
    record: RunRecord
    digest: bytes
    kept: tuple[e.Event, ...] = ()
    keys: tuple[str, ...] = ()


ORIGIN = Beginning(0, RunRecord(), GENESIS)
"""Of a run that was never compacted."""


async def beginning(store: Store, run_id: str) -> Beginning:
    """Where a run begins, verified; its kept events have large values out of line.

    Raises Damaged, NewerFormat, NoSuchRun, RunGone.
    """
    floor = (await store.row(run_id)).floor
    if not floor:
        return ORIGIN
    base = await store.snapshot(run_id, floor)
    if base is None or base.seq != floor:
        raise Damaged(f"run {run_id}: the snapshot at event {floor} is missing", run_id=run_id, seq=floor)
    try:
        record = unpack_snapshot(base)
        packed = await store.tombstones(run_id)
        left = unpacked_left(packed[0] if packed else b"", base.digest)
        return Beginning(floor, record, base.digest, tuple(left.told()), left.keys)
    except (Damaged, NewerFormat) as error:
        raise type(error)(f"run {run_id}: {error.what}", run_id=run_id, seq=floor) from error


async def goal_of(store: Store, run_id: str) -> bytes:
    """What a run was started for: from its first event, or from the fold if that was pruned."""
    first = await store.read(run_id, 0, 1)
    if first and first[0].seq == 1:
        event, _ = await open_stored(store, run_id, first[0], 0, GENESIS)
        if isinstance(event.body, e.RunStarted):
            return event.body.goal
    return (await load(store, run_id)).record.goal


async def read_all(store: Store, run_id: str, after: int = 0) -> list[Stored]:
    """Every stored event of a run with seq > after, in order. Raises Damaged if their numbers do not rise."""
    stored: list[Stored] = []
    while page := await store.read(run_id, after, PAGE):
        if page[-1].seq <= after:
            raise Damaged(f"run {run_id}: event {page[-1].seq} lies after event {after}", run_id=run_id)
        stored.extend(page)
        after = page[-1].seq
        if len(page) < PAGE:  # the last one: most runs are one page, and one read
            break
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

    Raises Damaged, and EventsPruned if some of them were taken away: `retold` has what is left of those.
    """
    first, events = await _steady(store, run_id, lambda: _history(store, run_id))
    if after < first.seq:
        raise pruned(run_id, after + 1, first.seq)
    return [event for event in events if event.seq > after]


async def _history(store: Store, run_id: str) -> tuple[Beginning, list[e.Event]]:
    stored = await read_all(store, run_id)
    first = ORIGIN if stored and stored[0].seq == 1 else await beginning(store, run_id)
    events: list[e.Event] = []
    digest, before = first.digest, first.seq
    for item in stored:
        event, digest = await open_stored(store, run_id, item, before, digest)
        before = event.seq
        events.append(event)
    return first, events


class Retold(Struct, frozen=True):
    """A run's past as far as it is left: the fold at its floor, and every kept event with what followed.

    `keys`: those of the acts up to the floor.
    Events up to `base.seq` have gaps, and cannot be folded; their arguments are values, no references.
    """

    base: RunRecord
    events: tuple[e.Event, ...]
    keys: tuple[str, ...] = ()

    @property
    def later(self) -> tuple[e.Event, ...]:
        """The events after the floor, every one."""
        floor = self.base.seq
        return tuple(event for event in self.events if event.seq > floor) if floor else self.events


async def retold(store: Store, run_id: str) -> Retold:
    """A run's past, compacted or not, verified. Raises Damaged, NewerFormat, NoSuchRun, RunGone."""

    async def look() -> Retold:
        first, events = await _history(store, run_id)
        kept = [await _whole(event, store, run_id) for event in first.kept]
        return Retold(first.record, (*kept, *events), first.keys)

    return await _steady(store, run_id, look)


async def opened_all(
    store: Store, run_id: str, first: Beginning, upto: int
) -> tuple[list[e.Event], list[bytes]]:
    """The events after a beginning up to `upto` as they are in their frames, and the digests after each.

    Raises Damaged, NewerFormat.
    """
    events, digests, digest, before = list[e.Event](), list[bytes](), first.digest, first.seq
    for item in await read_all(store, run_id, first.seq):
        if item.seq > upto:
            break
        event, digest = _opened(run_id, item, before, digest)
        before = item.seq
        events.append(event)
        digests.append(digest)
    if before != upto:
        raise Damaged(f"run {run_id}: event {before + 1} is missing", run_id=run_id, seq=before + 1)
    return events, digests


async def gathered(store: Store, run_id: str, upto: int) -> tuple[list[Stored], list[Blob]]:
    """The stored events up to `upto` and every large value that they and the kept ones before them refer to,
    verified against the chain.

    Raises Damaged, NewerFormat.
    """
    return await _steady(store, run_id, lambda: _gathered(store, run_id, upto))


async def _gathered(store: Store, run_id: str, upto: int) -> tuple[list[Stored], list[Blob]]:
    first = await beginning(store, run_id)
    stored = [item for item in await read_all(store, run_id, first.seq) if item.seq <= upto]
    digest, before, blobs = first.digest, first.seq, dict[bytes, Blob]()
    for kept in first.kept:
        blobs.update((blob.digest, blob) for blob in await blobs_of(kept.body, store, run_id))
    for item in stored:
        event, digest = _opened(run_id, item, before, digest)
        before = item.seq
        if _outlined(item):
            blobs.update((blob.digest, blob) for blob in await blobs_of(event.body, store, run_id))
    if before != upto:
        raise Damaged(f"run {run_id}: event {before + 1} is missing", run_id=run_id, seq=before + 1)
    return stored, list(blobs.values())


async def verify(store: Store, run_id: str) -> Verification:
    """Check a run's chain, its blobs, its snapshots against a full fold, and its row. Writes nothing.

    A compacted run is checked from the snapshot that it begins with, and what was kept before it.
    """
    floor, found = -1, Verification(False, 0)
    while not found.ok and (now := (await store.row(run_id)).floor) != floor:
        floor = now  # and again, if it was compacted meanwhile
        found = await _verified(store, run_id)
    return found


async def _verified(store: Store, run_id: str) -> Verification:
    record = RunRecord()
    try:
        row, first = await store.row(run_id), await beginning(store, run_id)
        record, digest = first.record, first.digest
        for kept in first.kept:
            await _whole(kept, store, run_id)
        snapshots = {snapshot.seq: snapshot for snapshot in await store.snapshots(run_id)}
        snapshots.pop(first.seq, None)
        for item in await read_all(store, run_id, first.seq):
            event, digest = await open_stored(store, run_id, item, record.seq, digest)
            record = fold(record, event, codec.decode)
            if (snapshot := snapshots.pop(record.seq, None)) is not None:
                whole = pack_snapshot(record, digest)
                same = whole.data == snapshot.data or unpack_snapshot(snapshot) == record
                if not same or snapshot.digest != digest:
                    raise Damaged(f"the snapshot at event {record.seq} differs from the fold", seq=record.seq)
        if record.seq < row.seq or not record.seq:
            raise Damaged(f"event {record.seq + 1} is missing", seq=record.seq + 1)
        if record.seq == row.seq and (what := misfit(row, record)) is not None:
            raise Damaged(what, seq=record.seq)
    except NoSuchRun:
        raise
    except NewerFormat as newer:
        return Verification(False, record.seq, getattr(newer, "seq", record.seq + 1), newer.what, newer=True)
    except (Damaged, PerdureError) as damage:
        return Verification(False, record.seq, getattr(damage, "seq", record.seq + 1), damage.what)
    return Verification(True, record.seq)
