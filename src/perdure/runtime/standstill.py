"""A watch over the event loop: whoever blocks it stops every run of the process.

It looks and tells: a warning with the stack of the code that blocks; and while the loop stands still, it lets
somebody else keep the leases. Safety does not rest on it: a process that stood still learns before its next
act whether its lease is still its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

log = logging.getLogger("perdure.run")

STANDSTILL_SECONDS = 5.0
"""An event loop that has not turned for so long is told of; sooner where a lease would not last so long."""


_OURS = str(Path(__file__).parents[1]) + os.sep


def blocking(frame: FrameType) -> str:
    """What the loop stands in: the lines of whoever's code it is, without perdure's and the loop's own."""
    stack = traceback.extract_stack(frame)
    begun = max((at for at, one in enumerate(stack) if one.filename == asyncio.events.__file__), default=-1)
    theirs = [one for one in stack[begun + 1 :] if not one.filename.startswith(_OURS)]
    return "".join(traceback.format_list(theirs or stack))


class Standstill:
    """Watches the loop that it was begun in, from a thread of its own, until it is ended.

    `relieve` is called in that thread, each time it looks, with the seconds since the loop has turned.
    """

    def __init__(
        self, seconds: float = STANDSTILL_SECONDS, relieve: Callable[[float], object] | None = None
    ) -> None:
        self.seconds = seconds
        self._relieve = relieve
        self._turned = 0.0
        self._loop_thread = 0
        self._timer: asyncio.TimerHandle | None = None
        self._over: threading.Event | None = None

    def begin(self) -> None:
        """Watch the running loop. Twice is once."""
        if self._over is not None:
            return
        self._over = threading.Event()
        self._loop_thread = threading.get_ident()
        self._turn()
        loop, name = asyncio.get_running_loop(), "perdure-standstill"
        threading.Thread(target=self._watch, args=(loop, self._over), name=name, daemon=True).start()

    @property
    def stands(self) -> float:
        """For how long the loop has not turned, as far as is known; 0.0 while nothing is watched."""
        return time.monotonic() - self._turned if self._over is not None else 0.0

    def forget(self) -> None:
        """Watch no longer, in a process that has no thread of ours: a forked child."""
        self._over, self._timer = None, None

    def end(self) -> None:
        """Watch no longer."""
        if self._over is not None:
            self._over.set()
            self._over = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        self._turned = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(self.seconds / 5, self._turn)

    def _watch(self, loop: asyncio.AbstractEventLoop, over: threading.Event) -> None:
        told = 0.0
        while (
            not over.wait(self.seconds / 5) and not loop.is_closed()
        ):  # nobody may have said that it is over
            turned = self._turned
            if self._relieve is not None:
                self._relieve(time.monotonic() - turned)
            if time.monotonic() - turned < self.seconds or turned == told:
                continue
            told = turned
            frame = sys._current_frames().get(self._loop_thread)
            stack = blocking(frame) if frame is not None else ""
            log.warning(
                "the event loop has not turned for %g s: a step, or what it calls, blocks every run of this"
                " process; put it into a plain def tool, which runs in a thread\n%s",
                self.seconds,
                stack,
            )
