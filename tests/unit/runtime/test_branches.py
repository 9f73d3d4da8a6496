"""gather, map and tools: stable paths, no branch cancels another, results in recorded order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import perdure
from perdure.agent import Held
from perdure.clock import SECOND
from perdure.state import events as e
from tests.unit.runtime.stage import Stage, World, agent


class Turns:
    """A read whose calls end in the order that the test wants."""

    def __init__(self, order: list[str]) -> None:
        self.order = list(order)
        self.asked: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}

        @perdure.tool(effect="read")
        async def look(name: str) -> str:
            self.asked.append(name)
            gate = self._gates.setdefault(name, asyncio.Event())
            self._open()
            await gate.wait()
            self.order.remove(name)
            self._open()
            return name.upper()

        self.look = look

    def _open(self) -> None:
        if self.order and self.order[0] in self._gates:
            self._gates[self.order[0]].set()


async def test_paths_are_stable_and_each_branch_has_its_own(memory: Stage) -> None:
    """Step, place of the gather, branch, place in the branch; nested alike."""

    @perdure.tool(effect="read")
    async def look(name: str) -> str:
        return name

    async def pair(run: Any, name: str) -> list[str]:
        return [await look(name), *await run.map(look, [name + "1", name + "2"])]

    async def step(run: Any) -> None:
        await look("first")
        found = await run.gather(pair(run, "a"), pair(run, "b"))
        run.finish(found)

    outcome = await memory.run(agent(step, look), check=True)
    assert outcome.unwrap() == (["a", "a1", "a2"], ["b", "b1", "b2"])
    paths = {body.path for body in await memory.bodies(e.CallSettled)}
    inside = {f"1:1.{branch}.{rest}" for branch in "01" for rest in ("0", "1.0.0", "1.1.0")}
    assert paths == {"1:0"} | inside


@pytest.mark.parametrize("order", [["a", "b", "c", "d"], ["d", "b", "a", "c"], ["c", "d", "b", "a"]])
async def test_results_are_served_again_in_the_order_in_which_they_came(
    memory: Stage, order: list[str]
) -> None:
    """Branches that talk through shared state interleave after a crash as they did before it."""
    turns, said = Turns(order), []

    async def step(run: Any) -> None:
        log: list[str] = []

        async def branch(name: str) -> None:
            log.append(f"{name} in")
            log.append(f"{await turns.look(name)} after {len(log)}")

        await run.gather(*map(branch, "abcd"))
        said.append(list(log))
        run.state["log"] = log
        run.finish()

    made = agent(step, turns.look, durability="strict")
    await memory.crash(made, "step.commit")
    assert turns.order == []
    assert (await memory.run(made, check=True)).status == "succeeded"
    assert len(turns.asked) == 4
    assert said[0] == said[1] == said[2]
    assert [line[0] for line in said[0][4:]] == [name.upper() for name in order]


async def test_a_crash_in_the_middle_serves_what_came_and_asks_for_the_rest(stage: Stage) -> None:
    """Two of four branches had their result: the other two are called, and they alone."""
    world = World()

    @perdure.tool(effect="read")
    async def look(name: str) -> str:
        return str(world.act(name))

    async def step(run: Any) -> None:
        run.finish(await run.map(look, ["a", "b", "c", "d"], limit=2))

    made = agent(step, look, durability="strict")
    await stage.crash(made, "call.act", 3)
    assert len(world) == 2
    assert (await stage.run(made)).unwrap() == ["a", "b", "c", "d"]
    assert len(world) == 4
    await stage.blameless(world)


async def test_no_branch_cancels_another(memory: Stage) -> None:
    """A branch fails at once: the others go on to their end, and only then the error is raised."""
    world, gate = World(), asyncio.Event()

    @perdure.tool(effect="irreversible")
    async def pay(cents: int) -> str:
        await gate.wait()
        return str(world.act(f"paid {cents}"))

    @perdure.tool(effect="read", raises=[LookupError])
    async def look() -> None:
        asyncio.get_running_loop().call_later(0.01, gate.set)
        raise LookupError("nothing there")

    async def step(run: Any) -> None:
        try:
            await run.gather(look(), pay(1), pay(2))
        except LookupError as error:
            run.finish(str(error))

    assert (await memory.run(agent(step, look, pay), check=True)).unwrap() == "nothing there"
    assert len(world) == 2
    assert [body.outcome for body in await memory.bodies(e.CallSettled)] == ["failed", "done", "done"]
    await memory.blameless(world)


async def test_the_first_error_by_place_is_raised(memory: Stage) -> None:
    """Not the first by time, which no replay could tell."""
    turns = Turns(["b", "a"])

    @perdure.tool(effect="read", raises=[ValueError])
    async def fail(name: str) -> None:
        await turns.look.fn(name)
        raise ValueError(name)

    async def step(run: Any) -> None:
        try:
            await run.gather(fail("a"), fail("b"))
        except ValueError as error:
            run.finish(str(error))

    assert (await memory.run(agent(step, fail), check=True)).unwrap() == "a"


async def test_a_suspension_waits_for_the_other_branches(stage: Stage) -> None:
    """One branch sleeps: what the others came to is recorded before the run is given back."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def pay(cents: int) -> str:
        await asyncio.sleep(0.01)
        return str(world.act(f"paid {cents}"))

    async def nap(run: Any) -> str:
        await run.sleep(3600)
        return "rested"

    async def step(run: Any) -> None:
        run.finish(await run.gather(nap(run), pay(1), pay(2)))

    made = agent(step, pay)
    waiting = await stage.run(made)
    assert waiting.status == "waiting"
    assert waiting.until.timestamp() * SECOND == stage.clock.now() + 3600 * SECOND
    assert len(world) == 2
    assert (await stage.kinds()).count("call.settled") == 2
    stage.clock.advance(3600)
    assert (await stage.run(made)).unwrap() == ("rested", "paid 1", "paid 2")
    assert len(world) == 2
    await stage.blameless(world)


async def test_the_nearest_of_several_sleeps_wakes_the_run(memory: Stage) -> None:
    """Each branch sleeps on by its own deadline."""

    async def nap(run: Any, seconds: int) -> int:
        await run.sleep(seconds)
        run.state["log"].append(seconds)
        return seconds

    async def step(run: Any) -> None:
        run.finish(await run.gather(nap(run, 300), nap(run, 100), nap(run, 200)))

    made = agent(step)
    start = memory.clock.now()
    for wake in (100, 200, 300):
        assert (await memory.run(made)).until.timestamp() * SECOND == start + wake * SECOND
        memory.clock.advance(100)
    assert (await memory.run(made, check=True)).unwrap() == (300, 100, 200)
    assert await memory.state() == {"log": [100, 200, 300]}


async def test_a_held_branch_holds_the_run_when_the_others_have_ended(memory: Stage) -> None:
    """The hold comes after the receipts, and the sleeping branch does not hide it."""
    world = World(lose=1)

    @perdure.tool(effect="irreversible")
    async def post(letter: str) -> str:
        return str(world.act(letter))

    @perdure.tool(effect="read")
    async def look() -> str:
        await asyncio.sleep(0.01)
        return "seen"

    async def step(run: Any) -> None:
        run.finish(await run.gather(post("a"), look(), run.sleep(100)))

    held = await memory.run(agent(step, post, look))
    assert isinstance(held, Held)
    assert held.reason == "unknown-outcome"
    kinds = await memory.kinds()
    assert kinds.index("run.held") > kinds.index("call.settled")


async def test_calls_during_unwinding_raise_the_signal_again(memory: Stage) -> None:
    """A `finally` of the step cannot call anything: the step has not gone on, it is being left."""
    world, seen = World(), []

    @perdure.tool(effect="irreversible")
    async def undo() -> str:
        return str(world.act("undone"))

    async def step(run: Any) -> None:
        try:
            await run.sleep(100)
        finally:
            try:
                await undo()
            except BaseException as error:
                seen.append(type(error).__name__)
                raise
        run.finish(await undo())

    made = agent(step, undo)
    assert (await memory.run(made)).status == "waiting"
    assert seen == ["Suspend"]
    assert len(world) == 0
    memory.clock.advance(100)
    assert (await memory.run(made)).unwrap() == "undone"


@pytest.mark.parametrize("how", ["return", "catch", "catch in a branch"])
async def test_a_swallowed_signal_forbids_the_commit(memory: Stage, how: str) -> None:
    """`except BaseException`, or `return` in `finally`: held, with nothing of the step committed."""

    async def nap(run: Any) -> None:
        try:
            await run.sleep(100)
        except BaseException:
            if how != "catch in a branch":
                raise

    async def step(run: Any) -> None:
        run.state["log"].append("wrong")
        try:
            if how == "catch in a branch":
                await run.gather(nap(run))
            await nap(run)
        except BaseException:
            if how == "catch":
                return
            raise
        finally:
            if how == "return":
                return  # noqa: B012

    outcome = await memory.run(agent(step))
    assert await memory.state() == {"log": []}
    if how == "catch in a branch":  # its parent unwinds all the same
        assert outcome.status == "waiting"
        return
    assert isinstance(outcome, Held)
    assert outcome.reason == "signal-swallowed"
    assert "except BaseException" in outcome.detail
    assert (await memory.record()).step == 0


async def test_an_error_that_answers_a_signal_is_no_error_of_the_step(memory: Stage) -> None:
    """`except BaseException: raise ValueError` while the run is to sleep: it sleeps."""

    async def step(run: Any) -> None:
        try:
            await run.sleep(100)
        except BaseException as error:
            raise ValueError("this is not how it goes") from error
        run.finish("woke")

    assert (await memory.run(agent(step))).status == "waiting"
    memory.clock.advance(100)
    assert (await memory.run(agent(step))).unwrap() == "woke"


async def test_map_keeps_the_limit_and_the_order(memory: Stage) -> None:
    """At most so many at once; results in the items' order; plain functions of the step too."""
    now, most = 0, 0

    @perdure.tool(effect="read")
    async def look(n: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.002 if n % 2 else 0)
        now -= 1
        return n * n

    async def twice(n: int) -> int:
        return await look(n) + await look(n + 1)

    async def step(run: Any) -> None:
        squares = await run.map(look, range(9), limit=3)
        pairs = await run.map(twice, [1, 2, 3], limit=2)
        run.finish([squares, pairs])

    assert (await memory.run(agent(step, look), check=True)).unwrap() == [
        [n * n for n in range(9)],
        [5, 13, 25],
    ]
    assert most == 3


async def test_nothing_to_gather_is_nothing(memory: Stage) -> None:
    """Empty gathers have a place, and no calls."""

    async def step(run: Any) -> None:
        run.finish([await run.gather(), await run.map(lambda x: x, []), await run.tools([])])

    assert (await memory.run(agent(step), check=True)).unwrap() == [(), [], []]


async def test_a_branch_that_cancels_itself_is_an_error_of_the_step(memory: Stage) -> None:
    """Nobody cancelled the run, so it is neither cancelled nor left: it is held."""

    async def odd() -> None:
        raise asyncio.CancelledError("by itself")

    async def step(run: Any) -> None:
        await run.gather(odd())

    outcome = await memory.run(agent(step))
    assert isinstance(outcome, Held)
    assert outcome.reason == "step-error"


async def test_a_divergent_map_does_not_wait_for_ever(memory: Stage) -> None:
    """Items that wait for their turn cannot make progress, and the replay knows it."""
    names = ["a", "b", "c", "d"]

    @perdure.tool(effect="read")
    async def look(name: str) -> str:
        return name

    async def step(run: Any) -> None:
        await run.map(look, names, limit=2)
        await run.sleep(100)
        run.finish(names)

    made = agent(step, look)
    assert (await memory.run(made)).status == "waiting"
    names[:] = ["x", "y"]

    async def shorter(run: Any) -> None:
        async def other(name: str) -> str:
            await run.sleep(0)
            return str(await look(name))

        await run.map(other, ["c", "d", "e"], limit=1)
        run.finish("other")

    memory.clock.advance(100)
    assert (await asyncio.wait_for(memory.run(agent(shorter, look)), 5)).unwrap() == "other"
    assert "step.restarted" in await memory.kinds()


async def test_max_concurrency_bounds_the_calls_of_a_step(memory: Stage) -> None:
    """However many branches there are."""
    now, most = 0, 0

    @perdure.tool(effect="read")
    async def look(n: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return n

    async def step(run: Any) -> None:
        run.finish(await run.gather(*(look(n) for n in range(8))))

    assert (await memory.run(agent(step, look, max_concurrency=3), check=True)).unwrap() == tuple(range(8))
    assert most == 3


def _restless(seed: int) -> Any:
    """A read that takes as many turns of the event loop as chance wants, another number each time."""
    chance = random.Random(seed)

    @perdure.tool(effect="read")
    async def look(name: str) -> str:
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        return name

    return look


def _tangled(seed: int, look: Any) -> Any:
    """A step of nested branches that write into one list, the same program for the same seed."""

    async def branch(run: Any, log: list[Any], name: str, depth: int) -> None:
        chance = random.Random(f"{seed} {name}")
        for number in range(chance.randrange(1, 4)):
            log.append([name, number, len(log)])
            if depth and chance.random() < 0.4:
                inner = [
                    branch(run, log, f"{name}{number}{k}", depth - 1) for k in range(chance.randrange(1, 4))
                ]
                await run.gather(*inner)
            elif chance.random() < 0.2:
                log.append([name, run.random(), run.now(), run.new_id()])
            else:
                log.append([await look(f"{name}{number}"), len(log)])

    async def step(run: Any) -> None:
        log: list[Any] = []
        await run.gather(*(branch(run, log, name, 2) for name in "abcd"))
        run.state["log"] = log
        run.finish(len(log))

    return step


@pytest.mark.parametrize("seed", range(20))
async def test_tangled_branches_are_repeatable(memory: Stage, seed: int) -> None:
    """However long each call takes: replayed whole (check), and after a crash in the middle."""
    look = _restless(seed)
    made = agent(_tangled(seed, look), look, durability="strict")
    assert (await memory.run(made, check=True, run_id="whole")).status == "succeeded"
    await memory.crash(made, "call.act", 5)
    assert (await memory.run(made, check=True)).status == "succeeded"
    assert "step.restarted" not in await memory.kinds()


async def test_branches_that_wait_for_each_other_go_on(memory: Stage) -> None:
    """One waits for what another sets after its call; a third for a lock: no outcome is kept from anyone."""
    look = _restless(7)

    async def step(run: Any) -> None:
        told, lock, log = asyncio.Event(), asyncio.Lock(), []

        async def first() -> None:
            async with lock:
                log.append(await look("a"))
                told.set()
                log.append(await look("b"))

        async def second() -> None:
            await told.wait()
            log.append(await look("c"))

        async def third() -> None:
            async with lock:
                log.append(await look("d"))

        await run.gather(second(), first(), third())
        run.state["log"] = log
        run.finish()

    made = agent(step, look, durability="strict")
    assert (await memory.run(made, check=True, run_id="whole")).status == "succeeded"
    await memory.crash(made, "step.commit")
    assert (await memory.run(made, check=True)).status == "succeeded"
    assert sorted((await memory.state())["log"]) == ["a", "b", "c", "d"]
