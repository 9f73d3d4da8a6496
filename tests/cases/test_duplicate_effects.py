"""Bodies that ran again for something that was no failure of theirs."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.errors import PerdureError
from perdure.runtime.reconcile import RESENDS
from perdure.state import events as e
from tests.unit.runtime.stage import RUN, Stage, agent

RETRY = perdure.Retry(attempts=3, backoff=0.0)


@pytest.mark.parametrize("effect", ["read", "idempotent", "irreversible"])
@pytest.mark.parametrize("asks", ["a gated tool", "a person", "a sleep", "a child"])
async def test_what_a_body_may_not_ask_for_is_not_tried_again(memory: Stage, effect: Any, asks: str) -> None:
    """O-007: signals of control flow were taken for failures, so that a tool ran up to its maximum. A body
    that counts and then asks for a permission, a person, a sleep or a child is refused, and not tried again.
    """
    tries: list[int] = []
    held: list[Any] = []

    @perdure.tool(effect="irreversible", approval=perdure.Approval())
    async def gated() -> str:
        return "paid"

    @perdure.tool(effect=effect, retry=RETRY)
    async def count() -> str:
        tries.append(1)
        run = held[0]
        if asks == "a gated tool":
            await gated()
        elif asks == "a person":
            await run.ask("May I?")
        elif asks == "a sleep":
            await run.sleep(3600)
        else:
            await run.spawn(child, "go")
        return "counted"

    async def finish(run: Any) -> None:
        run.finish("done")

    async def step(run: Any) -> None:
        held[:] = [run]
        try:
            run.finish(await count())
        except PerdureError as error:
            run.finish(type(error).__name__)

    child = agent(finish, name="child")
    made = agent(step, gated, count, spawns=[child])
    outcome = await memory.run(made)
    assert len(tries) == 1, outcome
    assert outcome.status in ("succeeded", "held", "waiting")
    assert len([body for body in await memory.bodies(e.CallSettled) if body.attempt > 1]) == 0


@pytest.mark.parametrize("error", [ValueError, ConnectionError, TimeoutError])
async def test_an_act_that_raises_for_ever_goes_to_a_person(stage: Stage, error: type[Exception]) -> None:
    """Its hook says each time, and truly, that it did not happen: it is tried with pauses, not without end,
    and goes on when the cause is mended.
    """
    tries, mended = list[str](), list[bool]()

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        tries.append(perdure.current_call().key)
        if not mended:
            raise error("a bug")
        return "paid"

    @pay.reconcile
    async def paid() -> Any:
        return perdure.NotDone()

    async def step(run: Any) -> None:
        run.finish(await pay())

    made = agent(step, pay)
    outcome = await stage.run(made)
    assert (outcome.status, outcome.reason) == ("held", "tool-error")
    assert f"{error.__name__}: a bug" in outcome.detail
    assert len(tries) == RESENDS
    mended.append(True)
    async with stage.runtime(made) as place:
        await place.release(RUN, by="ana")
    assert (await stage.run(made)).unwrap() == "paid"
    assert len(set(tries)) == 1
