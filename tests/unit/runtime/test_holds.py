"""A step that raised is held. A person's retry makes again what failed and cannot have acted, and no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import perdure
from perdure.agent import Held
from perdure.host import Runtime
from perdure.state import events as e
from tests.unit.runtime.people import asked, decide, payer
from tests.unit.runtime.stage import RUN, Stage, World, agent
from tests.unit.runtime.test_premises import Shop, tools


class Refused(Exception):
    """A definite failure."""


async def retried(stage: Stage, made: Any) -> Any:
    """A person has the step executed again, and the run goes on."""

    async def say(runtime: Runtime) -> None:
        await runtime.retry(RUN, by="ada")

    await told(stage, made, say)
    return await stage.run(made)


async def told(stage: Stage, made: Any, say: Callable[[Runtime], Awaitable[None]]) -> None:
    """Somebody says something to the run, without driving it."""
    async with stage.runtime(made) as runtime:
        await say(runtime)


async def test_a_call_that_was_never_made_is_made_again(stage: Stage) -> None:
    shop = Shop(broken=True)
    order, refund = tools(shop)

    async def step(run: Any) -> None:
        run.finish(await refund("o-77", 12))

    made = agent(step, refund, order)
    held = await stage.run(made)
    assert isinstance(held, Held)
    assert (held.reason, "T220" in held.detail, len(held.remedies)) == ("step-error", True, 3)
    assert held.remedies[0].startswith("mend the source of the fact")
    assert RUN in held.remedies[0], "it names the run"
    shop.broken = False
    assert (await retried(stage, made)).unwrap() == "refund of o-77 while paid"
    await stage.blameless(shop.world)


async def test_a_transaction_that_was_taken_back_is_made_again(stage: Stage) -> None:
    broken = [True]

    @perdure.tool(effect="transactional")
    def book(place: str) -> str:
        if broken[0]:
            raise LookupError("no such place")
        return f"booked {place}"

    async def step(run: Any) -> None:
        run.finish(await run.call(book, "12a"))

    made = agent(step, book)
    assert (await stage.run(made)).reason == "step-error"
    broken[0] = False
    assert (await retried(stage, made)).unwrap() == "booked 12a"


async def test_a_request_that_nobody_answered_is_asked_again(stage: Stage) -> None:
    world = World()
    pay = payer(world)

    async def step(run: Any) -> None:
        run.finish(await pay("ada", 1200))

    made = agent(step, pay)
    first = await asked(stage, made)
    stage.clock.advance(7200)
    held = await stage.run(made)
    assert (held.reason, "A401" in held.detail) == ("step-error", True)
    again = await retried(stage, made)
    (second,) = again.approvals
    assert second.id != first.id
    await decide(stage, "approve", second.id)
    assert (await stage.run(made)).unwrap() == "ada has 1200"
    await stage.blameless(world)


async def test_an_act_that_failed_is_not_made_again_and_the_hold_says_so(stage: Stage) -> None:
    world, handled = World(), [False]

    @perdure.tool(raises=[Refused])
    async def pay(cents: int) -> str:
        world.act(cents)
        raise Refused("no funds")

    async def step(run: Any) -> None:
        try:
            await pay(5)
        except Refused:
            if not handled[0]:
                raise
            run.finish("told the customer")

    made = agent(step, pay)
    held = await stage.run(made)
    found = (await stage.record()).held
    assert found is not None
    assert (held.reason, found.path) == ("step-error", "1:0")
    assert found.remedies == (
        "handle the failure of pay in the step, and deploy it: a retry gets it from the record",
        f"perdure retry {RUN}",
        f"perdure cancel {RUN}",
    )
    assert (await retried(stage, made)).reason == "step-error"
    handled[0] = True
    assert (await retried(stage, made)).unwrap() == "told the customer"
    assert len(world) == 1
    assert not await stage.bodies(e.StepRestarted)


async def test_a_call_that_was_not_awaited_is_told(stage: Stage) -> None:
    """The run does not go on without it, and whoever mends the step carries on from the record."""
    world, mended = World(), [False]

    @perdure.tool()
    async def pay(cents: int) -> str:
        return str(world.act(f"paid {cents}"))

    async def step(run: Any) -> None:
        first = await pay(5)
        call = pay(6)
        run.finish([first, await call] if mended[0] else first)

    made = agent(step, pay)
    held = await stage.run(made)
    assert held.reason == "step-error"
    assert held.detail.startswith(
        "[T222] NotAwaited: the step has returned and not awaited what it called: pay"
    )
    assert len(world) == 1
    mended[0] = True
    assert (await retried(stage, made)).unwrap() == ["paid 5", "paid 6"]
    await stage.blameless(world)


async def test_nothing_is_made_again_before_an_act(stage: Stage) -> None:
    """What the act followed stays as it was served."""
    shop = Shop(broken=True)
    order, refund = tools(shop)
    pay_world = World()

    @perdure.tool()
    async def pay(cents: int) -> str:
        return str(pay_world.act(f"paid {cents}"))

    async def step(run: Any) -> None:
        try:
            await refund("o-77", 12)
        except perdure.errors.PremiseUnread:
            await pay(5)
        raise ValueError("a bug")

    made = agent(step, refund, order, pay)
    assert (await stage.run(made)).reason == "step-error"
    shop.broken = False
    assert (await retried(stage, made)).reason == "step-error"
    assert (len(pay_world), len(shop.world)) == (1, 0)
    assert not await stage.bodies(e.StepRestarted)
