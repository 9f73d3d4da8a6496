"""Now, ids and chance: the only door to them.

Everything that reads the wall clock, measures time, draws a random number or makes an id takes a `Clock`, so
that a test can move time and repeat chance. Wall times are integers: microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time

SECOND = 1_000_000
"""Microseconds in a second."""

_SINCE_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # counts while the machine sleeps, too

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u


class Clock:
    """The machine's own clock and chance."""

    def now(self) -> int:
        """The wall clock, in microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that only go forward, for measuring how long something took.

        Where the machine can tell, those in which it slept are counted: a lease runs out meanwhile.
        """
        return time.monotonic() if _SINCE_BOOT is None else time.clock_gettime(_SINCE_BOOT)

    def random(self) -> float:
        """A float in [0, 1)."""
        return random.random()

    def new_id(self) -> str:
        """A new id of 20 characters: sorts by time of making, 50 random bits. Not a secret."""
        return _base32(self.now() // 1000, 10) + _base32(secrets.randbits(50), 10)

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass without blocking the event loop."""
        await asyncio.sleep(seconds)


def _base32(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


SYSTEM = Clock()
"""The clock that everything uses unless it is given another."""
