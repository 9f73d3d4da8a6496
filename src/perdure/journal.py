"""Where facts and bytes meet: append, flush, barrier, load.

Everyone above speaks of events and runs; everyone below of bytes. This file alone knows how an event becomes
a frame,
how frames are chained, when a snapshot is taken, and which values live in blobs. It keeps law 1 (`barrier`
returns
only when everything appended before it is durable), law 5 (a snapshot is used only if it is whole) and law 21
(nothing is served whose chain does not verify).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from perdure import codec
from perdure.clock import SYSTEM, Clock
from perdure.errors import Damaged, NoSuchRun, PerdureError, StoreError
from perdure.state import events as e
from perdure.state.fold import fold
from perdure.state.record import RunRecord
from perdure.store.protocol import (
    GENESIS,
    Appended,
    Batch,
    Blob,
    Inbound,
    Loaded,
    Message,
    RowChange,
    RunRow,
    Snapshot,
    Store,
    Stored,
    Tx,
)

log = logging.getLogger("perdure.journal")

Durability: TypeAlias = Literal["effects", "step", "strict"]
"""What waits for the disk beside the acts themselves (DESIGN: output commit)."""

BLOB_BYTES = 256 * 1024
"""Where an event's frame is larger than this, its values that are larger are kept out of line.

Once per run.
"""

PENDING_EVENTS, PENDING_BYTES = 64, 1 << 18
"""Events are handed to the store when so many, or so many bytes of them, have gathered …"""

LINGER_SECONDS = 0.002
"""… or when the first of them has waited so long. A barrier hands them over at once."""

UNACKED_EVENTS = 1024
"""An appender waits for the disk when so many events are neither durable nor refused."""


class _SnapshotBody(Struct, frozen=True, array_like=True):
    record: RunRecord  # with state None
    state: bytes


@dataclass(frozen=True, slots=True)
class Fences:
    """What must still hold when a fenced append is written: see `perdure.store.protocol.Batch`."""

    inbox_seen: int | None = None
    not_after: int | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """A run as it was loaded: verified and folded."""

    row: RunRow
    record: RunRecord
    digest: bytes
    inbox: tuple[Inbound, ...]
    snapshot_seq: int
    tail_bytes: int


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found: `seq` and `what` name the first damage, if there is any."""

    ok: bool
    events: int
    seq: int = 0
    what: str = ""


class SnapshotPolicy:
    """When a snapshot is due: `every` events, or such that reading and folding the tail takes `seconds`.

    The bound by time also waits until the tail has grown as large as the last snapshot, so that snapshots
    cost no
    more than the log itself: bytes stay linear in the length of the run.
    """

    def __init__(self, every: int | None, seconds: float | None) -> None:
        self.every = every
        self.seconds = seconds

    def due(self, events: int, tail_bytes: int, snapshot_bytes: int) -> bool:
        """Whether `events` of `tail_bytes` since a snapshot of `snapshot_bytes` ask for another."""
        if self.every is not None:
            return events >= self.every
        if self.seconds is None:
            return False
        cost = events * FOLD_SECONDS_PER_EVENT + tail_bytes * READ_SECONDS_PER_BYTE
        return cost >= self.seconds and tail_bytes >= snapshot_bytes


FOLD_SECONDS_PER_EVENT = 4e-6
READ_SECONDS_PER_BYTE = 2e-9
"""Measured by bench/load.py on this code.

Replaced by the process's own loads as they happen (`observe_load`).
"""


def observe_load(events: int, size: int, seconds: float) -> None:
    """Learn from a real load what an event costs here; a slow moving mean, large loads only."""
    global FOLD_SECONDS_PER_EVENT
    if events >= 500:
        seen = max(seconds - size * READ_SECONDS_PER_BYTE, 0.0) / events
        FOLD_SECONDS_PER_EVENT += 0.25 * (seen - FOLD_SECONDS_PER_EVENT)


class Journal:
    """One run's events while this process holds its lease.

    `append` gives events their numbers and folds them at once; they reach the store in the background.
    Appends of one
    run are serialised with fenced appends and transactional calls, which must see the last event durable.
    """

    def __init__(
        self, store: Store, past: Past, *, policy: SnapshotPolicy, durability: Durability, clock: Clock
    ) -> None:
        self.store = store
        self.run_id = past.row.run_id
        self.epoch = past.row.epoch
        self.record = past.record
        self.clock = clock
        self.durability = durability
        self.failure: BaseException | None = None
        self.commits = 0
        self._digest = past.digest
        self._policy = policy
        self._snapshot_seq = past.snapshot_seq
        self._snapshot_bytes = 0
        self._tail_bytes = past.tail_bytes
        self._progress = past.row.claims > 1
        self._pending: list[Stored] = []
        self._pending_bytes = 0
        self._pending_blobs: list[Blob] = []
        self._pending_taken: list[int] = []
        self._since = 0.0
        self._sent = past.record.seq
        self._unacked = 0
        self._last: asyncio.Future[Appended] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()
        self._early: list[e.AnyBody] = []
        self._fenced: list[tuple[e.AnyBody, Fences, asyncio.Future[None]]] = []

    # -- append

    async def append(self, *bodies: e.AnyBody, taken: Sequence[int] = ()) -> int:
        """Number and fold these facts, in order; returns the last one's seq.

        Durable later, or at once if strict.
        """
        if self._lock.locked() or self._unacked >= UNACKED_EVENTS:
            async with self._lock:
                if self._unacked >= UNACKED_EVENTS:
                    await self._settle(self.flush())
                self._add(bodies, taken)
        else:
            self._add(bodies, taken)
        if self.durability == "strict":
            await self.barrier()
        return self.record.seq

    def append_soon(self, body: e.AnyBody) -> None:
        """Like append, for a caller that cannot wait: the fact precedes every later append."""
        if self._lock.locked():
            self._early.append(body)
        else:
            self._add((body,), ())

    def _add(self, bodies: Sequence[e.AnyBody], taken: Sequence[int]) -> None:
        if self.failure is not None:
            raise self.failure
        if self._early:
            bodies = (*self._early, *bodies)
            self._early = []
        for body in bodies:
            self._pending.append(self._encode(body))
        self._pending_taken.extend(taken)
        if len(self._pending) >= PENDING_EVENTS or self._pending_bytes >= PENDING_BYTES:
            self.flush()
        elif self._timer is None:
            self._since = self.clock.monotonic()
            self._timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.flush)
        elif self.clock.monotonic() - self._since >= LINGER_SECONDS:
            self.flush()

    def _encode(self, body: e.AnyBody) -> Stored:
        event = e.Event(self.record.seq + 1, self.clock.now(), self.epoch, body)
        record = fold(self.record, event, codec.decode)
        data = codec.pack(event)
        if len(data) > BLOB_BYTES:
            slim, blobs = outline(body)
            self._pending_blobs.extend(blobs)
            data = codec.pack(e.Event(event.seq, event.at, event.epoch, slim))
        self.record = record
        self._digest = codec.chain(self._digest, data)
        self._pending_bytes += len(data)
        self._tail_bytes += len(data)
        return Stored(event.seq, data, self._digest)

    # -- flush and barrier

    def flush(self) -> asyncio.Future[Appended] | None:
        """Hand what has gathered to the store; returns the newest future.

        Or None if nothing was ever sent.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (self._pending or self._pending_taken) and self.failure is None:
            self._send(Batch(self.run_id, self.epoch, self._sent, **self._take()))
        return self._last

    def _take(self) -> dict[str, Any]:
        parts: dict[str, Any] = {
            "events": tuple(self._pending),
            "blobs": tuple(self._pending_blobs),
            "taken": tuple(self._pending_taken),
        }
        self._pending, self._pending_blobs, self._pending_taken, self._pending_bytes = [], [], [], 0
        return parts

    def _send(self, batch: Batch) -> asyncio.Future[Appended]:
        if self._progress and batch.row is None and batch.events:
            self._progress = False
            batch = replace(batch, row=RowChange(progress=True))
        count = len(batch.events)
        self._sent += count
        self._unacked += count
        self.commits += 1
        future = self.store.append(batch)
        future.add_done_callback(lambda done: self._acknowledged(done, count))
        self._last = future
        return future

    def _acknowledged(self, done: asyncio.Future[Appended], count: int) -> None:
        self._unacked -= count
        if done.cancelled():
            self.failure = self.failure or StoreError("the store gave up on a write")
        elif (error := done.exception()) is not None and self.failure is None:
            self.failure = error

    async def barrier(self) -> None:
        """Return when everything appended so far is durable. Raises what the store refused it with."""
        if self._early:
            await self.append()
        await self._settle(self.flush())
        if self.failure is not None:
            raise self.failure

    async def _settle(self, future: asyncio.Future[Appended] | None) -> None:
        if future is not None and not future.done():
            await asyncio.wait([future])

    # -- fenced appends and transactional calls

    async def intend(self, body: e.AnyBody, fences: Fences) -> None:
        """Append one fact durably, or not at all if a fence no longer holds (InboxMoved, Expired).

        Facts that several branches intend at the same time share one commit.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fenced.append((body, fences, done))
        if len(self._fenced) == 1 or not self._lock.locked():
            await self._lead()
        if not done.done():
            await asyncio.wait([done])
        done.result()

    async def _lead(self) -> None:
        async with self._lock:
            while self._fenced:
                group, self._fenced = self._fenced, []
                await self._write_fenced(group)

    async def _write_fenced(self, group: list[tuple[e.AnyBody, Fences, asyncio.Future[None]]]) -> None:
        saved: tuple[RunRecord, bytes, int] | None = None
        try:
            if self._early:
                self._add((), ())
            self.flush()
            saved = (self.record, self._digest, self._tail_bytes)
            events = tuple(self._encode(body) for body, _, _ in group)
            parts = self._take()
            seen = [fences.inbox_seen for _, fences, _ in group if fences.inbox_seen is not None]
            until = [fences.not_after for _, fences, _ in group if fences.not_after is not None]
            batch = Batch(
                self.run_id,
                self.epoch,
                self._sent,
                events=events,
                blobs=parts["blobs"],
                inbox_seen=min(seen) if seen else None,
                not_after=min(until) if until else None,
            )
            error = await self._try(batch)
        except BaseException as failure:  # noqa: BLE001  (cancellation too: every branch must be told)
            error = failure
        if error is not None and saved is not None and _is_fence(error):
            self.record, self._digest, self._tail_bytes = saved
        for _, _, done in group:
            if not done.done():
                done.set_exception(error) if error is not None else done.set_result(None)
                done.exception()
        if error is not None and not isinstance(error, PerdureError):
            raise error

    async def _try(self, batch: Batch) -> BaseException | None:
        """Write one batch apart from the rest; a refused fence leaves the journal usable."""
        if self.failure is not None:
            return self.failure
        self.commits += 1
        future = self.store.append(batch)
        self._last = future
        await asyncio.wait([future])
        if (error := future.exception()) is None:
            self._sent += len(batch.events)
        elif not _is_fence(error):
            self.failure = error
        return error

    async def transact(
        self, act: Callable[[Tx], Sequence[e.AnyBody]], *, seconds: float, fences: Fences
    ) -> tuple[e.AnyBody, ...]:
        """Run `act` inside the store's transaction, with every pending event and the facts that it returns.

        If it raises, nothing of it is kept and the error comes here; earlier events are durable either way.
        """
        async with self._lock:
            if self._early:
                self._add((), ())
            self.flush()
            bodies: tuple[e.AnyBody, ...] = ()

            def inside(tx: Tx) -> Sequence[Stored]:
                nonlocal bodies
                bodies = tuple(act(tx))
                return [self._encode(body) for body in bodies]

            saved = (self.record, self._digest, self._tail_bytes)
            batch = Batch(
                self.run_id,
                self.epoch,
                self._sent,
                act=inside,
                act_seconds=seconds,
                inbox_seen=fences.inbox_seen,
            )
            future = self.store.append(batch)
            await asyncio.wait([future])
            if (error := future.exception()) is not None:
                self.record, self._digest, self._tail_bytes = saved
                self._pending_blobs, self._pending_bytes = [], 0
                if isinstance(error, StoreError) and not _is_fence(error):
                    self.failure = error
                raise error
            self._sent += len(bodies)
            self.commits += 1
            self._last = future
            return bodies

    # -- ends

    async def commit_step(self) -> None:
        """To be called after a step.committed: waits for the disk if asked to, snapshots when due."""
        since = self.record.seq - self._snapshot_seq
        if self._policy.due(since, self._tail_bytes, self._snapshot_bytes):
            async with self._lock:
                self._snapshot()
        if self.durability == "step":
            await self.barrier()

    def _snapshot(self) -> None:
        self.flush()
        snapshot = pack_snapshot(self.record, self._digest)
        self._snapshot_seq, self._snapshot_bytes, self._tail_bytes = snapshot.seq, len(snapshot.data), 0
        self._send(Batch(self.run_id, self.epoch, self._sent, snapshot=snapshot))

    async def close(self, change: RowChange, *bodies: e.AnyBody, outbox: Sequence[Message] = ()) -> None:
        """Append the last facts, change the run's row and give the lease back, in one durable commit."""
        async with self._lock:
            self._add(bodies, ())
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            batch = Batch(
                self.run_id,
                self.epoch,
                self._sent,
                row=change,
                release=True,
                outbox=tuple(outbox),
                **self._take(),
            )
            await self._settle(self._send(batch))
        if self.failure is not None:
            raise self.failure

    def abandon(self) -> None:
        """Send nothing more: the lease is lost, or the store failed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _is_fence(error: BaseException) -> bool:
    from_fence = getattr(error, "code", "")
    return from_fence in ("S111", "S116")


# ---------------------------------------------------------------------------------------------- values out
# of line

_BLOB_HEADER = b"\xc7\x10\x40"  # msgpack ext 8, 16 bytes, code 64: the address of a blob by its digest


def outline(body: e.AnyBody) -> tuple[e.AnyBody, list[Blob]]:
    """The body with each large value replaced by its blob's address, and those blobs."""
    blobs: list[Blob] = []

    def away(value: Any) -> Any:
        if isinstance(value, bytes) and len(value) > BLOB_BYTES:
            digest = codec.digest(value)
            blobs.append(Blob(digest, value))
            return _BLOB_HEADER + digest
        return value

    return _change_values(body, away), blobs


def _change_values(body: e.AnyBody, change: Callable[[bytes], bytes]) -> e.AnyBody:
    changed: e.AnyBody = _map_values(body, change)
    return changed


def _map_values(node: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with `change` applied to every bytes value in it."""
    if isinstance(node, bytes):
        return change(node)
    if isinstance(node, tuple):
        return tuple(_map_values(item, change) for item in node)
    if isinstance(node, Struct):
        fields = {name: _map_values(getattr(node, name), change) for name in node.__struct_fields__}
        return type(node)(**fields)
    return node


async def _inline(body: e.AnyBody, store: Store, run_id: str) -> e.AnyBody:
    """The body with each blob's address replaced by its bytes."""
    found: dict[bytes, bytes] = {}

    def collect(value: bytes) -> bytes:
        if len(value) == 19 and value.startswith(_BLOB_HEADER):
            found[value] = b""
        return value

    _change_values(body, collect)
    if not found:
        return body
    for address in found:
        data = await store.blob(run_id, address[3:])
        if codec.digest(data) != address[3:]:
            raise Damaged(f"a large value of run {run_id} does not match its digest", run_id=run_id)
        found[address] = data
    return _change_values(body, lambda value: found.get(value, value))


# ---------------------------------------------------------------------------------------------- load


def pack_snapshot(record: RunRecord, digest: bytes) -> Snapshot:
    """A folded run as bytes, with a digest of its own in front: 16 bytes, then the frame."""
    body = _SnapshotBody(msgspec.structs.replace(record, state=None), codec.encode(record.state))
    frame = codec.pack(body)
    return Snapshot(record.seq, codec.digest(digest, frame) + frame, digest)


def unpack_snapshot(snapshot: Snapshot) -> RunRecord:
    """The run that a snapshot holds. Raises Damaged if it is not whole."""
    check, frame = snapshot.data[:16], snapshot.data[16:]
    if codec.digest(snapshot.digest, frame) != check:
        raise Damaged(f"the snapshot at event {snapshot.seq} does not match its digest", seq=snapshot.seq)
    body = codec.unpack(frame, _SnapshotBody)
    return msgspec.structs.replace(body.record, state=codec.decode(body.state))


async def load(store: Store, run_id: str) -> Past:
    """A run, verified and folded.

    A damaged snapshot is passed over with a warning; a damaged event raises Damaged.
    """
    return await restore(store, await store.load(run_id))


async def restore(store: Store, loaded: Loaded) -> Past:
    """Fold what was loaded: the newest whole snapshot and the events after it, else all events."""
    run_id = loaded.row.run_id
    record, digest, start = RunRecord(), GENESIS, 0
    stored: Sequence[Stored] = loaded.events
    began = SYSTEM.monotonic()
    if loaded.snapshot is not None:
        try:
            record, digest = unpack_snapshot(loaded.snapshot), loaded.snapshot.digest
            start = loaded.snapshot.seq
        except Damaged as damage:
            log.warning("run %s: %s; all events are read instead", run_id, damage.what)
            stored = await read_all(store, run_id)
    size = 0
    for item in stored:
        event, digest = await _open(store, run_id, item, record.seq, digest)
        record = fold(record, event, codec.decode)
        size += len(item.data)
    if record.seq != loaded.row.seq:
        raise Damaged(
            f"run {run_id} ends at event {record.seq}, its row says {loaded.row.seq}", run_id=run_id
        )
    observe_load(len(stored), size, SYSTEM.monotonic() - began)
    return Past(loaded.row, record, digest, loaded.inbox, start, size)


async def read_all(store: Store, run_id: str) -> list[Stored]:
    """Every stored event of a run, in order."""
    stored: list[Stored] = []
    while page := await store.read(run_id, stored[-1].seq if stored else 0):
        stored.extend(page)
    return stored


async def _open(store: Store, run_id: str, item: Stored, before: int, digest: bytes) -> tuple[e.Event, bytes]:
    chained = codec.chain(digest, item.data)
    if item.seq != before + 1:
        raise Damaged(f"run {run_id}: event {before + 1} is missing", run_id=run_id, seq=before + 1)
    if chained != item.digest:
        raise Damaged(
            f"run {run_id}: event {item.seq} does not match its digest", run_id=run_id, seq=item.seq
        )
    event = codec.unpack(item.data, e.Event)
    if event.seq != item.seq:
        raise Damaged(
            f"run {run_id}: event {item.seq} carries number {event.seq}", run_id=run_id, seq=item.seq
        )
    outlined = item.data[1] or _BLOB_HEADER in item.data  # a compressed frame hides what it holds
    body = await _inline(event.body, store, run_id) if outlined else event.body
    return (event if body is event.body else e.Event(event.seq, event.at, event.epoch, body)), chained


async def history(store: Store, run_id: str, after: int = 0) -> list[e.Event]:
    """Every event of a run with seq > after, decoded; the chain is verified from its start.

    Raises Damaged.
    """
    events: list[e.Event] = []
    digest, before = GENESIS, 0
    for item in await read_all(store, run_id):
        event, digest = await _open(store, run_id, item, before, digest)
        before = event.seq
        events.append(event)
    return [event for event in events if event.seq > after]


async def verify(store: Store, run_id: str) -> Verification:
    """Check a run's chain, its blobs, its snapshots against a full fold, and its row. Writes nothing."""
    record, digest = RunRecord(), GENESIS
    snapshots = {snapshot.seq: snapshot for snapshot in await store.snapshots(run_id)}
    try:
        row = await store.row(run_id)
        for item in await read_all(store, run_id):
            event, digest = await _open(store, run_id, item, record.seq, digest)
            record = fold(record, event, codec.decode)
            if (snapshot := snapshots.pop(record.seq, None)) is not None:
                whole = pack_snapshot(record, digest)
                if whole.data != snapshot.data and unpack_snapshot(snapshot) != record:
                    raise Damaged(f"the snapshot at event {record.seq} differs from the fold", seq=record.seq)
        if record.seq < row.seq or not record.seq:
            raise Damaged(f"event {record.seq + 1} is missing", seq=record.seq + 1)
    except NoSuchRun:
        raise
    except (Damaged, PerdureError) as damage:
        return Verification(False, record.seq, getattr(damage, "seq", record.seq + 1), damage.what)
    return Verification(True, record.seq)
