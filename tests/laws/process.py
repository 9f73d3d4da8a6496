"""A process of a simulated world: it dies, stands still, and reaches the store only while it lives.

Its tasks belong to it by their context. It knows nothing of the engine that runs in it.
"""

from __future__ import annotations

import asyncio
import random
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import Context, ContextVar
from typing import Any, Protocol, cast

from perdure.errors import StoreClosed
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Claimed, Store

process_scope: ContextVar[Process | None] = ContextVar("process", default=None)


class Place(Protocol):
    """What a process knows of its world."""

    chance: random.Random
    store: MemoryStore

    def note(self, batch: Any) -> None:
        """A batch was accepted."""

    def took(self, process: Process, claimed: Sequence[Claimed]) -> None:
        """A process was given these leases."""

    def start(self, coro: Coroutine[Any, Any, Any]) -> None:
        """Begin something that is no process's own."""


class Dead(BaseException):
    """The process that asks for something is dead."""


class Process:
    """One incarnation of a worker process."""

    def __init__(self, place: Place, name: str) -> None:

        self.name = name
        self.worker = ""
        self.dead = False
        self._loop = asyncio.get_running_loop()
        self.died_at = 0.0
        self.able_since = self._loop.time()  # alive, and not standing still
        self.tasks: set[asyncio.Task[Any]] = set()
        self._slow = SlowStore(place, self)
        self.store = cast(Store, self._slow)
        self.over = asyncio.Event()
        self._thawed = asyncio.Event()
        self._thawed.set()

    def kill(self) -> None:
        """From this moment it does nothing more."""
        self.dead = True
        self.died_at = self._loop.time()
        self.over.set()
        self._thawed.set()
        self._slow.fail()
        for task in self.tasks:
            task.cancel()

    def freeze(self, seconds: float) -> None:
        """It stands still for so long."""
        self._thawed.clear()
        self._loop.call_later(seconds, self._thaw)

    def _thaw(self) -> None:
        self.able_since = self._loop.time()
        self._thawed.set()

    @property
    def frozen(self) -> bool:
        """Whether it stands still now."""
        return not self._thawed.is_set()

    @types.coroutine
    def standing(self, coro: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The coroutine, resumed only while the process is not frozen."""
        value: Any = None
        error: BaseException | None = None
        while True:
            while self.frozen and not self.dead:
                try:
                    yield from self._thawed.wait().__await__()
                except BaseException as raised:  # noqa: BLE001  (a cancellation waits until the thaw, too)
                    error = raised
            try:
                awaited = coro.send(value) if error is None else coro.throw(error)
            except StopIteration as stop:
                return stop.value
            value, error = None, None
            try:
                value = yield awaited
            except GeneratorExit:
                coro.close()
                raise
            except BaseException as raised:  # noqa: BLE001  (handed on to the coroutine)
                error = raised


def task_factory(
    loop: asyncio.AbstractEventLoop, coro: Any, *, context: Context | None = None
) -> asyncio.Task[Any]:
    """Tasks belong to the process in whose context they are made."""
    process = process_scope.get() if context is None else context.get(process_scope)
    if process is None:
        return asyncio.Task(coro, loop=loop, context=context)
    task = asyncio.Task(process.standing(coro), loop=loop, context=context)
    process.tasks.add(task)
    task.add_done_callback(process.tasks.discard)
    task.add_done_callback(lambda _: coro.close())  # it may have been cancelled before it began
    return task


class SlowStore:
    """The way from one process to the store: writes in order, each after a while, none from the dead."""

    def __init__(self, place: Place, process: Process) -> None:
        self._place = place
        self._process = process
        self._queue: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._busy = False
        self._waiting: set[asyncio.Future[Any]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place.store, name)

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        """Others use it."""

    def append(self, batch: Any) -> asyncio.Future[Any]:
        """Queued, like every write."""
        return self._put(lambda: self._append(batch))

    def _append(self, batch: Any) -> asyncio.Future[Any]:
        future = self._place.store.append(batch)
        if future.exception() is None:
            self._place.note(batch)
        return future

    async def create(self, run: Any) -> Any:
        return await self._put(lambda: self._place.store.create(run))

    async def deliver(self, message: Any) -> Any:
        return await self._put(lambda: self._place.store.deliver(message))

    async def claim(self, claim: Any) -> Any:
        return await self._put(lambda: self._claim(claim))

    async def _claim(self, claim: Any) -> Any:
        claimed = await self._place.store.claim(claim)
        self._place.took(self._process, claimed)
        return claimed

    async def renew(self, worker: str, run_ids: Any, lease_seconds: float) -> Any:
        return await self._put(lambda: self._place.store.renew(worker, run_ids, lease_seconds))

    async def release(self, run_id: str, epoch: int) -> Any:
        return await self._put(lambda: self._place.store.release(run_id, epoch))

    def _put(self, verb: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        if self._process.dead:
            self.fail()
        else:
            self._queue.append((verb, future))
            self._next()
        return future

    def fail(self) -> None:
        """The process is dead: whatever of it still waits may unwind, and can do nothing."""
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(StoreClosed("this process is dead"))
                future.exception()

    def _next(self) -> None:
        if self._queue and not self._busy:
            self._busy = True
            wait = self._place.chance.choice((0.0, 0.0, 0.001, 0.02))
            asyncio.get_running_loop().call_later(wait, self._begin)

    def _begin(self) -> None:
        if self._process.dead:
            return
        if self._process.frozen:
            asyncio.get_running_loop().call_later(1.0, self._begin)
            return
        self._place.start(self._write())

    async def _write(self) -> None:
        verb, future = self._queue.popleft()
        try:
            value, error = await verb(), None
        except Exception as raised:  # noqa: BLE001  (it belongs to whoever asked)
            value, error = None, raised
        await asyncio.sleep(self._place.chance.choice((0.0, 0.0, 0.005)))
        if self._process.dead:
            return
        self._busy = False
        if future.done():  # whoever asked was cancelled
            pass
        elif error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
        self._next()
