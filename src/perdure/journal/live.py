"""One run's events while this process holds its lease: append, flush, barrier, fences, transactions."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

from msgspec.structs import replace

from perdure import codec
from perdure.clock import Clock
from perdure.codec.secret import KNOWN
from perdure.errors import InboxMoved, StoreError
from perdure.journal.fences import Fences, leaves_whole
from perdure.journal.kinds import ENDS_ACT, VITAL, is_progress
from perdure.journal.lingering import LINGER_SECONDS, Lingering
from perdure.journal.outlast import outlast
from perdure.journal.outline import BLOB_BYTES, legible, outline
from perdure.journal.past import Past
from perdure.journal.snapshots import EVENT_BYTES, KEPT, SnapshotPolicy, pack_snapshot
from perdure.journal.wall import behind_wall
from perdure.state import events as e
from perdure.state.fold import fold
from perdure.state.record import CallRecord, RunRecord
from perdure.store.protocol import (
    Appended,
    Batch,
    Blob,
    Message,
    RowChange,
    Store,
    Stored,
    Tx,
)

log = logging.getLogger("perdure.journal")

Durability: TypeAlias = Literal["effects", "step", "strict"]
"""What waits for the disk beside the acts themselves (DESIGN: output commit)."""

PENDING_EVENTS, PENDING_BYTES = 128, 1 << 18
"""Events are handed to the store when so many, or so many bytes of them, have gathered, or when the first of
them has waited for `LINGER_SECONDS`. A barrier hands them over at once.
"""

UNACKED_EVENTS, UNACKED_BYTES = 1024, 8 << 20
"""An appender waits for the disk when so many events, or bytes of them, are neither durable nor refused."""


_Intended: TypeAlias = tuple[tuple[e.AnyBody, ...], Fences, asyncio.Future[None]]
"""What one branch intends, what must hold for it, and who waits for it."""

Receipt: TypeAlias = tuple[e.CallSettled, CallRecord]
"""The outcome of an act, and the act."""


class Journal:
    """One run's events while this process holds its lease.

    `append` gives events their numbers and folds them at once; they reach the store in the background.
    Appends are serialised with fenced appends and transactional calls, which must see the last event durable.
    `inbox` is the position of the last message that the store has told of with a write, `heard` when it did;
    `waits` counts how often the run has waited for the store. `lingering` may be shared with other runs.
    `refused` holds the receipts of acts that the store would not take, because the lease had gone. Verdicts,
    ends and the receipts of acts, with everything before them, may use the room that a store keeps for a full
    disk.
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
        self.closed = False
        self.commits = 0
        self.waits = 0
        self.lingering = Lingering()
        self.inbox = 0
        self.heard = -math.inf
        self._digest = past.digest
        self._policy = policy
        self._snapshot_seq = past.snapshot_seq
        self._snapshot_step = past.snapshot_step
        self._snapshot_bytes = past.snapshot_bytes
        self._tail_bytes = past.tail_bytes
        self._kept = past.older_seq
        self._kept_tail = (past.snapshot_seq - past.older_seq) * EVENT_BYTES  # not known: a guess
        self._running = past.row.status == "running" and not past.row.due_at
        self._suspect = past.row.claims > 1
        self._moved = False
        self._pending: list[Stored] = []
        self._pending_bytes = 0
        self._pending_blobs: list[Blob] = []
        self._pending_taken: list[int] = []
        self._told: RowChange | None = None
        self._telling: RowChange | None = None
        self._taken = 0  # the last message that became events
        self._pending_receipts: list[Receipt] = []
        self._vital = False
        self._acting: set[str] = set()
        self.refused: list[Receipt] = []
        self._since = 0.0
        self._sent = past.record.seq
        self._apart = False  # a fenced write or a transaction is under way
        self._unacked = 0
        self._unacked_bytes = 0
        self._last: asyncio.Future[Appended] | None = None
        self._open: dict[asyncio.Future[Appended], tuple[asyncio.Future[None], ...]] = {}  # writes: who waits
        self._quiet = False  # nothing more is sent that nobody waits for
        self._lock = asyncio.Lock()
        self._early: list[e.AnyBody] = []
        self._early_taken: list[int] = []
        self._fenced: list[_Intended] = []
        self._leader: asyncio.Task[None] | None = None

    # -- append

    async def append(self, *bodies: e.AnyBody, taken: Sequence[int] = ()) -> int:
        """Number and fold these facts, in order; returns the last one's seq.

        Durable later, or at once if strict.
        """
        if self._lock.locked():
            self._early.extend(bodies)  # before anything is awaited: a fact is not lost to a cancellation
            self._early_taken.extend(taken)
        else:
            self._add(bodies, taken)
        if self._early or self._early_taken or self._is_full():
            async with self._lock:
                if self._is_full():
                    await self._answered(self.flush())
                self._add_early()
        if self.durability == "strict":
            await self.barrier()
        return self.record.seq

    async def decide(
        self, make: Callable[[RunRecord], Sequence[e.AnyBody]], *, taken: Sequence[int] = ()
    ) -> int:
        """Append what `make` says of the run as it is when its facts get their numbers: nothing can come
        between. `make` is called once, and perhaps only after a wait.
        """
        if self._lock.locked() or self._early or self._early_taken or self._is_full():
            async with self._lock:
                if self._is_full():
                    await self._answered(self.flush())
                self._add_early()
                self._add(make(self.record), taken)
        else:
            self._add(make(self.record), taken)
        if self.durability == "strict":
            await self.barrier()
        return self.record.seq

    def tell(self, change: RowChange) -> None:
        """What the run's row learns with the next events: what lists show (`info`, `asks`), the `version`."""
        known = self._told or RowChange()
        named = {name: getattr(change, name) for name in ("info", "version", "asks")}
        self._told = replace(known, **{name: said for name, said in named.items() if said is not None})
        self._linger(self.clock.monotonic())

    def _linger(self, now: float) -> None:
        """Send what is there after a while."""
        self._since = now
        self.lingering.add(self, now)

    def lingered(self, since: float) -> None:
        """See `Lingering`. What has been sent since then left what came later for another time."""
        if not self._quiet and (since == self._since or self._told is not None):
            self.flush()

    def _is_full(self) -> bool:
        return self._unacked >= UNACKED_EVENTS or self._unacked_bytes + self._pending_bytes >= UNACKED_BYTES

    def append_soon(self, *bodies: e.AnyBody) -> None:
        """Like append, for a caller that cannot wait: the facts precede every later append."""
        if self._lock.locked():
            self._early.extend(bodies)
        else:
            self._add(bodies, ())

    def _add_early(self) -> None:
        """Number what was appended while a write apart was under way."""
        if self._early or self._early_taken:
            self._add((), ())

    def _add(self, bodies: Sequence[e.AnyBody], taken: Sequence[int]) -> None:
        now = self.clock.monotonic()
        if not self._pending:
            self._linger(now)
        self._queue(bodies, taken)
        if (
            now - self._since >= LINGER_SECONDS
            or self._told is not None  # lists show it soon
            or len(self._pending) >= PENDING_EVENTS
            or self._pending_bytes >= PENDING_BYTES
        ):
            self.flush()

    def _queue(self, bodies: Sequence[e.AnyBody], taken: Sequence[int]) -> None:
        if self._early or self._early_taken:
            bodies, taken = (*self._early, *bodies), (*self._early_taken, *taken)
            self._early, self._early_taken = [], []
        if self.failure is not None:
            self.refused.extend(filter(None, map(self._receipt, bodies)))
            raise self.failure
        for body in bodies:
            receipt = self._receipt(body) if type(body) is e.CallSettled and body.head is None else None
            self._pending.append(self._encode(body))
            if receipt is not None:
                self._pending_receipts.append(receipt)
                self._vital = True
            elif type(body) in VITAL:
                self._vital = True
        if taken:
            self._pending_taken.extend(taken)
            self._taken = max(self._taken, *taken)

    def _receipt(self, body: e.AnyBody) -> Receipt | None:
        """The fact and the act whose outcome it is, if it is one."""
        if type(body) is not e.CallSettled or body.head is not None:
            return None
        call = self.record.calls[body.path]
        return None if call.effect == "read" else (body, call)

    def _encode(self, body: e.AnyBody, *, whole: bool = False) -> Stored:
        """Number, fold, frame and chain one fact. `whole`: large values stay in the frame."""
        if KNOWN.forms:
            body = behind_wall(body)
        event = e.Event(self.record.seq + 1, self.clock.now(), self.epoch, body)
        try:
            data = codec.pack(event)
        except UnicodeEncodeError:  # a note that is no proper text must not keep its fact from being written
            body = legible(body)
            event = e.Event(event.seq, event.at, event.epoch, body)
            data = codec.pack(event)
        record = fold(self.record, event, codec.decode)
        if len(data) > BLOB_BYTES and not whole:
            slim, blobs = outline(body)
            self._pending_blobs.extend(blobs)
            self._pending_bytes += sum([len(blob.data) for blob in blobs])
            data = codec.pack(e.Event(event.seq, event.at, event.epoch, slim))
        self.record = record
        if not self._moved:
            self._moved = is_progress(body)
        if type(body) is e.CallIntended:
            if body.head.effect != "read":
                self._acting.add(body.path)
        elif self._acting and isinstance(body, ENDS_ACT):
            self._acting.discard(body.path)
        digest = self._digest = codec.chain(self._digest, data)
        size = len(data)
        self._pending_bytes += size
        self._tail_bytes += size
        return Stored(event.seq, data, digest)

    # -- flush and barrier

    def flush(self, *, urgent: bool = False) -> asyncio.Future[Appended] | None:
        """Hand what has gathered to the store; returns the newest future, or None if nothing was ever sent.

        `urgent`: the run waits for it.
        """
        if self._apart:  # what comes behind it has no number yet
            return self._last
        if (self._pending or self._pending_taken or self._told) and self.failure is None:
            events, blobs, taken = self._take()
            batch = Batch(
                self.run_id, self.epoch, self._sent, events, blobs=blobs, taken=taken, urgent=urgent
            )
            self._send(batch)
        return self._last

    def _take(self) -> tuple[tuple[Stored, ...], tuple[Blob, ...], tuple[int, ...]]:
        """The events, large values and taken messages that have gathered."""
        parts = tuple(self._pending), tuple(self._pending_blobs), tuple(self._pending_taken)
        self._pending.clear()
        self._pending_blobs.clear()
        self._pending_taken.clear()
        self._pending_bytes = 0
        return parts

    def _send(self, batch: Batch) -> asyncio.Future[Appended]:
        batch = self._marked(batch)
        self._mark(batch)
        count, receipts = len(batch.events), self._pending_receipts
        size = sum([len(event.data) for event in batch.events])
        size += sum([len(blob.data) for blob in batch.blobs]) if batch.blobs else 0
        self._pending_receipts = []
        self._sent += count
        self._unacked += count
        self._unacked_bytes += size
        self.commits += 1
        # While an act is under way its receipt is still to come, and must find what lies before it written.
        if self._vital or self._acting or not (batch.events or batch.snapshot):
            batch = replace(batch, reserve=True)
        self._vital = False
        future = self.store.append(batch)
        self._last = future
        if future.done():  # known at once, and not only when the loop has come round to it
            self._acknowledged(count, size, receipts, future)
        else:
            self._open[future] = ()
            future.add_done_callback(partial(self._acknowledged, count, size, receipts))
        return future

    def _marked(self, batch: Batch) -> Batch:
        """The batch, with what the run's row learns by it.

        From its first write on the run is running and claimable whenever it has no owner: should this process
        die, whatever the run was held or waiting for before is over (law 20). Claims count until a call is
        settled or a step is committed.
        """
        progress, self._telling = self._suspect and self._moved, self._told
        if batch.row is not None and self._told is not None and self._told.version is not None:
            batch = replace(batch, row=replace(batch.row, version=self._told.version))
        if batch.row is not None or (self._running and not progress and self._told is None):
            return batch
        change = replace(self._told or RowChange(), progress=progress)
        if not self._running:
            change = replace(change, status="running", due_at=0)
        return replace(batch, row=change)

    def _mark(self, batch: Batch) -> None:
        """The row has been told, or nothing more will be written."""
        self._running = True
        if self._told is self._telling:
            self._told = None
        if batch.row is not None and batch.row.progress:
            self._suspect = False

    def _acknowledged(
        self, count: int, size: int, receipts: list[Receipt], done: asyncio.Future[Appended]
    ) -> None:
        self._unacked -= count
        self._unacked_bytes -= size
        error = StoreError("the store gave up on a write") if done.cancelled() else done.exception()
        if error is None:
            self._hear(done.result())
        else:
            self._fail(error)
            self.refused.extend(receipts)
        self._wake(done)

    async def _answered(self, future: asyncio.Future[Appended] | None) -> None:
        """Return when the store has answered a write, and this journal knows of it; raises nothing of it."""
        if future not in self._open:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open[future] = (*self._open[future], waiter)
        self.waits += 1
        await waiter

    def _wake(self, done: asyncio.Future[Appended]) -> None:
        """Let those go on who wait for this write."""
        for waiter in self._open.pop(done, ()):
            if not waiter.done():
                waiter.set_result(None)

    def _hear(self, told: Appended) -> None:
        self.inbox, self.heard = max(self.inbox, told.inbox), self.clock.monotonic()

    def _fail(self, error: BaseException) -> None:
        """Nothing more can be written; the first reason is the one that counts."""
        self.failure = self.failure or error

    def is_durable(self, seq: int) -> bool:
        """Whether everything up to event `seq` is known to be durable."""
        return seq <= self._sent - self._unacked and self.failure is None

    async def barrier(self) -> None:
        """Return when everything appended so far is durable. Raises what the store refused it with."""
        if self._early or self._early_taken:
            async with self._lock:
                self._add_early()
        await self._answered(self.flush(urgent=True))
        if self.failure is not None:
            raise self.failure

    # -- fenced appends and transactional calls

    async def intend(self, bodies: Sequence[e.AnyBody], fences: Fences, *, alone: bool = False) -> None:
        """Append facts durably, or none of them if a fence no longer holds (InboxMoved, Expired).

        What several branches intend at the same time shares one commit, and one refusal. `alone`: the run has
        no other branch now, so that there is nobody to wait for.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if alone and not self._fenced and not self._lock.locked():
            async with self._lock:
                cancelled = await self._write_fenced([(tuple(bodies), fences, done)])
                self._add_early()
        else:
            self._fenced.append((tuple(bodies), fences, done))
            if self._leader is None or self._leader.done():
                # A task of its own: it begins when the other branches had their turn, and nobody cancels it.
                self._leader = asyncio.get_running_loop().create_task(self._lead())
                self._leader.add_done_callback(self._led)
            cancelled = await outlast(done)
        error = done.exception()
        if (error := cancelled or error) is not None:
            raise error

    async def _lead(self) -> None:
        async with self._lock:
            while self._fenced:
                group, self._fenced = self._fenced, []
                await self._write_fenced(group)
            self._add_early()

    def _led(self, leader: asyncio.Task[None]) -> None:
        """An event loop that ends cancels whatever it finds; nobody may be left waiting for this task."""
        if leader.cancelled():
            group, self._fenced = self._fenced, []
            for _, _, done in group:
                done.set_exception(StoreError("the event loop ended before an intent was written"))

    async def _write_fenced(self, group: list[_Intended]) -> asyncio.CancelledError | None:
        """Write what a group intends, and tell each of them. Returns a cancellation that came meanwhile."""
        saved = (self.record, self._digest, self._tail_bytes)
        cancelled: asyncio.CancelledError | None = None
        try:
            self._add_early()
            if not (group := self._unmoved(group)):
                return None
            self.flush()
            saved = (self.record, self._digest, self._tail_bytes)
            events = tuple(self._encode(body) for bodies, _, _ in group for body in bodies)
            blobs = self._take()[1]
            seen = [fences.inbox_seen for _, fences, _ in group if fences.inbox_seen is not None]
            until = [fences.not_after for _, fences, _ in group if fences.not_after is not None]
            batch = Batch(
                self.run_id,
                self.epoch,
                self._sent,
                events=events,
                blobs=blobs,
                inbox_seen=min(seen) if seen else None,
                not_after=min(until) if until else None,
                urgent=True,
            )
            error, cancelled = await self._try(batch)
        except Exception as failure:  # noqa: BLE001  (every branch must be told)
            error = failure
        if error is not None and (self.failure is None or leaves_whole(error)):
            self.record, self._digest, self._tail_bytes = saved
            self._pending_blobs = []
            intended = [body for bodies, _, _ in group for body in bodies]
            self._acting -= {body.path for body in intended if isinstance(body, e.CallIntended)}
        for _, _, done in group:
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(None)
        return cancelled

    def _unmoved(self, group: list[_Intended]) -> list[_Intended]:
        """Refuse at once what the store would: a message has been taken that an intent knew nothing of.

        What that message meant is in the record already, so that the intended facts may not even fold.
        """
        for _, fences, done in group:
            if fences.inbox_seen is not None and fences.inbox_seen < self._taken:
                what = f"message {self._taken} of run {self.run_id} was taken after {fences.inbox_seen}"
                done.set_exception(InboxMoved(what, run_id=self.run_id))
        return [one for one in group if not one[2].done()]

    async def _try(self, batch: Batch) -> tuple[BaseException | None, asyncio.CancelledError | None]:
        """Write one batch apart from the rest; a refused fence or a full disk leaves the journal usable.

        Returns why it was not written, and a cancellation that came meanwhile.
        """
        if self.failure is not None:
            return self.failure, None
        self.commits += 1
        batch = self._marked(batch)
        cancelled = await self._outlasted(future := self.store.append(batch))
        if (error := future.exception()) is None:
            self._hear(future.result())
            self._mark(batch)
            self._sent += len(batch.events)
        elif not leaves_whole(error):
            self._fail(error)
        return error, cancelled

    async def _outlasted(self, future: asyncio.Future[Appended]) -> asyncio.CancelledError | None:
        """Wait for a write during which nothing else is sent."""
        self._last, self._apart, self._open[future] = future, True, ()
        try:
            return await outlast(future)
        finally:
            self._apart = False
            self._wake(future)
            if self._told is not None:
                self._linger(self.clock.monotonic())

    async def transact(
        self, act: Callable[[Tx], Sequence[e.AnyBody]], *, seconds: float, fences: Fences
    ) -> tuple[e.AnyBody, ...]:
        """Run `act` inside the store's transaction, with every pending event and the facts that it returns.

        If it raises, nothing of it is kept and the error comes here; earlier events are durable either way.
        """
        async with self._lock:
            self._add_early()
            self.flush()
            if self.failure is not None:
                raise self.failure
            bodies: tuple[e.AnyBody, ...] = ()

            def inside(tx: Tx) -> Sequence[Stored]:
                nonlocal bodies
                bodies = tuple(act(tx))
                return [self._encode(body, whole=True) for body in bodies]

            saved = (self.record, self._digest, self._tail_bytes)
            batch = Batch(
                self.run_id,
                self.epoch,
                self._sent,
                act=inside,
                act_seconds=seconds,
                inbox_seen=fences.inbox_seen,
                not_after=fences.not_after,
            )
            batch = self._marked(batch)
            cancelled = await self._outlasted(future := self.store.append(batch))
            if (error := future.exception()) is not None:
                self.record, self._digest, self._tail_bytes = saved
                self._pending_bytes = 0
                if isinstance(error, StoreError) and not leaves_whole(error):
                    self._fail(error)
                else:
                    self._add_early()
                raise cancelled or error
            self._mark(batch)
            self._sent += len(bodies)
            self.commits += 1
            self._add_early()
            if cancelled is not None:
                raise cancelled
            return bodies

    # -- ends

    async def commit_step(self) -> bool:
        """To be called after a step.committed: waits for the disk if asked to, snapshots when due.

        Returns whether it did.
        """
        due = self._policy.due(
            self.record.step - self._snapshot_step,
            self.record.seq - self._snapshot_seq,
            self._tail_bytes,
            self._snapshot_bytes,
        )
        if due:
            async with self._lock:
                self._snapshot()
        if self.durability == "step":
            await self.barrier()
        return due

    def _snapshot(self) -> None:
        """Hand a snapshot to the store, in one write with what has gathered."""
        self._add_early()
        snapshot = pack_snapshot(self.record, self._digest)
        if KEPT.due(0, self._snapshot_seq - self._kept, self._kept_tail, self._snapshot_bytes):
            self._kept, self._kept_tail = self._snapshot_seq, 0
        self._kept_tail += self._tail_bytes
        self._snapshot_step, self._snapshot_seq = self.record.step, snapshot.seq
        self._snapshot_bytes, self._tail_bytes = len(snapshot.data), 0
        events, blobs, taken = self._take()
        batch = Batch(self.run_id, self.epoch, self._sent, events, blobs=blobs, taken=taken)
        self._send(replace(batch, snapshot=snapshot, kept=self._kept))

    async def close(self, change: RowChange, *bodies: e.AnyBody, outbox: Sequence[Message] = ()) -> None:
        """Append the last facts, change the run's row and give the lease back, in one durable commit."""
        async with self._lock:
            self._queue(bodies, ())  # without a flush: the last facts and the row are one write
            self._quiet = self.closed = True
            events, blobs, taken = self._take()
            batch = Batch(self.run_id, self.epoch, self._sent, events, change, blobs=blobs, taken=taken)
            batch = replace(batch, release=True, outbox=tuple(outbox), urgent=True)
            cancelled = await outlast(self._send(batch))
        if (error := self.failure or cancelled) is not None:
            raise error

    def abandon(self) -> None:
        """Send nothing more: the lease is lost, or the store failed."""
        self._quiet = True
