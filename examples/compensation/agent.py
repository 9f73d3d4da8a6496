"""A trip of three bookings, taken back in reverse when somebody cancels it.

Run it as it stands: `python examples/compensation/agent.py`; then look: `perdure audit trip-1`. Whoever takes
the bookings is an object in this file. Started again it tells the same, and takes back nothing a second time.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from datetime import timedelta

from perdure import Agent, Cancelled, Held, Outcome, Run, Runtime, Waiting, tool

BOOKINGS: dict[str, str] = {}
"""What the world has booked, by confirmation number."""

OPEN = {"hotel": False}
"""Whether the desk that takes a booking back can be reached."""


@dataclass
class Trip:
    """The confirmation numbers so far."""

    booked: list[str] = field(default_factory=list)


class DeskClosed(Exception):
    """Nobody answers: certainly nothing was taken back."""


@tool(effect="irreversible")
async def book(what: str, nights: int = 0) -> str:
    """Book something, for good. The answer is its confirmation number."""
    number = f"{what}-{len(BOOKINGS) + 1}"
    BOOKINGS[number] = what
    print(f"booked      {number}", file=sys.stderr)
    return number


@book.undo
@tool(effect="idempotent", raises=[DeskClosed], for_model=False)
async def unbook(what: str, nights: int, result: str) -> str:
    """Take a booking back. `result` is what `book` returned: the number that the other side knows."""
    if not OPEN.get(what, True):
        raise DeskClosed(f"the {what} desk opens at nine")
    BOOKINGS.pop(result, None)  # the same number twice is the same to the other side
    print(f"taken back  {result}", file=sys.stderr)
    return f"{result} is free"


planner = Agent("planner", state=Trip, goal=str, result=list[str], start=lambda where: Trip(), tools=[book])


@planner.step
async def step(run: Run[Trip, str, list[str]]) -> None:
    """Book one thing a step; then ask whether to go."""
    plan = [("flight", 0), ("hotel", 3), ("car", 0)]
    if len(run.state.booked) < len(plan):
        what, nights = plan[len(run.state.booked)]
        run.state.booked.append(await book(what, nights))
    elif await run.ask("Everything is booked. Is the weather fine?", bool):
        run.finish(run.state.booked)


async def carry_on() -> Outcome[list[str]]:
    """One process: it works until the run has ended or needs a person."""
    async with Runtime(agents=[planner]) as runtime:
        return await runtime.run(planner, "trip-1", "Rome", patience=timedelta(0))


async def main() -> None:
    """Book, cancel, find the hotel's desk closed, and try again in the morning."""
    if isinstance(await carry_on(), Waiting):
        async with Runtime() as runtime:  # another process: it need not know the agent
            await runtime.cancel("trip-1", by="ana", note="it rains", compensate=True)
    outcome = await carry_on()
    if isinstance(outcome, Held):
        print(f"held        {outcome.detail}", file=sys.stderr)
        OPEN["hotel"] = True
        async with Runtime() as runtime:
            await runtime.retry("trip-1", by="ana")
        outcome = await carry_on()
    assert isinstance(outcome, Cancelled)
    print(f"cancelled by {outcome.by}, undone: {', '.join(outcome.undone)}; still booked: {len(BOOKINGS)}")


if __name__ == "__main__":
    asyncio.run(main())
