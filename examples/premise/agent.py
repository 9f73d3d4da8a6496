"""A fact that changes while a run is paused: the act that rests on it is not made, and the agent plans anew.

Run it as it stands: `python examples/premise/agent.py`; then look: `perdure show trip-1`. The airline is an
object in this file. Started again it tells the same, and buys nothing a second time.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from datetime import timedelta

from perdure import Agent, Approval, ApprovalRequest, Principal, Run, Runtime, Waiting, fact, tool
from perdure.errors import PremiseChanged

FARES = {"FL-12": 180, "FL-40": 210}
"""What the airline asks for a seat, in dollars. It changes whenever the airline likes."""


@dataclass
class Trip:
    """What the agent has in mind: the flights that it chooses from, and what became of each try."""

    flights: list[str] = field(default_factory=lambda: list(FARES))
    notes: list[str] = field(default_factory=list)


@fact(fresh_for=timedelta(minutes=10))
async def fare(flight: str) -> int:
    """What a seat costs now."""
    return FARES[flight]


@tool(
    effect="irreversible",
    premises=[fare],
    approval=Approval(by="travel", expires=timedelta(days=2)),
)
async def book(flight: str) -> str:
    """Buy a seat, for whatever it costs at that moment."""
    return f"a seat on {flight} for ${FARES[flight]}"


planner = Agent("planner", state=Trip, goal=str, result=list[str], start=lambda where: Trip(), tools=[book])


@planner.step
async def step(run: Run[Trip, str, list[str]]) -> None:
    """Take the cheapest flight. If its fare has changed since, the next step looks at all of them again."""
    asked = {flight: await fare(flight) for flight in run.state.flights}
    flight = min(asked, key=lambda name: asked[name])
    try:
        run.state.notes.append(await book(flight))
    except PremiseChanged as changed:
        run.state.notes.append(f"not {flight}: it was ${changed.was}, now it is ${changed.now}")
        return
    run.finish(run.state.notes)


async def until_asked() -> tuple[ApprovalRequest, ...]:
    """One process: it works until a person is needed, and ends. What the person is asked for."""
    async with Runtime(agents=[planner]) as runtime:
        outcome = await runtime.run(planner, "trip-1", "Lisbon")
    return outcome.approvals if isinstance(outcome, Waiting) else ()


async def permit(asked: tuple[ApprovalRequest, ...]) -> None:
    """Another process, hours later: the person agrees to what was asked for then."""
    ana = Principal("ana", roles=frozenset({"travel"}))
    async with Runtime(agents=[planner]) as runtime:
        for request in asked:
            print(f"ana permits {request.tool}({request.args['flight']})", file=sys.stderr)
            await runtime.approve(request.id, by=ana)


async def main() -> None:
    """Ask, think it over while the fare goes up, and ask again for what is the cheapest now."""
    await permit(await until_asked())
    FARES["FL-12"] = 320  # the run is paused: nothing of it is in memory, and nobody tells it
    await permit(await until_asked())
    async with Runtime(agents=[planner]) as runtime:
        outcome = await runtime.run(planner, "trip-1", "Lisbon")
    print("\n".join(outcome.unwrap()))


if __name__ == "__main__":
    asyncio.run(main())
