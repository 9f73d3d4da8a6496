"""An agent to start from. `perdure run agent.py` runs it; no key and no network are needed.

PERDURE_BANK_PAUSE=9 perdure run agent.py gives you time for a kill -9 between the payment and its receipt.
`python -m perdure.demo.bank` shows what was paid.
"""

from dataclasses import dataclass
from typing import Any

from perdure import Agent, Done, NotDone, Run, current_call
from perdure.demo import bank  # a pretend bank, its book is bank.db; your own service goes here


@dataclass
class Goal:
    """What a run is started with."""

    order_id: str = "o-77"


@dataclass
class Desk:
    """What the agent knows; saved with each step."""

    receipt: str = ""


# kill -9 it anywhere and run it again: one refund
desk = Agent("refund-desk", state=Desk, goal=Goal, result=str)


@desk.model("scripted")
async def decide(order: dict[str, Any]) -> dict[str, Any]:
    """Your model goes here. Its answer is recorded, and not asked for again after a crash."""
    return {"cents": order["cents"], "why": f"{order['item']} arrived broken"}


@desk.tool(effect="read")
async def order(order_id: str) -> dict[str, Any]:
    """Look an order up. A read is harmless to repeat."""
    return await bank.order(order_id)


@desk.tool(effect="irreversible")
async def refund(order_id: str, cents: int) -> str:
    """Pay an order back. Never repeated, unless it is known that it did not happen."""
    return await bank.refund(order_id, cents, key=current_call().key)


@refund.reconcile
async def refunded(order_id: str, cents: int) -> Done[str] | NotDone:
    """The reply never came: did it happen?"""
    found = await bank.find(current_call().key)
    return Done(found) if found else NotDone()


@desk.step
async def step(run: Run[Desk, Goal, str]) -> None:
    """After a crash this is executed again, its recorded calls served from the journal."""
    answer = await decide(await order(run.goal.order_id))
    run.state.receipt = await refund(run.goal.order_id, answer["cents"])
    run.finish(f"paid back: {answer['why']}, receipt {run.state.receipt}")
