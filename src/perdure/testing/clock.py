"""Time that a test pushes.

A `MovableClock` stands still until it is moved; whoever sleeps by it wakes when it has been moved far enough.
Chance is drawn from a seed, so that a test is the same each time. It knows nothing but `perdure.clock`.
"""

from __future__ import annotations

import asyncio
import random

from perdure.clock import SECOND, Clock

START = 1_750_000_000 * SECOND
"""Where a movable clock begins, in microseconds since 1970."""


class MovableClock(Clock):
    """A clock that moves by `advance` and `set_back` alone."""

    def __init__(self, start: int = START, *, seed: int = 0) -> None:
        self._now = start
        self._elapsed = 0.0
        self._chance = random.Random(seed)
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> int:
        """The wall clock, in microseconds since the epoch, UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that were advanced so far."""
        return self._elapsed

    def random(self) -> float:
        """A float in [0, 1), the same ones for the same seed."""
        return self._chance.random()

    def new_id(self) -> str:
        """An id of 20 characters, the same ones for the same seed."""
        return f"{self._chance.getrandbits(100):020x}"[:20]

    def advance(self, seconds: float) -> None:
        """Let time pass; wakes whoever has slept long enough."""
        self._now += round(seconds * SECOND)
        self._elapsed += seconds
        for until, future in self._sleepers:
            if until <= self._elapsed and not future.done():
                future.set_result(None)
        self._sleepers = [sleeper for sleeper in self._sleepers if not sleeper[1].done()]

    def set_back(self, seconds: float) -> None:
        """Move the wall clock back, as an administrator might; the monotonic one stays."""
        self._now -= round(seconds * SECOND)

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has been advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._elapsed + seconds, future))
        try:
            await future
        finally:
            future.cancel()
