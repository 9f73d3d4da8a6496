"""Refunds that people must permit: one is permitted with another amount, one is forbidden, one needs nobody.

Run it: `python examples/approval/agent.py`. It uses a file `approval.db` in this folder, and no network.
Started again it tells the same, without a second payment.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from perdure import (
    Agent,
    Approval,
    ApprovalRequest,
    Principal,
    Run,
    Runtime,
    Waiting,
    current_call,
    tool,
)
from perdure.errors import ApprovalDenied

STORE = "approval.db"


@dataclass
class Desk:
    """What the desk has done so far."""

    said: list[str] = field(default_factory=list)


@tool(effect="idempotent", for_model=False)
async def mail(request: ApprovalRequest) -> None:
    """Tell the people of finance; the approval's id is the key, so that a second mail is none."""
    assert current_call().key == request.id


@tool(
    effect="irreversible",
    approval=Approval(
        when=lambda cents: cents > 1_000,
        by="finance",
        expires=timedelta(hours=24),
        notify=mail,
    ),
)
async def refund(order: str, cents: int) -> str:
    """Pay an order back."""
    return f"{order}: {cents} cents paid back"


desk = Agent(
    "refund-desk", state=Desk, goal=dict[str, int], result=list[str], start=lambda _: Desk(), tools=[refund]
)


@desk.step
async def step(run: Run[Desk, dict[str, int], list[str]]) -> None:
    """Pay each order back; those above ten dollars wait for a person, side by side."""

    async def one(order: str) -> str:
        try:
            return await refund(order, run.goal[order])
        except ApprovalDenied as denied:
            return f"{order}: not paid, {denied.by} said: {denied.note}"

    run.state.said += await run.map(one, sorted(run.goal))
    run.finish(run.state.said)


async def ask() -> tuple[ApprovalRequest, ...]:
    """The first process: it runs until people are needed, and ends. Nothing of it stays in memory."""
    async with Runtime(STORE, [desk]) as runtime:
        outcome = await runtime.run(desk, "refunds-1", {"o-1": 500, "o-2": 90_000, "o-3": 4_000})
    return outcome.approvals if isinstance(outcome, Waiting) else ()


async def decide(asked: tuple[ApprovalRequest, ...]) -> None:
    """Another process, perhaps a day later: people decide. It needs the agent's code for the edit alone."""
    ana = Principal("ana", roles=frozenset({"finance"}))
    async with Runtime(STORE, [desk]) as runtime:
        for request in asked:
            if request.args["order"] == "o-2":
                await runtime.approve(request.id, by=ana, note="half of it", edit={"cents": 45_000})
            else:
                await runtime.deny(request.id, by=ana, note="no receipt")


async def main() -> None:
    """Three processes in one, one after the other."""
    await decide(await ask())
    async with Runtime(STORE, [desk]) as runtime:
        outcome = await runtime.run(desk, "refunds-1", {"o-1": 500, "o-2": 90_000, "o-3": 4_000})
    print("\n".join(outcome.unwrap()))


if __name__ == "__main__":
    asyncio.run(main())
