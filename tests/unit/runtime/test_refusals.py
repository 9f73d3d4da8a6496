"""Calls from where no call can be made."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

import perdure
from perdure.agent import Held
from perdure.errors import (
    BadArguments,
    BlockingTool,
    CallFailed,
    CallOutsideStep,
    ForeignTask,
    NoRun,
    StricterInside,
    ToolNotListed,
)
from perdure.state import events as e
from tests.unit.runtime.stage import Stage, World, agent

WORLD = World()


@perdure.tool(effect="irreversible")
async def pay(cents: int) -> str:
    """An act."""
    return str(WORLD.act(f"paid {cents}"))


@perdure.tool(effect="irreversible")
def pay_plainly(cents: int) -> str:
    """An act in a thread."""
    return str(WORLD.act(f"paid {cents}"))


@perdure.tool(effect="read")
async def look(n: int) -> int:
    """A read."""
    return n


@pytest.fixture(autouse=True)
def empty_world() -> None:
    """Nothing has happened yet."""
    WORLD.acts.clear()


async def told(stage: Stage, body: Any, error: type[Exception], *tools: Any) -> Any:
    """Run a step that does `body(run)`, which must raise `error`; the error."""
    found: list[Any] = []

    async def step(run: Any) -> None:
        try:
            await body(run)
        except error as raised:
            found.append(raised)
            run.finish("refused")

    outcome = await stage.run(agent(step, *(tools or (pay, pay_plainly, look))), check=True)
    assert outcome.unwrap() == "refused"
    assert len(WORLD) == 0
    assert await stage.bodies(e.CallIntended) == []
    return found[0]


async def test_a_tool_that_the_agent_does_not_list(memory: Stage) -> None:
    """T202, with where it is declared."""
    error = await told(memory, lambda run: pay(1), ToolNotListed, look)
    assert (error.code, "pay" in error.what) == ("T202", True)
    assert "test_refusals.py" in str(error)


async def test_a_variant_is_another_tool(memory: Stage) -> None:
    """The agent lists the stricter variant; the original is refused."""
    variant = pay.replace(name="pay_carefully")
    await told(memory, lambda run: pay(1), ToolNotListed, variant, look)


async def test_a_plain_def_tool_called_directly(memory: Stage) -> None:
    """T208: it would block the loop; the remedy works."""

    async def body(run: Any) -> None:
        pay_plainly(1)

    error = await told(memory, body, BlockingTool)
    assert (error.code, "run.call" in error.remedy) == ("T208", True)

    async def step(run: Any) -> None:
        run.finish([await run.call(pay_plainly, 1), *await run.map(pay_plainly, [2, 3])])

    outcome = await memory.run(agent(step, pay_plainly), check=True, run_id="remedy")
    assert outcome.unwrap() == ["paid 1", "paid 2", "paid 3"]


@pytest.mark.parametrize("how", ["create_task", "gather", "wait_for", "TaskGroup"])
async def test_a_task_that_the_run_did_not_create(memory: Stage, how: str) -> None:
    """T207: its place in the run would not be stable."""

    async def body(run: Any) -> None:
        match how:
            case "create_task":
                await asyncio.create_task(as_coroutine(look(1)))
            case "gather":
                await asyncio.gather(look(1), look(2))
            case "wait_for":
                await asyncio.wait_for(look(1), 5)
            case "TaskGroup":
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(as_coroutine(look(1)))
                except* ForeignTask as errors:
                    raise errors.exceptions[0] from None

    if how == "wait_for" and sys.version_info >= (3, 12):
        pytest.skip("wait_for awaits in the step's own task here, and is as good as asyncio.timeout")
    error = await told(memory, body, ForeignTask)
    assert (error.code, "run.gather" in error.remedy) == ("T207", True)


async def as_coroutine(awaitable: Any) -> Any:
    """Await it in whichever task this runs."""
    return await awaitable


async def test_the_remedy_for_wait_for_is_a_timeout_of_the_tool_or_of_the_step(memory: Stage) -> None:
    """asyncio.timeout runs in the step's own task."""

    async def step(run: Any) -> None:
        async with asyncio.timeout(5):
            run.finish(await look(3))

    assert (await memory.run(agent(step, look), check=True)).unwrap() == 3


async def test_a_raw_thread_cannot_act(memory: Stage) -> None:
    """T206: it has lost the run, and the act would not be recorded."""
    seen: list[Any] = []

    async def body(run: Any) -> None:
        def work() -> None:
            try:
                asyncio.run(as_coroutine(pay(1)))
            except NoRun as error:
                seen.append(error)
            try:
                pay_plainly(1)
            except NoRun as error:
                seen.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        await asyncio.to_thread(thread.join)
        raise seen[0]

    error = await told(memory, body, NoRun)
    assert (error.code, "run.call" in error.remedy, len(seen)) == ("T206", True, 4)


async def test_a_stricter_tool_inside_a_weaker_ones_body(memory: Stage) -> None:
    """T209: the payment would be repeated as a read."""

    @perdure.tool(effect="read")
    async def peek() -> str:
        return await pay(1)

    error = await told(memory, lambda run: peek(), StricterInside, peek, pay)
    assert error.code == "T209"
    assert error.what.startswith("pay is irreversible")


async def test_an_equal_or_weaker_tool_inside_a_body_runs_under_its_receipt(memory: Stage) -> None:
    """One call in the journal; the same key inside."""

    @perdure.tool(effect="irreversible")
    async def order(cents: int) -> list[Any]:
        return [await look(cents), await pay(cents)]

    async def step(run: Any) -> None:
        run.finish(await order(5))

    assert (await memory.run(agent(step, order), check=True)).unwrap() == [5, "paid 5"]
    assert [body.path for body in await memory.bodies(e.CallSettled)] == ["1:0"]
    [intent] = await memory.bodies(e.CallIntended)
    assert WORLD.keys == [intent.key]


async def test_the_runs_handle_inside_a_tools_body(memory: Stage) -> None:
    """T212: what it does there would belong to no place of the step."""
    handles: list[Any] = []

    @perdure.tool(effect="read")
    async def peek() -> None:
        await handles[0].sleep(5)

    async def body(run: Any) -> None:
        handles[:] = [run]
        await peek()

    error = await told(memory, body, CallFailed, peek)
    assert error.type_name == "CallOutsideStep"
    assert "body of peek" in error.message


@pytest.mark.parametrize("args", [(), (1, 2)])
async def test_arguments_that_do_not_fit(memory: Stage, args: tuple[Any, ...]) -> None:
    """T204 at once."""
    await told(memory, lambda run: run.call(pay, *args), BadArguments)


async def test_something_that_is_no_tool(memory: Stage) -> None:
    """run.call of a plain function tells what to write."""
    error = await told(memory, lambda run: run.call(print, 1), BadArguments)
    assert "@perdure.tool" in error.remedy


async def test_a_call_after_its_step_has_ended(memory: Stage) -> None:
    """T212, for calls that were made earlier and are awaited later."""
    kept: list[Any] = []
    seen: list[str] = []

    async def step(run: Any) -> None:
        if not kept:
            kept.append(run)
            run.state["log"].append(1)
            return
        try:
            await kept[0].call(look, 1)
        except CallOutsideStep as error:
            seen.append(error.code)
        run.finish()

    assert (await memory.run(agent(step, look))).status == "succeeded"
    assert seen == ["T212"]


async def test_a_run_inside_a_tools_body_is_a_run_of_its_own(memory: Stage) -> None:
    """Its calls are recorded in its own journal, under its own keys, not under the outer call."""

    async def inside(run: Any) -> None:
        run.finish(await pay(7))

    inner = agent(inside, pay, name="inner")

    @perdure.tool(effect="idempotent")
    async def delegate() -> str:
        return str((await place.run(inner, "inner-run", "go")).unwrap())

    async def step(run: Any) -> None:
        run.finish(await delegate())

    outer = agent(step, delegate)
    async with memory.runtime(outer, inner) as place:
        assert (await place.run(outer, "run-1", "go")).unwrap() == "paid 7"
    assert [body.head.name for body in await memory.bodies(e.CallIntended, "inner-run")] == ["pay"]
    assert [body.head.name for body in await memory.bodies(e.CallIntended)] == ["delegate"]
    await memory.blameless(WORLD, run_id="inner-run")


async def test_bound_methods_are_tools_of_their_object(memory: Stage) -> None:
    """`self` is not journaled; the method of another object is another tool."""

    class Till:
        def __init__(self, name: str) -> None:
            self.name = name

        @perdure.tool(effect="read")
        async def count(self, n: int) -> str:
            return f"{self.name} {n}"

    mine, other = Till("mine"), Till("other")

    async def step(run: Any) -> None:
        run.state["log"].append(await mine.count(3))
        try:
            await other.count(3)
        except ToolNotListed:
            run.finish("refused")

    outcome = await memory.run(agent(step, mine.count), check=True)
    assert not isinstance(outcome, Held), outcome
    assert outcome.unwrap() == "refused"
    assert await memory.state() == {"log": ["mine 3"]}
