"""A run that no code can carry on is ended for good: without its agent, without an act, never unsettled."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, Retired, tool
from perdure.errors import NotRetirable, RunEnded
from tests.unit.runtime.stage import RUN, Stage, World


def shop(world: World, step: Any) -> Agent[Any, Any, Any]:
    """An agent that can pay."""

    @tool(effect="irreversible")
    async def pay(cents: int) -> str:
        world.act("paid")
        return "paid"

    made = Agent("shop", state=dict[str, Any], tools=[pay])
    made.step(step)
    return made


async def waits(run: Any) -> None:
    """Wait for a signal."""
    run.finish(await run.wait("go"))


async def pays(run: Any) -> None:
    """Pay."""
    run.finish(await run.call(run._drive.agent.tools["pay"], 5))


async def test_a_waiting_run_is_retired_without_its_agent(stage: Stage) -> None:
    """What it has done stays to be read, and nothing follows."""
    world = World()
    await stage.run(shop(world, waits))
    async with stage.runtime() as place:
        await place.retire(RUN, by="ann", note="the shop is closed")
        outcome = await place.outcome(RUN)
        assert isinstance(outcome, Retired)
        assert (outcome.by, outcome.note) == ("ann", "the shop is closed")
        with pytest.raises(RunEnded):
            await place.retire(RUN, by="ann")
        with pytest.raises(RunEnded):
            await place.signal(RUN, "go")
    assert (await stage.kinds())[-1] == "run.finished"
    assert (await stage.store.row(RUN)).pending == 0
    await stage.blameless(world)


async def test_what_nobody_knows_is_settled_first(stage: Stage) -> None:
    """Refused before anything is written; a person's word lets it end."""
    world = World()
    await stage.crash(shop(world, pays), "call.acted")
    before = await stage.store.load(RUN)
    async with stage.runtime() as place:
        with pytest.raises(NotRetirable, match=r"nobody knows whether pay \(1:0\)") as refused:
            await place.retire(RUN, by="ann")
        assert f"perdure resolve {RUN} 1:0" in str(refused.value.remedy)
        assert await stage.store.load(RUN) == before
        await place.resolve(RUN, "1:0", by="ann", done="paid")
        await place.retire(RUN, by="ann")
    assert (await stage.store.row(RUN)).status == "retired"
    assert len(world) == 1


async def test_a_child_ends_first(memory: Stage) -> None:
    """Its end would have nobody to be told to."""
    world = World()
    child = shop(world, waits)

    async def spawns(run: Any) -> None:
        run.finish(await run.spawn(child, "go"))

    parent = Agent("parent", state=dict[str, Any], spawns=[child])
    parent.step(spawns)
    await memory.run(parent)
    async with memory.runtime() as place:
        with pytest.raises(NotRetirable, match=r"child run run-1\.1:0 of run run-1 has not ended"):
            await place.retire(RUN, by="ann")
        await place.retire("run-1.1:0", by="ann")
        await place.retire(RUN, by="ann")
    assert (await memory.store.row(RUN)).status == "retired"


async def test_a_run_that_is_driven_is_not_retired(memory: Stage) -> None:
    """Some code carries it on; it goes on undisturbed."""
    world, told = World(), []

    async def step(run: Any) -> None:
        async with memory.runtime() as place:
            with pytest.raises(NotRetirable, match="is driven by a worker now") as refused:
                await place.retire(RUN, by="ann")
            told.append(refused.value.code)
        run.finish("done")

    assert (await memory.run(shop(world, step))).unwrap() == "done"
    assert told == ["R221"]
