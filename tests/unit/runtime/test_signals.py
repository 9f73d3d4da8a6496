"""Signals: early, late, in order, once; and what a wait's end does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import perdure
from perdure import FOREVER
from perdure.agent import Cancelled, Held, Waiting
from perdure.clock import SECOND
from perdure.errors import (
    BadArguments,
    IdReused,
    NoSuchRun,
    NotStorable,
    RunEnded,
    SignalUnfit,
    WaitExpired,
)
from perdure.state import events as e
from tests.unit.runtime.stage import RUN, Stage, World, agent

HOUR = timedelta(hours=1)


@dataclass
class Paid:
    """What the bank tells."""

    cents: int
    fee: Decimal = Decimal(0)


def waiter(*names: str, expected: Any = Any, **options: Any) -> Any:
    """Waits for signals of these names, one after the other, and finishes with what came."""

    async def step(run: Any) -> None:
        run.finish([await run.wait(name, expected, **options) for name in names])

    return agent(step)


async def send(stage: Stage, *args: Any, **options: Any) -> bool:
    """A signal from a process that serves no agent."""
    async with stage.runtime() as place:
        return await place.signal(RUN, *args, **options)


async def test_a_signal_ends_its_wait(stage: Stage) -> None:
    """It comes typed, whatever process sent it, and the record says from whom."""
    made = waiter("paid", expected=Paid, timeout=HOUR)
    waiting = await stage.run(made)
    until = datetime.fromtimestamp(stage.clock.now() / SECOND, UTC) + HOUR
    assert waiting == Waiting(("signal 'paid' at 1:0",), (), until, run_id=RUN)
    assert await send(stage, "paid", {"cents": 5, "fee": "0.10"}, by="bank") is True
    assert (await stage.run(made, check=True)).unwrap() == [{"cents": 5, "fee": Decimal("0.10")}]
    [signal] = await stage.bodies(e.SignalReceived)
    assert (signal.name, signal.by, signal.accepted) == ("paid", "bank", stage.clock.now())
    [closed] = await stage.bodies(e.WaitClosed)
    assert (closed.how, closed.value) == ("signal", b"")
    await stage.blameless()


async def test_early_signals_are_kept_in_their_order(stage: Stage) -> None:
    """Sent before the run has begun to wait, each by a wait of its name; what is over is kept (O-068)."""
    made = waiter("a", "b", "a")
    async with stage.runtime(made) as place:
        await place.start(made, RUN, "go")
    for name, payload in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
        assert await send(stage, name, payload)
    assert (await stage.run(made, check=True)).unwrap() == [1, 4, 2]
    assert [signal.value for signal in (await stage.record()).signals] == [perdure_value(3)]
    await stage.blameless()


def perdure_value(value: object) -> bytes:
    """Value bytes."""
    from perdure import codec

    return codec.encode(value)


async def test_one_id_is_one_signal(stage: Stage) -> None:
    """Twice, also after it was taken, also after the end; with other content it is refused."""
    made = waiter("paid", "paid")
    await stage.run(made)
    assert await send(stage, "paid", 1, id="s-1") is True
    assert await send(stage, "paid", 1, id="s-1") is False
    with pytest.raises(IdReused, match="A416"):
        await send(stage, "paid", 2, id="s-1")
    with pytest.raises(IdReused):
        await send(stage, "late", 1, id="s-1")
    await stage.run(made)
    assert await send(stage, "paid", 1, id="s-1") is False
    with pytest.raises(IdReused):
        await send(stage, "paid", 2, id="s-1")
    assert await send(stage, "paid", 2, id="s-2") is True
    assert (await stage.run(made)).unwrap() == [1, 2]
    assert await send(stage, "paid", 2, id="s-2") is False
    with pytest.raises(IdReused):
        await send(stage, "paid", 3, id="s-2")
    with pytest.raises(RunEnded, match="succeeded"):
        await send(stage, "paid", 3, id="s-3")
    assert len(await stage.bodies(e.SignalReceived)) == 2
    await stage.blameless()


async def test_what_cannot_be_sent_is_refused(memory: Stage) -> None:
    """With a code, and nothing is written."""
    made = waiter("paid", expected=Paid)
    await memory.run(made)
    with pytest.raises(NoSuchRun):
        async with memory.runtime() as place:
            await place.signal("nobody", "paid")
    with pytest.raises(NotStorable):
        await send(memory, "paid", object())
    for name in ("", "a\nb", "x" * 201):
        with pytest.raises(BadArguments, match="1 to 200"):
            await send(memory, name)
    with pytest.raises(BadArguments):
        await send(memory, "paid", {"cents": 1}, id="")
    with pytest.raises(SignalUnfit, match=r"\$\.cents should be a whole number"):
        await send(memory, "paid", {"cents": "many"})
    assert (await memory.store.row(RUN)).inbox == 0
    assert await send(memory, "other", {"cents": "many"})
    assert await send(memory, "paid", {"cents": 1})


async def test_an_early_signal_of_another_type_is_told_to_the_step(stage: Stage) -> None:
    """It is taken, and the same after a restart; the next one counts."""

    async def step(run: Any) -> None:
        try:
            await run.wait("paid", Paid)
        except SignalUnfit as error:
            run.state["log"].append([error.code, error.path])
        run.finish([*run.state["log"], (await run.wait("paid", Paid)).cents])

    made = agent(step)
    async with stage.runtime(made) as place:
        await place.start(made, RUN, "go")
    await send(stage, "paid", {"cents": "many"})
    await stage.run(made)
    await send(stage, "paid", Paid(7))
    assert (await stage.run(made, check=True)).unwrap() == [["A417", "$.payload.cents"], 7]


# ------------------------------------------------------------------------------------------------------- ends


async def test_an_expired_wait_raises(stage: Stage) -> None:
    """Unless it says otherwise; the error is the step's to catch, and the same when replayed."""

    async def step(run: Any) -> None:
        try:
            await run.wait("paid", timeout=20)
        except WaitExpired as error:
            run.state["log"].append(error.what)
        await run.wait("next", timeout=20, default=None)
        run.finish(run.state["log"])

    made = agent(step)
    start = datetime.fromtimestamp(stage.clock.now() // SECOND + 20, UTC)
    [told] = (await stage.run(made, check=True)).unwrap()
    assert told == f"nothing came for signal 'paid' until {start.isoformat(' ')}"
    assert [body.how for body in await stage.bodies(e.WaitClosed)] == ["expired", "expired"]


async def test_an_expiry_that_nobody_catches_holds_the_run(memory: Stage) -> None:
    """With its code."""
    held = await memory.run(waiter("paid", timeout=1))
    assert isinstance(held, Held)
    assert (held.reason, "A411" in held.detail) == ("step-error", True)


@pytest.mark.parametrize(
    ("options", "result"),
    [
        ({"default": Paid(0)}, {"cents": 0, "fee": Decimal(0)}),
        ({"default": None}, None),
        ({"expected": bool, "expiry": "deny"}, False),
    ],
)
async def test_an_expiry_may_give_something(stage: Stage, options: Any, result: Any) -> None:
    """A default, also one of another type; or no."""
    made = waiter("paid", timeout=1, **{"expected": Paid, **options})
    assert (await stage.run(made, check=True)).unwrap() == [result]


async def test_denying_is_for_yes_or_no(memory: Stage) -> None:
    """What would no be for a payment?"""
    held = await memory.run(waiter("paid", expected=Paid, expiry="deny"))
    assert "T204" in held.detail


@pytest.mark.parametrize("absurd", [-1, timedelta(seconds=-1), 1e300, float("nan"), timedelta(days=10**8)])
async def test_an_absurd_timeout_is_refused(memory: Stage, absurd: Any) -> None:
    """One in the past, or beyond the calendar."""
    held = await memory.run(waiter("paid", timeout=absurd))
    assert "T204" in held.detail
    assert await memory.bodies(e.WaitOpened) == []


async def test_a_timeout_of_nothing_takes_what_is_there(memory: Stage) -> None:
    """And never waits."""
    made = waiter("a", "a", timeout=0, default="none")
    async with memory.runtime(made) as place:
        await place.start(made, RUN, "go")
        await place.signal(RUN, "a", 1)
    assert (await memory.run(made, check=True)).unwrap() == [1, "none"]


async def test_the_agents_limit_ends_a_wait_that_declares_none(memory: Stage) -> None:
    """Seven days, or what the agent says; only FOREVER is for ever."""
    start = datetime.fromtimestamp(memory.clock.now() / SECOND, UTC)
    assert (await memory.run(waiter("a"), run_id="r-1")).until == start + timedelta(days=7)

    async def step(run: Any) -> None:
        await run.wait("a")

    assert (await memory.run(agent(step, wait_limit=HOUR), run_id="r-2")).until == start + HOUR
    for number, made in enumerate((agent(step, wait_limit=FOREVER), waiter("a", timeout=FOREVER))):
        waiting = await memory.run(made, run_id=f"f-{number}")
        assert waiting.until is None
        memory.clock.advance(86_400 * 365 * 100)
        assert (await memory.run(made, run_id=f"f-{number}")).status == "waiting"
        await_open = await memory.record(f"f-{number}")
        assert not await_open.waits["1:0"].closed


async def test_a_signal_that_was_accepted_in_time_beats_the_timer(stage: Stage) -> None:
    """Though the run wakes only after the deadline; one that came at it does not."""
    made = waiter("paid", timeout=1000, default="too late")
    await stage.run(made)
    stage.clock.advance(999)
    await send(stage, "paid", 1)
    stage.clock.advance(1)
    await send(stage, "paid", 2)
    stage.clock.advance(5000)
    assert (await stage.run(made)).unwrap() == [1]
    assert len((await stage.record()).signals) == 1


async def test_a_signal_at_the_deadline_is_kept_for_the_next_wait(stage: Stage) -> None:
    """The timer was first."""
    made = waiter("paid", "paid", timeout=1000, default="too late")
    await stage.run(made)
    stage.clock.advance(1000)
    await send(stage, "paid", 1)
    assert (await stage.run(made)).unwrap() == ["too late", 1]


@pytest.mark.parametrize("hours", [-6, 6])
async def test_a_clock_that_jumps_loses_nothing(stage: Stage, hours: int) -> None:
    """Back: the wait lasts longer. Ahead: it expires, and what comes later is kept. Once each."""
    made = waiter("paid", "paid", timeout=HOUR, default="late")
    await stage.run(made)
    if hours > 0:
        stage.clock.advance(hours * 3600)
    else:
        stage.clock.set_back(-hours * 3600)
    again = await stage.run(made)
    assert again.status == "waiting"
    await send(stage, "paid", 1)
    last = await stage.run(made)
    if hours > 0:
        assert last.unwrap() == ["late", 1]
    else:
        await send(stage, "paid", 2)
        assert (await stage.run(made)).unwrap() == [1, 2]
    await stage.blameless()


async def test_a_signal_accepted_under_a_clock_that_was_ahead_still_counts(stage: Stage) -> None:
    """The clock was hours ahead when it came and is right again when the run looks."""
    made = waiter("paid", timeout=HOUR)
    await stage.run(made)
    stage.clock.advance(6 * 3600)
    await send(stage, "paid", 1)
    stage.clock.set_back(6 * 3600)
    assert (await stage.run(made)).unwrap() == [1]


# --------------------------------------------------------------------------------------------------- branches


async def test_branches_wait_and_act_at_the_same_time(stage: Stage) -> None:
    """A wait in a branch stops no other; two of one name take two signals; each act is made once."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def pay(cents: int) -> int:
        return int(world.act(cents))

    async def pays_then_waits(run: Any) -> Any:
        await pay(1)
        return await run.wait("a")

    async def waits_then_pays(run: Any) -> Any:
        got = await run.wait("a")
        await pay(2)
        return got

    async def step(run: Any) -> None:
        three = await run.gather(pays_then_waits(run), waits_then_pays(run), pay(3))
        run.finish([*three, await run.wait("b", timeout=1, default="none")])

    made = agent(step, pay)
    waiting = await stage.run(made)
    assert len(waiting.reasons) == 2
    assert [act.reply for act in world.acts] == [perdure_value(n).hex() for n in (1, 3)]
    await send(stage, "a", "first")
    assert len((await stage.run(made)).reasons) == 1
    await send(stage, "a", "second")
    result = (await stage.run(made, check=True)).unwrap()
    assert sorted(result[:2]) == ["first", "second"]
    assert result[2:] == [3, "none"]
    assert len(world) == 3
    await stage.blameless(world)


async def test_a_signal_that_comes_while_another_branch_works_is_not_slept_over(stage: Stage) -> None:
    """The wait was blocked when it came: the step is executed again, and not put to sleep."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def slow() -> str:
        await place.signal(RUN, "a", "came meanwhile")
        return str(world.act("slow"))

    @perdure.tool(effect="irreversible")
    async def after() -> str:
        return str(world.act("after"))

    async def both() -> Any:
        return [await slow(), await after()]  # the second intent finds that the inbox has moved

    async def step(run: Any) -> None:
        run.finish(list(await run.gather(run.wait("a"), both())))

    made = agent(step, slow, after)
    async with stage.runtime(made) as place:
        outcome = await place.run(made, RUN, "go", patience=timedelta(0))
    assert outcome.unwrap() == ["came meanwhile", ["slow", "after"]]
    assert len(world) == 2
    await stage.blameless(world)


async def test_a_wait_beside_a_models_tool_calls(stage: Stage) -> None:
    """Tool calls of a model go on while a branch waits, and are not made again when it wakes."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def pay(cents: int) -> int:
        return int(world.act(cents))

    calls = [{"type": "tool_use", "id": "c-1", "name": "pay", "input": {"cents": 5}}]

    async def step(run: Any) -> None:
        answer, signal = await run.gather(run.tools(calls), run.wait("go"))
        run.finish([answer[0]["content"], signal])

    made = agent(step, pay)
    assert (await stage.run(made)).status == "waiting"
    await send(stage, "go", 1)
    text, signal = (await stage.run(made, check=True)).unwrap()
    assert ("5" in str(text), signal, len(world)) == (True, 1, 1)


async def test_a_cancelled_waiter_ends_at_once(stage: Stage) -> None:
    """A worker that does not know the agent ends it; later signals are refused with the reason."""
    await stage.run(waiter("paid", timeout=FOREVER))
    async with stage.runtime() as place:
        assert await place.cancel(RUN, by="ada") is True
        assert await place.outcome(RUN) == Cancelled("ada", run_id=RUN)
        with pytest.raises(RunEnded, match="cancelled"):
            await place.signal(RUN, "paid")


async def test_a_worker_wakes_for_a_signal(stage: Stage) -> None:
    """Not at the deadline, but when it comes; many waiting runs, and only the one that is meant moves."""
    made = waiter("paid", timeout=FOREVER)
    async with stage.runtime(made, workers=4) as place:
        for number in range(20):
            await place.start(made, f"r-{number}", "go")
        await _until(place, "waiting", 20)
        before = {f"r-{n}": (await place.store.row(f"r-{n}")).epoch for n in range(20)}
        await place.signal("r-7", "paid", "you")
        await _until(place, "succeeded", 1)
        assert (await place.outcome("r-7")).unwrap() == ["you"]
        after = {f"r-{n}": (await place.store.row(f"r-{n}")).epoch for n in range(20)}
    assert [name for name in before if after[name] != before[name]] == ["r-7"]


async def _until(place: Any, status: str, count: int) -> None:
    from perdure.store.protocol import Query

    async with asyncio.timeout(20):
        while len(await place.store.list(Query(statuses=(status,)))) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


# ------------------------------------------------------------------------------------------------ divergence


async def test_a_wait_for_something_else_is_a_divergence(memory: Stage) -> None:
    """Unanswered, the new code's wait takes its place; answered, a person must look."""
    await memory.run(waiter("paid"))
    await send(memory, "sent", 1)

    async def two(run: Any) -> None:
        await run.wait("sent")
        await run.wait("more")

    assert (await memory.run(agent(two))).reasons == ("signal 'more' at 1:1",)
    await send(memory, "unheard", 1)
    held = await memory.run(waiter("other"))
    assert (held.reason, "recorded signal 'sent'; the code waits for signal 'other'" in held.detail) == (
        "diverged",
        True,
    )
    async with memory.runtime() as place:
        await place.retry(RUN, by="ada", restart=True)
    assert (await memory.run(waiter("sent"))).unwrap() == [1], (
        "a step that begins anew finds its signal again"
    )
    await memory.blameless()
