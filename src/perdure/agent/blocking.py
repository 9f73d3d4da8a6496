"""The blocking door: a coroutine run to its end from code without an event loop, and Ctrl+C meanwhile.

The first Ctrl+C cancels: what is in flight comes to an end that is known, and the lease is given back. The
second ends the process as a kill would, which loses nothing that is durable. `asyncio.run` raises the second
one inside the event loop instead, where it can take a task's wake-up with it, and the process never ends.
Knows no agent and no run.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, Self, TypeVar

from perdure.errors import LoopEnded

T = TypeVar("T")


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run it in an event loop of its own. Raises what it raises, KeyboardInterrupt where Ctrl+C ended it,
    LoopEnded where something in it did.
    """
    with _Interrupts() as interrupts, asyncio.Runner() as runner:
        try:
            return runner.run(interrupts.end(work))
        except asyncio.CancelledError as error:
            if interrupts.came:
                raise KeyboardInterrupt from None
            raise LoopEnded("code in it has cancelled the run's own task") from error
        except RuntimeError as error:
            if was_stopped(error):
                raise LoopEnded("code in it has stopped the event loop") from error
            raise


def was_stopped(error: BaseException) -> bool:
    """Whether this is what asyncio raises when its loop was stopped too early."""
    return isinstance(error, RuntimeError) and str(error).startswith("Event loop stopped before")


class _Interrupts:
    """Ctrl+C, while the block runs; left alone where somebody else takes care of it."""

    def __init__(self) -> None:
        self.came = False
        self._task: asyncio.Task[Any] | None = None
        self._ours = False

    def __enter__(self) -> Self:
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._come)
            self._ours = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    async def end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work as what an interrupt cancels."""
        self._task = asyncio.current_task()
        if self.came and self._task is not None:
            self._task.cancel()
        return await work

    def _come(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
