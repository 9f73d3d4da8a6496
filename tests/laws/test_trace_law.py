"""Law 16: one run, one trace. Whatever a run spawns, and however often it is killed, belongs to its trace."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure.agent import Agent
from perdure.runtime.birth import trace_of
from perdure.runtime.lineage import child_id
from perdure.state import events as e
from perdure.store.protocol import Query
from perdure.testing.kin import kin_offences
from tests.unit.runtime.stage import LEASE, RUN, Crash, Stage, World, build, dying

PLACES = (
    "child.create",
    "child.created",
    "wait.opened",
    "run.claimed",
    "receipt.queued",
    "run.finished",
    "step.commit",
)
DEATHS = 3
"""A run that dies oftener without progress is held for a person."""

ROUNDS = 40
"""More processes than a family of this size needs."""


def tree(chance: random.Random, depth: int = 0) -> list[Any]:
    """Who spawns whom: a list of the children's own trees."""
    return [tree(chance, depth + 1) for _ in range(chance.randint(0 if depth else 1, 2 - depth // 2))]


def member(world: World) -> Agent[Any, Any, Any]:
    """An agent that acts, and spawns what its goal says, each child of its own kind."""
    start: Any = lambda goal: {"told": []}  # noqa: E731
    one: Agent[Any, Any, Any] = Agent("member", state=dict, goal=list, start=start)

    @one.tool(effect="idempotent")
    async def note(kids: int) -> int:
        return int(world.act(kids))

    @one.step
    async def step(run: Any) -> None:
        await note(len(run.goal))
        run.finish(await run.gather(*(run.spawn(one, kids) for kids in run.goal)))

    one.spawns.append(one)
    return one


@pytest.mark.parametrize("seed", range(8))
def test_a_family_is_in_the_trace_of_its_root(seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    asyncio.run(_play(seed, build("memory", tmp_path)))


async def _play(seed: int, stage: Stage) -> None:
    chance, world = random.Random(seed), World()
    goal, one = tree(chance), member(world)
    await stage.store.open()
    try:
        for life in range(ROUNDS):
            place = chance.choice(PLACES) if life < DEATHS else "never"
            with dying(place, chance.randint(1, 4)) as death, suppress(Crash):
                outcome = await stage.run(one, goal)
                if not death.dead and outcome.status == "succeeded":
                    break
            stage.clock.advance(LEASE + 1)
        else:
            raise AssertionError(f"seed {seed}: it does not end: {await stage.record()}")
        await _judge(seed, stage, goal)
    finally:
        await stage.close()


async def _judge(seed: int, stage: Stage, goal: list[Any]) -> None:
    rows = await stage.store.list(Query(limit=1000))
    family = {row.run_id: await stage.events(row.run_id) for row in rows}
    assert len(family) == _size(goal), seed
    assert child_id(RUN, "1:1.0.0") in family
    for run_id, events in family.items():
        begun = [event.body.trace for event in events if isinstance(event.body, e.RunStarted)]
        assert begun == [trace_of(RUN)], (seed, run_id)
        assert (await stage.record(run_id)).trace == trace_of(RUN), (seed, run_id)
    assert kin_offences(family) == []


def _size(goal: list[Any]) -> int:
    return 1 + sum(_size(kids) for kids in goal)
