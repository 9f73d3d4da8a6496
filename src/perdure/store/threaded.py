"""What stores have in common whose work is done by threads: the event loop that they belong to, when they are
open, how the outcomes of a commit reach those who wait, and the verbs that one reading of the tables answers.

A store object belongs to the event loop that opened it; every process, and every other loop, opens its own. A
child of a fork gets a store that opens anew when it is next used. It knows no SQL, no driver and no bytes.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from perdure.clock import Clock
from perdure.errors import ForeignLoop, StoreClosed, StoreReadOnly
from perdure.store import forks
from perdure.store.protocol import Batch, Inbound, Query, RunRow, Snapshot, Store, Stored
from perdure.store.standing import told

T = TypeVar("T")
C = TypeVar("C")


class _Reads(Protocol):
    """A module of readings, each on a connection; rows are told as they look at one moment (its `Sight`)."""

    def row(self, connection: Any, run_id: str, sight: Any, /) -> RunRow: ...
    def read(self, connection: Any, run_id: str, after: int, limit: int, /) -> tuple[Stored, ...]: ...
    def snapshots(self, connection: Any, run_id: str, /) -> tuple[Snapshot, ...]: ...
    def snapshot(self, connection: Any, run_id: str, upto: int, /) -> Snapshot | None: ...
    def blob(self, connection: Any, run_id: str, digest: bytes, /) -> bytes: ...
    def inbox(self, connection: Any, run_id: str, after: int, /) -> tuple[Inbound, ...]: ...
    def tombstones(self, connection: Any, run_id: str, /) -> tuple[bytes, ...]: ...
    def sizes(self, connection: Any, run_ids: Sequence[str], /) -> Mapping[str, int]: ...
    def list_runs(self, connection: Any, query: Query, sight: Any, /) -> tuple[RunRow, ...]: ...


class _Job(Protocol):
    future: Any


class _Outcome(Protocol):
    @property
    def job(self) -> _Job: ...

    value: Any
    error: BaseException | None


class ThreadedStore(Store, Generic[C]):
    """A store whose verbs are handed to threads of its own, with connections of type `C`."""

    _reads: _Reads

    def __init__(self, url: str, clock: Clock, value_bytes: int) -> None:
        self.url = url
        self.value_bytes = value_bytes
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Lock | None = None
        self._state = "new"
        self._read_only: StoreReadOnly | None = None

    @abstractmethod
    def _connect(self) -> None:
        """Open connections and begin threads, or leave nothing behind."""

    @abstractmethod
    def _disconnect(self) -> None:
        """End the threads, once their work is done."""

    @abstractmethod
    async def _read(self, reading: Callable[[C], T]) -> T:
        """Read in a thread."""

    @abstractmethod
    def _sight(self) -> object:
        """How rows look now, for `_reads`."""

    async def _closing(self) -> None:
        """Whatever of this loop is to end before the threads do."""

    # -- opening and closing

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        if self._state == "open" and self._loop is not loop:
            self._rebind(loop)
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._state != "open":
                self._bind(loop)
                await asyncio.to_thread(self._connect)
                self._state = "open"

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._opening = asyncio.Lock()

    def _rebind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None and not self._loop.is_closed():
            raise ForeignLoop(f"{self.url} was opened in another event loop", url=self.url)
        self._bind(loop)

    async def close(self) -> None:
        if self._opening is None:
            self._state = "closed"
            return
        async with self._opening:
            was, self._state = self._state, "closed"
            if was == "open":
                forks.unwatch(self)
                await self._closing()
                await asyncio.to_thread(self._disconnect)

    def _ready(self) -> None:
        """Raises StoreClosed, ForeignLoop."""
        loop = asyncio.get_running_loop()
        if self._state == "forked":
            self._bind(loop)
            self._connect()
            self._state = "open"
        if self._state != "open":
            raise StoreClosed(f"the store {self.url} is not open", url=self.url)
        if loop is not self._loop:
            self._rebind(loop)

    def _may_write(self) -> None:
        """Raises StoreReadOnly, and what `_ready` raises."""
        self._ready()
        if self._read_only is not None:
            raise self._read_only

    # -- forks

    def before_fork(self, seconds: float) -> None:
        """See `forks.Forkable`."""

    def after_in_parent(self) -> None:
        """See `forks.Forkable`."""

    def after_in_child(self) -> None:
        """See `forks.Forkable`."""
        self._loop = self._opening = None
        self._state = "forked"

    # -- what became of writes

    def _fulfil(self, outcomes: Sequence[_Outcome]) -> None:
        for outcome in outcomes:
            future: asyncio.Future[Any] = outcome.job.future
            # Nobody waits for what was cancelled, or in a loop that has ended.
            if future.done() or future.get_loop().is_closed():
                continue
            if outcome.error is None:
                future.set_result(outcome.value)
            else:
                future.set_exception(told(outcome.error))

    # -- reading

    async def row(self, run_id: str) -> RunRow:
        return await self._read(lambda connection: self._reads.row(connection, run_id, self._sight()))

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> tuple[Stored, ...]:
        return await self._read(lambda connection: self._reads.read(connection, run_id, after, limit))

    async def snapshots(self, run_id: str) -> tuple[Snapshot, ...]:
        return await self._read(lambda connection: self._reads.snapshots(connection, run_id))

    async def snapshot(self, run_id: str, upto: int) -> Snapshot | None:
        return await self._read(lambda connection: self._reads.snapshot(connection, run_id, upto))

    async def blob(self, run_id: str, digest: bytes) -> bytes:
        return await self._read(lambda connection: self._reads.blob(connection, run_id, digest))

    async def inbox(self, run_id: str, after: int = 0) -> tuple[Inbound, ...]:
        return await self._read(lambda connection: self._reads.inbox(connection, run_id, after))

    async def tombstones(self, run_id: str) -> tuple[bytes, ...]:
        return await self._read(lambda connection: self._reads.tombstones(connection, run_id))

    async def sizes(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        ids = tuple(run_ids)
        return await self._read(lambda connection: self._reads.sizes(connection, ids))

    async def list(self, query: Query) -> tuple[RunRow, ...]:
        return await self._read(lambda connection: self._reads.list_runs(connection, query, self._sight()))


def bytes_of(batch: Batch) -> int:
    """The bytes that a batch has a store write; its messages are not counted."""
    size = sum([len(event.data) for event in batch.events])
    if batch.snapshot is not None:
        size += len(batch.snapshot.data)
    return size + sum([len(blob.data) for blob in batch.blobs]) if batch.blobs else size
