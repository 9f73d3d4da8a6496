"""What an act rests on is read again before it: when, how often, and what happens if it has changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure import codec
from perdure.agent import Done, Held, NotDone, Retry, current_call
from perdure.errors import PremiseChanged, PremiseUnread
from perdure.state import events as e
from perdure.state.facts import FACT_BYTES, FACTS, NEWEST, fact_key, remember
from perdure.state.record import Facts
from tests.unit.runtime.desk import in_memory
from tests.unit.runtime.stage import RUN, AnyAgent, Stage, World, agent

FRESH = timedelta(minutes=10)


@dataclass
class Order:
    """What the fact says: `seen` changes at every look and does not matter."""

    status: str
    seen: int


@dataclass
class Shop:
    """The outside: one order, whose status a test changes. `looks`: where the fact was read from."""

    world: World = field(default_factory=World)
    status: str = "paid"
    looks: list[str] = field(default_factory=list)
    broken: bool = False

    def look(self) -> Order:
        """Read the order."""
        self.looks.append(current_call().path)
        if self.broken:
            raise ConnectionError("the shop is down")
        return Order(self.status, len(self.looks))


def tools(shop: Shop, **options: Any) -> tuple[Any, Any]:
    """A fact, and an act that rests on it."""

    @perdure.fact(fresh_for=FRESH, same=lambda found: found.status)
    async def order(order_id: str) -> Order:
        return shop.look()

    @perdure.tool(premises=[order], **({"effect": "irreversible"} | options))
    async def refund(order_id: str, cents: int) -> str:
        return str(shop.world.act(f"refund of {order_id} while {shop.status}"))

    return order, refund


def desk(shop: Shop, *, nap: float = 0, look: bool = True, **options: Any) -> AnyAgent:
    """Looks, sleeps, pays back; what cannot be done is said."""
    order, refund = tools(shop, **options)

    async def step(run: Any) -> None:
        if look:
            await order("o-77")
        if nap:
            await run.sleep(nap)
        try:
            run.finish(await refund("o-77", 12))
        except PremiseChanged as error:
            run.finish([error.fact, error.was.status, error.now.status])
        except PremiseUnread as error:
            run.finish([error.fact, error.code])

    return agent(step, refund)


async def intents(stage: Stage) -> list[tuple[int, ...]]:
    """What each intent rests on."""
    return [body.premises for body in await stage.bodies(e.CallIntended)]


async def reads(stage: Stage) -> list[tuple[str, bool, bool]]:
    """Each fact that was recorded: where, whether it had changed, whether it was a check."""
    return [(body.path, body.changed, body.check) for body in await stage.bodies(e.FactRead)]


# ------------------------------------------------------------------------------- when it is read again


async def test_a_fresh_fact_is_not_read_again(stage: Stage) -> None:
    """One read for the step, none for the act; the intent names it."""
    shop = Shop()
    assert (await stage.run(desk(shop), check=True)).unwrap() == "refund of o-77 while paid"
    assert shop.looks == ["1:0"]
    assert await intents(stage) == [(2,)]
    await stage.blameless(shop.world)


async def test_a_fact_that_nobody_read_is_read_before_the_act(stage: Stage) -> None:
    """At the path of the call; the step never asked for it and is not given it."""
    shop = Shop()
    assert (await stage.run(desk(shop, look=False), check=True)).unwrap() == "refund of o-77 while paid"
    assert shop.looks == ["1:0?0"]
    assert await reads(stage) == [("1:0?0", False, True)]
    assert (await stage.record()).spent.calls == 1
    await stage.blameless(shop.world)


@pytest.mark.parametrize(("minutes", "looks"), [(9, 1), (10, 1), (11, 2)])
async def test_a_fact_is_read_again_when_it_is_too_old(minutes: int, looks: int) -> None:
    """By the store's clock; up to `fresh_for` it is fresh."""
    shop, place = Shop(), in_memory()
    order, refund = tools(shop)

    async def step(run: Any) -> None:
        await order("o-77")
        place.clock.advance(minutes * 60)
        run.finish(await refund("o-77", 12))

    assert (await place.run(agent(step, refund))).unwrap() == "refund of o-77 while paid"
    assert len(shop.looks) == looks


async def test_a_clock_that_went_back_makes_nothing_fresh(memory: Stage) -> None:
    """A fact that seems to be of the future is read again."""
    shop = Shop()
    order, refund = tools(shop)

    async def step(run: Any) -> None:
        await order("o-77")
        memory.clock.set_back(3600)
        run.finish(await refund("o-77", 12))

    await memory.run(agent(step, refund))
    assert shop.looks == ["1:0", "1:1?0"]


async def test_after_a_suspension_it_is_read_again_once(stage: Stage) -> None:
    """However fresh it may be: one read for each resume."""
    shop = Shop()
    made = desk(shop, nap=300)
    assert (await stage.run(made)).status == "waiting"
    stage.clock.advance(300)
    assert (await stage.run(made)).unwrap() == "refund of o-77 while paid"
    assert shop.looks == ["1:0", "1:2?0"]
    assert await reads(stage) == [("1:0", False, False), ("1:2?0", False, True)]
    await stage.blameless(shop.world)


@pytest.mark.parametrize("where", ["premise.read", "premise.found", "premise.same", "intent.write"])
async def test_after_a_crash_it_is_read_again(stage: Stage, where: str) -> None:
    """The next owner of the run trusts nothing that the last one read."""
    shop = Shop()
    made = desk(shop, look=False)
    await stage.crash(made, where)
    assert (await stage.run(made)).unwrap() == "refund of o-77 while paid"
    assert shop.looks[-1] == "1:0?0"
    events = await stage.events()
    (at,) = [number for number, event in enumerate(events) if isinstance(event.body, e.CallIntended)]
    ((read,),) = await intents(stage)
    assert events[read - 1].epoch == events[at].epoch
    await stage.blameless(shop.world)


# ----------------------------------------------------------------------------- when it is not the same


async def test_a_change_is_told_at_the_call(stage: Stage) -> None:
    """With both values, as the fact declares them; nothing was acted, and both are recorded."""
    shop = Shop()
    made = desk(shop, nap=300)
    await stage.run(made)
    shop.status = "cancelled"
    stage.clock.advance(300)
    assert (await stage.run(made, check=True)).unwrap() == ["order", "paid", "cancelled"]
    assert not shop.world.acts
    (change,) = await stage.bodies(e.FactChanged)
    assert (change.path, change.fact, codec.decode(change.args)) == ("1:2", "order", {"order_id": "o-77"})
    assert [codec.decode(value)["status"] for value in (change.was, change.now)] == ["paid", "cancelled"]
    assert await stage.kinds() == [
        "run.started",
        "fact.read",
        "wait.opened",
        "run.resumed",
        "wait.closed",
        "fact.read",
        "fact.changed",
        "call.settled",
        "step.committed",
        "run.finished",
    ]


async def test_a_change_is_replayed_as_it_was_told(stage: Stage) -> None:
    """After a crash the step gets the same error with the same values, whatever is true by then."""
    shop = Shop()
    order, refund = tools(shop)

    async def step(run: Any) -> None:
        await order("o-77")
        await run.sleep(300)
        try:
            await refund("o-77", 12)
        except PremiseChanged as error:
            run.state["log"].append([error.was.status, error.now.status])
        run.finish([*run.state["log"], (await order("o-77")).status])

    made = agent(step, refund)
    await stage.run(made)
    shop.status = "cancelled"
    stage.clock.advance(300)
    await stage.crash(made, "premise.changed")
    shop.status = "shipped"
    outcome = (await stage.run(made)).unwrap()
    (settled,) = await stage.bodies(
        e.CallSettled
    )  # the crash took what was not durable, and it was found anew
    told = codec.decode(settled.value)["attributes"]["facts"]
    assert outcome == [[told["was"]["status"], told["now"]["status"]], "shipped"]
    assert not shop.world.acts


async def test_a_new_call_rests_on_the_new_value(stage: Stage) -> None:
    """Once the step was told: without reading again."""
    shop = Shop()
    order, refund = tools(shop)

    async def step(run: Any) -> None:
        await order("o-77")
        await run.sleep(300)
        try:
            await refund("o-77", 12)
        except PremiseChanged:
            run.finish(await refund("o-77", 12))

    made = agent(step, refund)
    await stage.run(made)
    shop.status = "cancelled"
    stage.clock.advance(300)
    assert (await stage.run(made, check=True)).unwrap() == "refund of o-77 while cancelled"
    assert shop.looks == ["1:0", "1:2?0"]
    await stage.blameless(shop.world)


async def test_a_call_that_was_asked_for_before_is_told_too(stage: Stage) -> None:
    """Two branches that rest on one fact: it is read once, and neither acts; also after a crash."""
    for where in (None, "premise.changed"):
        shop, run_id = Shop(), f"run-{where}"
        order, refund = tools(shop)

        async def step(run: Any, order: Any = order, refund: Any = refund) -> None:
            await order("o-77")
            await run.sleep(300)
            calls = [
                {"id": str(n), "function": {"name": "refund", "arguments": {"order_id": "o-77", "cents": n}}}
                for n in (1, 2)
            ]
            run.finish([message["content"] for message in await run.tools(calls)])

        made = agent(step, refund, name=f"tester-{where}")
        await stage.run(made, run_id=run_id)
        shop.status = "cancelled"
        stage.clock.advance(300)
        if where is not None:
            await stage.crash(made, where, run_id=run_id)
        told = (await stage.run(made, run_id=run_id, check=True)).unwrap()
        assert ["was not called" in message for message in told] == [True, True], told
        assert ["cancelled" in message for message in told] == [True, True], told
        assert not shop.world.acts
        assert len(shop.looks) <= (2 if where is None else 3)


async def test_what_does_not_matter_does_not_matter(stage: Stage) -> None:
    """`same` compares the status alone; without it any difference is a change."""
    shop = Shop()

    @perdure.fact(fresh_for=FRESH)
    async def counter(order_id: str) -> Order:
        return shop.look()

    @perdure.tool(effect="irreversible", premises=[counter])
    async def refund(order_id: str) -> str:
        return str(shop.world.act("refunded"))

    async def step(run: Any) -> None:
        await counter("o-77")
        await run.sleep(300)
        try:
            await refund("o-77")
        except PremiseChanged as error:
            run.finish([error.was.seen, error.now.seen])

    made = agent(step, refund)
    await stage.run(made)
    stage.clock.advance(300)
    assert (await stage.run(made, check=True)).unwrap() == [1, 2]


# ------------------------------------------------------------------------------ when it cannot be read


async def test_a_fact_that_cannot_be_read_is_a_definite_failure(stage: Stage) -> None:
    """Coded, at the call, recorded; nothing acted."""
    shop = Shop(broken=True)
    made = desk(shop, look=False)
    assert (await stage.run(made, check=True)).unwrap() == ["order", "T220"]
    (settled,) = await stage.bodies(e.CallSettled)
    assert (settled.outcome, settled.final) == ("not_done", True)
    assert "ConnectionError: the shop is down" in codec.decode(settled.value)["message"]
    assert not shop.world.acts


async def test_a_retry_of_the_tool_reads_again(stage: Stage) -> None:
    """Tries are counted in the journal, as for any definite failure."""
    shop = Shop(broken=True)
    _, refund = tools(shop, retry=Retry(3, backoff=1))

    async def step(run: Any) -> None:
        if shop.looks:
            shop.broken = False
        run.finish(await refund("o-77", 12))

    made = agent(step, refund)
    await stage.crash(made, "premise.changed")
    assert (await stage.run(made)).unwrap() == "refund of o-77 while paid"
    assert len(shop.looks) == 2
    await stage.blameless(shop.world)


async def test_a_same_that_fails_is_told(stage: Stage) -> None:
    """The act does not happen on a comparison that nobody could make."""
    shop = Shop()

    def broken(found: Order) -> str:
        raise KeyError("status")

    @perdure.fact(fresh_for=FRESH, same=broken)
    async def order(order_id: str) -> Order:
        return shop.look()

    @perdure.tool(effect="irreversible", premises=[order])
    async def refund(order_id: str) -> str:
        return str(shop.world.act("refunded"))

    async def step(run: Any) -> None:
        await order("o-77")
        await run.sleep(300)
        try:
            await refund("o-77")
        except PremiseUnread as error:
            run.finish(error.what)

    made = agent(step, refund)
    await stage.run(made)
    stage.clock.advance(300)
    assert "the same= of the fact order failed: KeyError" in (await stage.run(made, check=True)).unwrap()


# ------------------------------------------------------------------------ calls that may have happened


async def test_an_unknown_call_is_not_sent_again_on_a_changed_premise(stage: Stage) -> None:
    """It may have happened, so nobody says that it failed: a person tells, and then the change is told."""
    shop = Shop()
    made = desk(shop, effect="idempotent")
    await stage.crash(made, "intent.durable")
    shop.status = "cancelled"
    held = await stage.run(made)
    assert isinstance(held, Held)
    assert held.reason == "unknown-outcome"
    assert "may have happened and is not sent again" in held.detail
    async with stage.runtime(made) as place:
        await place.resolve(RUN, "1:1", by="ada", not_done=True)
        assert (await place.run(made, RUN, "go")).unwrap() == ["order", "paid", "cancelled"]
    assert not shop.world.acts


async def test_an_act_that_did_not_happen_is_judged_anew(stage: Stage) -> None:
    """After the hook's NotDone the premise is read again before the call is made."""
    shop = Shop()
    order, refund = tools(shop, timeout=timedelta(seconds=1))

    async def refunded(order_id: str, cents: int) -> Done[str] | NotDone:
        found = shop.world.find(current_call().key)
        return Done(found) if found else NotDone()

    refund.reconcile(refunded)

    async def step(run: Any) -> None:
        await order("o-77")
        try:
            run.finish(await refund("o-77", 12))
        except PremiseChanged:
            run.finish("told")

    made = agent(step, refund)
    await stage.crash(made, "intent.durable")
    shop.status = "cancelled"
    assert (await stage.run(made)).unwrap() == "told"
    assert not shop.world.acts
    await stage.blameless(shop.world)


async def test_a_transactional_act_rests_on_facts_too(sqlite: Stage) -> None:
    """What it rests on stands in its receipt, for it has no intent."""
    shop = Shop()

    @perdure.fact(fresh_for=FRESH, same=lambda found: found.status)
    async def order(order_id: str) -> Order:
        return shop.look()

    @perdure.tool(effect="transactional", premises=[order])
    def book(order_id: str) -> int:
        tx = current_call().tx
        tx.execute("CREATE TABLE IF NOT EXISTS booked (id TEXT)")
        tx.execute("INSERT INTO booked VALUES (?)", (order_id,))
        return int(tx.execute("SELECT count(*) FROM booked")[0][0])

    async def step(run: Any) -> None:
        await order("o-77")
        await run.sleep(300)
        try:
            run.finish(await run.call(book, "o-77"))
        except PremiseChanged:
            run.finish("told")

    made = agent(step, book)
    for run_id, status, result in (("a", "paid", 1), ("b", "cancelled", "told")):
        shop.status = "paid"
        await sqlite.run(made, run_id=run_id)
        shop.status = status
        sqlite.clock.advance(300)
        assert (await sqlite.run(made, run_id=run_id, check=True)).unwrap() == result
    (receipt,) = await sqlite.bodies(e.CallSettled, "a")
    assert len(receipt.premises) == 1


# ------------------------------------------------------------------------------------- what is bounded


def test_facts_are_bounded_and_the_newest_are_kept() -> None:
    """By number and by bytes; the ones read longest ago go first, and one read again is new."""
    facts = Facts()
    for n in range(FACTS + 10):
        facts = remember(facts, *_read(n, b"x"))
    assert (len(facts.kept), facts.forgotten, facts.size) == (FACTS, 10, FACTS)
    facts = remember(facts, *_read(10, b"y"))
    facts = remember(facts, *_read(FACTS + 11, b"x"))
    assert fact_key("f", bytes([10])) in facts.kept
    assert fact_key("f", bytes([11])) not in facts.kept
    for n in range(NEWEST + 3):
        facts = remember(facts, *_read(n, b"z" * FACT_BYTES))
    assert len(facts.kept) == NEWEST
    assert facts.size == sum(len(fact.value) + len(fact.was) for fact in facts.kept.values())


def _read(n: int, value: bytes) -> tuple[e.Event, e.FactRead]:
    body = e.FactRead(f"1:{n}", e.CallHead("f", "read", (), n.to_bytes(2).lstrip(b"\0")), value, 0)
    return e.Event(n + 1, 0, 1, body), body


async def test_a_forgotten_fact_is_found_in_the_journal(memory: Stage, monkeypatch: Any) -> None:
    """What was read before so many others still counts."""
    monkeypatch.setattr("perdure.state.facts.FACTS", 2)
    shop = Shop()
    order, refund = tools(shop)

    async def step(run: Any) -> None:
        for name in ("o-77", "a", "b", "c"):
            await order(name)
        await run.sleep(300)
        try:
            await refund("o-77", 12)
        except PremiseChanged as error:
            run.finish([error.was.status, error.now.status])

    made = agent(step, refund)
    await memory.run(made)
    assert (await memory.record()).facts.forgotten == 2
    shop.status = "cancelled"
    memory.clock.advance(300)
    assert (await memory.run(made)).unwrap() == ["paid", "cancelled"]


# --------------------------------------------------------------------------- what a step is told


async def test_the_next_step_is_told_of_the_interruption(stage: Stage) -> None:
    """What is done, and what has changed; the same when that step is executed again."""
    shop = Shop()
    order, refund = tools(shop, effect="idempotent")
    notes: list[str] = []

    async def step(run: Any) -> None:
        if not run.state["log"]:
            assert not run.recovery
            await order("o-77")
            await refund("o-77", 12)
            await run.sleep(300)
            try:
                await refund("o-77", 13)
            except PremiseChanged:
                run.state["log"].append("told")
            return
        notes.append(str(run.recovery))
        assert [(call.tool, call.outcome) for call in run.recovery.done] == [
            ("refund", "done"),
            ("refund", "failed"),
        ]
        assert [one.fact for one in run.recovery.changed] == ["order"]
        await order("o-78")
        run.finish(len(str(run.recovery)))

    made = agent(step, refund)
    await stage.run(made)
    shop.status = "cancelled"
    stage.clock.advance(300)
    assert (await stage.run(made, check=True)).unwrap() <= 2_000
    assert len(set(notes)) == 1
    assert len(notes) == 2
    assert "Done, do not repeat: refund(order_id='o-77', cents=12)" in notes[0]
    assert "Changed: order(order_id='o-77') was" in notes[0]
