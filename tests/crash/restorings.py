"""What the crash tests try of a run that another incarnation may have carried on: it was held as a restored
one while it waited, a person lets it go, and it looks up each act before it makes it.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from perdure.agent import Agent, Done, NotDone, current_call
from perdure.clock import SYSTEM
from perdure.errors import NothingToResolve
from perdure.journal import load
from perdure.runtime.holds import RESTORED, brought_back
from perdure.runtime.idle import hold
from perdure.store.protocol import Claim
from perdure.testing.crash.outside import Outside, reply_of
from perdure.testing.crash.scenario import Hands, Scenario, truthful
from tests.crash.forkings import say_yes

LEASE_SECONDS = 30.0


async def _person(place: Any, run_id: str, outcome: Any) -> bool:
    """Holds the waiting run as `perdure restore` does, lets it go, and answers it."""
    runtime = place.runtime
    record = (await load(runtime.store, run_id)).record
    if record.held is not None and record.held.reason == RESTORED:
        with suppress(NothingToResolve):  # someone was quicker
            await runtime.release(run_id, by="ada")
        return True
    if outcome.status != "waiting":
        return await truthful(place, run_id, outcome)
    if record.doubt is None:
        await runtime.signal(run_id, "nudge")  # a run that waits is claimed when something has come
        claim = Claim(runtime.host.worker, LEASE_SECONDS, run_id=run_id, drives=False)
        for _ in await runtime.store.claim(claim):
            await hold(runtime.store, run_id, SYSTEM, brought_back(run_id, cancelled=False))
        return True
    await say_yes(runtime, run_id)
    return True


def _restored(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Asks, then pays and ships, which its hooks can look up, and posts under a key that holds for ever."""
    desk = Agent("restored", state=dict, start=lambda goal: {"log": []})

    async def found() -> Done[str] | NotDone:
        known = outside.find(current_call().key)
        return Done(str(reply_of(known))) if known else NotDone()

    @desk.tool(effect="irreversible", timeout=timedelta(seconds=2))
    async def pay(what: str) -> str:
        return str(outside.act(f"paid {what}"))

    @pay.reconcile
    async def paid(what: str) -> Any:
        return await found()

    @desk.tool(effect="idempotent", key_ttl=timedelta(milliseconds=1))
    async def ship(what: str) -> str:
        return str(outside.act(f"shipped {what}"))

    @ship.reconcile
    async def shipped(what: str) -> Any:
        return await found()

    @desk.tool(effect="idempotent")
    async def post(what: str) -> str:
        return str(outside.act(f"posted {what}"))

    @desk.step
    async def step(run: Any) -> None:
        await run.ask("Shall it go on?", bool)
        run.state["log"] += [await pay("a"), await ship("b"), await post("c")]
        run.finish(run.state["log"])

    return desk


restored = Scenario("restored", _restored, person=_person)
