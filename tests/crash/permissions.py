"""A cashier that people permit, forbid, edit and overlook, for the crash tests."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from perdure.agent import Agent, Approval, ApprovalRequest, Call, Hybrid, Principal, current_call
from perdure.errors import ApprovalError
from perdure.testing.crash.outside import Outside
from perdure.testing.crash.scenario import Hands, Scenario, truthful


async def _permit(place: Any, run_id: str, outcome: Any) -> bool:
    """People who permit, forbid and edit; one of them loses the right to, once."""
    if outcome.status == "held" and outcome.reason == "not-permitted":
        place.outside.note(run_id, "carl may beg")
        await place.runtime.release(run_id, by="bob")
        return True
    if outcome.status != "waiting":
        return await truthful(place, run_id, outcome)
    for asked in outcome.approvals:
        fired = place.outside.noted(run_id, "ada is fired")
        who = Principal("bob" if fired else "ada")
        try:
            if asked.args["to"] == "eve":
                await place.runtime.deny(asked.id, by=who, note="not eve")
            else:
                edit = {"cents": 7} if asked.args["to"] == "cy" else None
                await place.runtime.approve(asked.id, by=who, edit=edit)
        except ApprovalError:
            continue  # a decision from before a kill counts already
        if asked.args["to"] == "dan" and not fired:
            place.outside.note(run_id, "ada is fired")
    return True


def _permits(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Payments that people permit, forbid, edit, or do not answer in time; they are told of each.

    Whoever runs it may pay, and is given the right to beg when the run has been held for want of it.
    """
    desk = Agent("cashier", state=dict, start=lambda goal: {"paid": []}, storage=Hybrid(every=2))

    @desk.tool(effect="idempotent", for_model=False)
    async def tell(request: ApprovalRequest) -> str:
        return str(outside.act(f"told of {request.id}"))

    def admits(who: Principal, request: ApprovalRequest) -> bool:
        return not (who.id == "ada" and outside.noted(request.run_id, "ada is fired"))

    @desk.tool(effect="irreversible", approval=Approval(expires=timedelta(hours=9), by=admits, notify=tell))
    async def pay(to: str, cents: int) -> str:
        return str(outside.act(f"{to} has {cents}"))

    @desk.tool(effect="idempotent", approval=Approval(expires=timedelta(seconds=2)))
    async def beg(to: str) -> str:
        return str(outside.act(f"{to} has nothing"))

    @desk.tool(effect="read")
    async def rules() -> str:
        if not outside.noted(current_call().run_id, "carl may beg"):
            raise AssertionError("read without a right")
        return str(outside.act("the rules"))

    @desk.authorize
    async def allowed(who: Principal, call: Call) -> bool:
        await asyncio.sleep(0)
        return call.tool != "rules" or outside.noted(call.run_id, "carl may beg")

    @desk.step
    async def step(run: Any) -> None:
        async def one(to: str) -> str:
            try:
                return str(await (beg(to) if to == "nobody" else pay(to, 5)))
            except ApprovalError as error:
                return type(error).__name__

        paid = run.state["paid"]
        if not paid:
            paid += await run.map(one, ["ana", "eve", "cy"])
        else:
            paid += [await rules(), await one("nobody"), await one("dan")]
            run.finish(paid)

    return desk


permits = Scenario("permits", _permits, person=_permit, principal=Principal("carl"))
