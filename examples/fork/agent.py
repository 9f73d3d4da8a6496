"""A bad run found, forked and mended: an agent has paid back 100 times too much, and told the customer.

Run it as it stands: `python examples/fork/agent.py`; then look: `perdure show order-1042-mended`. The shop is
an object in this file. Started again it tells the same, and sends nothing a second time.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

from perdure import Agent, Change, Fork, Held, Run, Runtime, current_call

BAD, MENDED = "order-1042", "order-1042-mended"
PRICES = {"o-77": "12.00"}
"""What the shop says. Its prices are in dollars now; they were in cents when the agent was written."""


@dataclass
class Desk:
    """What the agent knows of the order, and what it has done about it."""

    order: str
    cents: int | None = None
    receipt: str | None = None


desk = Agent("refund-desk", state=Desk, goal=str, result=str, start=Desk)


@desk.tool(effect="read")
async def price(order: str) -> str:
    """What was paid for the order."""
    return PRICES[order]


@desk.tool(effect="irreversible")
async def refund(order: str, cents: int) -> str:
    """Pay it back."""
    print(f"  [bank] {current_call().run_id}: refund of {cents} cents", file=sys.stderr)
    return f"rf-{cents}"


@desk.tool(effect="idempotent")
async def mail(order: str, text: str) -> str:
    """Tell the customer."""
    print(f"  [mail] {current_call().run_id}: {text}", file=sys.stderr)
    return "sent"


@desk.step
async def step(run: Run[Desk, str, str]) -> None:
    """Look the price up, pay it back, tell the customer: a step each."""
    state = run.state
    if state.cents is None:
        state.cents = round(float(await price(state.order)) * 100) * 100  # the bad line: cents of cents
    elif state.receipt is None:
        state.receipt = await refund(state.order, state.cents)
    else:
        await mail(state.order, f"{state.cents / 100:.2f} dollars were paid back")
        run.finish(state.receipt)


async def found(runtime: Runtime) -> int:
    """Which event set the value that is wrong; `perdure state order-1042 cents --history` tells it too."""
    async for event in runtime.follow(BAD):
        cents = (await runtime.state_at(BAD, event.seq))["cents"]
        if cents is not None:
            print(f"cents = {cents} since event {event.seq}, {event.kind}")
            return event.seq
    raise LookupError("nothing has set it")


def told(made: Fork) -> None:
    """What the fork would be; `perdure fork order-1042@SEQ --set cents=1200 --dry-run` tells it too."""
    for change in made.changes:
        print(f"change: {change.what} {change.place} {change.was} -> {change.now}")
    for act in made.acts:
        print(f"done since: {act.name} {dict(act.args)}: {act.value}; in the fork {act.in_fork}")


async def decided(runtime: Runtime) -> Any:
    """A person looks at each act that the bad run has made already, and says what is to be done."""
    while isinstance(outcome := await runtime.resume(MENDED), Held):
        print("held:", outcome.detail, file=sys.stderr)
        if "refund" in outcome.detail:  # the money is out: nothing is paid, the difference is claimed by hand
            await runtime.decide_effect(MENDED, None, "simulate", result="rf-corrected", by="ana")
        else:  # the customer should know
            await runtime.decide_effect(MENDED, None, "act", by="ana")
    return outcome.unwrap()


async def main() -> None:
    """The bad run, the look at it, the fork."""
    async with Runtime(agents=[desk]) as runtime:
        print("the bad run:", (await runtime.run(desk, BAD, "o-77")).unwrap())
        at = await found(runtime)
        change = Change(state={"cents": 1200})
        told(await runtime.fork(BAD, at, change, id=MENDED, by="ana", dry_run=True))
        await runtime.fork(BAD, at, change, id=MENDED, by="ana")
        print("the fork:", await decided(runtime))


if __name__ == "__main__":
    asyncio.run(main())
