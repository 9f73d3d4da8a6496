"""One trial: a run that is killed at given points, resumed until it ends, and judged.

The judge reads the store's file, the outside's book and the acknowledgements, in the parent, whose engine
is whole even when the child's was broken on purpose. An empty list of offences is the verdict that nothing
was lost, nothing repeated and nothing hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perdure.errors import PerdureError
from perdure.testing.account import misread
from perdure.testing.crash.kill import Kill
from perdure.testing.crash.life import Ground, Life, live_forked
from perdure.testing.crash.look import Look, look_all
from perdure.testing.crash.promise import broken_promises
from perdure.testing.crash.scenario import RUN_ID, Scenario
from perdure.testing.kin import kin_offences
from perdure.testing.oracle import Ending, concerning, made_again, offences, settled_paths

LIVES = 4
"""A run that has not ended after so many lives that nobody killed does not end."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried. `expected` is the ending of the run that nobody killed; None: whatever comes."""

    scenario: Scenario
    kills: tuple[Kill, ...] = ()
    breakage: Callable[[], None] | None = None
    expected: Ending | None = None


@dataclass(slots=True)
class Verdict:
    """What came of a trial. `reached` are the boundaries of the last life, `killed` how many kills struck."""

    offences: list[str] = field(default_factory=list)
    killed: int = 0
    lives: int = 0
    ending: Ending | None = None
    reached: tuple[str, ...] = ()
    acts: int = 0
    unknowns: int = 0
    acknowledged: int = 0


def run_trial(trial: Trial, folder: Path, address: str = "") -> Verdict:
    """Live, die and resume in `folder`, which must be empty, and judge.

    `address`: an empty database that is used in place of a file.
    """
    ground, verdict = Ground(folder, address), Verdict()
    ground.prepare()
    judge = _Judge(trial, ground, verdict)
    kills: list[Kill | None] = [*trial.kills, *(None for _ in range(LIVES))]
    for kill in kills:
        death = live_forked(Life(trial.scenario, kill, trial.breakage), ground)
        verdict.lives += 1
        verdict.killed += death.killed
        judge.look()
        if death.ended:
            judge.ending()
            return verdict
        if not death.killed:
            judge.add([f"it ended with {death}: {_last_words(ground)}"])
        if verdict.offences and trial.breakage is not None:
            return verdict
    judge.add(["the run does not end"])
    return verdict


def _last_words(ground: Ground) -> str:
    words = ground.words.read_text(errors="replace").strip().splitlines() if ground.words.exists() else []
    return " | ".join(words[-3:])[-600:]


class _Judge:
    """Looks at what lies on disk after each life, and remembers what must not be done again."""

    def __init__(self, trial: Trial, ground: Ground, verdict: Verdict) -> None:
        self._trial = trial
        self._ground = ground
        self._verdict = verdict
        self._settled: dict[str, set[str]] = {}
        self._acts: Counter[str] = Counter()
        self._said: set[str] = set()
        self.seen: Look | None = None

    def add(self, offences: Iterable[str]) -> None:
        """Say each offence once, with the life after which it was first seen."""
        for what in offences:
            if what not in self._said:
                self._said.add(what)
                self._verdict.offences.append(f"after life {self._verdict.lives}: {what}")

    def look(self) -> None:
        """Judge what is durable now."""
        family = (RUN_ID, *self._trial.scenario.kin)
        try:
            looks = look_all(self._ground.place, family)
        except PerdureError as error:
            self.add([f"the run cannot be read: {error.what}"])
            return
        self.seen = looks.get(RUN_ID)
        for run_id in family:
            self._judge(run_id, looks.get(run_id))
        self.add(kin_offences({run_id: seen.events for run_id, seen in looks.items()}))

    def _judge(self, run_id: str, seen: Look | None) -> None:
        acts, where = self._ground.outside.acts(run_id), "" if run_id == RUN_ID else f"{run_id}: "
        found = list(broken_promises(self._ground.told.read(), run_id, seen))
        found += made_again(self._settled.get(run_id, set()), acts[self._acts[run_id] :])
        self._acts[run_id] = len(acts)
        if seen is None:
            found += [f"{act.tool} was made and there is no run" for act in acts]
        else:
            if not seen.verification.ok:
                found.append(seen.verification.what)
            of_it = concerning(run_id, seen.events, self._ground.outside.acts())
            found += offences(seen.events, of_it, self._trial.scenario.undoable)
            found += misread(seen.events, seen.record)
            self._settled[run_id] = settled_paths(seen.events)
        self.add(where + what for what in found)

    def ending(self) -> None:
        """Judge how it ended."""
        seen, verdict = self.seen, self._verdict
        if seen is None:
            self.add(["the run is gone"])
            return
        verdict.ending = Ending.of(seen.record)
        verdict.reached = tuple(self._ground.hits.read_text(encoding="utf-8").split())
        verdict.acts = self._acts.total()
        verdict.unknowns = sum(event.kind == "call.unknown" for event in seen.events)
        verdict.acknowledged = len(self._ground.told.read().events)
        if self._trial.expected is not None:
            self.add(_differences(self._trial.scenario, self._trial.expected, verdict.ending))


def _differences(scenario: Scenario, expected: Ending, ending: Ending) -> Iterator[str]:
    for name in scenario.same:
        if getattr(expected, name) != getattr(ending, name):
            yield (
                f"{name} is {ending.told()[name]!r:.200},"
                f" in the run that was not killed {expected.told()[name]!r:.200}"
            )
