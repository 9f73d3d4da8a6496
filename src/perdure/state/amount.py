"""How much: money, tokens, calls, steps and time, in whole numbers, so that sums are exact.

Money is counted in billionths of a US dollar, time in microseconds. Pure arithmetic: what an amount means (a
reservation, what was spent, what was added) is said by whoever holds it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

DOLLAR = 1_000_000_000
"""Billionths of a US dollar in one."""

Kind: TypeAlias = Literal["usd", "tokens", "calls", "steps", "micros"]
"""What a budget limits."""

KINDS: tuple[Kind, ...] = ("usd", "tokens", "calls", "steps", "micros")
"""In the order in which they are asked, and named."""


def billionths(usd: float) -> int:
    """US dollars in billionths, as the number is written: 0.15 is 150000000."""
    return int((Decimal(repr(usd)) * DOLLAR).to_integral_value())


class Amount(Struct, frozen=True, array_like=True, gc=False):
    """So much of each kind: `usd` in billionths of a dollar, `micros` in microseconds of executing time."""

    usd: int = 0
    tokens: int = 0
    calls: int = 0
    steps: int = 0
    micros: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.usd + other.usd,
            self.tokens + other.tokens,
            self.calls + other.calls,
            self.steps + other.steps,
            self.micros + other.micros,
        )

    def __sub__(self, other: Amount) -> Amount:
        return Amount(
            self.usd - other.usd,
            self.tokens - other.tokens,
            self.calls - other.calls,
            self.steps - other.steps,
            self.micros - other.micros,
        )

    def of(self, kind: Kind) -> int:
        """How much of one kind."""
        amount: int = getattr(self, kind)
        return amount


NOTHING = Amount()
"""None of anything."""


class Limits(Struct, frozen=True, array_like=True, gc=False):
    """The most of each kind; None where there is no limit.

    `own`: kinds that this run was given a limit of its own for; the others are its agent's.
    """

    usd: int | None = None
    tokens: int | None = None
    calls: int | None = None
    steps: int | None = None
    micros: int | None = None
    own: tuple[str, ...] = ()

    def of(self, kind: Kind) -> int | None:
        """The limit of one kind."""
        limit: int | None = getattr(self, kind)
        return limit

    @property
    def limited(self) -> tuple[Kind, ...]:
        """The kinds that have a limit."""
        return tuple(kind for kind in KINDS if self.of(kind) is not None)

    def raised(self, more: Amount) -> Limits:
        """These limits and `more`; what has no limit stays without one."""
        sums = {kind: limit + more.of(kind) for kind in KINDS if (limit := self.of(kind)) is not None}
        return Limits(**sums, own=self.own)

    def room(self, taken: Amount) -> dict[Kind, int]:
        """What is left of each limited kind when so much is taken; negative where more is."""
        return {kind: limit - taken.of(kind) for kind in KINDS if (limit := self.of(kind)) is not None}
