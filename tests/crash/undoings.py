"""What the crash tests try of compensation: runs that are cancelled and take back what they have done."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import perdure
from perdure.agent import Agent, Done, NotDone, current_call
from perdure.errors import NoSuchRun, NothingToResolve, RunEnded
from perdure.journal import load
from perdure.testing.crash.outside import Outside, reply_of
from perdure.testing.crash.scenario import RUN_ID, Hands, Scenario, truthful

SOON = timedelta(seconds=2)
_CHILD = f"{RUN_ID}.3:0"


async def _mending(place: Any, run_id: str, outcome: Any) -> bool:
    """A person who looks after the run and its child, and opens the desk when an undo has failed."""
    for one in (run_id, _CHILD):
        try:
            record = (await load(place.runtime.store, one)).record
        except NoSuchRun:
            continue
        if record.held is None or record.ended is not None:
            continue
        if record.held.reason != "undo-failed":
            return await truthful(place, one, outcome)
        if not place.outside.noted(RUN_ID, "open"):
            place.outside.note(RUN_ID, "open")
        with suppress(NothingToResolve, RunEnded):  # someone was quicker
            await place.runtime.retry(one, by="ada")
    return True


def _undone(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Bookings of three kinds in three steps, the last by a child; then a person cancels. Of the undos one
    loses its answer, one is irreversible and has a hook, one fails until somebody has opened the desk.
    """

    @perdure.tool(effect="irreversible", timeout=SOON)
    async def book(what: str) -> str:
        return str(outside.act(f"booked {what}"))

    @book.reconcile
    async def booked(what: str) -> Any:
        found = outside.find(current_call().key)
        return Done(str(reply_of(found))) if found else NotDone()

    @book.undo
    async def unbook(what: str, result: str) -> str:
        if what == "hotel" and not outside.noted(RUN_ID, "open"):
            raise NotDone("the desk is closed")
        return str(outside.act(f"not {result}", lose=1 if what == "car" else 0))

    @perdure.tool(effect="idempotent")
    async def insure(what: str) -> str:
        return str(outside.act(f"insured {what}"))

    @insure.undo
    @perdure.tool(effect="irreversible", timeout=SOON, for_model=False)
    async def uninsure(what: str) -> str:
        return str(outside.act(f"uninsured {what}"))

    @uninsure.reconcile
    async def uninsured(what: str) -> Any:
        found = outside.find(current_call().key)
        return Done(str(reply_of(found))) if found else NotDone()

    @perdure.tool(effect="read")
    async def give_up(what: str) -> str:
        await hands().cancel(RUN_ID, by="ada", note="rain", compensate=True)
        return str(outside.act(what))

    child = Agent("hire", state=dict, start=lambda goal: {}, tools=[book, give_up])
    trip = Agent("trip", state=dict, start=lambda goal: {"log": []}, tools=[book, insure], spawns=[child])

    @child.step
    async def hire(run: Any) -> None:
        await book("car")
        await give_up("car")
        await run.sleep(1_000_000)

    @trip.step
    async def step(run: Any) -> None:
        log = run.state["log"]
        if not log:
            log.append(await book("flight"))
        elif len(log) == 1:
            log += await run.gather(book("hotel"), insure("all"))
        else:
            log.append(await run.spawn(child, "car"))
            run.finish(log)

    return trip


undone = Scenario(
    "undone",
    _undone,
    person=_mending,
    same=("status", "step", "state"),
    kin=(_CHILD,),
    undoable=("book", "insure"),
)
