"""Leases: renewed, covered, given up in time."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import perdure
from perdure.agent import Held
from perdure.errors import StoreLocked
from perdure.host import Runtime
from perdure.runtime.boundary import set_hook
from perdure.runtime.leases import Leases
from perdure.runtime.standstill import Standstill, blocking
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Claim, Claimed
from perdure.testing.clock import MovableClock
from tests.unit.runtime.stage import LEASE, RUN, Stage, World, agent


class Deaf(MemoryStore):
    """A store whose answers to renewals can be kept back, or be errors."""

    def __init__(self, clock: MovableClock) -> None:
        super().__init__(clock=clock)
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = False
        self.renewals: list[tuple[str, ...]] = []

    async def renew(self, worker: str, run_ids: Sequence[str], lease_seconds: float) -> frozenset[str]:
        self.renewals.append(tuple(run_ids))
        await self.gate.wait()
        if self.broken:
            raise StoreLocked("busy")
        return await super().renew(worker, run_ids, lease_seconds)


async def idle(run: Any) -> None:
    """A step that is never executed."""


async def held(*run_ids: str) -> tuple[Deaf, MovableClock, Leases, list[str]]:
    """Leases of 30 s on runs that were claimed just now; the list tells which were lost."""
    clock = MovableClock()
    store = Deaf(clock)
    await store.open()
    async with Runtime(store, clock=clock) as place:
        for run_id in run_ids:
            await place.start(agent(idle), run_id, "go")
    leases = Leases(store, "w", clock, 30.0)
    lost: list[str] = []
    for run_id in run_ids:
        assert await store.claim(Claim("w", 30.0, run_id=run_id))
        leases.hold(run_id, clock.monotonic(), partial(lost.append, run_id))
    return store, clock, leases, lost


async def turn() -> None:
    """Let everything that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_leases_are_renewed_together_and_last_on() -> None:
    """One call of the store for all; ten lease times later they are still held."""
    store, clock, leases, lost = await held("a", "b", "c")
    for _ in range(30):
        clock.advance(10)
        leases.tick()
        await turn()
    assert lost == []
    assert set(store.renewals) == {("a", "b", "c")}
    assert {(await store.row(name)).worker for name in "abc"} == {"w"}
    await leases.close()


async def test_a_lease_that_cannot_be_renewed_is_given_up_before_it_ends() -> None:
    """The store is broken: at the last tenth of the lease the run is let go, while it is still ours.

    Field case O-041.
    """
    store, clock, leases, lost = await held("a")
    store.broken = True
    seen: list[int] = []
    for second in range(1, 31):
        clock.advance(1)
        leases.tick()
        await turn()
        if lost and not seen:
            seen.append(second)
            assert (await store.row("a")).worker == "w"
    assert seen == [27]
    await leases.close()


async def test_a_store_that_does_not_answer_keeps_nobody_from_giving_up() -> None:
    """The renewal hangs for ever: the lease is given up in time all the same, and it hangs only once."""
    store, clock, leases, lost = await held("a", "b")
    store.gate.clear()
    for _ in range(28):
        clock.advance(1)
        leases.tick()
        await turn()
    assert lost == ["a", "b"]
    assert len(store.renewals) == 1
    store.gate.set()
    await leases.close()


async def test_a_lease_that_another_worker_has_is_lost_at_once() -> None:
    """The answer to a renewal tells which are still ours."""
    store, clock, leases, lost = await held("a", "b")
    clock.advance(31)
    assert await store.claim(Claim("other", 30.0, run_id="a"))
    clock._elapsed -= 30  # this process has not noticed the time
    leases.tick()
    await turn()
    assert lost == ["a", "b"]
    assert (await store.row("a")).worker == "other"
    await leases.close()


async def test_cover_extends_a_lease_beyond_a_long_act() -> None:
    """An act of ten minutes begins only when the lease lasts so long, by the store's clock too."""
    store, clock, leases, _ = await held("a")
    assert await leases.cover("a", 600.0)
    assert (await store.row("a")).lease_until >= clock.now() + 601 * 1_000_000
    assert len(store.renewals) == 1
    assert await leases.cover("a", 500.0)
    assert len(store.renewals) == 1
    await leases.close()


async def test_cover_refuses_when_the_lease_is_gone() -> None:
    """Nothing may be acted then, however short."""
    _, clock, leases, lost = await held("a")
    clock.advance(31)
    assert not await leases.cover("a", 0.0)
    assert lost == ["a"]
    assert not await leases.cover("a", 0.0)
    assert not await leases.cover("never held", 0.0)
    await leases.close()


async def test_a_run_claimed_anew_is_not_lost_with_its_old_lease() -> None:
    """A renewal that was asked for the old lease says nothing about the new one."""
    store, clock, leases, lost = await held("a")
    store.gate.clear()
    leases.tick()
    clock.advance(1)
    leases.tick()
    await turn()
    await store.release("a", 1)
    leases.hold("a", clock.monotonic(), lambda: lost.append("new"))
    store.gate.set()
    await turn()
    assert lost == []
    await leases.close()


async def test_who_gives_up_an_old_lease_leaves_a_newer_one_alone() -> None:
    """A run that is given back can be claimed again before its first drive has ended."""
    _, clock, leases, lost = await held("a")

    def new() -> None:
        lost.append("new")

    leases.hold("a", clock.monotonic(), new)
    leases.drop("a", lambda: None)
    assert await leases.cover("a", 0.0)
    leases.drop("a", new)
    assert not await leases.cover("a", 0.0)
    assert lost == []
    await leases.close()


# ------------------------------------------------------------------------------------------ what a run learns


class Bank:
    """An act that the test can hold up in the middle."""

    def __init__(self, *, plain: bool = False) -> None:
        self.world = World()
        self.began, self.go = asyncio.Event(), asyncio.Event()

        @perdure.tool(effect="irreversible")
        async def pay(cents: int) -> str:
            receipt = self.world.act(f"paid {cents}")
            self.began.set()
            await self.go.wait()
            return str(receipt)

        async def step(run: Any) -> None:
            run.state["log"].append(await pay(len(run.state["log"])))
            if len(run.state["log"]) == 2:
                run.finish(run.state["log"])

        self.agent = agent(step, pay)


async def test_a_lost_lease_stops_the_act_before_the_lease_ends(memory: Stage) -> None:
    """The driver is told while the run is still its own; it writes nothing false and goes quietly."""
    bank = Bank()
    async with memory.runtime(bank.agent) as place:
        first = asyncio.create_task(place.run(bank.agent, RUN, "go"))
        await bank.began.wait()
        memory.clock.advance(LEASE * 0.95)
        place.host.leases.tick()
        assert (await memory.store.row(RUN)).worker == place.host.worker
        async with memory.runtime(bank.agent) as other:
            held_run = await other.run(bank.agent, RUN, "go")
        assert isinstance(held_run, Held)
        assert held_run.reason == "unknown-outcome"
        assert (await first) == held_run  # it followed, and acted no more
    assert len(bank.world) == 1
    await memory.blameless(bank.world)


async def test_a_stale_owner_appends_nothing(memory: Stage) -> None:
    """Overtaken without noticing: its receipt is refused, and reaches the journal as a late result."""
    bank = Bank()
    async with memory.runtime(bank.agent) as place:
        first = asyncio.create_task(place.run(bank.agent, RUN, "go"))
        await bank.began.wait()
        memory.clock.advance(LEASE + 1)
        async with memory.runtime(bank.agent) as other:
            assert (await other.run(bank.agent, RUN, "go")).status == "held"
            before = await memory.events()
            bank.go.set()
            assert (await first).unwrap() == ["paid 0", "paid 1"]
    events = await memory.events()
    assert events[: len(before)] == before
    stale = [event for event in events if event.epoch == 1 and event.seq > before[1].seq + 1]
    assert stale == []
    [late] = [event.body for event in events if isinstance(event.body, e.CallLate)]
    assert late.used
    assert len(bank.world) == 2


async def test_nothing_is_acted_when_the_lease_is_gone_at_the_last_moment(memory: Stage) -> None:
    """The intent is durable, the run is another's: no act, and the new owner is told that there was none."""
    world, overtaken = World(), asyncio.Event()

    @perdure.tool(effect="irreversible", timeout=timedelta(seconds=20))
    async def pay() -> str:
        return str(world.act("paid"))

    async def step(run: Any) -> None:
        run.finish(await pay())

    made, store = agent(step, pay), memory.store

    def hook(name: str) -> None:
        if name == "intent.durable":
            set_hook(None)
            memory.clock.advance(LEASE + 1)
            overtake()

    def overtake() -> None:
        # In the one moment between the intent and the act somebody else claims the run.
        coroutine = store.claim(Claim("other", LEASE, run_id=RUN))
        with pytest.raises(StopIteration) as claimed:
            coroutine.send(None)
        taken: tuple[Claimed, ...] = claimed.value.value
        assert len(taken) == 1
        overtaken.set()

    set_hook(hook)
    async with memory.runtime(made) as place:
        run = asyncio.create_task(place.run(made, RUN, "go"))
        await overtaken.wait()
        await asyncio.sleep(0.01)
        assert len(world) == 0
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    memory.clock.advance(LEASE + 1)
    assert (await memory.run(made)).unwrap() == "paid"
    assert [body.verdict for body in await memory.bodies(e.CallReconciled)] == ["not_done"]
    assert len(world) == 1
    await memory.blameless(world)


async def test_an_act_that_was_not_sent_for_want_of_a_lease_did_not_happen(memory: Stage) -> None:
    """Nobody else has claimed the run: its owner records that nothing was sent, and may act later."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        return str(world.act("paid"))

    async def step(run: Any) -> None:
        run.finish(await pay())

    def hook(name: str) -> None:
        if name == "intent.durable":
            set_hook(None)
            memory.clock.advance(LEASE + 1)

    set_hook(hook)
    assert (await memory.run(agent(step, pay))).unwrap() == "paid"
    outcomes = [(body.outcome, body.final) for body in await memory.bodies(e.CallSettled)]
    assert outcomes == [("not_done", False), ("done", True)]
    assert len({intent.key for intent in await memory.bodies(e.CallIntended)}) == 1
    assert len(world) == 1
    await memory.blameless(world)


async def test_a_loop_that_stands_still_is_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    """A blocking call in a step: one warning, which shows the line that blocks (O-046)."""
    watch = Standstill(0.05)
    with caplog.at_level(logging.WARNING, "perdure.run"):
        watch.begin()
        blocks_the_loop()
        await asyncio.sleep(0.03)
        blocks_the_loop()
        watch.end()
        await asyncio.sleep(0.1)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "blocks_the_loop" in caplog.text
    assert "plain def tool" in caplog.text


async def test_where_the_loop_stands_is_told_without_lines_of_ours(memory: Stage) -> None:
    """Thirty lines of perdure's and of the loop's would hide the one that blocks."""

    @perdure.tool(effect="read")
    async def looks() -> str:
        return blocking(sys._getframe())

    async def step(run: Any) -> None:
        run.finish(await looks())

    told = (await memory.run(agent(step, looks))).unwrap()
    assert [line.split(", in ")[1] for line in told.splitlines() if ", in " in line] == ["step", "looks"]


def blocks_the_loop() -> None:
    """As a careless step does."""
    time.sleep(0.25)


async def test_a_blocked_loop_loses_no_lease_unseen(memory: Stage) -> None:
    """After the block the next act finds the lease gone, and is not made."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        return str(world.act("paid"))

    taken: list[bool] = []

    async def step(run: Any) -> None:
        if not taken:
            taken.append(True)
            memory.clock.advance(LEASE + 1)  # as if time.sleep(31) had been called here
        run.finish(await pay())

    made = agent(step, pay)
    assert (await memory.run(made)).unwrap() == "paid"
    assert len(world) == 1
    epochs = {event.epoch for event in await memory.events()}
    assert len(epochs) > 1  # the lease was lost and claimed anew before the act
    await memory.blameless(world)
