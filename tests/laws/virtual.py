"""Virtual time: an event loop that jumps to its next timer, and a clock that reads it.

Hours of leases and timers run in milliseconds, and the same seed gives the same run to the last event. A
loop on which nothing is ready and no timer is set is a deadlock, and says so.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from perdure.clock import SECOND, Clock
from perdure.testing.clock import START

T = TypeVar("T")


class Deadlock(Exception):
    """Everything waits and nothing will happen."""


class Endless(Exception):
    """So much has happened that it will hardly ever end."""


LOOK_EVERY = 64
"""How often a virtual loop asks the system whether something came from outside."""

TURNS = 200_000
"""How often a virtual loop turns before it is called endless; hard worlds end within a tenth of it."""


class _Selector(selectors.SelectSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Nothing comes from outside but by another thread; then it can wait for the end of what is ready.
        ready = super().select(0) if timeout is None or self.loop.turns % LOOK_EVERY == 0 else []
        self.loop.turns += 1
        if self.loop.turns % TURNS == 0:  # and again so many, to be closed in
            raise Endless(f"{TURNS} turns and no end")
        if not ready and timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        if not ready and timeout:
            self.loop.elapsed += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is counted, not measured."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.turns = 0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """Virtual seconds since the loop was made; a little more each time, so that timers keep their
        order.
        """
        return self.elapsed


class LoopClock(Clock):
    """The clock of a virtual loop; chance comes from a seed."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self._loop = loop
        self._chance = random.Random(seed)

    def now(self) -> int:
        """Microseconds since the epoch."""
        return START + round(self._loop.elapsed * SECOND)

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self._loop.elapsed

    def random(self) -> float:
        """The seed's next."""
        return self._chance.random()

    def new_id(self) -> str:
        """The seed's next."""
        return f"{self._chance.getrandbits(80):020x}"

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)


def run_virtually(main: Coroutine[Any, Any, T], loop: VirtualLoop) -> T:
    """Run a coroutine to its end on a virtual loop, and close the loop."""
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
