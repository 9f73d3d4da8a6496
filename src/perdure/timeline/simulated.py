"""What a simulation found, as plain frozen values: what would have been done, beside what was.

Only the nouns. How it is found is `simulation`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from perdure.state.patch import same
from perdure.state.record import Spent
from perdure.timeline.comparison import Change, change_document
from perdure.timeline.matching import Sameness
from perdure.timeline.plain import jsonable

Source: TypeAlias = Literal["recorded", "stand-in", "model", ""]
"""Who said what a call came to: the recorded run, the user's stand-in, a model that was really asked."""


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """One call, as it was recorded, as it was made in the simulation, or both. Values are plain data.

    `sameness`: what it is beside the recorded calls. `path` and `step` are where it was made, of a missing
    one where it was recorded. `args` and `value` of the simulation; `then_args` and `then_value` recorded,
    None where nothing was. `asks`: it would ask a person for a permission. `place`: `file:line` of the code.
    """

    sameness: Sameness
    path: str
    step: int
    name: str
    effect: str
    args: dict[str, Any] | None = None
    value: Any = None
    standing: str = ""
    source: Source = ""
    asks: bool = False
    then_args: dict[str, Any] | None = None
    then_value: Any = None
    then_standing: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a branch of the step could not go on: what it asks for has no recorded outcome and no stand-in.

    `what`: the call with its arguments, or what it waits for. `place`: `file:line`. `way`: what would let it
    go on.
    """

    step: int
    path: str
    what: str
    why: str
    place: str = ""
    way: str = ""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What today's code would do in the place of a run. `at`: the event after which it began, 0 is the start.

    `ended` and `result`: how it ended, empty if it did not; `then_ended` and `then_result` of the run.
    `stops`: where it could not go on; `error`: what the step raised. `changes`: what of the state at its end
    is another one than the run's last. `spent` and `then_spent`: of both, in all. `steps`: executed.
    """

    run_id: str
    agent: str
    at: int
    steps: int
    calls: tuple[SimulatedCall, ...]
    changes: tuple[Change, ...]
    state: Any
    spent: Spent
    then_spent: Spent
    ended: str = ""
    result: Any = None
    then_ended: str = ""
    then_result: Any = None
    stops: tuple[Stop, ...] = ()
    error: str = ""
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[Sameness, int]:
        """How many calls are the same, changed, new and missing; without those that none is."""
        found = Counter(call.sameness for call in self.calls)
        words: tuple[Sameness, ...] = ("same", "changed", "new", "missing")
        return {word: found[word] for word in words if found[word]}

    @property
    def same(self) -> bool:
        """Whether it did what the run did: the same calls, the same state, the same end."""
        ending = self.ended == self.then_ended and same(self.result, self.then_result)
        return set(self.counts) <= {"same"} and not self.changes and not self.error and ending


def simulated_document(found: Simulated) -> dict[str, Any]:
    """What a simulation found, for a program. A change lacks the side that has nothing."""
    return {
        "run_id": jsonable(found.run_id),
        "agent": jsonable(found.agent),
        "at": found.at,
        "steps": found.steps,
        "same": found.same,
        "counts": dict(found.counts),
        "ended": found.ended or None,
        "result": jsonable(found.result),
        "then_ended": found.then_ended or None,
        "then_result": jsonable(found.then_result),
        "error": jsonable(found.error) or None,
        "stops": [_named(stop) for stop in found.stops],
        "calls": [_named(call) for call in found.calls],
        "changes": [change_document(change) for change in found.changes],
        "spent": _spent(found.spent),
        "then_spent": _spent(found.then_spent),
        "notes": jsonable(found.notes),
    }


def _named(one: Any) -> dict[str, Any]:
    return {name: jsonable(getattr(one, name)) for name in one.__slots__}


def _spent(spent: Spent) -> dict[str, Any]:
    return {
        "calls": spent.calls,
        "steps": spent.steps,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "usd": spent.usd / 1e9,
        "unpriced": spent.unpriced,
    }
