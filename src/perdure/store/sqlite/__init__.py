"""One SQLite file on one machine, shared by any number of its processes.

The verbs of the contract, each handed to the thread that writes or the one that reads. It knows no SQL and no
bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from perdure.clock import SYSTEM, Clock
from perdure.errors import StoreReadOnly, StoreUnavailable
from perdure.store import forks
from perdure.store.kept import MARK, Kept, Part
from perdure.store.protocol import (
    Appended,
    Batch,
    Claim,
    Claimed,
    Compaction,
    Delivered,
    Loaded,
    Message,
    NewRun,
    RunRow,
    Store,
    StoreStats,
)
from perdure.store.sqlite import anew, claims, reads
from perdure.store.sqlite.connection import SCHEMA_VERSION, check_file, check_name, check_ours, missing_right
from perdure.store.sqlite.incarnation import Signs
from perdure.store.sqlite.place import BUSY_SECONDS, RESERVE_BYTES, Place, size_of
from perdure.store.sqlite.reader import Reader
from perdure.store.sqlite.transaction import Transaction
from perdure.store.sqlite.wal import empty_log
from perdure.store.sqlite.watch import Watch
from perdure.store.sqlite.writer import Job, Outcome, Writer
from perdure.store.standing import (
    VALUE_BYTES,
    check_batch,
    check_compaction,
    check_mark,
    check_message,
    check_run,
    check_text,
)
from perdure.store.threaded import ThreadedStore, bytes_of
from perdure.store.turns import ANYTHING

__all__ = ["SQLiteStore"]

T = TypeVar("T")

_LOOK_SECONDS = 0.5

BREATH_SECONDS = 0.005
"""The event loop turns at least so often while its own thread makes commits."""


class SQLiteStore(ThreadedStore[apsw.Connection]):
    """Runs in one SQLite file. See docs/stores.md for its settings and limits.

    With `look=True` it only reads and leaves no trace: no file beside the database is made, none is changed.
    """

    _reads = reads

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock = SYSTEM,
        busy_seconds: float = BUSY_SECONDS,
        reserve_bytes: int = RESERVE_BYTES,
        value_bytes: int = VALUE_BYTES,
        look: bool = False,
    ) -> None:
        where = os.path.realpath(Path(path).expanduser())
        super().__init__(f"sqlite:///{where}", clock, value_bytes)
        self.place = Place(where, busy_seconds, reserve_bytes)
        self._only_looks = look
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._watch: Watch | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._signs = Signs(self.place.workers)
        self._unsettled = 0  # jobs that were put and of which the loop has not heard yet
        self._last = ""  # the run that wrote last
        self._breath: float | None = None  # since when the loop has not turned for our commits

    def now(self) -> int:
        return self._clock.now()

    # -- opening and closing

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        super()._bind(loop)
        self._looking = None
        self._unsettled = 0
        self._breath = None

    def _rebind(self, loop: asyncio.AbstractEventLoop) -> None:
        super()._rebind(loop)
        self._make_watch()

    def _connect(self) -> None:
        check_file(self.place.path)
        check_name(self.place.path)
        self._read_only = None
        writer = self._open_writer()
        reader = Reader(self.place, quietly=writer is None)
        try:
            mark = reader.ask(lambda connection: reads.key(connection, MARK))
            check_mark(self.url, mark, sealed=self.sealed)
        except BaseException:
            reader.close()
            if writer is not None:
                writer.close()
            raise
        self._writer, self._reader = writer, reader
        self._make_watch()
        forks.watch(self)

    def _make_watch(self) -> None:
        assert self._reader is not None
        self._watch = Watch(self._reader, self._clock, self._signs)

    def _open_writer(self) -> Writer | None:
        """The writer, or None where this user may only read; then `_read_only` says why."""
        path = self.place.path
        if self._only_looks:
            what = f"{path} was opened to look only"
            self._read_only = StoreReadOnly(what, remedy="open it without look=True to write", path=path)
            return None
        if not self.place.writable():
            self._read_only = StoreReadOnly(f"{path} cannot be written: {missing_right(path)}", path=path)
            return None
        check_ours(path, self.place.busy_seconds)
        writer = Writer(self.place, self._clock, self._signs, self._settle)
        try:
            writer.open()
        except StoreReadOnly as error:
            self._read_only = error
            return None
        except OSError as error:
            what = f"the files of {path} cannot be made: {error.strerror}"
            raise StoreUnavailable(
                what, remedy=f"check the rights in {self.place.folder}", path=path
            ) from error
        return writer

    def twin(self) -> Store:
        place = self.place
        return SQLiteStore(
            place.path,
            clock=self._clock,
            busy_seconds=place.busy_seconds,
            reserve_bytes=place.reserve_bytes,
            value_bytes=self.value_bytes,
        )

    async def close(self) -> None:
        await super().close()
        if self._looking is not None:
            self._looking.cancel()

    async def _closing(self) -> None:
        if self._watch is not None:
            await self._watch.close()

    def _disconnect(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    # -- forks

    def before_fork(self, seconds: float) -> None:
        """See `forks.Forkable`."""
        for part in (self._writer, self._reader):
            if part is not None:
                part.still = part.quiet.acquire(timeout=seconds)

    def after_in_parent(self) -> None:
        """See `forks.Forkable`."""
        for part in (self._writer, self._reader):
            if part is not None and part.still:
                part.quiet.release()

    def after_in_child(self) -> None:
        """See `forks.Forkable`."""
        if self._writer is not None:
            self._writer.leave_to_parent()
        if self._reader is not None:
            self._reader.leave_to_parent()
        self._writer = self._reader = self._watch = None
        self._looking = None
        super().after_in_child()

    # -- writing

    def _put(self, job: Job) -> None:
        if self._read_only is not None:
            raise self._read_only
        assert self._writer is not None
        self._writer.put(job)
        self._unsettled += 1
        if self._looking is None:
            assert self._loop is not None
            self._looking = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = None
        if self._writer is not None and self._writer.busy() and self._loop is not None:
            self._writer.look()
            self._looking = self._loop.call_later(_LOOK_SECONDS, self._look)

    async def _write(self, work: Callable[[Transaction], T], *, size: int = 0, reserve: bool = False) -> T:
        self._ready()
        assert self._loop is not None
        future: asyncio.Future[T] = self._loop.create_future()
        self._put(Job(work, future, size, reserve))
        return await future

    def _settle(self, outcomes: list[Outcome], wrote: bool) -> None:
        """Called in the writer's thread; one call into the loop for the whole commit."""
        loop = self._loop
        if loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(self._settled, outcomes, wrote)

    def _settled(self, outcomes: list[Outcome], wrote: bool) -> None:
        self._unsettled = max(0, self._unsettled - len(outcomes))
        self._fulfil(outcomes)
        if wrote and self._watch is not None:
            self._watch.wake()

    async def create(self, run: NewRun) -> tuple[RunRow, bool]:
        check_run(run, self.value_bytes)
        size = sum(len(event.data) for event in run.events) + sum(len(blob.data) for blob in run.blobs)
        return await self._write(lambda tx: tx.create(run), size=size)

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        try:
            self._ready()
            check_batch(batch, self.value_bytes)
            job = Job(batch, future, bytes_of(batch), batch.reserve)
            alone, self._last = batch.run_id == self._last, batch.run_id
            if not (batch.urgent and alone and not job.alone and self._at_once(job)):
                self._put(job)
        except Exception as error:  # noqa: BLE001 - every failure of an append is told by its future
            future.set_exception(error)
        return future

    def _at_once(self, job: Job) -> bool:
        """Write a job here and now if it may be: its run wrote last, nobody else is waiting for a write, and
        the loop has turned lately. So one run that waits for each of its commits does not pay for handing
        them over, and many runs share theirs.
        """
        if self._unsettled or self._writer is None or self._loop is None or self._read_only is not None:
            return False
        now = time.monotonic()
        if self._breath is None:
            self._breath = now
            self._loop.call_soon(self._turned)
        elif now - self._breath >= BREATH_SECONDS:
            return False
        outcome = self._writer.write_now(job)
        if outcome is None:
            return False
        self._settled([outcome], wrote=outcome.error is None)
        return True

    def _turned(self) -> None:
        self._breath = None

    async def deliver(self, message: Message) -> Delivered:
        check_message(message, self.value_bytes)
        return await self._write(lambda tx: tx.deliver(message), size=len(message.data))

    async def claim(self, claim: Claim) -> tuple[Claimed, ...]:
        check_text(claim.worker)
        return await self._write(lambda tx: claims.Claims(tx, self._signs).claim(claim))

    async def enlist(self, worker: str) -> None:
        check_text(worker)
        await self._write(lambda tx: claims.Claims(tx, self._signs).enlist(worker))

    async def renew(self, worker: str, run_ids: Sequence[str], lease_seconds: float) -> frozenset[str]:
        ids = tuple(run_ids)
        return await self._write(lambda tx: claims.renew(tx, worker, ids, lease_seconds), reserve=True)

    async def release(self, run_id: str, epoch: int) -> None:
        await self._write(lambda tx: claims.release(tx, run_id, epoch), reserve=True)

    async def restore(self) -> int:
        return await self._write(lambda tx: claims.restore(tx, self._signs))

    async def drop(self, run_id: str, tombstones: Sequence[bytes] = ()) -> bool:
        left = tuple(tombstones)
        return await self._write(lambda tx: tx.drop(run_id, left), reserve=True)

    async def compact(self, compaction: Compaction) -> None:
        check_compaction(compaction, self.value_bytes)
        await self._write(lambda tx: tx.compact(compaction), size=len(compaction.base.data), reserve=True)

    async def key(self, run_id: str, make: bytes = b"") -> bytes | None:
        found = await self._read(lambda connection: reads.key(connection, run_id))
        if found is not None or not make:
            return found
        check_text(run_id)
        return await self._write(lambda tx: tx.key(run_id, make))

    async def erase(self, run_ids: Sequence[str]) -> None:
        ids = tuple(run_ids)
        await self._write(lambda tx: tx.erase(ids), reserve=True)

    async def sharers(self, run_id: str) -> tuple[str, ...]:
        return await self._read(lambda connection: reads.sharers(connection, run_id))

    async def scrub(self, *, whole: bool = False) -> bool:
        self._may_write()
        return await asyncio.to_thread(partial(empty_log, self.place, whole=whole))

    async def swap(self, pairs: Sequence[tuple[Kept, Kept]], *, alone: bool = False) -> int:
        def swapped(tx: Transaction) -> int:
            if alone:
                claims.check_alone(self._signs)
            return anew.swap(tx, pairs)

        return await self._write(swapped, size=sum(len(new.data) for _, new in pairs))

    # -- reading

    async def _read(self, reading: Callable[[apsw.Connection], T]) -> T:
        self._ready()
        assert self._reader is not None
        return await self._reader.run(reading)

    def _sight(self) -> reads.Sight:
        return reads.Sight(self.now(), self._signs)

    async def load(self, run_id: str) -> Loaded:
        return await self._read(lambda connection: reads.load(connection, run_id, self._sight()))

    async def due(self, claim: Claim | None = None) -> int:
        wanted = claim or ANYTHING
        return await self._read(lambda connection: claims.due(connection, wanted, self.now(), self._signs))

    async def versions(self, agents: Sequence[str]) -> Mapping[str, frozenset[str]]:
        return await self._read(lambda connection: claims.versions(connection, agents))

    async def changed(self, seen: int, timeout_seconds: float) -> int:
        self._ready()
        assert self._watch is not None
        return await self._watch.changed(seen, timeout_seconds)

    async def kept(self, part: Part, after: Kept | None = None) -> tuple[Kept, ...]:
        return await self._read(lambda connection: anew.read(connection, part, after))

    async def stats(self) -> StoreStats:
        runs, sizes = await self._read(reads.counts)
        return StoreStats(
            runs=runs,
            **sizes,
            file_bytes=max(size_of(self.place.path), 0),
            wal_bytes=max(size_of(self.place.path + "-wal"), 0),
            commits=0 if self._writer is None else self._writer.counts.commits,
            facts=self._facts(),
        )

    def _facts(self) -> dict[str, str]:
        facts = {
            "file": self.place.path,
            "sqlite": f"{apsw.sqlite_lib_version()}, from apsw {apsw.apsw_version()}",
            "schema": str(SCHEMA_VERSION),
        }
        if self._read_only is not None:
            facts["read only"] = self._read_only.what
        if self._writer is not None:
            facts.update(self._writer.facts())
        return facts
