"""What the crash tests try: agents that, together, pass every boundary of the engine.

Each is small, so that every point of it can be tried. Their tools act on an outside world that survives the
kill.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

from perdure.agent import (
    FOREVER,
    Agent,
    Budget,
    Done,
    Hybrid,
    NotDone,
    Price,
    Retry,
    Usage,
    current_call,
)
from perdure.errors import AlreadyAnswered, PremiseChanged
from perdure.journal import load
from perdure.testing.crash.outside import Outside, reply_of
from perdure.testing.crash.scenario import Hands, Scenario, truthful
from tests.crash.deploys import deployed
from tests.crash.families import family, recalled
from tests.crash.forkings import forked
from tests.crash.permissions import permits
from tests.crash.restorings import restored
from tests.crash.undoings import undone

SOON = timedelta(seconds=2)
"""How long a call may take, by the trial's hurried clock: also how long a NotDone is not believed."""


# -------------------------------------------------------------------------------- the plain loop, with a hook


def _refunds(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """No step of its own: a model that looks an order up, pays it back, and answers."""
    desk: Agent[Any, Any, Any] = Agent("desk")

    @desk.model("scripted")
    async def chat(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
        said = sum(message["role"] == "tool" for message in messages)
        outside.act(said)
        if said == 2:
            return {"role": "assistant", "content": f"Done: {messages[-1]['content']}"}
        name, arguments = [("order", '{"order_id": "o-1"}'), ("refund", '{"order_id": "o-1", "cents": 12}')][
            said
        ]
        call = {"id": f"c{said}", "type": "function", "function": {"name": name, "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    @desk.tool(effect="read")
    async def order(order_id: str) -> dict[str, Any]:
        return dict(outside.act({"id": order_id, "cents": 1200}))

    @desk.tool(effect="irreversible", timeout=SOON)
    async def refund(order_id: str, cents: int) -> str:
        return str(outside.act(f"rf-{order_id}-{cents}"))

    @refund.reconcile
    async def refunded(order_id: str, cents: int) -> Done[str] | NotDone:
        found = outside.find(current_call().key)
        return Done(str(reply_of(found))) if found else NotDone()

    return desk


refunds = Scenario("refunds", _refunds, "Refund o-1.")


# ----------------------------------------------------------------------------------------- a person must tell


def _letters(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Irreversible acts that nobody can look up; the answer of the second is lost."""
    post = Agent("post", state=dict, start=lambda goal: {"sent": []})

    @post.tool(effect="irreversible")
    async def send(to: str) -> str:
        return str(outside.act(f"sent to {to}", lose=1 if to == "bob" else 0))

    @post.step
    async def step(run: Any) -> None:
        sent = run.state["sent"]
        to = ["ada", "bob", "eve"][len(sent)]
        sent.append(await send(to))
        if to == "eve":
            run.finish(len(sent))

    return post


letters = Scenario("letters", _letters)


# ---------------------------------------------------------------------------------- lost replies, and retries


class NoMoney(Exception):
    """A definite failure."""


def _orders(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """An idempotent call whose first answer is lost; a read and an irreversible call that fail and are
    retried; an irreversible one with a hook whose answer is lost.
    """
    shop = Agent("shop", state=dict, start=lambda goal: {"log": []}, durability="step")

    @shop.tool(effect="idempotent")
    async def book(item: str) -> str:
        return str(outside.act(f"booked {item}", lose=1))

    @shop.tool(effect="read", retry=Retry(attempts=3, backoff=0.1))
    async def stock(item: str) -> int:
        outside.act(7)
        if current_call().attempt < 2:
            raise ConnectionError("no stock today")
        return 7

    @shop.tool(effect="irreversible", raises=[NoMoney])
    async def charge(cents: int) -> str:
        if cents > 100:
            raise NoMoney("the card is empty")
        return str(outside.act(f"charged {cents}"))

    @shop.tool(effect="irreversible", retry=Retry(attempts=3, backoff=0.1))
    async def reserve(item: str) -> str:
        if current_call().attempt < 2:
            raise NotDone("the door was shut")
        return str(outside.act(f"reserved {item}"))

    @shop.tool(effect="irreversible", timeout=SOON)
    async def ship(item: str) -> str:
        return str(outside.act(f"shipped {item}", lose=1))

    @ship.reconcile
    async def shipped(item: str) -> Done[str] | NotDone:
        found = outside.find(current_call().key)
        return Done(str(reply_of(found))) if found else NotDone()

    @shop.step
    async def step(run: Any) -> None:
        log = run.state["log"]
        if not log:
            log += [await stock("tea"), await book("tea"), await reserve("tea")]
            return
        try:
            await charge(500)
        except NoMoney as error:
            log.append(str(error))
        log += [await charge(50), await ship("tea")]
        run.finish(log)

    return shop


orders = Scenario("orders", _orders)


# ------------------------------------------------------------------------------------- the store's own tables


def _transfers(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Transactional calls: rows in the user's tables, beside reads and an irreversible call in one step."""
    bank = Agent("bank", state=dict, start=lambda goal: {"rows": []}, storage="snapshot")

    @bank.tool(effect="transactional")
    def move(cents: int) -> int:
        call = current_call()
        call.tx.execute("CREATE TABLE IF NOT EXISTS moved (run TEXT, cents INTEGER)")
        call.tx.execute("INSERT INTO moved VALUES (?, ?)", (call.run_id, cents))
        return int(call.tx.execute("SELECT sum(cents) FROM moved WHERE run = ?", (call.run_id,))[0][0])

    @bank.tool(effect="read")
    async def rate() -> int:
        return int(outside.act(3))

    @bank.tool(effect="irreversible")
    async def tell(what: str) -> str:
        return str(outside.act(f"told {what}"))

    @bank.step
    async def step(run: Any) -> None:
        rows = run.state["rows"]
        rows.append(await run.call(move, await rate()))
        if len(rows) == 2:
            rows.append(await tell(str(rows)))
            rows.append(await run.call(move, 4))
            run.finish(rows)

    return bank


transfers = Scenario("transfers", _transfers)


# --------------------------------------------------------------------------------------------------- branches


def _errands(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Branches of every class at once, and a map; the branches end in an order that is not their own."""
    errands = Agent("errands", state=dict, start=lambda goal: {"done": []}, storage=Hybrid(every=3))

    @errands.tool(effect="read")
    async def look(what: str) -> str:
        await asyncio.sleep(0.002)
        return str(outside.act(f"saw {what}"))

    @errands.tool(effect="idempotent")
    async def book(what: str) -> str:
        return str(outside.act(f"booked {what}", lose=1 if what == "b" else 0))

    @errands.tool(effect="irreversible", timeout=SOON)
    async def pay(what: str) -> str:
        return str(outside.act(f"paid {what}"))

    @pay.reconcile
    async def paid(what: str) -> Done[str] | NotDone:
        found = outside.find(current_call().key)
        return Done(str(reply_of(found))) if found else NotDone()

    @errands.tool(effect="irreversible")
    async def post(what: str) -> str:
        return str(outside.act(f"posted {what}"))

    @errands.step
    async def step(run: Any) -> None:
        done = run.state["done"]
        if not done:
            done += await run.gather(look("a"), book("b"), pay("c"), post("d"))
        elif len(done) < 6:
            done += await run.map(post, ["e", "f"], limit=2)
            run.now(), run.random(), run.new_id()
        else:
            run.finish(sorted(done))

    return errands


branches = Scenario("branches", _errands)


# ------------------------------------------------------------------------------------------ timers and strict


def _naps(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Sleeps between acts, everything durable at once."""
    naps = Agent("naps", state=dict, start=lambda goal: {"n": 0}, durability="strict")

    @naps.tool(effect="idempotent")
    async def ring(n: int) -> int:
        return int(outside.act(n + 1))

    @naps.step
    async def step(run: Any) -> None:
        first = await ring(run.state["n"])
        await run.sleep(1.5)
        run.state["n"] = await ring(first)
        await run.gather(run.sleep(0.5), ring(100))
        if run.state["n"] >= 4:
            run.finish(run.state["n"])

    return naps


naps = Scenario("naps", _naps)


# -------------------------------------------------------------------------- signals, questions and their ends


async def _obliging(place: Any, run_id: str, outcome: Any) -> bool:
    """People who send what the run waits for, each message with an id of its own, again after each kill."""
    if outcome.status != "waiting":
        return await truthful(place, run_id, outcome)
    for number in (1, 2):
        await place.runtime.signal(run_id, "paid", number, id=f"paid-{number}", by="bank")
    record = (await load(place.runtime.store, run_id)).record
    for wait in record.waits.values():
        if wait.kind == "answer" and not wait.closed:
            with suppress(AlreadyAnswered):  # it lies in the inbox since a life that was killed
                await place.runtime.answer(run_id, wait.name == "Ship it?", question=wait.path, by="ada")
    return True


def _waits(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Waits for two payments and an early word, beside acts; asks twice; one wait expires."""
    clerk = Agent("clerk", state=dict, start=lambda goal: {"got": []}, wait_limit=FOREVER)

    @clerk.tool(effect="irreversible")
    async def post(what: str) -> str:
        return str(outside.act(what))

    @clerk.tool(effect="read")
    async def prompt(what: str) -> str:
        await hands().signal(current_call().run_id, "early", what, id=f"early-{what}")
        return str(outside.act(what))

    @clerk.step
    async def step(run: Any) -> None:
        got = run.state["got"]
        if not got:
            await prompt("one")
            first, paid, _ = await run.gather(run.wait("early", str), run.wait("paid", int), post("a"))
            got += [first, paid]
        else:
            shipped, dull = await run.gather(run.ask("Ship it?", bool), run.ask("Is it dull?", bool))
            got += [shipped, dull, await run.wait("paid"), await run.wait("never", timeout=1.5, default="?")]
            got.append(await post("b"))
            run.finish(got)

    return clerk


waits = Scenario("waits", _waits, person=_obliging)


# --------------------------------------------------------------------------------------------------- a cancel


def _cancelled(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """A person cancels the run while a read is under way; nothing may be intended after that.

    Every step is durable before the next begins: a cancel finds what is durable, and a read waits for
    nothing, so that it could otherwise come upon a step that a kill then takes back.
    """
    doomed = Agent("doomed", state=dict, start=lambda goal: {"n": 0}, durability="step")

    @doomed.tool(effect="irreversible")
    async def post(n: int) -> int:
        return int(outside.act(n + 1))

    @doomed.tool(effect="read")
    async def look(n: int) -> int:
        if n == 2:
            await hands().cancel(current_call().run_id, by="ada", note="enough")
        return int(outside.act(n))

    @doomed.step
    async def step(run: Any) -> None:
        seen = await look(run.state["n"])
        run.state["n"] = await post(seen)
        if run.state["n"] > 4:
            run.finish("nobody cancelled it")

    return doomed


cancelled = Scenario("cancelled", _cancelled)


# ------------------------------------------------------------------------------------- a step that fails once


async def _retry(place: Any, run_id: str, outcome: Any) -> bool:
    """A person who asks for another try when the step has failed."""
    if outcome.status != "held" or outcome.reason != "step-error":
        return await truthful(place, run_id, outcome)
    if not place.outside.noted(run_id, "mended"):
        place.outside.note(run_id, "mended")
    await place.runtime.retry(run_id, by="ada")
    return True


def _broken(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """A step with a bug: it raises after an act, until a person has mended it."""
    broken = Agent("broken", state=dict, start=lambda goal: {"n": 0})

    @broken.tool(effect="irreversible")
    async def post(n: int) -> int:
        return int(outside.act(n + 1))

    @broken.step
    async def step(run: Any) -> None:
        run.state["n"] = await post(run.state["n"])
        if not outside.noted(run.id, "mended"):
            raise ValueError("a bug")
        run.finish(run.state["n"])

    return broken


mended = Scenario("mended", _broken, person=_retry)

# ---------------------------------------------------------------------------------------------- a budget


async def _generous(place: Any, run_id: str, outcome: Any) -> bool:
    """A person who gives a run more whenever it is held for its budget."""
    if outcome.status != "held" or outcome.reason != "over-budget":
        return await truthful(place, run_id, outcome)
    await place.runtime.raise_budget(run_id, by="ada", why="go on", usd=0.3, calls=3)
    return True


def _thrifty(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Models side by side under a budget that does not last, beside acts that count as calls."""
    budget = Budget(usd=0.5, calls=6, seconds=600)
    thrifty = Agent("thrifty", state=dict, start=lambda goal: {"n": 0}, budget=budget)

    @thrifty.model("scripted", price=Price(100.0, 100.0), reserve=Usage(1000, 500))
    async def ask(n: int) -> dict[str, Any]:
        await asyncio.sleep(0.01)  # longer than a commit takes: the intent is durable before the answer
        return dict(outside.act({"n": n, "usage": {"input_tokens": 600 + n, "output_tokens": 500}}))

    @thrifty.tool(effect="irreversible", timeout=SOON)
    async def post(n: int) -> int:
        return int(outside.act(n))

    @post.reconcile
    async def posted(n: int) -> Done[int] | NotDone:
        found = outside.find(current_call().key)
        return Done(int(reply_of(found))) if found else NotDone()

    @thrifty.step
    async def step(run: Any) -> None:
        n = run.state["n"]
        replies = await run.gather(ask(n), ask(n + 1), post(n))
        run.state["n"] = n + 2 + replies[2] - n
        if n >= 2:
            run.finish(replies[0]["n"])

    return thrifty


thrifty = Scenario("thrifty", _thrifty, person=_generous)

# ------------------------------------------------------------------------------- acts that rest on facts


def _grounded(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    """Acts that rest on a fact that stays and on one that changes during a sleep: it is told, and acts."""
    shop = Agent("grounded", state=dict, start=lambda goal: {"log": []})

    @shop.fact(fresh_for=timedelta(hours=1))
    async def stock(item: str) -> int:
        return int(outside.act(7))

    @shop.fact(fresh_for=timedelta(hours=1))
    async def price(item: str) -> int:
        run_id = current_call().run_id
        seen = outside.noted(run_id, "price")
        if not seen:
            outside.note(run_id, "price")
        return int(outside.act(12 if seen else 10))

    @shop.tool(effect="irreversible", premises=[stock])
    async def pack(item: str) -> str:
        return str(outside.act(f"packed {item}"))

    @shop.tool(effect="irreversible", premises=[price, stock])
    async def sell(item: str) -> str:
        return str(outside.act(f"sold {item}"))

    @shop.step
    async def step(run: Any) -> None:
        run.state["log"].append(await pack("tea"))
        await price("tea")
        await run.sleep(1.5)
        try:
            run.state["log"].append(await sell("tea"))
        except PremiseChanged:
            run.state["log"].append(await sell("tea"))
        run.finish(run.state["log"])

    return shop


grounded = Scenario("grounded", _grounded)

ALL = (
    *(refunds, letters, orders, transfers, branches, naps, waits, cancelled, mended, thrifty, grounded),
    *(family, recalled, permits, undone, deployed, forked, restored),
)
"""Every scenario."""
