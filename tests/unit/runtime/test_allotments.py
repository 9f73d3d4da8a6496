"""What children may use of their parent's budget, and what comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure.agent import Budget, Held
from perdure.errors import PartOfAnother
from perdure.host import Runtime
from perdure.state import events as e
from perdure.state.amount import Amount
from perdure.store.protocol import Query
from perdure.testing.account import account_of, misread
from tests.unit.runtime.stage import RUN, Stage, World, agent


def caller(world: World, *, name: str = "caller", **options: Any) -> Any:
    """A child that makes as many calls as its goal says."""

    @perdure.tool(effect="idempotent")
    async def ring(n: int) -> int:
        return int(world.act(n))

    async def step(run: Any) -> None:
        for n in range(run.goal):
            await ring(n)
        run.finish(run.goal)

    return agent(step, ring, name=name, **options)


def parent(child: Any, *goals: int, budget: Any = None, **given: Any) -> Any:
    """Spawns all at once under a budget."""

    async def step(run: Any) -> None:
        spawned = [run.spawn(child, goal, **given) for goal in goals]
        run.finish(list(await run.gather(*spawned)))

    return agent(step, name="parent", spawns=[child], budget=budget)


async def sound(stage: Stage) -> None:
    """No run of the family crosses its budget, and each knows its own sums."""
    for row in await stage.store.list(Query()):
        events = await stage.events(row.run_id)
        account = account_of(())
        assert [what for event in events for what in account.read(event)] == []
        assert misread(events, await stage.record(row.run_id)) == []


async def test_a_childs_part_is_reserved_and_the_rest_comes_back(stage: Stage) -> None:
    """What it used is spent by its parent too; its limit is its own."""
    world = World()
    made = parent(caller(world), 2, budget=Budget(calls=10))
    assert (await stage.run(made, check=True)).unwrap() == [2]
    opened, closed = (await stage.bodies(e.WaitOpened))[0], (await stage.bodies(e.WaitClosed))[0]
    assert opened.reserved == Amount(calls=10)
    assert (closed.used.calls, closed.used.steps) == (2, 1)
    record = await stage.record()
    assert record.spent.calls == 2
    assert record.ledger is not None
    assert record.ledger.reserved == {}
    await sound(stage)


async def test_limits_of_its_own_leave_the_rest_to_others(stage: Stage) -> None:
    """Two children side by side, each with a part; a third for which too little is left is not made."""
    world = World()

    async def step(run: Any) -> None:
        child = caller(world)
        small, large = Budget(calls=3), Budget(calls=4)
        await run.gather(run.spawn(child, 2, budget=small), run.spawn(child, 3, budget=large))
        await run.spawn(child, 1, budget=Budget(calls=6))

    held = await stage.run(agent(step, name="parent", budget=Budget(calls=10)))
    assert isinstance(held, Held)
    assert held.reason == "over-budget"
    assert len(world) == 5
    assert len(await stage.store.list(Query(prefix=f"{RUN}."))) == 2
    await sound(stage)


async def test_a_child_is_given_no_more_than_its_parent_has_set_aside(stage: Stage) -> None:
    """Else a family could spend more than it was given. What its parent does not limit can be raised."""
    world = World()
    child = caller(world)
    part = Budget(calls=1, tokens=9)

    async def step(run: Any) -> None:
        run.finish(await run.spawn(child, 2, budget=part))

    made = agent(step, name="parent", spawns=[child], budget=Budget(calls=10))
    await stage.run(made)
    [row] = await stage.store.list(Query(prefix=f"{RUN}."))
    async with Runtime(stage.store, [made, child]) as desk:
        with pytest.raises(PartOfAnother) as refused:
            await desk.raise_budget(row.run_id, by="ana", calls=1)
        await desk.raise_budget(row.run_id, by="ana", tokens=1)
        await desk.raise_budget(row.run_id, by="ana", calls=0, tokens=1)
    assert refused.value.code == "B506"
    assert len(world) == 1
    await sound(stage)


async def test_children_without_limits_take_turns(stage: Stage) -> None:
    """The first has all that is left; the next is spawned with what came back."""
    world = World()
    made = parent(caller(world), 2, 3, 1, budget=Budget(calls=6))
    assert (await stage.run(made)).unwrap() == [2, 3, 1]
    reserved = [wait.reserved.calls for wait in await stage.bodies(e.WaitOpened)]
    assert reserved[0] == 6
    assert sorted(reserved)[1] == 4
    assert len(world) == 6
    await sound(stage)


async def test_a_call_beside_a_child_waits_for_what_comes_back(stage: Stage) -> None:
    """It is not held: the child's end gives back what the call needs."""
    world = World()
    child = caller(world)

    @perdure.tool(effect="idempotent")
    async def ring() -> int:
        return int(world.act(100))

    async def late(run: Any) -> int:
        await asyncio.sleep(0)
        return int(await ring())

    async def step(run: Any) -> None:
        run.finish(list(await run.gather(run.spawn(child, 2), late(run))))

    made = agent(step, ring, name="parent", spawns=[child], budget=Budget(calls=3))
    assert (await stage.run(made)).unwrap() == [2, 100]
    assert len(world) == 3
    await sound(stage)


async def test_a_child_that_needs_more_is_held_and_its_parent_waits(stage: Stage) -> None:
    """Its limits are those of the part that it got."""
    world = World()
    made = parent(caller(world), 5, budget=Budget(calls=3))
    assert (await stage.run(made)).status == "waiting"
    row = await stage.store.row(f"{RUN}.1:0.0.0")
    assert row.status == "held"
    assert (await stage.record(row.run_id)).held.reason == "over-budget"  # type: ignore[union-attr]
    assert len(world) == 3
    await sound(stage)


@pytest.mark.parametrize(
    "where", ["wait.opened", "child.created", "run.suspended", "run.finish", "inbox.apply"]
)
async def test_a_crash_loses_nothing_of_the_budget(stage: Stage, where: str) -> None:
    """Neither what is reserved nor what came back is booked twice."""
    world = World()
    made = parent(caller(world), 2, budget=Budget(calls=4, steps=9, seconds=600))
    await stage.crash(made, where)
    assert (await stage.run(made)).unwrap() == [2]
    record = await stage.record()
    assert record.ledger is not None
    assert record.ledger.reserved == {}
    assert record.spent.steps == 2
    await sound(stage)
