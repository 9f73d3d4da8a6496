"""What new code would do to open runs is told before it does it, and the telling leaves no trace."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from perdure import Agent, Approval, Budget, Principal, tool
from perdure.agent import fact
from perdure.errors import ApprovalDenied
from perdure.runtime.forecast import Forecast
from tests.unit.runtime.stage import RUN, Stage, World


class Shop:
    """Tools of a shop, and agents of one name that differ in their step."""

    def __init__(self) -> None:
        self.world = World()
        self.reads = 0
        world, shop = self.world, self

        @tool(effect="read")
        async def look(item: str) -> str:
            shop.reads += 1
            return f"{item} is there"

        @tool(effect="irreversible")
        async def pay(cents: int) -> str:
            world.act("paid")
            return "paid"

        @tool(effect="irreversible", approval=Approval())
        async def refund(cents: int) -> str:
            world.act("refunded")
            return "refunded"

        self.look, self.pay, self.refund = look, pay, refund

    def agent(self, step: Any, name: str = "shop", **options: Any) -> Agent[Any, Any, Any]:
        """An agent with this step."""
        made = Agent(name, state=dict[str, Any], tools=[self.look, self.pay, self.refund], **options)
        made.step(step)
        return made


async def forecast(stage: Stage, *agents: Agent[Any, Any, Any], seconds: float = 5.0) -> Forecast:
    """What these agents would do to the one run, which is the same afterwards."""
    before = await stage.store.load(RUN)
    async with stage.runtime(*agents) as place:
        found = await place.preflight(seconds=seconds)
    assert await stage.store.load(RUN) == before, "a look left a trace"
    [one] = found.forecasts
    assert found.ok is not one.stops
    return one


async def test_a_waiting_run_goes_on_waiting(memory: Stage) -> None:
    """The same code: it resumes, and says what it waits for."""
    shop = Shop()

    async def step(run: Any) -> None:
        await shop.look("book")
        run.finish(await run.wait("go"))

    await memory.run(shop.agent(step))
    one = await forecast(memory, shop.agent(step))
    assert (one.prospect, one.reason, len(one.goes_on)) == ("resumes", "", 1)
    assert one.goes_on[0].startswith("signal 'go' (1:1) at ")
    assert f"{__file__}:" in one.goes_on[0]
    assert shop.reads == 1


async def test_a_call_before_the_recorded_act_diverges(stage: Stage) -> None:
    """What is recorded and what the code asks for, with its line; and the engine then does what was told."""
    shop = Shop()

    async def before(run: Any) -> None:
        await shop.pay(5)
        run.finish(await run.wait("go"))

    async def after(run: Any) -> None:
        await shop.look("book")
        await shop.pay(5)
        run.finish(await run.wait("go"))

    await stage.run(shop.agent(before))
    one = await forecast(stage, shop.agent(after))
    assert (one.prospect, one.reason) == ("diverges", "diverged")
    assert "at 1:0 recorded pay(cents=5); the code asks for look(item='book')" in one.detail
    assert f"{__file__}:" in one.detail
    async with stage.runtime(shop.agent(after)) as place:
        await place.signal(RUN, "go", "gone")
    held = await stage.run(shop.agent(after))
    assert (held.reason, held.detail, held.remedies) == (one.reason, one.detail, one.remedies)
    assert len(shop.world) == 1
    again = await forecast(stage, shop.agent(after))
    assert (again.prospect, again.stops) == ("stays held", False)
    assert again.notes[0].startswith("let go now, it would be held again, diverged: [R201] at 1:0")
    assert (await forecast(stage, shop.agent(before))).notes == ("let go now, it resumes",)


async def test_reads_that_no_longer_match_are_asked_for_again(memory: Stage) -> None:
    """That is no reason to stop a deploy, and is told."""
    shop = Shop()

    def step_of(item: str) -> Any:
        async def step(run: Any) -> None:
            await shop.look(item)
            run.finish(await run.wait("go"))

        return step

    await memory.run(shop.agent(step_of("book")))
    one = await forecast(memory, shop.agent(step_of("pen")))
    assert one.prospect == "restarts"
    assert "recorded 'book', now 'pen'" in one.notes[0]
    assert one.goes_on[0].startswith("look (1:0)")


async def test_the_inbox_counts(memory: Stage) -> None:
    """A message that lies there is as good as taken."""
    shop = Shop()

    async def step(run: Any) -> None:
        run.finish(await run.wait("go"))

    await memory.run(shop.agent(step))
    async with memory.runtime() as place:
        await place._send(RUN, "cancel", {"by": "ann", "note": ""})
    one = await forecast(memory, shop.agent(step))
    assert (one.prospect, one.detail) == ("ends", "cancelled by ann")


async def test_an_agent_that_is_gone_strands_its_runs(memory: Stage) -> None:
    """Renamed: nobody claims them."""
    shop = Shop()

    async def step(run: Any) -> None:
        run.finish(await run.wait("go"))

    await memory.run(shop.agent(step))
    one = await forecast(memory, shop.agent(step, "store"))
    assert (one.prospect, one.reason) == ("stranded", "not-served")
    assert "needs agent shop; this code has store" in one.detail


async def test_an_approval_for_other_types_is_void(memory: Stage) -> None:
    """And who may decide belongs to it."""
    shop = Shop()

    async def step(run: Any) -> None:
        run.finish(await shop.refund(5))

    waiting = await memory.run(shop.agent(step))
    one = await forecast(memory, shop.agent(step))
    assert (one.prospect, one.voided) == ("resumes", ())
    shop.refund = shop.refund.replace(approval=Approval(by="boss"))
    one = await forecast(memory, shop.agent(step))
    assert one.prospect == "resumes"
    [void] = one.voided
    assert (void.approval_id, void.why) == (waiting.approvals[0].id, "who must agree changed")


async def test_an_old_fact_is_told(memory: Stage) -> None:
    """It is read again before the call that rests on it."""
    shop = Shop()

    @fact(fresh_for=timedelta(minutes=10))
    async def price(item: str) -> int:
        return 5

    @tool(effect="irreversible", premises=[price])
    async def buy(item: str) -> str:
        shop.world.act("bought")
        return "bought"

    async def step(run: Any) -> None:
        await price("pen")
        await run.wait("go")
        run.finish(await buy("pen"))

    def agent() -> Agent[Any, Any, Any]:
        made = Agent("shop", state=dict[str, Any], tools=[price, buy])
        made.step(step)
        return made

    await memory.run(agent())
    async with memory.runtime(agent()) as place:
        await place.signal(RUN, "go", None)
    await memory.crash(agent(), "premise.read")
    memory.clock.advance(3600)
    one = await forecast(memory, agent())
    assert one.goes_on[0].startswith("buy (1:2)")
    [old] = one.stale
    assert (old.fact, old.fresh_for) == ("price", timedelta(minutes=10))
    assert old.age >= timedelta(hours=1)


async def test_who_may_no_longer_act(memory: Stage) -> None:
    """A plain authorize is asked, about the call at which the run goes on."""
    shop = Shop()

    async def step(run: Any) -> None:
        await run.wait("go")
        run.finish(await shop.pay(5))

    old = shop.agent(step)
    old.authorize(lambda who, call: True)
    async with memory.runtime(old) as place:
        await place.start(old, RUN, "go", principal=Principal("ann"))
    await memory.run(old)
    async with memory.runtime(old) as place:
        await place.signal(RUN, "go", None)
    await memory.crash(old, "intent.write")
    new = shop.agent(step)
    new.authorize(lambda who, call: who.id != "ann")
    one = await forecast(memory, new)
    assert (one.prospect, one.reason) == ("held", "not-permitted")
    held = await memory.run(new)
    assert (held.reason, held.detail) == (one.reason, one.detail)
    assert len(shop.world) == 0


async def test_an_unknown_call(memory: Stage) -> None:
    """Without a hook a person is needed; that is so today, and told."""
    shop = Shop()

    async def step(run: Any) -> None:
        run.finish(await shop.pay(5))

    await memory.crash(shop.agent(step), "call.acted")
    one = await forecast(memory, shop.agent(step))
    assert (one.prospect, one.reason) == ("held", "unknown-outcome")
    held = await memory.run(shop.agent(step))
    assert (held.reason, held.detail) == (one.reason, one.detail)
    assert len(shop.world) == 1


@pytest.mark.parametrize("kind", ["computes", "waits", "sleeps"])
async def test_a_step_that_hangs_is_a_finding(memory: Stage, kind: str) -> None:
    """Whatever it hangs in; and the next look is not disturbed."""
    shop = Shop()

    async def step(run: Any) -> None:
        run.finish(await run.wait("go"))

    async def hangs(run: Any) -> None:
        end = time.monotonic() + 1.0
        while kind == "computes" and time.monotonic() < end:
            pass
        if kind == "sleeps":
            time.sleep(0.8)  # noqa: ASYNC251  (the mistake that is looked for)
        if kind == "waits":
            await asyncio.Event().wait()
        run.finish(await shop.pay(1))

    await memory.run(shop.agent(step))
    one = await forecast(memory, shop.agent(hangs), seconds=0.05)
    assert (one.prospect, one.reason) == ("hangs", "step-hangs")
    assert f"{__file__}:" in one.detail
    one = await forecast(memory, shop.agent(step), seconds=5)
    assert one.prospect == "resumes"
    await asyncio.sleep(1.0)
    assert len(shop.world) == 0, "a step that was left behind has acted"


async def test_a_step_that_differs_each_time(memory: Stage) -> None:
    """Two rehearsals of one record that differ tell of the step, not of the deploy."""
    shop = Shop()
    cents = iter(range(100))

    async def step(run: Any) -> None:
        await shop.pay(5)
        run.finish(await run.wait("go"))

    async def dice(run: Any) -> None:
        await shop.pay(next(cents))
        run.finish(await run.wait("go"))

    await memory.run(shop.agent(step))
    one = await forecast(memory, shop.agent(dice))
    assert (one.prospect, one.reason) == ("held", "not-repeatable")
    assert "[R202] two rehearsals of one record differ" in one.detail


async def test_other_arguments_of_an_act_that_may_have_happened(stage: Stage) -> None:
    """It is never sent with them, and that has a reason of its own."""
    shop = Shop()

    @tool(effect="idempotent")
    async def book(seats: int) -> str:
        shop.world.act("booked")
        return "booked"

    def agent(seats: int) -> Agent[Any, Any, Any]:
        async def step(run: Any) -> None:
            run.finish(await book(seats))

        made = Agent("shop", state=dict[str, Any], tools=[book])
        made.step(step)
        return made

    await stage.crash(agent(2), "call.acted")
    one = await forecast(stage, agent(3))
    assert (one.prospect, one.reason) == ("held", "arguments-changed")
    assert "at 1:0 the arguments of book differ: seats recorded 2, now 3" in one.detail
    held = await stage.run(agent(3))
    assert (held.reason, held.detail, held.remedies) == (one.reason, one.detail, one.remedies)
    assert len(shop.world) == 1
    async with stage.runtime() as place:
        await place.retry(RUN, by="ann")
    assert (await stage.run(agent(2))).unwrap() == "booked"
    assert len(set(shop.world.keys)) == 1


async def test_a_denial_and_its_end_are_gone_through(memory: Stage) -> None:
    """What a denied call does to the step is known without asking anybody."""
    shop = Shop()

    async def step(run: Any) -> None:
        try:
            await shop.refund(5)
        except ApprovalDenied:
            await shop.pay(1)
        run.finish()

    waiting = await memory.run(shop.agent(step))
    async with memory.runtime() as place:
        await place.deny(waiting.approvals[0].id, by=Principal("boss"))
    one = await forecast(memory, shop.agent(step))
    assert one.prospect == "resumes"
    assert one.goes_on[0].startswith("pay (1:1)")
    assert len(shop.world) == 0


async def test_a_call_that_cannot_be_paid_for(memory: Stage) -> None:
    """It would be held before the call; time that it waited is none that it has used."""
    shop = Shop()

    async def step(run: Any) -> None:
        await shop.look("book")
        await run.wait("go")
        run.finish(await shop.pay(5))

    def agent(budget: Budget) -> Agent[Any, Any, Any]:
        return shop.agent(step, budget=budget)

    await memory.run(agent(Budget(calls=1, seconds=60)))
    memory.clock.advance(3600)
    one = await forecast(memory, agent(Budget(calls=1, seconds=60)))
    assert (one.prospect, one.goes_on[0][:11]) == ("resumes", "signal 'go'")
    async with memory.runtime(agent(Budget(calls=1, seconds=60))) as place:
        await place.signal(RUN, "go")
    one = await forecast(memory, agent(Budget(calls=1, seconds=60)))
    assert (one.prospect, one.reason) == ("held", "over-budget")
    held = await memory.run(agent(Budget(calls=1, seconds=60)))
    assert (held.reason, held.detail) == (one.reason, one.detail)
    assert len(shop.world) == 0


async def test_a_step_that_catches_the_signal_of_a_rehearsal(memory: Stage) -> None:
    """At a wait it would be held; at a call it would go on, and is told of."""
    shop, caught = Shop(), list[BaseException]()

    def step_of(waits: bool) -> Any:
        async def step(run: Any) -> None:
            await shop.look("book")
            try:
                await (run.wait("go") if waits else shop.pay(5))
            except BaseException as error:  # noqa: BLE001  (the mistake that is looked for)
                caught.append(error)
            run.finish()

        return step

    await memory.crash(shop.agent(step_of(False), durability="strict"), "receipt.queued")
    one = await forecast(memory, shop.agent(step_of(False)))
    assert (one.prospect, one.notes[0][:36]) == ("resumes", "it catches the signal by which a ste")
    assert one.goes_on[0].startswith("pay (1:1)")
    one = await forecast(memory, shop.agent(step_of(True)))
    assert (one.prospect, one.reason) == ("held", "signal-swallowed")
    held = await memory.run(shop.agent(step_of(True)))
    assert (held.reason, held.detail) == (one.reason, one.detail)
    assert len(shop.world) == 0
