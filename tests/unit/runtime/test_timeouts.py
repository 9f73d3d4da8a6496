"""Timeouts, retries, rates and limits of tools."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure.agent import Done, Held, NotDone, Rate, Retry, Waiting, current_call
from perdure.clock import SECOND
from perdure.errors import CallFailed
from perdure.state import events as e
from tests.unit.runtime.stage import Stage, World, agent

SHORT = timedelta(milliseconds=20)


class Refused(Exception):
    """A definite failure."""


def caller(tool: Any, *args: Any) -> Any:
    """A step that makes one call; it finishes with the result, or with the failure's type."""

    async def step(run: Any) -> None:
        try:
            run.finish(await run.call(tool, *args))
        except CallFailed as failure:
            run.finish(failure.type_name)

    return step


# -------------------------------------------------------------------------------------------------- timeouts


async def test_a_read_over_time_is_cancelled_and_failed(stage: Stage) -> None:
    """Its coroutine has ended before anything else happens."""
    ended: list[str] = []

    @perdure.tool(effect="read", timeout=SHORT)
    async def look() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")
        return "never"

    made = agent(caller(look), look)
    assert (await stage.run(made, check=True)).unwrap() == "TimeoutError"
    assert ended == ["cleaned up"]
    assert "call.unknown" not in await stage.kinds()


@pytest.mark.parametrize("timeout", [None, timedelta(hours=1)])
@pytest.mark.parametrize("threaded", [False, True])
async def test_a_tool_that_asks_for_the_end_of_the_process_fails_like_any_other(
    stage: Stage, timeout: timedelta | None, threaded: bool
) -> None:
    """As argument parsers do: it would end every other run of the worker too, and of each that takes over."""

    async def parse() -> str:
        sys.exit(3)

    def parse_in_a_thread() -> str:
        sys.exit(3)

    look = perdure.tool(effect="read", timeout=timeout)(parse_in_a_thread if threaded else parse)
    assert (await stage.run(agent(caller(look), look), check=True)).unwrap() == "SystemExit"


async def test_an_act_over_time_is_unknown(stage: Stage) -> None:
    """By its timeout, told as such; the hook says what happened."""
    world = World()

    @perdure.tool(effect="irreversible", timeout=SHORT)
    async def pay() -> str:
        world.act("paid")
        await asyncio.Event().wait()
        return "never"

    @pay.reconcile
    async def paid() -> Any:
        found = world.find(current_call().key)
        return Done(found) if found else NotDone()

    assert (await stage.run(agent(caller(pay), pay), check=True)).unwrap() == "paid"
    [unknown] = await stage.bodies(e.CallUnknown)
    assert (unknown.cause, len(world)) == ("timeout", 1)
    assert "0.02 s" in unknown.detail
    await stage.blameless(world)


async def test_a_timed_out_act_that_comes_to_its_end_counts(memory: Stage) -> None:
    """It was cancelled and ended all the same: with a result, or with a declared refusal."""
    world = World()

    @perdure.tool(effect="irreversible", timeout=SHORT, raises=[Refused])
    async def pay(how: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if how == "refused":
                raise Refused("no money") from None
        return str(world.act("paid after all"))

    async def step(run: Any) -> None:
        run.state["log"].append(await pay("done"))
        try:
            await pay("refused")
        except Refused as refusal:
            run.finish(str(refusal))

    assert (await memory.run(agent(step, pay), check=True)).unwrap() == "no money"
    assert await memory.state() == {"log": ["paid after all"]}
    await memory.blameless(world)


@pytest.mark.parametrize("effect", ["read", "irreversible", "idempotent"])
async def test_a_thread_over_time_is_waited_for_and_settles_the_call(stage: Stage, effect: Any) -> None:
    """Nothing is said of it before it has ended, and then its result counts."""
    world, ended = World(), threading.Event()

    @perdure.tool(effect=effect, timeout=SHORT)
    def work() -> str:
        ended.wait(0.08)
        return str(world.act("ended late"))

    assert (await stage.run(agent(caller(work), work), check=True)).unwrap() == "ended late"
    assert len(world) == 1
    assert "call.unknown" not in await stage.kinds()
    await stage.blameless(world)


async def test_a_thread_that_fails_late_is_unknown_or_refused(memory: Stage) -> None:
    """A declared refusal is definite however late; anything else is not."""

    @perdure.tool(effect="irreversible", timeout=SHORT, raises=[Refused])
    def work(how: str) -> str:
        threading.Event().wait(0.04)
        raise Refused("no money") if how == "refused" else OSError("reset")

    async def step(run: Any) -> None:
        try:
            await run.call(work, "refused")
        except Refused:
            await run.call(work, "broken")

    held = await memory.run(agent(step, work))
    assert isinstance(held, Held)
    assert held.reason == "unknown-outcome"
    [unknown] = await memory.bodies(e.CallUnknown)
    assert (unknown.path, unknown.cause) == ("1:1", "connection")


# --------------------------------------------------------------------------------------------------- retries


def moody(good: int, **options: Any) -> tuple[Any, list[Any]]:
    """A tool that fails until its `good`-th try; the list tells attempt, key and time of each try."""
    tries: list[Any] = []

    @perdure.tool(**options)
    async def look() -> str:
        call = current_call()
        tries.append((call.attempt, call.key))
        if len(tries) < good:
            raise (NotDone if options["effect"] != "read" else ConnectionError)("not yet")
        return f"try {len(tries)}"

    return look, tries


async def test_a_read_is_retried_with_backoff(stage: Stage) -> None:
    """Doubled each time, never above its maximum; the tries are in the journal, the check repeats none."""
    look, tries = moody(5, effect="read", retry=Retry(attempts=5, backoff=10, backoff_max=30))
    before = stage.clock.now()
    assert (await stage.run(agent(caller(look), look), check=True)).unwrap() == "try 5"
    assert [attempt for attempt, _ in tries] == [1, 2, 3, 4, 5]
    waited = (stage.clock.now() - before) / SECOND
    assert 10 + 20 + 30 + 30 <= waited < 100
    settled = await stage.bodies(e.CallSettled)
    assert [(body.outcome, body.final) for body in settled] == [("failed", False)] * 4 + [("done", True)]


async def test_a_read_that_goes_on_failing_fails(memory: Stage) -> None:
    """After the last attempt, and not once more."""
    look, tries = moody(9, effect="read", retry=Retry(attempts=3, backoff=1))
    assert (await memory.run(agent(caller(look), look), check=True)).unwrap() == "ConnectionError"
    assert len(tries) == 3


async def test_without_retry_a_read_fails_at_once(memory: Stage) -> None:
    """One attempt."""
    look, tries = moody(9, effect="read")
    assert (await memory.run(agent(caller(look), look))).unwrap() == "ConnectionError"
    assert len(tries) == 1


@pytest.mark.parametrize("effect", ["idempotent", "irreversible"])
async def test_an_act_that_says_not_done_is_retried_with_its_key(stage: Stage, effect: Any) -> None:
    """It certainly did not happen: again, under the same key."""
    pay, tries = moody(3, effect=effect, retry=Retry(attempts=3, backoff=5))
    assert (await stage.run(agent(caller(pay), pay), check=True)).unwrap() == "try 3"
    assert [attempt for attempt, _ in tries] == [1, 2, 3]
    assert len({key for _, key in tries}) == 1
    assert len(await stage.bodies(e.CallIntended)) == 3


async def test_an_act_that_says_not_done_once_too_often_fails(memory: Stage) -> None:
    """The last word is a failure, as NotDone."""
    pay, tries = moody(9, effect="irreversible", retry=Retry(attempts=2, backoff=1))
    assert (await memory.run(agent(caller(pay), pay), check=True)).unwrap() == "NotDone"
    assert len(tries) == 2


async def test_declared_failures_are_not_retried(memory: Stage) -> None:
    """`raises` says that the answer is final."""
    tries: list[int] = []

    @perdure.tool(effect="read", raises=[Refused], retry=Retry(attempts=5))
    async def look() -> None:
        tries.append(1)
        raise Refused("no")

    async def step(run: Any) -> None:
        try:
            await look()
        except Refused:
            run.finish("refused")

    assert (await memory.run(agent(step, look), check=True)).unwrap() == "refused"
    assert tries == [1]


@pytest.mark.parametrize("effect", ["read", "irreversible"])
async def test_tries_are_counted_in_the_journal_and_not_reset_by_a_restart(stage: Stage, effect: Any) -> None:
    """Interrupted in the wait after the second try: the third try is the last."""
    look, tries = moody(99, effect=effect, retry=Retry(attempts=3, backoff=5))
    made = agent(caller(look), look)
    stage.clock.hurried = False
    caller_task = asyncio.create_task(stage.run(made))
    while len(tries) < 2:
        await asyncio.sleep(0.005)
        stage.clock.advance(1)
    await asyncio.sleep(0.02)
    caller_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller_task
    stage.clock.hurried = True
    assert (await stage.run(made, check=True)).unwrap() in ("ConnectionError", "NotDone")
    assert [attempt for attempt, _ in tries] == [1, 2, 3]


async def test_no_retry_is_used_up_by_what_is_no_failure(memory: Stage) -> None:
    """A call that has to wait for something (here an approval that nobody gives) counts no attempt.

    Field case O-007.
    """
    tries: list[int] = []

    @perdure.tool(effect="irreversible", approval=perdure.Approval(), retry=Retry(attempts=3))
    async def pay() -> None:
        tries.append(1)

    waits = await memory.run(agent(caller(pay), pay))
    assert isinstance(waits, Waiting)
    assert len(waits.approvals) == 1
    assert tries == []
    assert await memory.bodies(e.CallIntended) == []


# --------------------------------------------------------------------------------------------- rate and limit


async def test_limit_is_for_the_whole_process(memory: Stage) -> None:
    """However many runs and branches: at most so many calls of the tool at once."""
    now, most = 0, 0

    @perdure.tool(effect="read", limit=2)
    async def look(n: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(3):
            await asyncio.sleep(0)
        now -= 1
        return n

    async def step(run: Any) -> None:
        run.finish(await run.map(look, range(5), limit=5))

    made = agent(step, look)
    async with memory.runtime(made) as place:
        outcomes = await asyncio.gather(*(place.run(made, f"r-{n}", "go") for n in range(3)))
    assert [outcome.unwrap() for outcome in outcomes] == [[0, 1, 2, 3, 4]] * 3
    assert most == 2


async def test_rate_spreads_calls_over_time(memory: Stage) -> None:
    """No span of ten seconds holds more than three calls."""
    times: list[float] = []

    @perdure.tool(effect="read", rate=Rate(3, timedelta(seconds=10)))
    async def look(n: int) -> int:
        times.append(memory.clock.monotonic())
        return n

    async def step(run: Any) -> None:
        run.finish(await run.map(look, range(9)))

    assert (await memory.run(agent(step, look), check=True)).unwrap() == list(range(9))
    assert len(times) == 9
    assert all(later - earlier >= 10 for earlier, later in zip(times, times[3:], strict=False))


async def test_an_act_that_waits_for_its_place_has_no_intent_yet(memory: Stage) -> None:
    """What is not about to be sent is not intended: a crash now leaves nothing to find out."""
    gate, world = asyncio.Event(), World()

    @perdure.tool(effect="irreversible", limit=1)
    async def pay(cents: int) -> str:
        if cents == 1:
            await gate.wait()
        return str(world.act(f"paid {cents}"))

    @perdure.tool(effect="read")
    async def look() -> int:
        for _ in range(20):
            await asyncio.sleep(0)
        intents = len(await memory.bodies(e.CallIntended))
        gate.set()
        return intents

    async def step(run: Any) -> None:
        run.finish((await run.gather(pay(1), pay(2), look()))[2])

    assert (await memory.run(agent(step, pay, look))).unwrap() == 1
    assert len(world) == 2
    await memory.blameless(world)


async def test_a_cancel_that_comes_while_an_act_waits_for_its_place_forbids_it(memory: Stage) -> None:
    """The guard is asked again when the place is free."""
    world = World()

    @perdure.tool(effect="irreversible", limit=1)
    async def pay(cents: int) -> str:
        receipt = world.act(f"paid {cents}")
        if cents == 1:
            await place.cancel("run-1", by="ada")
        return str(receipt)

    async def step(run: Any) -> None:
        run.finish(await run.gather(pay(1), pay(2)))

    made = agent(step, pay)
    async with memory.runtime(made) as place:
        assert (await place.run(made, "run-1", "go")).status == "cancelled"
    assert len(world) == 1
    await memory.blameless(world)
