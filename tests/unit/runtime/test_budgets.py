"""A budget under the engine: reserved before, settled after, held before a call that would cross it (law 7).

Amounts are whole numbers: a call of `chat` costs 0.15 dollars exactly.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perdure import Budget, Finished, Held, Price, Retry, Usage
from perdure.agent import Agent
from perdure.errors import BudgetBelowSpent, NoSuchLimit, OtherBudget, PerdureError
from perdure.runtime.budgets import carve
from perdure.state import events as e
from perdure.state.amount import DOLLAR, Amount
from perdure.state.ledger import reserved_of, spent_of
from perdure.state.record import Spent
from tests.unit.runtime.stage import RUN, Lagging, Stage, build

CENT = DOLLAR // 100
PRICE = Price(100.0, 100.0)
"""A dollar for ten thousand tokens."""

REPLY = {"usage": {"input_tokens": 1000, "output_tokens": 500}}
"""0.15 dollars."""


def caller(rounds: int = 10, **options: Any) -> Agent[Any, Any, Any]:
    """An agent whose every step asks its model once, until it has `rounds` replies."""
    agent: Agent[Any, Any, Any] = Agent("caller", state=dict, start=lambda goal: {"n": 0}, **options)

    @agent.model("small-1", price=PRICE, reserve=Usage(1000, 500))
    async def chat(n: int) -> dict[str, Any]:
        return REPLY

    @agent.step
    async def step(run: Any) -> None:
        await chat(run.state["n"])
        run.state["n"] += 1
        if run.state["n"] == rounds:
            run.finish(rounds)

    return agent


async def test_five_calls_and_four_crashes_cost_five_calls(stage: Stage) -> None:
    """Spent is summed from recorded events, whatever was replayed; the seventh call does not fit (O-063)."""
    agent = caller(budget=Budget(usd=1))
    for boundary in ("receipt.queued", "step.committed", "step.commit", "receipt.served"):
        await stage.crash(agent, boundary, hit=1)
    outcome = await stage.run(agent)
    assert isinstance(outcome, Held)
    assert outcome.reason == "over-budget"
    record = await stage.record()
    # What was under way at a crash and is not durable may have been paid for: it is booked, and counts once.
    lost = sum(body.cause == "crash" for body in await stage.bodies(e.CallUnknown))
    assert record.spent.usd == (record.state["n"] + lost) * 15 * CENT == 90 * CENT
    assert reserved_of(record) == Amount()
    await stage.blameless()


@pytest.mark.parametrize("durability", ["step", "strict"])
async def test_what_is_recorded_is_not_counted_again(stage: Stage, durability: Any) -> None:
    """A dollar, calls of 15 cents, four crashes after recorded ones: five cost exactly 75 cents.

    A sixth is allowed, a seventh is not.
    """
    agent = caller(budget=Budget(usd=1), durability=durability)
    for number in range(4):
        await stage.crash(agent, "step.committed")
        assert (await stage.record()).spent.usd == (number + 1) * 15 * CENT
    await stage.crash(agent, "step.committed")
    assert (await stage.record()).spent == replace(Spent(), calls=5, steps=5, **FIVE)
    outcome = await stage.run(agent)
    assert isinstance(outcome, Held)
    assert outcome.detail.startswith("[B501] call 7:0 (chat) asks for $0.15 at worst; $0.10 of $1.00 is left")
    assert (await stage.record()).spent.usd == 90 * CENT
    await stage.blameless()


FIVE = {"input_tokens": 5000, "output_tokens": 2500, "usd": 75 * CENT}


async def test_out_of_budget_is_held_before_the_call_and_a_raise_lets_it_go_on(stage: Stage) -> None:
    """The hold names the limit, what was asked and what is left; who raised it and why is an event."""
    agent = caller(rounds=3, budget=Budget(usd=0.40))
    outcome = await stage.run(agent)
    assert isinstance(outcome, Held)
    assert outcome.detail == ("[B501] call 3:0 (chat) asks for $0.15 at worst; $0.10 of $0.40 is left")
    [held] = await stage.bodies(e.RunHeld)
    assert held.remedies[0] == f"perdure budget {RUN} --add usd=0.05 --why ..."
    assert (await stage.record()).spent.usd == 30 * CENT
    async with stage.runtime(agent) as place:
        await place.raise_budget(RUN, by="ana", why="one more", usd=0.05)
        assert await place.resume(RUN) == Finished(3, run_id=RUN)
    [raised] = await stage.bodies(e.BudgetRaised)
    assert (raised.by, raised.why, raised.more) == ("ana", "one more", Amount(usd=5 * CENT))
    record = await stage.record()
    assert (record.spent.usd, reserved_of(record)) == (45 * CENT, Amount())
    await stage.blameless()


async def test_a_call_that_a_crash_cut_off_is_booked_and_made_again(stage: Stage) -> None:
    """Its intent is durable with the reservation, without the call having waited for it."""
    agent = caller(rounds=1, budget=Budget(tokens=3000))

    async def late() -> None:
        await stage.crash(agent, "call.acted")

    await late()
    # The intent was queued, and lost with the process: nothing reached the step, so nothing is known of it.
    assert await stage.bodies(e.CallIntended) == []
    slow = caller(rounds=1, budget=Budget(tokens=3000))
    chat = slow.models["chat"]
    assert chat.options.reserve == Usage(1000, 500)
    assert await stage.run(slow) == Finished(1, run_id=RUN)
    assert (await stage.record()).spent.input_tokens == 1000


async def test_a_durable_intent_keeps_its_reservation_until_it_is_booked(stage: Stage) -> None:
    """Killed after the intent was on disk: the old attempt counts as spent, at worst, and once."""

    def slow(seconds: float) -> Agent[Any, Any, Any]:
        agent: Agent[Any, Any, Any] = Agent(
            "slow", state=dict, start=lambda goal: {}, budget=Budget(usd=0.31, calls=5)
        )

        @agent.model("small-1", price=PRICE, reserve=Usage(1000, 500))
        async def chat() -> dict[str, Any]:
            await asyncio.sleep(seconds)
            return {"usage": {"input_tokens": 10, "output_tokens": 0}}

        @agent.step
        async def step(run: Any) -> None:
            await chat()
            run.finish()

        return agent

    await stage.crash(slow(0.05), "call.acted")
    record = await stage.record()
    assert reserved_of(record) == Amount(usd=15 * CENT, tokens=1500)
    assert (record.spent.usd, record.spent.calls) == (0, 1)
    assert isinstance(await stage.run(slow(0)), Finished)
    record = await stage.record()
    assert (record.spent.usd, record.spent.calls) == (15 * CENT + CENT // 10, 2)
    assert reserved_of(record) == Amount()
    await stage.blameless()


@pytest.mark.parametrize("kind", ["usd", "tokens", "calls"])
async def test_eight_at_once_never_cross_the_limit(stage: Stage, kind: str) -> None:
    """Each reserves before it is sent, so that only as many are sent as fit; the rest wait, then are held."""
    limits: dict[str, Any] = {"usd": 0.50, "tokens": 5000, "calls": 3}
    agent: Agent[Any, Any, Any] = Agent(
        "crowd", state=dict, start=lambda goal: {}, budget=Budget(**{kind: limits[kind]})
    )
    going, most = 0, 0

    @agent.model("small-1", price=PRICE, reserve=Usage(1000, 500))
    async def chat(n: int) -> dict[str, Any]:
        nonlocal going, most
        going += 1
        most = max(most, going)
        await asyncio.sleep(0.001)
        going -= 1
        return REPLY

    @agent.step
    async def step(run: Any) -> None:
        await run.map(chat, range(8), limit=8)
        run.finish()

    outcome = await stage.run(agent)
    assert isinstance(outcome, Held)
    assert outcome.reason == "over-budget"
    record = await stage.record()
    assert most == 3
    assert record.spent.calls == 3
    assert record.spent.usd == 45 * CENT
    assert reserved_of(record) == Amount()
    await stage.blameless()


async def test_who_only_has_to_wait_for_others_is_not_held(stage: Stage) -> None:
    """What calls on their way hold comes free when they settle for less."""
    agent: Agent[Any, Any, Any] = Agent(
        "crowd", state=dict, start=lambda goal: {}, budget=Budget(tokens=3000)
    )

    @agent.model("small-1", reserve=Usage(2000, 500))
    async def chat(n: int) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"usage": {"input_tokens": 10, "output_tokens": 1}}

    @agent.model("small-2", max_output=None)
    async def endless(n: int) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"usage": {"input_tokens": 10, "output_tokens": 1}}

    @agent.step
    async def step(run: Any) -> None:
        await run.gather(*(chat(n) for n in range(4)), *(endless(n) for n in range(4)))
        run.finish()

    assert isinstance(await stage.run(agent), Finished)
    record = await stage.record()
    assert record.spent.input_tokens + record.spent.output_tokens == 88
    assert {body.reserved.tokens for body in await stage.bodies(e.CallIntended)} > {2500}
    await stage.blameless()


async def test_an_unknown_price_is_an_error_at_the_first_call(stage: Stage) -> None:
    """With a budget in dollars; recorded at the call, and mended by a price in the agent's table."""

    def priced(**options: Any) -> Agent[Any, Any, Any]:
        agent: Agent[Any, Any, Any] = Agent("priced", budget=Budget(usd=1), **options)

        @agent.model("small-1")
        async def chat(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
            return {"role": "assistant", "content": "done", **REPLY}

        return agent

    outcome = await stage.run(priced())
    assert isinstance(outcome, Held)
    assert outcome.reason == "step-error"
    assert "[B502] PriceUnknown: chat calls small-1, whose price is not known" in outcome.detail
    mended = priced(prices={"small-1": PRICE})
    async with stage.runtime(mended) as place:
        await place.retry(RUN, by="ana")
        assert await place.resume(RUN) == Finished("done", run_id=RUN)
    assert (await stage.record()).spent.usd == 15 * CENT


async def test_failures_give_back_and_lost_replies_do_not(stage: Stage) -> None:
    """A definite failure used nothing; one whose reply was lost on the way may have been charged."""
    agent: Agent[Any, Any, Any] = Agent(
        "flaky", state=dict, start=lambda goal: {}, budget=Budget(usd=1, calls=9)
    )
    errors: list[Exception] = [ValueError("no"), ConnectionError("lost"), TimeoutError()]

    @agent.model("small-1", price=PRICE, reserve=Usage(1000, 0), retry=Retry(attempts=4, backoff=0))
    async def chat() -> dict[str, Any]:
        if errors:
            raise errors.pop(0)
        return REPLY

    @agent.step
    async def step(run: Any) -> None:
        await chat()
        run.finish()

    assert isinstance(await stage.run(agent), Finished)
    record = await stage.record()
    assert (record.spent.usd, record.spent.calls) == (35 * CENT, 4)
    assert reserved_of(record) == Amount()
    await stage.blameless()


async def test_a_reply_that_tells_no_usage_costs_what_was_reserved(stage: Stage) -> None:
    """Never a silent zero."""
    agent: Agent[Any, Any, Any] = Agent("mute", state=dict, start=lambda goal: {}, budget=Budget(usd=1))

    @agent.model("small-1", price=PRICE, max_output=100)
    async def chat(text: str) -> str:
        return "mute"

    @agent.step
    async def step(run: Any) -> None:
        await chat("x" * 898)
        run.finish()

    assert isinstance(await stage.run(agent), Finished)
    spent = spent_of(await stage.record())
    assert spent.tokens >= 998
    assert spent.usd == spent.tokens * DOLLAR // 10_000


async def test_steps_are_limited_in_total_over_resumes(stage: Stage) -> None:
    """A limit of the run stands over the agent's other default, and says where it comes from (O-065)."""

    def stepper() -> Agent[Any, Any, Any]:
        agent: Agent[Any, Any, Any] = Agent(
            "stepper", state=dict, start=lambda goal: {"n": 0}, budget=Budget(steps=7, calls=1000)
        )

        @agent.tool(effect="read")
        async def look(n: int) -> int:
            return n + 1

        @agent.step
        async def step(run: Any) -> None:
            run.state["n"] = await look(run.state["n"])

        return agent

    budget = Budget(steps=50)
    outcome: Any = None
    for _ in range(2):
        async with stage.runtime(stepper()) as place:
            outcome = await place.run(stepper(), RUN, "go", budget=budget)
    assert isinstance(outcome, Held)
    record = await stage.record()
    assert (record.step, record.spent.steps) == (50, 50)
    assert outcome.detail == "[B501] step 51 asks for 1 step at worst; 0 of 50 steps are left"
    assert record.ledger is not None
    assert record.ledger.limits.own == ("steps",)
    assert record.ledger.limits.calls == 1000


async def test_another_budget_for_a_run_that_is_there_is_refused(stage: Stage) -> None:
    """Nothing replaces the limits of a run unseen; below what is spent is said as such."""
    agent = caller(rounds=3, budget=Budget(usd=5))
    async with stage.runtime(agent) as place:
        assert isinstance(await place.run(agent, RUN, "go", budget=Budget(usd=0.40)), Held)
        for budget, kind, code in (
            (Budget(usd=2), OtherBudget, "B505"),
            (Budget(usd=0.40, steps=9), OtherBudget, "B505"),
            (Budget(usd=0.1), BudgetBelowSpent, "B503"),
        ):
            with pytest.raises(PerdureError) as refused:
                await place.run(agent, RUN, "go", budget=budget)
            assert (type(refused.value), refused.value.code) == (kind, code)
        await place.raise_budget(RUN, by="ana", usd=1)
        assert await place.run(agent, RUN, "go", budget=Budget(usd=0.40)) == Finished(3, run_id=RUN)


@pytest.mark.parametrize(
    ("more", "kind", "code"),
    [
        ({"usd": -1}, BudgetBelowSpent, "B503"),
        ({"tokens": 5}, NoSuchLimit, "B504"),
        ({}, NoSuchLimit, "B504"),
        ({"usd": 0}, NoSuchLimit, "B504"),
        ({"dollars": 1}, None, "C101"),
        ({"usd": float("nan")}, None, "C101"),
        ({"calls": 0.5}, None, "C101"),
    ],
)
async def test_what_a_budget_cannot_be_raised_by(stage: Stage, more: Any, kind: Any, code: str) -> None:
    """Refused with a code, and nothing is written."""
    agent = caller(rounds=3, budget=Budget(usd=0.40, calls=50))
    assert isinstance(await stage.run(agent), Held)
    before = await stage.events()
    async with stage.runtime(agent) as place:
        with pytest.raises(PerdureError) as refused:
            await place.raise_budget(RUN, by="ana", **more)
        assert refused.value.code == code
        assert kind is None or type(refused.value) is kind
        assert (await place.store.row(RUN)).pending == 0
    assert await stage.events() == before


async def test_seconds_are_executing_time_and_outlive_a_crash(stage: Stage) -> None:
    """A sleep of a day costs nothing; what a dead owner was doing until its death counts."""
    agent: Agent[Any, Any, Any] = Agent(
        "worker", state=dict, start=lambda goal: {"n": 0}, budget=Budget(seconds=300)
    )

    @agent.tool(effect="irreversible")
    async def work(n: int) -> int:
        stage.clock.advance(10)
        return n + 1

    @agent.step
    async def step(run: Any) -> None:
        await run.sleep(86_400)
        run.state["n"] = await work(run.state["n"])

    async with stage.runtime(agent) as place:
        for _ in range(3):
            await place.start(agent, RUN, "go")
            await place.resume(RUN)
            stage.clock.advance(86_401)
    used = spent_of(await stage.record()).micros
    assert 20_000_000 <= used < 120_000_000, used
    outcome: Any = None
    async with stage.runtime(agent) as place:
        while not isinstance(outcome, Held):
            outcome = await place.resume(RUN)
            stage.clock.advance(86_401)
    assert outcome.reason == "over-budget"
    assert "300 s" in outcome.detail
    assert spent_of(await stage.record()).micros >= 300_000_000


async def test_a_run_without_limits_writes_no_intents_of_reads(stage: Stage) -> None:
    """Nor does one whose limits its reads have no part in."""
    for number, budget in enumerate([None, Budget(steps=100, seconds=1e6)]):
        agent = caller(rounds=3, budget=budget)
        assert isinstance(await stage.run(agent, run_id=f"r-{number}"), Finished)
        assert await stage.bodies(e.CallIntended, f"r-{number}") == []
        record = await stage.record(f"r-{number}")
        assert record.spent.usd == 45 * CENT


@pytest.mark.parametrize("budget", [None, Budget(usd=1)])
async def test_a_result_waits_for_its_intent_and_for_nothing_else(
    tmp_path: Path, budget: Budget | None
) -> None:
    """The call is sent at once; under a budget the step gets the reply when the intent is on disk.

    Intent and receipt share that commit. Without a budget the step waits for nothing.
    """
    stage = build("memory", tmp_path)
    await stage.store.open()
    disk = stage.wrap(Lagging(stage.store))
    sent: list[int] = []
    given: list[int] = []
    agent: Agent[Any, Any, Any] = Agent("waiter", state=dict, start=lambda goal: {}, budget=budget)

    @agent.model("small-1", price=PRICE, reserve=Usage(1000, 500))
    async def chat(n: int) -> dict[str, Any]:
        sent.append(n)
        return REPLY

    @agent.step
    async def step(run: Any) -> None:
        given.append(len(sent))
        await chat(1)
        given.append(len(sent))
        run.finish()

    looks: list[tuple[int, int]] = []
    async with stage.runtime(agent) as place:
        await place.start(agent, RUN, "go")
        running = asyncio.ensure_future(place.resume(RUN))
        commits = await disk.until(running, seen=lambda: looks.append((len(sent), len(given))))
        assert isinstance(running.result(), Finished)
    if budget is None:
        assert (commits, looks) == (1, [(1, 2)]), "only the end of the run waits for the disk"
    else:
        assert (commits, looks) == (2, [(1, 1), (1, 2)]), "sent before the first commit, given after it"
        assert await stage.kinds() == ["run.started", "call.intended", "call.settled", *ENDS]
    await stage.close()


ENDS = ["step.committed", "run.finished"]


async def test_a_child_gets_what_is_left_and_no_more(stage: Stage) -> None:
    """What is promised to something beside the calls is seen by them, and by the next one that asks."""
    agent = Agent("parent", state=dict, start=lambda goal: {}, budget=Budget(usd=1, steps=9))
    said: list[Any] = []

    @agent.model("small-1", price=PRICE, reserve=Usage(1000, 500))
    async def chat(n: int) -> dict[str, Any]:
        return REPLY

    @agent.step
    async def step(run: Any) -> None:
        drive = run._drive
        said.append(await carve(drive, "child-1", Amount(usd=90 * CENT, steps=3)))
        said.append(await carve(drive, "child-2", Amount(usd=20 * CENT)))
        said.append(await carve(drive, "child-2", Amount(steps=7)))
        drive.purse.drop("child-1")
        said.append(await carve(drive, "child-2", Amount(usd=85 * CENT)))
        await chat(1)
        drive.purse.drop("child-2")
        run.finish()

    assert isinstance(await stage.run(agent), Finished)
    first, second, third, fourth = said
    assert first is None
    assert second.detail == "[B501] child child-2 asks for $0.20 at worst; $0.10 of $1.00 is left"
    assert "7 steps at worst; 6 of 9 steps" in third.detail
    assert fourth is None


async def test_two_that_wait_do_not_wait_for_each_other(stage: Stage) -> None:
    """Retries of lost replies keep what they reserved; where only they could make room, they are held."""
    agent: Agent[Any, Any, Any] = Agent("pair", state=dict, start=lambda goal: {}, budget=Budget(usd=0.40))

    @agent.model("small-1", price=PRICE, reserve=Usage(1000, 500), retry=Retry(attempts=3, backoff=0))
    async def chat(n: int) -> dict[str, Any]:
        await asyncio.sleep(0)
        raise ConnectionError("lost")

    @agent.step
    async def step(run: Any) -> None:
        await run.map(chat, range(4), limit=4)

    outcome = await asyncio.wait_for(stage.run(agent), 20)
    assert isinstance(outcome, Held)
    assert outcome.reason == "over-budget"
    assert (await stage.record()).spent.usd == 30 * CENT
    await stage.blameless()
