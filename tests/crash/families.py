"""What the crash tests try of families: runs that spawn runs, and are called back.

Every run of a family is judged, by itself and beside the others.
"""

from __future__ import annotations

from typing import Any

from perdure.agent import Agent, Call, Done, NotDone, Principal, current_call
from perdure.errors import NoSuchRun
from perdure.journal import load
from perdure.testing.crash.outside import Outside, reply_of
from perdure.testing.crash.scenario import RUN_ID, Hands, Scenario, truthful

_CHILDREN = (f"{RUN_ID}.1:0.0.0", f"{RUN_ID}.1:0.1.0", f"{RUN_ID}.2:0", f"{RUN_ID}.2:0.1:0")


def _worker(outside: Outside, name: str) -> Agent[Any, Any, Any]:
    """A child that acts twice: once nobody can look it up, once there is a hook."""
    worker = Agent(name, state=dict, start=lambda goal: {"done": []})

    @worker.tool(effect="irreversible")
    async def post(what: str) -> str:
        return str(outside.act(f"posted {what}"))

    @worker.tool(effect="irreversible")
    async def pay(what: str) -> str:
        return str(outside.act(f"paid {what}"))

    @pay.reconcile
    async def paid(what: str) -> Done[str] | NotDone:
        found = outside.find(current_call().key)
        return Done(str(reply_of(found))) if found else NotDone()

    @worker.step
    async def step(run: Any) -> None:
        done = run.state["done"]
        if not done:
            done.append(await post(run.goal))
        else:
            done.append(await pay(run.goal))
            run.finish(done)

    return worker


async def _truthful_to_all(place: Any, run_id: str, outcome: Any) -> bool:
    """A person who looks after every run of the family."""
    acted = outcome.status == "held" and await truthful(place, run_id, outcome)
    for child in _CHILDREN:
        try:
            record = (await load(place.runtime.store, child)).record
        except NoSuchRun:
            continue
        if record.held is not None:
            acted = await truthful(place, child, outcome) or acted
    return acted


def _family(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Two children at once, then one that has a child of its own, between acts of the parent."""
    worker, middle = _worker(outside, "worker"), Agent("middle", state=dict, start=lambda goal: {})
    head = Agent("head", state=dict, start=lambda goal: {"log": []}, spawns=[worker, middle])

    @middle.step
    async def delegate(run: Any) -> None:
        run.finish(await run.spawn(worker, run.goal))

    @head.authorize
    def allowed(who: Principal, call: Call) -> bool:
        return who.id == "carl"

    @head.tool(effect="idempotent")
    async def ring(n: int) -> int:
        return int(outside.act(n))

    @head.step
    async def step(run: Any) -> None:
        log = run.state["log"]
        if not log:
            log += await run.gather(run.spawn(worker, "a"), run.spawn(worker, "b"), ring(1))
        else:
            log.append(await run.spawn(middle, "c"))
            log.append(await ring(2))
            run.finish(log)

    return head


family = Scenario("family", _family, person=_truthful_to_all, kin=_CHILDREN, principal=Principal("carl"))


def _recalled(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """A child cancels its parent, and is called back by it; its sibling, which sleeps, is too."""
    head = Agent("head", state=dict, start=lambda goal: {})
    worker = Agent("worker", state=dict, start=lambda goal: {"n": 0})
    head.spawns.append(worker)

    @worker.tool(effect="read")
    async def look(n: int) -> int:
        if n == 1:
            await hands().cancel(RUN_ID, by="ada", note="enough")
        return int(outside.act(n))

    @worker.tool(effect="irreversible")
    async def post(n: int) -> int:
        return int(outside.act(n + 1))

    @worker.step
    async def delegate(run: Any) -> None:
        if run.goal == "sleep":
            await run.sleep(1_000_000)
        run.state["n"] = await post(await look(run.state["n"]))
        if run.state["n"] > 50:
            run.finish("nobody called it back")

    @head.step
    async def step(run: Any) -> None:
        await run.gather(run.spawn(worker, "sleep"), run.spawn(worker, "act"))
        run.finish("nobody cancelled it")

    return head


recalled = Scenario("recalled", _recalled, person=_truthful_to_all, kin=_CHILDREN[:2])
