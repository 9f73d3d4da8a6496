"""Version 2: whole cents. Whatever it starts shall end as it began, so its runs are pinned to it."""

from dataclasses import dataclass
from typing import Any

from perdure import Agent, DeployPolicy, Run, tool


@dataclass
class Desk:
    """State version 2: another type and name for the amount."""

    order: str
    cents: int = 1250


@tool(effect="irreversible")
async def refund(order: str, cents: int) -> str:
    """Pay an order back."""
    return f"{cents} cents for {order}"


def begin(order: str) -> Desk:
    """How a run begins."""
    return Desk(order)


desk = Agent(
    "refund-desk",
    version="2",
    state=Desk,
    state_version=2,
    start=begin,
    tools=[refund],
    on_change=DeployPolicy(pin=True),
)


@desk.migration(1)
def whole_cents(old: dict[str, Any]) -> dict[str, Any]:
    """dollars -> cents."""
    return {"order": old["order"], "cents": round(old["dollars"] * 100)}


@desk.step
async def step(run: Run[Desk]) -> None:
    """Ask, then refund."""
    if await run.ask(f"Pay back order {run.state.order}?", bool):
        run.finish(await refund(run.state.order, run.state.cents))
    else:
        run.finish("nothing was paid")
