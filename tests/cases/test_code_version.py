"""Code that changes under open runs: ids that shift, steps that swap places, versions that strand runs."""

from __future__ import annotations

from typing import Any

from perdure import Agent, Approval, Principal, codec, tool
from perdure.agent import DeployPolicy
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
