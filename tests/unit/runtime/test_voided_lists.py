"""A permission that a changed fact voided is asked for nowhere any more: not in the inbox, not by `why`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import perdure
from perdure.errors import PremiseChanged
from perdure.state import events as e
from perdure.timeline import inbox, reason
from tests.unit.runtime.people import asked, decide
from tests.unit.runtime.stage import RUN, AnyAgent, Stage, World, agent


async def open_requests(stage: Stage) -> list[str]:
    """The approvals that `inbox` and `why` show as open, by the words of each."""
    row = await stage.store.row(RUN)
    now = stage.store.now()
    listed = [entry.id for entry in inbox.entries([row]) if entry.kind == "approval"]
    told = reason.why(row, await stage.record(), now)
    return listed + [fact.text for fact in told.facts if fact.label == "approval"]


def desk(stage: Stage, world: World, order: dict[str, str], seen: list[Any]) -> AnyAgent:
    """Pays if it may; told of a change it looks around, and goes to sleep in the same step."""

    @perdure.fact(fresh_for=timedelta(hours=9))
    async def status(to: str) -> str:
        return order["status"]

    @perdure.tool(effect="irreversible", premises=[status], approval=perdure.Approval())
    async def pay(to: str) -> str:
        return str(world.act(to))

    @perdure.tool(effect="irreversible")
    async def look() -> str:
        seen.append(await open_requests(stage))
        return str(world.act("looked"))

    async def step(run: Any) -> None:
        try:
            run.finish(await pay("ada"))
        except PremiseChanged:
            await look()
            await run.sleep(3600)
            run.finish("given up")

    return agent(step, status, pay, look, durability="strict")


async def test_lists_show_it_no_more_while_the_step_goes_on(stage: Stage) -> None:
    """The next act of the same step finds the lists without it, and so does who looks during the sleep."""
    world, order, seen = World(), {"status": "open"}, list[Any]()
    made = desk(stage, world, order, seen)
    request = await asked(stage, made)
    assert request.id in (await open_requests(stage))[0]
    await decide(stage, "approve", request.id)
    order["status"] = "sent"
    assert (await stage.run(made)).status == "waiting"
    assert seen == [[]]
    assert await open_requests(stage) == []
    await stage.blameless(world)


async def test_a_crash_leaves_no_request_without_a_call(stage: Stage) -> None:
    """The call's end and that of its permission are one commit: dead between them, nobody would void it."""
    world, order, seen = World(), {"status": "open"}, list[Any]()
    made = desk(stage, world, order, seen)
    await decide(stage, "approve", (await asked(stage, made)).id)
    order["status"] = "sent"
    await stage.crash(made, "premise.changed")
    assert (await stage.run(made)).status == "waiting"
    assert seen == [[]], "the next act of the step that was taken up finds the lists without it"
    assert await open_requests(stage) == []
    (voided,) = await stage.bodies(e.ApprovalVoided)
    assert voided.why == "the call ended without an act: PremiseChanged"
    await stage.blameless(world)
