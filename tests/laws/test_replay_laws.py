"""Law 14 for replay and simulate: they write and send nothing, and unchanged code agrees with every history.

Random programs and families, with crashes, lost answers, cancels, budgets and people, are lived through; then
all runs are replayed by the same program whose tools raise when they are called, from a store that raises
when it is written to. Changed code is found at the first call, state or end that it changes. A failure prints
its seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from perdure.agent import Agent
from perdure.clock import SYSTEM
from perdure.runtime.rehearsal import Unwritten
from perdure.store.protocol import Query
from perdure.timeline.replayed import Replays
from perdure.timeline.replays import Choice, replay_all
from perdure.timeline.simulate import simulate
from perdure.timeline.simulation import Given
from tests.laws.families import FamilyWorld
from tests.laws.programs import draw_family, draw_program, interpreter
from tests.laws.world import Chances, World

pytestmark = pytest.mark.filterwarnings(
    # A task that is cancelled before it began leaves its coroutine unawaited; killed processes do that.
    "ignore:coroutine .* was never awaited:RuntimeWarning",
)

EXAMPLES = round(24 * float(os.environ.get("PERDURE_CRASH_SCALE", "1")))

READS = frozenset(
    {"read", "row", "list", "now", "url", "value_bytes", "snapshots", "blob", "inbox", "load", "key"}
)
"""All that a look may ask of a store."""

CHANCES = st.builds(
    Chances,
    kill=st.sampled_from((0.0, 0.005, 0.02)),
    freeze=st.sampled_from((0.0, 0.01)),
    lose=st.sampled_from((0.0, 0.1)),
    fail=st.sampled_from((0.0, 0.1)),
    stop=st.sampled_from((0.0, 0.05)),
    cancel=st.sampled_from((0.0, 0.3, 0.8)),
)


class Walled:
    """A store that can only be read."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name not in READS:
            raise AssertionError(f"a replay asked the store for {name}")
        return getattr(self._store, name)


def unchanged() -> Agent[Any, Any, Any]:
    """The program, with tools that must not be called."""

    async def request(reply: object) -> Any:
        raise AssertionError(f"a replay sent {reply}")

    def find(key: str) -> Any:
        raise AssertionError(f"a replay looked for {key}")

    return interpreter(request, find, 0)


def lived(seed: int, chances: Chances, workers: int) -> World:
    """A world with two runs, or with a family."""
    chance = random.Random(seed)
    if seed % 2:
        world: World = FamilyWorld(seed, chances, workers)
        world.run({"r": draw_family(chance)})
    else:
        world = World(seed, chances, workers)
        world.run({name: draw_program(chance, steps=4) for name in ("r", "s")})
    assert not world.found, "\n".join(world.found)
    return world


def replayed(world: World, agent: Agent[Any, Any, Any]) -> Replays:
    """All of its runs, by this agent."""
    store: Any = Walled(world.store)
    return asyncio.run(replay_all(store, [agent], SYSTEM, Choice()))


def bytes_of(world: World) -> list[Any]:
    """Everything that the store keeps of its runs."""
    rows = asyncio.run(world.store.list(Query(limit=1000)))
    return [(row, world.store._runs[row.run_id].events[:]) for row in rows]


@given(chances=CHANCES, seed=st.integers(0, 1 << 32), workers=st.integers(1, 2))
@settings(max_examples=EXAMPLES, phases=(Phase.generate,))  # a smaller seed is no simpler world
def test_unchanged_code_agrees_with_any_history(chances: Chances, seed: int, workers: int) -> None:
    """Any history: no difference, nothing sent, nothing written."""
    world = lived(seed, chances, workers)
    before = bytes_of(world)
    found = replayed(world, unchanged())
    assert found.ok, "\n".join(f"seed {seed}: {one.told()}" for one in found.runs if not one.ok)
    assert len(found.runs) == len(before)
    assert bytes_of(world) == before, f"seed {seed}: a replay has written"


def test_the_worlds_are_hard_enough() -> None:
    """Every way in which a run can end, and most of what steps record."""
    seen: Counter[str] = Counter()
    for seed in range(24):
        world = lived(seed, Chances(kill=0.02, freeze=0.01, stop=0.05, cancel=0.4), 2)
        found = replayed(world, unchanged())
        assert found.ok, "\n".join(one.told() for one in found.runs if not one.ok)
        for one in found.runs:
            seen[one.status] += 1
            seen["steps"] += one.steps
            seen["calls"] += one.calls
        seen["kills"] += world.kills
        seen["raises"] += world.raises
    assert min(seen[what] for what in ("succeeded", "failed", "cancelled", "kills", "raises")) > 0, seen
    assert seen["steps"] > 100, seen
    assert seen["calls"] > 300, seen


# ------------------------------------------------------------------------------------------ changed code


def _with_step(change: Callable[[Any, Any], Any]) -> Agent[Any, Any, Any]:
    """The program, whose step is followed by a change."""
    agent = unchanged()
    first: Any = agent.step_fn

    async def step(run: Any) -> None:
        await change(run, first)

    agent.step_fn = step
    return agent


async def _other_state(run: Any, first: Any) -> None:
    await first(run)
    run.state["log"][-1] = [*run.state["log"][-1], "more"]


async def _raises(run: Any, first: Any) -> None:
    await first(run)
    raise ValueError("new in this code")


async def _never_ends(run: Any, first: Any) -> None:
    """It ends every run one step later than it did."""
    await first(run)
    run._execution.ending = None


async def _asks_less(run: Any, first: Any) -> None:
    run.state["log"].append([])
    run.state["at"] += 1


async def _asks_more(run: Any, first: Any) -> None:
    await first(run)
    run.new_id()


MUTANTS: dict[str, tuple[Callable[[Any, Any], Any], set[str]]] = {
    "another state": (_other_state, {"state"}),
    "an error": (_raises, {"error"}),
    "no end": (_never_ends, {"ending"}),
    "a call less": (_asks_less, {"call", "state"}),
    "a call more": (_asks_more, {"call"}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_changed_code_is_found(name: str) -> None:
    """Each change is found in every run that it changes, and told as what it is."""
    change, aspects = MUTANTS[name]
    seen: Counter[str] = Counter()
    for seed in range(6):
        world = lived(seed, Chances(kill=0.01, cancel=0.0), 1)
        for one in replayed(world, _with_step(change)).runs:
            assert one.difference is not None, f"seed {seed}: {one.told()}"
            seen[one.difference.aspect] += 1
            assert one.difference.detail
            assert one.difference.recorded != one.difference.now
    assert set(seen) == aspects, seen


def test_control_a_replay_that_writes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the journal of a replay handed on what it is told, the wall in place of its store would say so."""
    world = lived(2, Chances(kill=0.0, cancel=0.0), 1)
    monkeypatch.setattr(Unwritten, "barrier", lambda self: self.store.append(None))
    found = replayed(world, _with_step(_sends))
    assert any("a look uses the store" in one.told() for one in found.runs), [
        one.told() for one in found.runs
    ]


async def _sends(run: Any, first: Any) -> None:
    await first(run)
    await run._drive.journal.barrier()


# ------------------------------------------------------------------------------------------- simulations


@given(chances=CHANCES, seed=st.integers(0, 1 << 32))
@settings(max_examples=EXAMPLES // 2, phases=(Phase.generate,))
def test_unchanged_code_simulates_any_history(chances: Chances, seed: int) -> None:
    """From the start and from any point of any run that ended by itself: the same calls, state and end."""
    world = lived(seed, chances, 1)
    chance, before = random.Random(seed), bytes_of(world)
    store: Any = Walled(world.store)
    for row, _ in before:
        ends = row.status in ("succeeded", "failed")
        for at in (0, chance.randint(1, row.seq - 2)) if row.seq > 2 else (0,):
            found = asyncio.run(simulate(store, [unchanged()], SYSTEM, row.run_id, Given(at)))
            assert found.same or not ends, f"seed {seed}, {row.run_id}@{at}: {found}"
            assert not found.changes or not ends, f"seed {seed}, {row.run_id}@{at}: {found}"
            assert set(found.counts) <= {"same", "missing"}, f"seed {seed}, {row.run_id}@{at}: {found}"
    assert bytes_of(world) == before, f"seed {seed}: a simulation has written"
