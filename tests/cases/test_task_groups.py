"""A step that works in task groups: they wrap whatever leaves them, and so also what unwinds a step."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from perdure.agent import Agent, Finished, Held, Waiting
from tests.unit.runtime.stage import Stage


def agent(body: Any) -> Agent[Any, Any, Any]:
    """An agent whose step is this, and its tool."""
    made: Agent[Any, Any, Any] = Agent("grouped", state=dict)

    @made.tool(effect="irreversible")
    async def pay(cents: int) -> int:
        if cents < 0:
            raise RuntimeError("the line is dead")
        return cents

    @made.step
    async def step(run: Any) -> None:
        await body(run, pay)

    return made


async def _waits(run: Any, pay: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
        paid = await pay(7)
        await run.sleep(0.05)
    run.finish(paid)


async def _waits_long(run: Any, pay: Any) -> None:
    async with asyncio.TaskGroup(), asyncio.TaskGroup():
        await run.ask("go on?", str)


async def _pays(run: Any, pay: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
        await pay(-1)


async def _in_branches(run: Any, pay: Any) -> None:
    async def branch(cents: int) -> int:
        async with asyncio.TaskGroup():
            await run.sleep(0.05)
            paid: int = await pay(cents)
        return paid

    run.finish(await run.gather(branch(1), branch(2)))


async def _foreign(run: Any, pay: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(pay(1))
        group.create_task(pay(2))


async def test_a_wait_in_a_task_group_unwinds_the_step(stage: Stage) -> None:
    assert await stage.run(agent(_waits)) == Finished(7, run_id="run-1")
    asks = agent(_waits_long)
    async with stage.runtime(asks) as runtime:
        assert isinstance(await runtime.run(asks, "q", "go", patience=timedelta(0)), Waiting)


async def test_waits_in_task_groups_of_branches_unwind_them_all(stage: Stage) -> None:
    assert await stage.run(agent(_in_branches)) == Finished((1, 2), run_id="run-1")


async def test_an_unknown_act_in_a_task_group_holds_the_run(stage: Stage) -> None:
    held = await stage.run(agent(_pays))
    assert isinstance(held, Held)
    assert held.reason == "unknown-outcome"


async def test_what_a_task_group_hides_is_told(stage: Stage) -> None:
    """The code, what it says, and the line of the step."""
    held = await stage.run(agent(_foreign))
    assert isinstance(held, Held)
    assert held.reason == "step-error"
    assert held.detail.startswith("[T207] ForeignTask: ")
    assert "test_task_groups.py:" in held.detail
    assert held.detail.endswith("the first of 2 in a group")


class _Boom(BaseException):
    """What a library ends its own work with."""


async def test_what_is_no_exception_is_a_fact_of_its_call_all_the_same(stage: Stage) -> None:
    """A library's own BaseException, in a coroutine as in a thread."""

    async def in_the_loop() -> None:
        raise _Boom("over")

    def in_a_thread() -> None:
        raise _Boom("over")

    for run_id, body in (("a", in_the_loop), ("b", in_a_thread)):
        made: Agent[Any, Any, Any] = Agent("booming", state=dict)
        boom = made.tool(effect="irreversible")(body)

        @made.step
        async def step(run: Any, boom: Any = boom) -> None:
            await run.call(boom)

        held = await stage.run(made, run_id=run_id)
        assert isinstance(held, Held)
        assert held.reason == "unknown-outcome"
        assert "it raised _Boom: over" in held.detail
