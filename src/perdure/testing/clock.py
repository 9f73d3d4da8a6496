"""Time that a test pushes.

A `MovableClock` stands still until it is moved; whoever sleeps by it wakes when it has been moved far enough.
A hurried one moves itself as soon as somebody sleeps, so that no wait takes real time. Chance is drawn from a
seed, so that a test is the same each time. It knows nothing but `perdure.clock`.
"""

from __future__ import annotations

import asyncio
import random

from perdure.clock import SECOND, Clock

START = 1_750_000_000 * SECOND
"""Where a movable clock begins, in microseconds since 1970."""

HURRY_SECONDS = 0.001
"""How long, in real time, a hurried clock lets others work before it moves to the next moment."""


class MovableClock(Clock):
    """A clock that moves by `advance` and `set_back` alone; a `hurried` one also by itself."""

    def __init__(self, start: int = START, *, seed: int = 0, hurried: bool = False) -> None:
        self.hurried = hurried
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
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._sleepers.append((self._elapsed + seconds, future))
        if self.hurried:
            loop.call_later(HURRY_SECONDS, self._hurry)
        try:
            await future
        finally:
            future.cancel()

    def _hurry(self) -> None:
        """Move to the moment for which the next sleeper waits."""
        waiting = [until for until, future in self._sleepers if not future.done()]
        if waiting:
            self.advance(max(min(waiting) - self._elapsed, 0.0))
