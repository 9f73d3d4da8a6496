"""Cancellation from outside and timeouts inside a step: nothing is settled falsely."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import perdure
from perdure.agent import Done, Held, NotDone, current_call
from perdure.state import events as e
from tests.unit.runtime.stage import RUN, Stage, World, agent


class Slow:
    """A tool whose answer comes when the test lets it come. `limit`: a timeout of the step that runs out once
    the tool has begun so many times.
    """

    def __init__(self, effect: Any, *, plain: bool = False, **options: Any) -> None:
        self.world = World()
        self.began = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.open = threading.Event()
        self.ended: list[str] = []
        self.limit: asyncio.Timeout | None = None
        self.patience = 1

        async def coroutine(what: str) -> str:
            self._begin()
            while not self.open.is_set():  # noqa: ASYNC110  (the test may open it from a thread)
                await asyncio.sleep(0.001)
            self.ended.append(what)
            return str(self.world.act(what))

        def thread(what: str) -> str:
            assert self.loop is not None
            self.loop.call_soon_threadsafe(self._begin)
            assert self.open.wait(10)
            self.ended.append(what)
            return str(self.world.act(what))

        self.tool: Any = perdure.tool(effect=effect, name="slow", **options)(thread if plain else coroutine)

    def _begin(self) -> None:
        self.began.set()
        self.patience -= 1
        if self.limit is not None and not self.patience:
            self.limit.reschedule(asyncio.get_running_loop().time())

    async def cancelled_while_it_runs(self, stage: Stage, made: Any, *, times: int = 1) -> None:
        """Run until the tool runs, then cancel the caller, perhaps several times 5 ms apart."""
        self.loop = asyncio.get_running_loop()
        caller = asyncio.create_task(stage.run(made))
        await self.began.wait()
        for _ in range(times):
            caller.cancel()
            await asyncio.sleep(0.005)
        self.open.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        self.open.set()


def one(tool: Any) -> Any:
    """A step that makes one call."""

    async def step(run: Any) -> None:
        run.finish(await run.call(tool, "it"))

    return step


# ----------------------------------------------------------------------------- the caller goes


@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancelled_caller_leaves_the_run_to_the_next(stage: Stage, times: int) -> None:
    """A read in flight is forgotten, the lease is given back, and the run goes on at once elsewhere."""
    slow = Slow("read")
    made = agent(one(slow.tool), slow.tool)
    await slow.cancelled_while_it_runs(stage, made, times=times)
    row = await stage.store.row(RUN)
    assert (row.worker, row.claims, row.due_at) == (None, 0, 0)
    assert slow.ended == []
    assert (await stage.run(made)).unwrap() == "it"
    assert "cancel.requested" not in await stage.kinds()


@pytest.mark.parametrize("times", [1, 2])
async def test_an_act_in_flight_is_unknown_and_not_made_again(stage: Stage, times: int) -> None:
    """Without a hook: held for a person, and never sent a second time by itself."""
    slow = Slow("irreversible")
    made = agent(one(slow.tool), slow.tool)
    await slow.cancelled_while_it_runs(stage, made, times=times)
    [unknown] = await stage.bodies(e.CallUnknown)
    assert unknown.cause == "cancelled"
    held = await stage.run(made)
    assert isinstance(held, Held)
    assert held.reason == "unknown-outcome"
    assert len(await stage.bodies(e.CallIntended)) == 1
    await stage.blameless(slow.world)


async def test_a_thread_that_acts_is_waited_for_and_its_result_counts(stage: Stage) -> None:
    """A thread cannot be cancelled: what it came to is its receipt, though the caller has gone."""
    slow = Slow("irreversible", plain=True)
    made = agent(one(slow.tool), slow.tool)
    await slow.cancelled_while_it_runs(stage, made, times=2)
    assert slow.ended == ["it"]
    assert (await stage.run(made)).unwrap() == "it"
    assert len(slow.world) == 1
    await stage.blameless(slow.world)


@pytest.mark.parametrize("effect", ["read", "irreversible"])
async def test_wait_for_around_the_run_times_out_and_the_run_ends_later(stage: Stage, effect: Any) -> None:
    """The client's patience is no property of the run (O-044)."""
    slow = Slow(effect, plain=True)
    slow.loop = asyncio.get_running_loop()
    made = agent(one(slow.tool), slow.tool)
    running = asyncio.create_task(stage.run(made))
    await slow.began.wait()  # else the patience could end before the call begins
    slow.loop.call_later(0.02, slow.open.set)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(running, 0.01)
    assert (await stage.run(made)).unwrap() == "it"
    await stage.blameless(slow.world)


@pytest.mark.parametrize(
    "boundary",
    [
        "run.claimed",
        "run.loaded",
        "intent.write",
        "intent.durable",
        "call.act",
        "receipt.queued",
        "step.commit",
    ],
)
async def test_cancelled_anywhere_the_run_is_whole(stage: Stage, boundary: str) -> None:
    """Whatever is being written when the cancellation comes: all of it or nothing, and the run goes on.

    Field case O-045.
    """
    from perdure.runtime.boundary import set_hook

    world = World()

    @perdure.tool(effect="irreversible")
    async def pay(cents: int) -> str:
        await asyncio.sleep(0)
        return str(world.act(f"paid {cents}"))

    @pay.reconcile
    async def paid(cents: int) -> Any:
        found = world.find(current_call().key)
        return Done(found) if found else NotDone()

    async def step(run: Any) -> None:
        run.state["log"].append(await pay(len(run.state["log"])))
        if len(run.state["log"]) == 2:
            run.finish(run.state["log"])

    caller: list[Any] = []
    made = agent(step, pay, durability="strict")

    def hook(name: str) -> None:
        if name == boundary and caller:
            caller.pop().cancel()

    caller.append(asyncio.create_task(stage.run(made)))
    task = caller[0]
    set_hook(hook)
    with pytest.raises(asyncio.CancelledError):
        await task
    set_hook(None)
    row = await stage.store.row(RUN)
    assert (row.worker, row.claims) == (None, 0)
    assert (await stage.run(made)).unwrap() == ["paid 0", "paid 1"]
    assert len(world) == 2
    await stage.blameless(world)


async def test_a_step_that_swallows_the_cancellation_can_call_nothing_more(memory: Stage) -> None:
    """This process has been told to stop: the next call raises the cancellation again."""
    slow, world = Slow("read"), World()

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        return str(world.act("paid"))

    async def step(run: Any) -> None:
        try:
            await slow.tool("it")
        except asyncio.CancelledError:
            run.state["log"].append("ignored")
        run.finish(await pay())

    made = agent(step, slow.tool, pay)
    await slow.cancelled_while_it_runs(memory, made)
    assert len(world) == 0
    assert (await memory.run(made)).unwrap() == "paid"
    assert await memory.state() == {"log": []}


# --------------------------------------------------------------------------------- the step's own timeout


def timed(slow: Slow, after: Any = None) -> Any:
    """A step whose timeout ends the call while it runs, and which then makes another one."""

    async def step(run: Any) -> None:
        slow.patience = 1
        try:
            async with asyncio.timeout(None) as slow.limit:
                found = await run.call(slow.tool, "it")
        except TimeoutError:
            found = "too slow"
        run.state["log"].append(found)
        if after is not None:
            run.state["log"].append(await after())
        run.finish(found)

    return step


async def test_a_read_that_the_step_gives_up_is_recorded_as_given_up(stage: Stage) -> None:
    """The replay gives it up too, though by then the answer would have come at once."""
    slow, world = Slow("read"), World()

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        return str(world.act("paid"))

    made = agent(timed(slow, pay), slow.tool, pay, durability="strict")
    assert (await stage.run(made, check=True, run_id="whole")).unwrap() == "too slow"
    await stage.crash(made, "receipt.served", 1)
    slow.open.set()
    assert (await stage.run(made, check=True)).unwrap() == "too slow"
    assert await stage.state() == {"log": ["too slow", "paid"]}
    assert slow.ended == []
    await stage.blameless(world)


async def test_an_act_that_the_step_gives_up_is_settled_before_the_step_goes_on(stage: Stage) -> None:
    """The timeout ends the wait, not the uncertainty: the hook is asked, and the step gets what happened."""
    slow = Slow("irreversible")
    asked: list[str] = []

    @slow.tool.reconcile  # type: ignore[untyped-decorator]
    async def happened(what: str) -> Any:
        asked.append(current_call().key)
        return Done("it happened")

    made = agent(timed(slow), slow.tool)
    assert (await stage.run(made, check=True)).unwrap() == "it happened"
    assert len(asked) == 1
    kinds = await stage.kinds()
    assert [kind for kind in kinds if kind.startswith("call")] == [
        "call.intended",
        "call.unknown",
        "call.reconciled",
    ]


async def test_without_a_hook_it_is_held_and_the_code_after_the_timeout_does_not_run(stage: Stage) -> None:
    """`except TimeoutError: pay another way` would pay twice; it must not get so far."""
    slow, world = Slow("irreversible"), World()

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        return str(world.act("paid another way"))

    held = await stage.run(agent(timed(slow, pay), slow.tool, pay))
    assert isinstance(held, Held)
    assert held.reason == "unknown-outcome"
    assert len(world) == 0
    assert await stage.state() == {"log": []}


async def test_a_thread_that_acts_outlasts_the_steps_timeout(memory: Stage) -> None:
    """Its result is there in the end, and it is what the step gets."""
    slow = Slow("irreversible", plain=True)
    slow.loop = asyncio.get_running_loop()
    slow.loop.call_later(0.03, slow.open.set)
    made = agent(timed(slow), slow.tool)
    assert (await memory.run(made, check=True)).unwrap() == "it"
    assert len(slow.world) == 1
    await memory.blameless(slow.world)


async def test_an_act_given_up_before_it_was_sent_did_not_happen(memory: Stage) -> None:
    """While it waits for a free place (`limit`): definite, so the step may go on another way."""
    slow = Slow("irreversible", limit=1)
    world = World()

    @perdure.tool(effect="irreversible")
    async def other() -> str:
        return str(world.act("another way"))

    async def first(run: Any) -> str:
        return str(await slow.tool("it"))

    async def second(run: Any) -> str:
        try:
            async with asyncio.timeout(0.01):
                return str(await slow.tool("that"))
        except TimeoutError:
            slow.open.set()
            return await other()

    async def step(run: Any) -> None:
        run.finish(await run.gather(first(run), second(run)))

    assert (await memory.run(agent(step, slow.tool, other), check=True)).unwrap() == ("it", "another way")
    assert slow.ended == ["it"]
    await memory.blameless(slow.world, world)


@pytest.mark.parametrize("crash", [False, True])
async def test_a_gather_that_the_step_gives_up(stage: Stage, crash: bool) -> None:
    """What had come before counts; the replay gives up at the same place, and asks nobody again."""
    slow, world = Slow("read"), World()
    slow.patience = 2

    @perdure.tool(effect="read")
    async def quick(what: str) -> str:
        return str(world.act(what))

    async def branch(run: Any, what: str) -> None:
        run.state["log"].append(await quick(what))
        run.state["log"].append(await slow.tool(what))

    async def step(run: Any) -> None:
        try:
            async with asyncio.timeout(None) as slow.limit:
                await run.gather(branch(run, "a"), branch(run, "b"))
        except TimeoutError:
            run.state["log"].append("gave up")
        run.state["log"].append(await quick("c"))
        run.finish("done")

    made = agent(step, slow.tool, quick, durability="strict")
    if crash:
        await stage.crash(made, "step.commit")
        slow.open.set()
    assert (await stage.run(made, check=True)).unwrap() == "done"
    assert await stage.state() == {"log": ["a", "b", "gave up", "c"]}
    assert len(world) == 3
    assert slow.ended == []


async def test_a_gather_with_an_act_in_flight_cannot_be_given_up(memory: Stage) -> None:
    """Its outcome is found out first; then the step gets it, timeout or not."""
    slow, answers = Slow("irreversible"), []
    slow.patience = 2

    @slow.tool.reconcile  # type: ignore[untyped-decorator]
    async def happened(what: str) -> Any:
        answers.append(what)
        return Done(f"{what} happened")

    async def step(run: Any) -> None:
        try:
            async with asyncio.timeout(None) as slow.limit:
                found = await run.gather(slow.tool("a"), slow.tool("b"))
        except TimeoutError:
            found = "gave up"
        run.finish(found)

    made = agent(step, slow.tool)
    assert (await memory.run(made, check=True)).unwrap() == ("a happened", "b happened")
    assert sorted(answers) == ["a", "b"]
