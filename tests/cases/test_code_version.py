"""Code that changes under open runs: ids that shift, steps that swap places, versions that strand runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from perdure import Agent, Approval, Principal, codec, tool
from perdure.agent import DeployPolicy
from perdure.errors import OtherGoal, ShapeMismatch
from perdure.store.protocol import Query
from tests.unit.runtime.stage import RUN, Stage, World, agent

CALLS = 17


def _mother(child: Agent[Any, Any, Any], book: Any, *, drawn: int) -> Agent[Any, Any, Any]:
    """It books something, spawns a child for a new id, and waits."""

    async def step(run: Any) -> None:
        await book("first")
        for _ in range(drawn):
            run.random()
        told = await run.spawn(child, run.new_id())
        await run.wait("go")
        run.finish(told)

    return agent(step, book, spawns=[child])


async def test_one_more_draw_does_not_shift_the_ids_after_it(memory: Stage) -> None:
    """O-009: one random call more shifted every id drawn after it, and sleeping runs failed as they woke. The
    run is held before any effect, with both sides; a second child, for another id, is never begun.
    """
    world = World()

    async def pursue(run: Any) -> None:
        run.finish(run.goal)

    @tool(effect="idempotent")
    async def book(what: str) -> str:
        return str(world.act(what))

    child = agent(pursue, name="child")
    old, new = _mother(child, book, drawn=0), _mother(child, book, drawn=1)
    assert (await memory.run(old)).status == "waiting"
    before = [row.run_id for row in await memory.store.list(Query())]
    assert len(before) == 2
    async with memory.runtime(new) as place:
        [told] = (await place.preflight()).forecasts
        await place.signal(RUN, "go")
        held: Any = await place.resume(RUN)
    assert (held.reason, told.prospect) == ("diverged", "diverges")
    assert "at 1:1 recorded run.new_id; the code asks for run.random" in held.detail
    assert held.detail == told.detail
    assert [row.run_id for row in await memory.store.list(Query())] == before
    assert len(world) == 1
    async with memory.runtime(old) as place:
        await place.retry(RUN, by="ann")
    [one] = [name for name in before if name != RUN]
    assert (await memory.run(old)).unwrap() == codec.decode((await memory.record(one)).goal)
    await memory.blameless(world)


async def test_two_steps_that_have_swapped_places_are_told_of(stage: Stage) -> None:
    """O-010: a mismatch failed the run, and nothing said why. Seventeen calls are recorded and two of them
    swap places in the code: nothing is called, and the place, both names and the choices are told.
    """
    world = World()

    @tool(effect="idempotent")
    async def do(number: int) -> str:
        return str(world.act(f"did {number}"))

    def made(order: list[int]) -> Agent[Any, Any, Any]:
        async def step(run: Any) -> None:
            for number in order:
                await do(number)
            run.finish(await run.wait("go"))

        return agent(step, do)

    order = list(range(CALLS))
    await stage.run(made(order))
    order[4], order[11] = order[11], order[4]
    async with stage.runtime(made(order)) as place:
        [told] = (await place.preflight()).forecasts
        await place.signal(RUN, "go", "gone")
        held: Any = await place.resume(RUN)
    assert held.reason == "diverged"
    assert "at 1:4 the arguments of do differ: number recorded 4, now 11" in held.detail
    assert f"{__file__}:" in held.detail
    assert any("deploy the code that the run was recorded with" in way for way in held.remedies)
    assert (told.detail, told.remedies) == (held.detail, held.remedies)
    assert len(world) == CALLS
    await stage.blameless(world)


async def test_a_change_elsewhere_strands_nobody(stage: Stage) -> None:
    """O-011: a stamp over all code left parked runs without an owner, and they looked healthy. A is parked on
    an approval; B, in the same app, changes; A goes on. One that a version does keep away says so.
    """
    world = World()

    @tool(effect="irreversible", approval=Approval())
    async def pay(cents: int) -> str:
        return str(world.act("paid"))

    async def pays(run: Any) -> None:
        run.finish(await pay(5))

    async def other(run: Any) -> None:
        await run.wait("go")

    async def otherwise(run: Any) -> None:
        await run.wait("come")

    def first(**options: Any) -> Agent[Any, Any, Any]:
        return agent(pays, pay, name="a", **options)

    waiting = await stage.run(first())
    changed = agent(otherwise, name="b", version="2")
    async with stage.runtime(first(), changed) as place:
        assert (await place.preflight()).counts == {"resumes": 1}
        await place.approve(waiting.approvals[0].id, by=Principal("boss"))
        assert (await place.resume(RUN)).unwrap() == "paid"
    assert len(world) == 1
    await stage.run(first(on_change=DeployPolicy(pin=True)), run_id="pinned")
    async with stage.runtime(first(version="2"), agent(other, name="b")) as place:
        [told] = (await place.preflight()).forecasts
    assert (told.run_id, told.prospect, told.reason) == ("pinned", "stranded", "not-served")
    assert "pinned" in told.detail


@dataclass
class Ask:
    """A goal."""

    order: str


@dataclass
class AskNow:
    """The goal of later code: with a field that has a default."""

    order: str
    cents: int = 5


@dataclass
class AskMore:
    """And with one that has none."""

    order: str
    cents: int


def _clerk(shape: Any, name: str = "clerk") -> Agent[Any, Any, Any]:
    made: Agent[Any, Any, Any] = Agent(name, state=dict, goal=shape, start=lambda goal: {})

    @made.step
    async def step(run: Any) -> None:
        await run.wait("go")
        run.finish(getattr(run.goal, "cents", 0))

    return made


async def test_a_goal_that_gained_a_field_with_a_default_is_still_the_same_goal(stage: Stage) -> None:
    """A caller that starts or carries on by id and goal was told, after a deploy that gave the goal's type a
    field with a default, that the run was started for another goal. A goal that does differ is still refused.
    """
    assert (await stage.run(_clerk(Ask), Ask("o-77"))).status == "waiting"
    async with stage.runtime(_clerk(AskNow)) as place:
        await place.start(place.agents["clerk"], RUN, AskNow("o-77"))
        for other in (AskNow("o-77", 6), AskNow("o-78")):
            with pytest.raises(OtherGoal):
                await place.start(place.agents["clerk"], RUN, other)
        await place.signal(RUN, "go")
        assert (await place.run(place.agents["clerk"], RUN, AskNow("o-77"))).unwrap() == 5


async def test_a_child_whose_goal_gained_a_field_is_still_the_same_child(stage: Stage) -> None:
    """The same where a parent spawns."""

    def family(goal: Any) -> tuple[Agent[Any, Any, Any], Agent[Any, Any, Any]]:
        child = _clerk(type(goal), "child")

        async def step(run: Any) -> None:
            run.finish(await run.spawn(child, goal))

        return agent(step, spawns=[child]), child

    old, _ = family(Ask("o-77"))
    assert (await stage.run(old)).status == "waiting"
    new, child = family(AskNow("o-77"))
    async with stage.runtime(new, child) as place:
        [name] = [row.run_id for row in await stage.store.list(Query()) if row.run_id != RUN]
        await place.signal(name, "go")
        assert (await place.resume(name)).unwrap() == 5
        assert (await place.resume(RUN)).unwrap() == 5


async def test_a_goal_that_no_longer_fits_is_foretold_and_stops_the_run_untouched(stage: Stage) -> None:
    """Preflight said that such a run resumes, and its step failed at the first look at the goal. It is held
    before its step, as a state that does not fit is, and code whose type takes the goal carries it on.
    """
    assert (await stage.run(_clerk(Ask), Ask("o-77"))).status == "waiting"
    async with stage.runtime(_clerk(AskMore)) as place:
        [told] = (await place.preflight()).forecasts
        await place.signal(RUN, "go")
        before = await stage.kinds()
        with pytest.raises(ShapeMismatch) as refused:
            await place.resume(RUN)
    assert (told.prospect, told.reason) == ("held", "migration-failed")
    assert told.detail == f"[M301] {refused.value.what}"
    assert refused.value.what == "$.goal.cents should be a value, and is missing"
    assert "default" in refused.value.remedy
    assert await stage.kinds() == before
    assert (await stage.store.row(RUN)).status == "held"
    async with stage.runtime(_clerk(AskNow)) as place:
        assert (await place.resume(RUN)).unwrap() == 5
