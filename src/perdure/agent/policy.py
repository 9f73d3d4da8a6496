"""What an agent or a tool declares about money, patience and people: plain frozen records.

They say what is allowed; whether a call keeps to it is decided elsewhere, from the run's record. A value that
cannot work is refused here, when it is made. Knows nothing of tools, runs or time.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from enum import Enum
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from perdure.clock import SECOND
from perdure.errors import BadSetting
from perdure.state.amount import DOLLAR, KINDS, Limits, billionths

Durability: TypeAlias = Literal["effects", "step", "strict"]
"""What waits for the disk besides effects: nothing, the end of each step, or every event."""

DURABILITIES: tuple[Durability, ...] = ("effects", "step", "strict")
"""The durabilities, from the lightest to the heaviest."""


def is_a(value: object, kind: type | tuple[type, ...]) -> bool:
    """`isinstance` for what a declared type promises already: not every caller runs a type checker."""
    return isinstance(value, kind)


def is_callable(value: object) -> bool:
    """`callable`, likewise."""
    return callable(value)


class Budget(Struct, frozen=True):
    """The most that a run may use; None means no limit of that kind.

    `usd` in US dollars, to the billionth; `tokens` input and output together; `steps` as they are committed;
    `calls` as they are made, retries included; `seconds` of executing time (waits do not count). Raises
    BadSetting for a limit that is negative, or no number that can be reached.
    """

    usd: float | None = None
    tokens: int | None = None
    steps: int | None = None
    calls: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if limit is not None and not 0 <= limit < float("inf"):
                raise BadSetting(
                    f"Budget({name}={limit!r}): a limit is a number of at least 0, or None for none"
                )

    def limits(self, beside: Budget | None = None) -> Limits | None:
        """In whole numbers; where this sets no limit, that of `beside`, the agent's. None: no limit."""
        own = _whole(self)
        both = {**({} if beside is None else _whole(beside)), **own}
        return Limits(**both, own=tuple(kind for kind in KINDS if kind in own)) if both else None


def _whole(budget: Budget) -> dict[str, int]:
    given = {
        "usd": None if budget.usd is None else billionths(budget.usd),
        "tokens": budget.tokens,
        "calls": budget.calls,
        "steps": budget.steps,
        "micros": None if budget.seconds is None else round(budget.seconds * SECOND),
    }
    return {kind: limit for kind, limit in given.items() if limit is not None}


class Price(Struct, frozen=True):
    """What a model costs, in US dollars per million tokens."""

    input: float
    output: float

    def __post_init__(self) -> None:
        if not (0 <= self.input < float("inf") and 0 <= self.output < float("inf")):
            raise BadSetting(f"{self!r}: prices are US dollars per million tokens, at least 0")

    def cost(self, usage: Usage) -> int:
        """Billionths of a US dollar for this usage, rounded up."""
        per_million = [Decimal(repr(price)) for price in (self.input, self.output)]
        total = per_million[0] * usage.input_tokens + per_million[1] * usage.output_tokens
        return int((total * (DOLLAR // 1_000_000)).to_integral_value(ROUND_CEILING))


class Usage(Struct, frozen=True):
    """What one model call used, in tokens."""

    input_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if not (self.input_tokens >= 0 and self.output_tokens >= 0):
            raise BadSetting(f"{self!r}: token counts are at least 0")


class Retry(Struct, frozen=True):
    """How often a definite failure is tried; between tries `backoff` seconds, doubled each time.

    `attempts` counts the first one too. The wait never exceeds `backoff_max` seconds.
    """

    attempts: int = 3
    backoff: float = 1.0
    backoff_max: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or not (self.backoff >= 0 and self.backoff_max >= 0):
            raise BadSetting(f"{self!r}: attempts is at least 1, waits are at least 0 seconds")

    def delay(self, attempt: int) -> float:
        """Seconds to wait after attempt number `attempt` (from 1) has failed."""
        return min(self.backoff * 2.0 ** min(attempt - 1, 1000), self.backoff_max)


class Rate(Struct, frozen=True):
    """At most `n` calls in any span of `per`."""

    n: int
    per: timedelta

    def __post_init__(self) -> None:
        if self.n < 1 or self.per <= timedelta(0):
            raise BadSetting(f"{self!r}: at least 1 call in a span longer than 0")


class Forever(Enum):
    """The length of a wait without an end. It must be written out: `timeout=perdure.FOREVER`."""

    FOREVER = "for ever"


FOREVER: Final = Forever.FOREVER
"""No deadline: only what is waited for, or a cancel, ends the wait."""

Patience: TypeAlias = timedelta | float | Forever | None
"""How long a wait lasts at most: a time (seconds if a number), FOREVER, or None for the agent's limit."""

Expiry: TypeAlias = Literal["raise", "deny"]
"""What the end of a wait does that declares no default: raise WaitExpired, or answer no (False)."""


class Principal(Struct, frozen=True):
    """Who acts or decides: an identity and its roles."""

    id: str
    roles: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if is_a(self.roles, str):
            raise BadSetting(f"Principal(roles={self.roles!r}): roles is a set of names, not one string")
        force_setattr(self, "roles", frozenset(self.roles))


class ApprovalRequest(Struct, frozen=True):
    """What a person is asked to permit: one call with exactly these arguments, until `expires` (UTC)."""

    id: str
    run_id: str
    tool: str
    args: dict[str, Any]
    expires: datetime


OnExpiry: TypeAlias = Literal["deny", "ask", "hold"]
"""What becomes of a call when nobody decides in time: it fails, asks again, or holds its run."""


class Approval(Struct, frozen=True):
    """A call that needs a person's permission.

    `when` takes the tool's arguments by name and says whether this call needs it (None: always). `expires` is
    how long the request stays open (None: the agent's wait limit); a permission that was given in time must
    be used within as long again. `by` is the role that may decide, or a plain function of the principal and
    the request. `notify` is an idempotent tool that takes the request and tells people. `quorum`: how many
    different people must agree. `expiry`: when nobody decides in time, the call fails (A401), asks again,
    or holds the run.
    """

    when: Callable[..., bool] | None = None
    expires: timedelta | None = None
    by: str | Callable[[Principal, ApprovalRequest], bool] | None = None
    notify: Callable[[ApprovalRequest], Awaitable[object]] | None = None
    quorum: int = 1
    expiry: OnExpiry = "deny"

    def __post_init__(self) -> None:
        if self.expires is not None and self.expires <= timedelta(0):
            raise BadSetting(f"Approval(expires={self.expires!r}): the time to decide is longer than 0")
        if not is_a(self.quorum, int) or self.quorum < 1:
            raise BadSetting(f"Approval(quorum={self.quorum!r}): at least 1 person decides")
        if self.expiry not in get_args(OnExpiry):
            raise BadSetting(f"Approval(expiry={self.expiry!r}): one of {', '.join(get_args(OnExpiry))}")
        if self.by is not None and not (is_callable(self.by) or (is_a(self.by, str) and self.by)):
            raise BadSetting(f"Approval(by={self.by!r}): a role, or a function of principal and request")
        if inspect.iscoroutinefunction(self.by):
            raise BadSetting("Approval(by=) is async: its answer would always be a yes; write a plain def")


class Hybrid(Struct, frozen=True):
    """Snapshots between events: after `every` steps, or so that a resume reads within `resume_within`.

    Exactly one of the two is given. What the promise covers: docs/past.md.
    """

    every: int | None = None
    resume_within: timedelta | None = None

    def __post_init__(self) -> None:
        if (self.every is None) == (self.resume_within is None):
            raise BadSetting("Hybrid takes exactly one of every=STEPS and resume_within=timedelta(...)")
        if self.every is not None and self.every < 1:
            raise BadSetting(f"Hybrid(every={self.every!r}): at least 1 step")
        if self.resume_within is not None and self.resume_within <= timedelta(0):
            raise BadSetting(f"Hybrid(resume_within={self.resume_within!r}): longer than 0")


Storage: TypeAlias = Literal["log", "snapshot"] | Hybrid
"""How a run is kept: events only, a snapshot each step, or between the two."""

DEFAULT_STORAGE = Hybrid(resume_within=timedelta(milliseconds=20))
"""What an agent uses unless it says otherwise."""
