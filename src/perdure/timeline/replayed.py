"""What a replay found, as plain frozen values: where today's code does something else than was recorded.

Only the nouns. How they are found is `replay`, and `replays` for many runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from perdure.timeline.plain import clean, jsonable

Aspect: TypeAlias = Literal["start", "call", "state", "ending", "error", "hangs"]
"""In what the two sides differ."""

MEANING: Mapping[Aspect, str] = {
    "start": "the agent makes another state of the run's goal",
    "call": "the step asks for another call, for none, or with other arguments",
    "state": "the step leaves another state",
    "ending": "the step ends the run otherwise, or does not end it",
    "error": "the step raises, where it did not",
    "hangs": "the step comes to no end in time",
}
"""In words, as docs/past.md has them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which today's code does something else than was recorded.

    `step` counts from 1, 0 is the start. `seq`: the event that recorded it (RUN@seq); the step's last one
    where none did. `path`: the call's place, empty if it is the step as a whole. `recorded` and `now`: both
    sides in a few words; `digests`: of both calls, in hex, where arguments are no longer there to be shown.
    `place`: `file:line` of the code, empty if it is not the user's. `detail`: all of it in one sentence.
    """

    aspect: Aspect
    step: int
    seq: int
    path: str
    recorded: str
    now: str
    detail: str
    place: str = ""
    digests: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Replayed:
    """What today's code does to a run's whole history. `status`: of the run, when it was read.

    `steps` were executed again, and were given the outcomes of `calls`, calls and waits. `difference`: the
    first one, None if there is none. `refused`: why the run cannot be replayed by this code, with the code of
    the error; empty if it can. `notes`: what else a person may want to know. `seconds`: how long it took.
    """

    run_id: str
    agent: str
    status: str
    events: int = 0
    steps: int = 0
    calls: int = 0
    difference: Difference | None = None
    refused: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether today's code does what was recorded, as far as that goes."""
        return self.difference is None and not self.refused

    @property
    def verdict(self) -> str:
        """In one word: same, differs, or refused."""
        return "same" if self.ok else "refused" if self.refused else "differs"

    def told(self) -> str:
        """What a person is told, in lines: both sides of the difference, and where it is."""
        name = clean(self.run_id)
        if self.refused:
            return f"run {name} cannot be replayed: {clean(self.refused)}"
        found = self.difference
        if found is None:
            return f"run {name}: {self.steps} steps, no difference"
        where = f"{name}@{found.seq}, step {found.step}" + (f", {found.path}" if found.path else "")
        lines = [f"run {name} differs: {clean(found.detail)}", f"  at        {where}"]
        lines += [f"  recorded  {clean(found.recorded)}", f"  now       {clean(found.now)}"]
        if found.place:
            lines.append(f"  code      {clean(found.place)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Replays:
    """What became of every run that was chosen. `others`: runs whose agent was not given, not looked at."""

    runs: tuple[Replayed, ...]
    others: int = 0
    seconds: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """How many runs have each verdict; without those that none has."""
        verdicts = [run.verdict for run in self.runs]
        return {word: verdicts.count(word) for word in ("same", "differs", "refused") if word in verdicts}

    @property
    def ok(self) -> bool:
        """Whether no run differs, and none was refused."""
        return all(run.ok for run in self.runs)


def replayed_document(one: Replayed) -> dict[str, Any]:
    """What a replay found of one run, for a program."""
    found = one.difference
    return {
        "run_id": jsonable(one.run_id),
        "agent": jsonable(one.agent),
        "status": jsonable(one.status),
        "verdict": one.verdict,
        "events": one.events,
        "steps": one.steps,
        "calls": one.calls,
        "seconds": round(one.seconds, 3),
        "difference": None if found is None else jsonable(asdict(found)),
        "refused": jsonable(one.refused) or None,
        "notes": jsonable(one.notes),
    }
