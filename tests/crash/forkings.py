"""What the crash tests try of forks: a run is forked by a person who dies, as do those who carry it on."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from perdure.agent import Agent, Done, NotDone, current_call
from perdure.errors import AlreadyAnswered, NothingToResolve
from perdure.host import Runtime
from perdure.journal import history, load
from perdure.state import events as e
from perdure.testing.crash.outside import Outside, reply_of
from perdure.testing.crash.scenario import RUN_ID, Hands, Scenario, truthful
from perdure.timeline.change import Change

SOON = timedelta(seconds=2)
FORK = f"{RUN_ID}-f"


async def _person(place: Any, run_id: str, outcome: Any) -> bool:
    """Forks the run from its first step, carries the fork to its end, and only then answers the run.

    After each kill all of it is done again; the same fork twice is one.
    """
    runtime = place.runtime
    if outcome.status != "waiting":
        return await truthful(place, run_id, outcome)
    commits = (
        event for event in await history(runtime.store, RUN_ID) if isinstance(event.body, e.StepCommitted)
    )
    await runtime.fork(RUN_ID, next(commits).seq, Change(state={"log": ["changed"]}), id=FORK, by="ada")
    while not (await runtime.store.row(FORK)).terminal:
        came = await runtime.resume(FORK)
        held = (await load(runtime.store, FORK)).record.held
        if held is None:
            continue
        if held.reason == "origin-acted":
            with suppress(NothingToResolve):  # someone was quicker
                how = "reuse" if held.path.startswith("2:") else "act"
                await runtime.decide_effect(FORK, None, how, by="ada")
        elif not await truthful(place, FORK, came):
            return False
    await say_yes(runtime, RUN_ID)
    return True


async def say_yes(runtime: Runtime, run_id: str) -> None:
    """Answer whatever a run asks."""
    for wait in (await load(runtime.store, run_id)).record.waits.values():
        if not wait.closed:
            with suppress(AlreadyAnswered):  # someone was quicker
                await runtime.answer(run_id, value=True, question=wait.path, by="ada")


def _forked(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Looks, pays and posts, a step each, and asks a person, who forks it meanwhile; its fork asks nobody."""
    desk = Agent("forked", state=dict, start=lambda goal: {"log": []})

    @desk.tool(effect="read")
    async def look(what: str) -> str:
        return str(outside.act(f"looked at {what}"))

    @desk.tool(effect="irreversible", timeout=SOON)
    async def pay(what: str) -> str:
        return str(outside.act(f"paid {what}"))

    @pay.reconcile
    async def paid(what: str) -> Any:
        found = outside.find(current_call().key)
        return Done(str(reply_of(found))) if found else NotDone()

    @desk.tool(effect="idempotent")
    async def post(what: str) -> str:
        return str(outside.act(f"posted {what}"))

    @desk.step
    async def step(run: Any) -> None:
        log = run.state["log"]
        if not log:
            log.append(await look("a"))
        elif len(log) == 1:
            log.append(await pay(log[0]))
        else:
            log.append(await post(log[1]))
            if run.id == RUN_ID:
                log.append(await run.ask("Shall it end?", bool))
            run.finish(log)

    return desk


forked = Scenario("forked", _forked, person=_person, kin=(FORK,))
