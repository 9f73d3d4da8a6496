"""One PostgreSQL database, shared by any number of processes on any number of machines.

The verbs of the contract, each handed to the thread that writes, to those that read and claim, or to the one
that listens. It knows no SQL and no bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg

from perdure.clock import SYSTEM, Clock
from perdure.errors import StoreReadOnly
from perdure.store import forks
from perdure.store.kept import MARK, Kept, Part
from perdure.store.postgres import anew, claims, keyed, keys, reads, schema
from perdure.store.postgres.address import parsed
from perdure.store.postgres.connection import (
    ANSWER_SECONDS,
    NOW,
    Connection,
    Link,
    check_durable,
    one,
    settings,
    translate,
)
from perdure.store.postgres.ear import Ear
from perdure.store.postgres.loads import Found, Loads
from perdure.store.postgres.signs import GRACE_SECONDS
from perdure.store.postgres.threads import Threads
from perdure.store.postgres.transaction import Release, Removal, Renewal, Work
from perdure.store.postgres.writer import Job, Outcome, Settings, Writer
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

__all__ = ["PostgresStore"]

T = TypeVar("T")

READERS = 4
"""Threads that read and claim, each with a connection once it is needed."""

CLOSE_SECONDS = 5.0
"""A store that is closed while its server is away waits so long for it, with what is still to be written."""

PATIENCE_SECONDS = 30.0
"""How long a broken connection is replaced before a verb fails for it."""

_inherited: list[object] = []  # in a forked child: what is the parent's is never closed here


class PostgresStore(ThreadedStore[Connection]):
    """Runs in one PostgreSQL database. See docs/stores.md for its settings and limits.

    Time is the database's unless a clock other than the machine's is given. With `look=True` it only reads.
    A commit that is not answered within `answer_seconds` counts as one whose answer was lost.
    """

    _reads = reads

    def __init__(
        self,
        url: str,
        *,
        clock: Clock = SYSTEM,
        value_bytes: int = VALUE_BYTES,
        patience_seconds: float = PATIENCE_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        look: bool = False,
    ) -> None:
        self._given_url = url
        self._address = parsed(url)
        super().__init__(self._address.shown, clock, value_bytes)
        self._given = None if clock is SYSTEM else clock.now
        self._ahead = 0  # of the machine's clock, in microseconds
        self._patience_seconds = patience_seconds
        self._answer_seconds = answer_seconds
        self._grace_seconds = grace_seconds
        self._scan = keyed.Scan()
        self._only_looks = look
        self._synced = False
        self._facts: dict[str, str] = {}
        self._link: Link | None = None
        self._writer: Writer | None = None
        self._threads: Threads | None = None
        self._ear: Ear | None = None
        self._loads = Loads(self._load)
        self._mark = 1
        self._number = 0
        self._commits = 0
        self._waiting = 0
        self._changed = asyncio.Event()

    def now(self) -> int:
        """The database's clock as this process last saw it, or the given one."""
        return self._clock.now() + (0 if self._given else self._ahead)

    # -- opening and closing

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        super()._bind(loop)
        self._changed = asyncio.Event()
        self._loads = Loads(self._load)
        self._waiting = 0

    def _connect(self) -> None:
        link = Link(
            self._address,
            look=self._only_looks,
            patience_seconds=self._patience_seconds,
            answer_seconds=self._answer_seconds,
        )
        try:
            connection = link.open()
            try:
                self._check(connection)
            finally:
                connection.close()
        except BaseException:
            link.limit.close()
            raise
        self._link = link
        self._threads = Threads(link, READERS, "perdure-reader")
        self._ear = Ear(link, self._given, self._heard, grace_seconds=self._grace_seconds, look=self._looks())
        if not self._looks():
            common = Settings(self._given, self._synced, self.value_bytes)
            self._writer = Writer(link, common, self._settle)
        forks.watch(self)

    def _looks(self) -> bool:
        return self._only_looks or self._read_only is not None

    def _check(self, connection: Connection) -> None:
        shown = self._address.shown
        self._read_only = None
        try:
            if self._only_looks:
                self._read_only = StoreReadOnly(
                    f"{shown} was opened to look only", remedy="open it without look=True to write", url=shown
                )
                schema.check_readable(connection, shown)
            else:
                self._synced = check_durable(connection, shown)
                schema.make(connection, shown)
                self._read_only = schema.missing_right(connection, shown)
            check_mark(self.url, keys.find(connection, MARK), sealed=self.sealed)
            self._facts = settings(connection)
            before = self._clock.now()
            theirs = int(one(connection.execute(f"SELECT {NOW}"))[0])
            self._ahead = theirs - (before + self._clock.now()) // 2
        except psycopg.Error as error:
            raise translate(error, shown) from error

    def twin(self) -> Store:
        return PostgresStore(
            self._given_url,
            clock=self._clock,
            value_bytes=self.value_bytes,
            patience_seconds=self._patience_seconds,
            answer_seconds=self._answer_seconds,
            grace_seconds=self._grace_seconds,
        )

    async def _closing(self) -> None:
        self._wake()

    def _disconnect(self) -> None:
        if self._link is not None:
            self._link.close_within(CLOSE_SECONDS)
        if self._writer is not None:
            self._writer.close()
        if self._link is not None:
            self._link.closing.set()
        if self._threads is not None:
            self._threads.close()
        if self._ear is not None:
            self._ear.close()
        if self._link is not None:
            self._link.limit.close()
        self._writer = self._threads = self._ear = self._link = None

    # -- forks

    def after_in_child(self) -> None:
        """See `forks.Forkable`."""
        _inherited.extend((self._writer, self._threads, self._ear, self._link))
        self._writer = self._threads = self._ear = self._link = None
        super().after_in_child()

    # -- writing

    def _put(self, job: Job) -> None:
        if self._read_only is not None:
            raise self._read_only
        assert self._writer is not None
        self._writer.put(job)

    async def _write(self, work: Work, size: int = 0) -> Any:
        self._ready()
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()
        self._put(Job(work, future, size))
        return await future

    def _settle(self, outcomes: list[Outcome], number: int) -> None:
        """Called in a writer's thread; one call into the loop for the whole commit."""
        loop = self._loop
        if loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(self._settled, outcomes, number)

    def _settled(self, outcomes: list[Outcome], number: int) -> None:
        self._fulfil(outcomes)
        self._wrote(number)

    def _wrote(self, number: int) -> None:
        """Our own commit: who waits here is woken once for it, not again when its number is seen."""
        if number == self._number + 1:
            self._number = number
        if number:
            self._commits += 1
            self._wake()

    def _wake(self) -> None:
        self._mark += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def create(self, run: NewRun) -> tuple[RunRow, bool]:
        check_run(run, self.value_bytes)
        size = sum(len(event.data) for event in run.events) + sum(len(blob.data) for blob in run.blobs)
        made: tuple[RunRow, bool] = await self._write(run, size)
        return made

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        try:
            self._ready()
            check_batch(batch, self.value_bytes)
            reads.check_id(batch.run_id)
            self._put(Job(batch, future, bytes_of(batch)))
        except Exception as error:  # noqa: BLE001 - every failure of an append is told by its future
            future.set_exception(error)
        return future

    async def deliver(self, message: Message) -> Delivered:
        check_message(message, self.value_bytes)
        reads.check_id(message.run_id)
        delivered: Delivered = await self._write(message, len(message.data))
        return delivered

    async def renew(self, worker: str, run_ids: Sequence[str], lease_seconds: float) -> frozenset[str]:
        kept: frozenset[str] = await self._write(Renewal(worker, tuple(run_ids), lease_seconds))
        return kept

    async def release(self, run_id: str, epoch: int) -> None:
        await self._write(Release(run_id, epoch))

    async def drop(self, run_id: str, tombstones: Sequence[bytes] = ()) -> bool:
        reads.check_id(run_id)
        removed: bool = await self._write(Removal(run_id, tuple(tombstones)))
        return removed

    async def compact(self, compaction: Compaction) -> None:
        check_compaction(compaction, self.value_bytes)
        reads.check_id(compaction.run_id)
        await self._write(compaction, len(compaction.base.data))

    async def key(self, run_id: str, make: bytes = b"") -> bytes | None:
        found = await self._read(lambda connection: keys.find(connection, run_id))
        if found is not None or not make:
            return found
        check_text(run_id)
        return await self._apart(lambda connection: keys.make(connection, run_id, make, synced=self._synced))

    async def erase(self, run_ids: Sequence[str]) -> None:
        ids = tuple(run_ids)
        await self._apart(lambda connection: keys.erase(connection, ids, synced=self._synced))

    async def sharers(self, run_id: str) -> tuple[str, ...]:
        return await self._read(lambda connection: keys.sharers(connection, run_id))

    async def scrub(self, *, whole: bool = False) -> bool:
        return await self._apart(lambda connection: keys.scrub(connection, whole=whole))

    async def swap(self, pairs: Sequence[tuple[Kept, Kept]], *, alone: bool = False) -> int:
        return await self._apart(
            lambda connection: anew.swap(connection, pairs, alone=alone, synced=self._synced)
        )

    async def _apart(self, writing: Callable[[Connection], T]) -> T:
        """Write in a transaction of its own that may be repeated: it does nothing a second time."""
        self._may_write()
        return await self._read(writing)

    async def claim(self, claim: Claim) -> tuple[Claimed, ...]:
        check_text(claim.worker)
        if claim.run_id is not None:
            reads.check_id(claim.run_id)
        self._may_write()
        assert self._link is not None
        how = claims.Claims(self._link, self._given, self._grace_seconds, self._scan, self._synced)
        claimed, number = await self._read(lambda connection: how.claim(connection, claim))
        self._wrote(number)
        return claimed

    async def enlist(self, worker: str) -> None:
        check_text(worker)
        self._may_write()
        assert self._ear is not None
        await asyncio.wrap_future(self._ear.enlist(worker))

    async def restore(self) -> int:
        self._may_write()
        assert self._link is not None
        how = claims.Claims(self._link, self._given, self._grace_seconds, self._scan, self._synced)
        seized, number = await self._read(how.restore)
        self._wrote(number)
        return seized

    # -- reading

    async def _read(self, reading: Callable[[Connection], T]) -> T:
        self._ready()
        assert self._threads is not None
        return await self._threads.run(reading)

    def _sight(self) -> reads.Sight:
        return reads.Sight(self.now(), self._ear.own if self._ear is not None else ())

    async def load(self, run_id: str) -> Loaded:
        self._ready()
        reads.check_id(run_id)
        return await self._loads.load(run_id)

    async def _load(self, run_ids: Sequence[str]) -> Found:
        return await self._read(lambda connection: reads.load(connection, run_ids, self._sight()))

    async def due(self, claim: Claim | None = None) -> int:
        wanted = claim or ANYTHING
        return await self._read(
            lambda connection: claims.due(connection, wanted, self._given, self._grace_seconds)
        )

    async def versions(self, agents: Sequence[str]) -> Mapping[str, frozenset[str]]:
        return await self._read(lambda connection: claims.versions(connection, agents))

    async def kept(self, part: Part, after: Kept | None = None) -> tuple[Kept, ...]:
        return await self._read(lambda connection: anew.read(connection, part, after))

    # -- changes

    async def changed(self, seen: int, timeout_seconds: float) -> int:
        self._saw(await self._read(reads.change))
        if self._mark != seen or timeout_seconds <= 0:
            return self._mark
        assert self._ear is not None
        self._waiting += 1
        self._ear.wait(True)
        waits = [
            asyncio.ensure_future(self._changed.wait()),
            asyncio.ensure_future(self._clock.sleep(timeout_seconds)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting -= 1
            if not self._waiting and self._ear is not None:
                self._ear.wait(False)
            for wait in waits:
                wait.cancel()
        return self._mark

    def _heard(self, number: int) -> None:
        """Called in the listening thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._saw, number)

    def _saw(self, number: int) -> None:
        """A change by anyone: its number, or 0 for one that has none."""
        if number == self._number:
            return
        if number:
            first, self._number = self._number == 0, number
            if first:
                return
        self._wake()

    async def stats(self) -> StoreStats:
        runs, sizes, dead = await self._read(reads.counts)
        return StoreStats(
            runs=runs,
            **sizes,
            wal_bytes=0,
            commits=self._commits,
            facts={**self._told(), "dead rows": dead},
        )

    def _told(self) -> dict[str, str]:
        assert self._link is not None
        assert self._ear is not None
        facts = {
            **self._facts,
            "schema": str(schema.SHAPE.version),
            "pooled": "yes" if self._link.pooled else "no",
            "listening": self._ear.state,
        }
        if self._read_only is not None:
            facts["read only"] = self._read_only.what
        return facts
