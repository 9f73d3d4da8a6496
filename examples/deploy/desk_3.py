"""Version 3: a currency, and the tool has another name. Runs of version 1 are carried on."""

from dataclasses import dataclass
from typing import Any

from perdure import Agent, DeployPolicy, Run, tool


@dataclass
class Desk:
    """State version 3: one field more."""

    order: str
    cents: int = 1250
    currency: str = "EUR"


@tool(effect="irreversible")
async def pay_back(order: str, cents: int) -> str:
    """Pay an order back."""
    return f"{cents} cents for {order}"


def begin(order: str) -> Desk:
    """How a run begins."""
    return Desk(order)


desk = Agent(
    "refund-desk",
    version="3",
    state=Desk,
    state_version=3,
    start=begin,
    tools=[pay_back],
    on_change=DeployPolicy(renamed={"refund": "pay_back"}),
)


@desk.migration(1)
def whole_cents(old: dict[str, Any]) -> dict[str, Any]:
    """dollars -> cents."""
    return {"order": old["order"], "cents": round(old["dollars"] * 100)}


@desk.migration(2)
def dollars_they_were(old: dict[str, Any]) -> dict[str, Any]:
    """What was started before there were other currencies was in dollars."""
    return {**old, "currency": "USD"}


@desk.step
async def step(run: Run[Desk]) -> None:
    """Ask, then refund."""
    if await run.ask(f"Pay back order {run.state.order}?", bool):
        run.finish(f"{await pay_back(run.state.order, run.state.cents)}, {run.state.currency}")
    else:
        run.finish("nothing was paid")
