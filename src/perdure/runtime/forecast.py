"""What today's code would do to an open run: the answer, as plain frozen values.

Only the nouns. How the answer is found is `rehearsal`, and `preflight` for a whole store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, TypeAlias, get_args

from perdure.errors import at_store

Prospect: TypeAlias = Literal[
    "resumes", "migrates", "restarts", "ends", "stays held", "diverges", "held", "hangs", "stranded"
]
"""What would become of an open run when a worker with today's code claims it."""

PROSPECTS: tuple[Prospect, ...] = get_args(Prospect)
"""All of them, the harmless ones first."""

MEANING: Mapping[Prospect, str] = {
    "resumes": "goes on, or goes on waiting, as it is",
    "migrates": "goes on after its state was migrated",
    "restarts": "goes on, and asks again for reads that no longer match its step",
    "ends": "was cancelled, and is ended",
    "stays held": "is held for a person now, and stays so",
    "diverges": "would be held: its recorded calls do not match the step",
    "held": "would be held for another reason",
    "hangs": "its step came to no call, wait or end in time",
    "stranded": "this code cannot carry it on; it is not claimed, and stays as it is",
}
"""In words, as docs/deploys.md has them."""

STOPPING: frozenset[Prospect] = frozenset({"diverges", "held", "hangs", "stranded"})
"""Why a deploy should wait: a person would be needed who is not needed now."""


@dataclass(frozen=True, slots=True)
class Voided:
    """An approval that today's code would not use: it is asked for again, or no more."""

    approval_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Stale:
    """A fact that was read `age` ago, longer than the `fresh_for` that a call which rests on it allows."""

    fact: str
    age: timedelta
    fresh_for: timedelta


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would become of one run. `reason` and `detail`: those of the hold, or why it is stranded.

    `goes_on`: what it asks for first that has no recorded outcome, with its place in the code. `voided`: its
    approvals that would not be used. `stale`: facts that are older than the call that rests on them allows;
    they are read again before it. `notes`: what else a person may want to know.
    """

    run_id: str
    agent: str
    status: str
    step: int
    prospect: Prospect
    reason: str = ""
    detail: str = ""
    remedies: tuple[str, ...] = ()
    goes_on: tuple[str, ...] = ()
    voided: tuple[Voided, ...] = ()
    stale: tuple[Stale, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether the deploy should wait for somebody to look at this run."""
        return self.prospect in STOPPING


@dataclass(frozen=True, slots=True)
class Preflight:
    """What would become of every open run. `seconds`: how long it took to find out."""

    forecasts: tuple[Forecast, ...]
    seconds: float = 0.0

    def at(self, store: str | None) -> Preflight:
        """The same, its commands naming this store; None is the default store."""
        named = (
            replace(one, remedies=tuple(at_store(remedy, store) for remedy in one.remedies))
            for one in self.forecasts
        )
        return replace(self, forecasts=tuple(named))

    @property
    def counts(self) -> dict[Prospect, int]:
        """How many runs have each prospect, the harmless ones first; without those that none has."""
        found = Counter(forecast.prospect for forecast in self.forecasts)
        return {prospect: found[prospect] for prospect in PROSPECTS if found[prospect]}

    @property
    def ok(self) -> bool:
        """Whether no run would be held, hang or be stranded."""
        return not any(forecast.stops for forecast in self.forecasts)
