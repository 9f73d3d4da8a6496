"""Whose runs a worker drives next: turns of agents, limits, queues and tags, on virtual time over the engine.

Random loads on the real worker and the store in memory; the seeds are the report.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure import Agent, Run, Runtime, Serving
from perdure.errors import BadSetting
from perdure.store.memory import MemoryStore
from perdure.store.turns import Turns
from tests.laws.virtual import LoopClock, VirtualLoop, run_virtually

SEEDS = 40


class Load:
    """Agents whose runs take a second each, and how many of each were at work at once at most."""

    def __init__(self, seed: int, names: str, **policies: Any) -> None:
        self.loop = VirtualLoop()
        self.clock = LoopClock(self.loop, seed)
        self.store = MemoryStore(clock=self.clock)
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.began: dict[str, float] = {}
        self.agents = {name: self._agent(name, policies) for name in names}

    def _agent(self, name: str, policies: dict[str, Any]) -> Agent[Any, Any, Any]:
        agent: Agent[Any, Any, Any] = Agent(name, state=dict, start=lambda _: {}, **policies)

        @agent.step
        async def step(run: Run[Any]) -> None:
            run_id, _, key = str(run.goal).partition(" ")
            kinds = (name, f"key {key}")
            self.began[run_id] = self.clock.monotonic()
            for kind in kinds:
                self.inside[kind] += 1
                self.most[kind] = max(self.most[kind], self.inside[kind])
            await asyncio.sleep(1)
            for kind in kinds:
                self.inside[kind] -= 1
            run.finish()

        return agent

    def place(self, serving: Serving | int = 0) -> Runtime:
        """A process."""
        return Runtime(self.store, list(self.agents.values()), workers=serving, clock=self.clock)

    async def ended(self) -> None:
        """Wait until every run has ended."""
        await self.until(lambda: all(run.standing.terminal for run in self.store._runs.values()))

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait, an hour at most."""
        for _ in range(36_000):
            if so():
                return
            await asyncio.sleep(0.1)
        raise AssertionError("it never was so")


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_flood_of_one_agent_keeps_no_other_waiting(concurrency: int) -> None:
    """Whatever waits already, a run of another agent is begun before two rounds of work have passed."""
    load = Load(concurrency, "ab")

    async def main() -> None:
        async with load.place() as door, load.place(concurrency):
            for number in range(60):
                await door.start(load.agents["a"], f"a{number}", f"a{number}")
            await asyncio.sleep(3.1)
            for number in range(3):
                await door.start(load.agents["b"], f"b{number}", f"b{number}")
            asked = load.clock.monotonic()
            await load.until(lambda: "b2" in load.began)
            assert load.began["b0"] - asked <= 2.2
            assert load.began["b2"] - asked <= 6.6

    run_virtually(main(), load.loop)


def test_the_more_urgent_is_begun_first_and_nothing_starves() -> None:
    """One place; urgent runs keep coming for minutes, and the one of low priority is begun all the same."""
    load = Load(7, "a")

    async def main() -> None:
        async with load.place() as door, load.place(1):
            await door.start(load.agents["a"], "first", "first")
            await asyncio.sleep(0.5)
            await door.start(load.agents["a"], "low", "low", priority=-1)
            for number in range(200):
                await door.start(load.agents["a"], f"high{number}", f"high{number}", priority=1)
                await asyncio.sleep(1)
            await load.ended()

    run_virtually(main(), load.loop)
    before = [name for name, at in load.began.items() if at < load.began["low"] and name.startswith("high")]
    assert 100 < len(before) < 140  # two steps of priority are two minutes of waiting


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_limit_is_passed_by_several_workers_and_all_runs_end(seed: int) -> None:
    """Keys over two agents, agents with limits, workers of several sizes."""
    _limited(seed)


def _limited(seed: int) -> None:
    chance = random.Random(seed)
    limit = chance.randint(1, 4)
    load = Load(seed, "ab", limit=limit)
    keys = {f"k{number}": chance.randint(1, 3) for number in range(chance.randint(1, 4))}

    async def main() -> None:
        async with load.place() as door:
            for number in range(30):
                key = chance.choice([*keys, ""])
                how: dict[str, Any] = {"limit_key": key, "key_limit": keys[key]} if key else {}
                how["priority"] = chance.randint(-2, 2)
                await door.start(load.agents[chance.choice("ab")], f"r{number}", f"r{number} {key}", **how)
            places = [load.place(chance.randint(1, 6)) for _ in range(3)]
            for place in places:
                await place.__aenter__()
            await load.ended()
            for place in places:
                await place.__aexit__(None, None, None)

    run_virtually(main(), load.loop)
    assert len(load.began) == 30
    for key, most in keys.items():
        assert load.most[f"key {key}"] <= most, f"seed {seed}: {load.most}"
    assert max(load.most["a"], load.most["b"]) <= limit, f"seed {seed}: {load.most}"


def test_control_a_removed_limit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "full", lambda self, key, most: False)
    with pytest.raises(AssertionError, match="seed"):
        for seed in range(SEEDS):
            _limited(seed)


def test_a_worker_takes_its_queues_and_what_its_tags_allow() -> None:
    load = Load(3, "a")

    async def main() -> None:
        agent = load.agents["a"]
        async with load.place() as door:
            await door.start(agent, "night", "night", queue="night")
            await door.start(agent, "gpu", "gpu", tags=["gpu"])
            await door.start(agent, "plain", "plain")
            async with load.place(Serving(9, queues=["default"])):
                await asyncio.sleep(30)
            assert set(load.began) == {"plain"}
            async with load.place(Serving(9, tags=["gpu", "big"])):
                await load.ended()

    run_virtually(main(), load.loop)
    assert set(load.began) == {"plain", "night", "gpu"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue": ""},
        {"queue": "two words"},
        {"tags": "gpu"},
        {"tags": ["a,b"]},
        {"priority": 101},
        {"priority": True},
        {"limit_key": "k", "key_limit": 0},
        {"key_limit": 2},
        {"colour": "red"},
    ],
)
def test_what_no_run_can_ask_for_is_refused(wrong: dict[str, Any]) -> None:
    load = Load(1, "a")

    async def main() -> None:
        async with load.place() as door:
            with pytest.raises(BadSetting):
                await door.start(load.agents["a"], "r", "", **wrong)
            assert not load.store._runs

    run_virtually(main(), load.loop)


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"queues": "night"}, {"tags": ["a b"]}, {"grace": timedelta(-1)}]
)
def test_what_no_worker_can_be_told_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadSetting):
        Serving(**wrong)


def test_an_idle_worker_hardly_asks_its_store() -> None:
    """Counted over ten minutes in which nothing happens."""
    load = Load(5, "a")
    asked: Counter[str] = Counter()
    verbs = ("claim", "due", "versions", "changed", "renew", "list", "row")
    for verb in verbs:
        setattr(load.store, verb, _counted(asked, verb, getattr(load.store, verb)))

    async def main() -> None:
        async with load.place() as door, load.place(4):
            await door.start(load.agents["a"], "r", "")
            await load.ended()
            await asyncio.sleep(30)
            asked.clear()
            await asyncio.sleep(600)

    run_virtually(main(), load.loop)
    print(f"in ten idle minutes: {dict(asked)}")
    assert sum(asked.values()) <= 10 * 30


def _counted(asked: Counter[str], verb: str, real: Any) -> Any:
    async def counted(*args: Any) -> Any:
        asked[verb] += 1
        return await real(*args)

    return counted
