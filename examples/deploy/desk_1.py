"""A refund desk, version 1: it keeps dollars, asks a person, and refunds."""

from dataclasses import dataclass

from perdure import Agent, Run, tool


@dataclass
class Desk:
    """State version 1."""

    order: str
    dollars: float = 12.5


@tool(effect="irreversible")
async def refund(order: str, cents: int) -> str:
    """Pay an order back."""
    return f"{cents} cents for {order}"


def begin(order: str) -> Desk:
    """How a run begins."""
    return Desk(order)


desk = Agent("refund-desk", version="1", state=Desk, start=begin, tools=[refund])


@desk.step
async def step(run: Run[Desk]) -> None:
    """Ask, then refund."""
    if await run.ask(f"Pay back order {run.state.order}?", bool):
        run.finish(await refund(run.state.order, round(run.state.dollars * 100)))
    else:
        run.finish("nothing was paid")
