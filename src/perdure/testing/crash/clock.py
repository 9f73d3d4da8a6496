"""A clock that runs fast, the same in every process of one trial.

A crash test waits for real timers and real grace periods, only sooner. Unlike a movable clock it needs
nobody to push it, so that it works in a process that is about to be killed. It can be put forward for all
processes at once (a lease runs out) through a file that they share.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import time
from pathlib import Path

from perdure.clock import SECOND, Clock

SPEED = 40.0
"""Seconds of this clock in one real second, unless a trial says otherwise."""


class HurriedClock(Clock):
    """Time at `speed`, counted from the moment when `folder` got its first clock."""

    def __init__(self, folder: Path, speed: float = SPEED) -> None:
        self._speed = speed
        path = folder / "clock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(fd).st_size < 16:
                os.write(fd, struct.pack("<qd", time.time_ns() // 1000, 0.0))
            self._shared = mmap.mmap(fd, 16)
        finally:
            os.close(fd)

    def _real(self) -> tuple[int, float]:
        start, ahead = struct.unpack("<qd", self._shared[:16])
        return int(start), float(ahead)

    def now(self) -> int:
        """The trial's wall clock, in microseconds since the epoch, UTC."""
        start, ahead = self._real()
        return round(start + (time.time_ns() // 1000 - start) * self._speed + ahead * SECOND)

    def monotonic(self) -> float:
        """The trial's seconds; a clock that is put forward is put forward for this one too."""
        return time.monotonic() * self._speed + self._real()[1]

    def put_forward(self, seconds: float) -> None:
        """Let `seconds` pass for every process of the trial, at once. Who sleeps already sleeps on."""
        start, ahead = self._real()
        self._shared[:16] = struct.pack("<qd", start, ahead + seconds)

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` of the trial pass."""
        await asyncio.sleep(seconds / self._speed)
