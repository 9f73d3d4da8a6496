"""SIGKILL at random times: a worker process that drives many runs at once dies again and again.

What a sweep cannot aim at, chance finds: kills inside a commit, between two runs' writes, while nothing
happens. Every run must end as if nobody had killed anything, and everything acknowledged must be there
after each death.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure.agent import Agent
from perdure.host import PATIENCE, Runtime
from perdure.store.protocol import Query
from perdure.store.sqlite import SQLiteStore
from perdure.testing.crash.clock import HurriedClock
from perdure.testing.crash.life import LEASE_SECONDS, LIFE_SECONDS, Ground, be_alone
from perdure.testing.crash.look import Look, look_all
from perdure.testing.crash.promise import broken_promises
from perdure.testing.crash.scenario import Place, Scenario
from perdure.testing.crash.witness import witnessed
from perdure.testing.oracle import Act, Ending, made_again, offences, settled_paths

AT_WORK = 0.8
"""Of so many lives the time is counted from the moment when they are at work; of the others from their
birth.
"""

PERSON_SECONDS = 0.01
"""How often people look for runs that need them."""


@dataclass(frozen=True, slots=True)
class Storm:
    """`kills` deaths at moments drawn by `seed`, at most `longest` seconds after a worker's start.

    Batches of `copies` runs of each scenario are started until there were so many deaths.
    """

    scenarios: Sequence[Scenario]
    endings: Mapping[str, Ending]
    kills: int
    seed: int
    copies: int = 3
    longest: float = 0.5


@dataclass(slots=True)
class Weathered:
    """What a storm came to."""

    kills: int = 0
    runs: int = 0
    acknowledged: int = 0
    acts: int = 0
    unknowns: int = 0
    seconds: float = 0.0
    offences: list[str] = field(default_factory=list)


def weather(storm: Storm, folder: Path) -> Weathered:
    """Kill until the storm is over; every batch is judged. What offends is left in `folder`."""
    total, chance, began = Weathered(), random.Random(storm.seed), time.monotonic()
    batch = 0
    while total.kills < storm.kills and not total.offences:
        place = folder / f"batch-{batch}"
        _Batch(storm, Ground(place), total, chance).run()
        batch += 1
        if not total.offences:
            shutil.rmtree(place)
    total.seconds = time.monotonic() - began
    return total


class _Batch:
    """Runs that are started together, and judged after each death."""

    def __init__(self, storm: Storm, ground: Ground, total: Weathered, chance: random.Random) -> None:
        self._storm = storm
        self._ground = ground
        self._total = total
        self._chance = chance
        self._runs = {
            f"{scenario.name}-{number}": scenario
            for scenario in storm.scenarios
            for number in range(storm.copies)
        }
        self._settled: dict[str, set[str]] = {}
        self._acts = 0
        ground.prepare()

    def run(self) -> None:
        while not self._total.offences:
            wait = self._chance.uniform(0.0, self._storm.longest)
            last = self._total.kills >= self._storm.kills
            killed, code = self._live(float(LIFE_SECONDS) if last else wait)
            self._total.kills += killed
            looks = self._judge(f"kill {self._total.kills}")
            if killed and last:
                self._complain("the last worker", [f"its runs have not ended in {LIFE_SECONDS} s"])
            if not killed:
                if code:
                    self._complain("the worker", [f"it ended with exit code {code}: {self._words()}"])
                self._end(looks)
                return

    def _live(self, seconds: float) -> tuple[bool, int]:
        """Let a worker live for so long: from its birth, or from the moment when it is at work."""
        be_alone()
        hearing, telling = os.pipe()
        pid = os.fork()
        if pid == 0:
            _child(self._runs, self._ground, telling)
        os.close(telling)
        if self._chance.random() < AT_WORK:
            select.select([hearing], [], [])
        os.close(hearing)
        until = time.monotonic() + seconds
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() >= until:
                os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                break
            time.sleep(min(0.001, max(until - time.monotonic(), 0.0)))
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return killed, 0 if killed else status

    def _judge(self, when: str) -> dict[str, Look]:
        looks = look_all(self._ground.store, tuple(self._runs))
        acts, told = self._ground.outside.acts(), self._ground.told.read()
        by_run: dict[str, list[Act]] = {}
        for act in acts:
            by_run.setdefault(act.run_id, []).append(act)
        for run_id in self._runs:
            seen, mine = looks.get(run_id), by_run.get(run_id, [])
            later = [act for act in mine if act.number > self._acts]
            found = list(broken_promises(told, run_id, seen))
            found += made_again(self._settled.get(run_id, ()), later)
            if seen is not None:
                found += [] if seen.verification.ok else [seen.verification.what]
                found += offences(seen.events, mine)
                self._settled[run_id] = settled_paths(seen.events)
            self._complain(f"{when}, {run_id}", found)
        self._acts = len(acts)
        return looks

    def _end(self, looks: dict[str, Look]) -> None:
        for run_id, scenario in self._runs.items():
            seen = looks.get(run_id)
            if seen is None:
                self._complain(run_id, ["it is gone"])
                continue
            ending, expected = Ending.of(seen.record), self._storm.endings[scenario.name]
            for name in scenario.same:
                if getattr(ending, name) != getattr(expected, name):
                    self._complain(
                        run_id,
                        [f"{name} is {ending.told()[name]!r:.200}, unkilled {expected.told()[name]!r:.200}"],
                    )
            self._total.unknowns += sum(event.kind == "call.unknown" for event in seen.events)
        self._total.runs += len(self._runs)
        self._total.acts += self._acts
        self._total.acknowledged += len(self._ground.told.read().events)

    def _complain(self, where: str, found: Sequence[str]) -> None:
        self._total.offences += [f"{where}: {what}" for what in found]

    def _words(self) -> str:
        words = self._ground.words
        return " | ".join(words.read_text(errors="replace").split("\n")[-4:])[-600:] if words.exists() else ""


def _child(runs: Mapping[str, Scenario], ground: Ground, telling: int) -> None:
    """A worker's whole life; never returns."""
    gc.disable()
    signal.alarm(LIFE_SECONDS + 5)
    fd = os.open(ground.words, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(fd, 2)
    code = 1
    try:
        asyncio.run(_work(runs, ground, telling))
        code = 0
    except BaseException:  # noqa: BLE001  (told in the trial's words; the exit code says the rest)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


async def _work(runs: Mapping[str, Scenario], ground: Ground, telling: int) -> None:
    clock = HurriedClock(ground.folder)
    inner = SQLiteStore(ground.store, clock=clock, reserve_bytes=0)
    places: list[Runtime] = []
    agents: dict[str, Agent[Any, Any, Any]] = {}
    for scenario in runs.values():
        if scenario.name not in agents:
            agents[scenario.name] = scenario.build(ground.outside, lambda: places[0])
    store = witnessed(inner, ground.told)
    try:
        async with Runtime(
            store, list(agents.values()), workers=len(runs), clock=clock, lease_seconds=LEASE_SECONDS
        ) as runtime:
            places.append(runtime)
            os.close(telling)
            for run_id, scenario in runs.items():
                await runtime.start(
                    agents[scenario.name], run_id, scenario.goal, principal=scenario.principal
                )
            await _attend(runs, Place(runtime, ground.outside))
    finally:
        await inner.close()


async def _attend(runs: Mapping[str, Scenario], place: Place) -> None:
    """People look after runs that are held, or wait for longer than a caller would, until all have ended."""
    while True:
        rows = await place.runtime.store.list(Query(open_only=True, limit=len(runs)))
        if not rows:
            return
        late = place.runtime.store.now() + PATIENCE // timedelta(microseconds=1)
        for row in rows:
            stopped = row.status == "held" or (row.status == "waiting" and row.due_at > late)
            if stopped and not row.pending and row.worker is None:
                outcome = await place.runtime.outcome(row.run_id)
                await runs[row.run_id].person(place, row.run_id, outcome)
        await asyncio.sleep(PERSON_SECONDS)
