"""A thread apart with an event loop of its own, in which user code is executed that may never come back.

The caller's loop goes on meanwhile. Code that waits for ever is cancelled; code that computes for ever is
interrupted; a thread that cannot even be interrupted is left behind, and another one takes its place.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from perdure.runtime.caller import line_of_frame

T = TypeVar("T")

GRACE_SECONDS = 0.25
"""So much longer than it may take, a piece of work is waited for: its cancellation needs a moment."""


class TookTooLong(Exception):
    """The work did not end in time. `place`: file:line at which it was, empty if that is not known."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


class _Interrupt(BaseException):
    """Raised inside code that computes for ever."""


_Job = tuple[Callable[[], Coroutine[Any, Any, Any]], float, "Future[Any]"]


class Aside:
    """One thread at a time, begun when it is first needed. Use it in a `with` block."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._jobs is not None:
            self._jobs.put(None)
        self._jobs = None

    async def play(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        """What the work returns or raises. Raises TookTooLong after `seconds`."""
        if self._jobs is None:
            self._jobs = SimpleQueue()
            name = "perdure-aside"
            self._thread = threading.Thread(target=_serve, args=(self._jobs,), name=name, daemon=True)
            self._thread.start()
        done: Future[T] = Future()
        self._jobs.put((work, seconds, done))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(done), seconds + GRACE_SECONDS)
        except TimeoutError:
            raise TookTooLong(self._leave_behind()) from None

    def _leave_behind(self) -> str:
        """Interrupt the thread, which takes no more work; the place at which it was."""
        assert self._jobs is not None
        assert self._thread is not None
        ident = self._thread.ident
        frame = sys._current_frames().get(ident) if ident is not None else None
        place = line_of_frame(frame)
        del frame
        self._jobs.put(None)
        self._jobs = self._thread = None
        if ident is not None:
            import ctypes  # dear to load, and hardly ever needed

            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(_Interrupt))
        return place


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    """Do one job after the other, until there is none or one had to be interrupted."""
    loop = asyncio.new_event_loop()
    try:
        while (job := jobs.get()) is not None:
            work, seconds, done = job
            try:
                result = loop.run_until_complete(_bounded(work, seconds))
            except _Interrupt:
                return
            except BaseException as error:  # noqa: BLE001  (user code; the caller judges)
                _told(done, error)
            else:
                _told(done, None, result)
            _clear(loop)
    except _Interrupt:
        return
    finally:
        loop.close()


def _told(done: Future[Any], error: BaseException | None, result: Any = None) -> None:
    if not done.set_running_or_notify_cancel():
        return  # it came too late, and nobody waits for it
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


async def _bounded(work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
    task = asyncio.ensure_future(work())
    ended, _ = await asyncio.wait([task], timeout=seconds)
    if not ended:
        place = line_of_frame(_innermost(task))
        task.cancel()
        await asyncio.wait([task], timeout=GRACE_SECONDS / 2)
        raise TookTooLong(place)
    return task.result()


def _innermost(task: asyncio.Task[Any]) -> Any:
    """The user's frame at which a task waits: the last of its chain."""
    waits: Any = task.get_coro()
    frame = None
    while (here := getattr(waits, "cr_frame", None)) is not None:
        if line_of_frame(here, only=True):
            frame = here
        waits = waits.cr_await
    return frame


def _clear(loop: asyncio.AbstractEventLoop) -> None:
    """End what the work has left behind in the loop."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=GRACE_SECONDS))
