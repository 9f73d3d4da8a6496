"""Every point of a scenario: learn which boundaries it reaches and how often, then kill it at each.

A sweep runs in a process that is alone (no thread, no event loop) and warm: the scenario was run once in
memory, so that a forked life costs milliseconds. Points are shared out over several such processes by
`share`.
"""

from __future__ import annotations

import asyncio
import gc
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perdure.store.memory import MemoryStore
from perdure.testing.crash.clock import HurriedClock
from perdure.testing.crash.kill import ANY, TOLD, Kill
from perdure.testing.crash.life import Ground, Life, live
from perdure.testing.crash.scenario import Scenario
from perdure.testing.crash.trial import Trial, Verdict, run_trial
from perdure.testing.oracle import Ending


@dataclass(frozen=True, slots=True)
class Learnt:
    """The run that nobody killed: its ending, and the boundaries that it reached, in order."""

    ending: Ending
    reached: tuple[str, ...]

    def points(self) -> list[Kill]:
        """One kill for each boundary and hit."""
        hits = Counter(self.reached)
        return [Kill(name, hit) for name, count in hits.items() for hit in range(1, count + 1)]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one point of a sweep came to."""

    scenario: str
    kills: tuple[Kill, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep does. `share` of `shares`: its part of the points. `again`: how many of the points are
    killed a second time, somewhere in the resumed life (drawn by `seed`). `only` these boundaries, if any
    are named. `breakage` breaks the engine in every life.
    """

    scenario: Scenario
    share: int = 0
    shares: int = 1
    again: float = 1.0
    seed: int = 1
    only: frozenset[str] = frozenset()
    breakage: Callable[[], None] | None = None
    stop_at_first: bool = False


@dataclass(slots=True)
class Swept:
    """The sum of a sweep."""

    points: int = 0
    kills: int = 0
    acknowledged: int = 0
    unknowns: int = 0
    seconds: float = 0.0
    reached: Counter[str] = field(default_factory=Counter)
    broken: list[Finding] = field(default_factory=list)


def warm(scenario: Scenario) -> None:
    """Run the scenario once in this process, in memory, so that its forks find everything loaded and
    compiled.
    """
    with tempfile.TemporaryDirectory(prefix="perdure-warm-") as folder:
        ground = Ground(Path(folder))
        ground.prepare()
        asyncio.run(live(Life(scenario), ground, MemoryStore(clock=HurriedClock(ground.folder))))
    gc.collect()
    gc.freeze()


def learn(scenario: Scenario, folder: Path) -> Learnt:
    """Run the scenario unkilled. Raises AssertionError if even that offends."""
    verdict = run_trial(Trial(scenario), folder)
    assert not verdict.offences, f"{scenario.name}, not killed: {verdict.offences}"
    assert verdict.ending is not None
    return Learnt(verdict.ending, verdict.reached)


def points(plan: Plan, learnt: Learnt) -> list[tuple[Kill, ...]]:
    """The points of this share: each boundary and hit once, and `again` of them with a second kill."""
    chance = random.Random(plan.seed)
    singles = [kill for kill in learnt.points() if not plan.only or kill.boundary in plan.only]
    total = len(learnt.reached)
    drawn: list[tuple[Kill, ...]] = [(kill,) for kill in singles]
    drawn += [(kill, Kill(ANY, chance.randint(1, total))) for kill in singles if chance.random() < plan.again]
    return drawn[plan.share :: plan.shares]


def sweep(plan: Plan, folder: Path, some: Sequence[tuple[Kill, ...]] | None = None) -> Iterator[Finding]:
    """Try every point of the plan's share, or `some`; what passes is removed, what offends is left in
    `folder`.
    """
    learnt = learn(plan.scenario, folder / "unkilled")
    for number, kills in enumerate(points(plan, learnt) if some is None else some):
        place = folder / f"{plan.share}-{number}"
        trial = Trial(plan.scenario, kills, plan.breakage, learnt.ending)
        verdict = run_trial(trial, place)
        yield Finding(plan.scenario.name, kills, verdict)
        if not verdict.offences:
            shutil.rmtree(place)
        elif plan.stop_at_first:
            return


def swept(plan: Plan, folder: Path) -> Swept:
    """The whole share, summed up."""
    total, began = Swept(), time.monotonic()
    for finding in sweep(plan, folder):
        verdict = finding.verdict
        total.points += 1
        total.kills += verdict.killed
        total.acknowledged += verdict.acknowledged
        total.unknowns += verdict.unknowns
        if verdict.killed:
            total.reached[finding.kills[0].boundary] += 1
        if verdict.offences:
            total.broken.append(finding)
    total.seconds = time.monotonic() - began
    return total


__all__ = ["TOLD", "Finding", "Learnt", "Plan", "Swept", "learn", "points", "sweep", "swept", "warm"]
