"""A worker: what it claims, how it rests, recovers and drains. Real signals are in runtime/test_kill.py."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure import Run, Runtime, tool
from perdure.errors import BadSetting, StoreIO
from perdure.journal import history, load, verify
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Claim, Claimed, Loaded
from perdure.testing.clock import MovableClock
from perdure.worker import Worker
from perdure.worker import worker as worker_module
from tests.unit.runtime.desk import Outside, agent_of

LEASED = 30.0


class Shaky(MemoryStore):
    """A store that may fail: `fails[run_id]` loads of a run, `deaf` claims."""

    def __init__(self, clock: MovableClock) -> None:
        super().__init__(clock=clock)
        self.fails: Counter[str] = Counter()
        self.deaf = 0
        self.limits: list[int] = []

    async def load(self, run_id: str) -> Loaded:
        """Read, or fail."""
        if self.fails[run_id]:
            self.fails[run_id] -= 1
            raise StoreIO("the disk failed")
        return await super().load(run_id)

    async def claim(self, claim: Claim) -> tuple[Claimed, ...]:
        """Claim, or fail."""
        self.limits.append(claim.limit)
        if self.deaf:
            self.deaf -= 1
            raise StoreIO("the disk failed")
        return await super().claim(claim)


class Gate:
    """An act that waits until it is let through; how many are in it, and how many were at most."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside = 0
        self.most = 0
        self.outside = Outside()

        @tool()
        async def pay(who: str) -> str:
            self.inside += 1
            self.most = max(self.most, self.inside)
            receipt = self.outside.act(who)
            try:
                await self.open.wait()
            finally:
                self.inside -= 1
            return str(receipt)

        async def step(run: Run[Any]) -> None:
            run.state["log"].append(await pay(str(run.goal)))
            if len(run.state["log"]) == 2:
                run.finish("paid twice")

        self.agent = agent_of(step, pay)


@asynccontextmanager
async def served(
    store: MemoryStore, clock: MovableClock, *agents: Any, workers: int = 10
) -> AsyncIterator[Runtime]:
    """A process with a worker."""
    async with Runtime(store, agents, workers=workers, clock=clock, lease_seconds=LEASED) as place:
        yield place


async def until(condition: Callable[[], object]) -> None:
    """Let others go on until it holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.0005)
    raise AssertionError("it never held")


def new(*, hurried: bool = False) -> tuple[Shaky, MovableClock]:
    """A store, and its clock."""
    clock = MovableClock(hurried=hurried)
    return Shaky(clock), clock


def terminal(store: MemoryStore, *run_ids: str) -> bool:
    """Whether these runs have ended, without letting anybody go on."""
    return all(store._runs[run_id].standing.terminal for run_id in run_ids)


# ----------------------------------------------------------------------------------------------------- claims


def test_a_worker_serves_somebody() -> None:
    place: Any = None
    with pytest.raises(BadSetting, match="at least one agent"):
        Worker(place, [])


async def test_it_drives_so_many_at_once_and_the_others_when_there_is_room() -> None:
    store, clock = new()
    gate = Gate()
    names = [f"r{n}" for n in range(7)]
    async with served(store, clock, gate.agent, workers=3) as place:
        for name in names:
            await place.start(gate.agent, name, name)
        await until(lambda: gate.inside == 3)
        assert max(store.limits) == 3
        leased = [name for name in names if (await store.row(name)).worker is not None]
        assert leased == names[:3]  # those first that have been claimable for the longest time
        gate.open.set()
        await until(lambda: terminal(store, *names))
    assert gate.most == 3
    assert Counter(gate.outside.done) == Counter(names * 2)


async def test_it_leaves_runs_of_other_agents_alone() -> None:
    store, clock = new()
    gate, other = Gate(), Gate()
    other.agent.name = "stranger"
    gate.open.set()
    async with (
        Runtime(store, [other.agent], clock=clock) as elsewhere,
        served(store, clock, gate.agent) as place,
    ):
        await elsewhere.start(other.agent, "not-ours", "x")
        await place.start(gate.agent, "ours", "y")
        await until(lambda: terminal(store, "ours"))
        row = await store.row("not-ours")
    assert (row.epoch, row.seq, row.worker) == (0, 1, None)


async def test_a_run_whose_worker_vanished_is_claimed_when_its_lease_has_run_out() -> None:
    """By the ordinary claim; on a clock that hurries, whatever else is waited for."""
    store, clock = new(hurried=True)
    gate = Gate()
    gate.open.set()
    async with Runtime(store, [gate.agent], clock=clock) as starter:
        await starter.start(gate.agent, "r", "x")
        [lost] = await store.claim(Claim("vanished", LEASED, run_id="r"))
        async with served(store, clock, gate.agent):
            await until(lambda: terminal(store, "r"))
    assert clock.monotonic() >= LEASED
    assert (await store.row("r")).epoch == lost.row.epoch + 1
    assert gate.outside.done == ["x", "x"]


async def test_a_timer_wakes_its_run_and_only_then() -> None:
    store, clock = new(hurried=True)
    woken: list[float] = []

    async def step(run: Run[Any]) -> None:
        await run.sleep(1000)
        woken.append(clock.monotonic())
        run.finish()

    made = agent_of(step)
    async with served(store, clock, made) as place:
        await place.start(made, "r", "x")
        await until(lambda: terminal(store, "r"))
    assert woken[0] >= 1000


# ------------------------------------------------------------------------------------------------------ beats


async def test_while_it_beats_a_long_run_is_nobody_elses() -> None:
    """Ten leases long, and another worker looks all the time (O-006)."""
    store, clock = new()
    gate = Gate()
    async with served(store, clock, gate.agent) as place, served(store, clock, gate.agent) as other:
        await place.start(gate.agent, "r", "x")
        await until(lambda: gate.inside)
        owner = (await store.row("r")).worker
        beating = place if owner == place.host.worker else other
        for _ in range(30):
            clock.advance(LEASED / 3)
            beating.host.leases.tick()
            await until(lambda: _lease(store, "r") > clock.now() + (LEASED - 1) * 1e6)
            assert (await store.row("r")).worker == owner
        gate.open.set()
        await until(lambda: terminal(store, "r"))
    assert gate.outside.done == ["x", "x"]
    assert (await load(store, "r")).record.resumes == 0


def _lease(store: MemoryStore, run_id: str) -> float:
    return store._runs[run_id].standing.lease_until


async def test_a_worker_that_missed_its_beats_fences_itself_before_another_claims() -> None:
    """Its act is cancelled while its lease still keeps others away; the other finds an unknown call."""
    store, clock = new()
    gate = Gate()
    async with served(store, clock, gate.agent) as place:
        await place.start(gate.agent, "r", "x")
        await until(lambda: gate.inside)
        clock.advance(LEASED * 0.95)
        place.host.leases.tick()
        await until(lambda: not gate.inside)
        assert store._runs["r"].standing.leased(clock.now())
        assert await store.claim(Claim("other", LEASED, run_id="r")) == ()
    clock.advance(LEASED)
    async with served(store, clock, gate.agent):
        await until(lambda: store._runs["r"].standing.status == "held")
    assert gate.outside.done == ["x"]
    kinds = [event.kind for event in await history(store, "r")]
    assert kinds[-3:] == ["call.unknown", "run.resumed", "run.held"]  # it could still say so itself
    assert (await verify(store, "r")).ok


# ----------------------------------------------------------------------------------------------------- faults


async def test_a_run_that_cannot_be_driven_rests_and_keeps_nobody_waiting(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each failure is told; it is tried again until it goes, and others run meanwhile."""
    monkeypatch.setattr(worker_module, "RETRY_SECONDS", 0.005)
    store, clock = new()
    gate = Gate()
    gate.open.set()
    store.fails["bad"] = 4
    with caplog.at_level(logging.ERROR, "perdure.worker"):
        async with served(store, clock, gate.agent) as place:
            for name in ("bad", "good"):
                await place.start(gate.agent, name, name)
            await until(lambda: terminal(store, "good"))
            await until(lambda: terminal(store, "bad"))
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 4
    assert all(text.startswith("run bad: ") and "the disk failed" in text for text in told)
    assert Counter(gate.outside.done) == {"bad": 2, "good": 2}
    assert (await load(store, "bad")).record.resumes == 0  # nothing was written before it could be read


class Dawdling(Shaky):
    """A store that gives a lease back at once and says so only when `told` is set."""

    def __init__(self, clock: MovableClock) -> None:
        super().__init__(clock)
        self.told = asyncio.Event()
        self.given_back = 0

    async def release(self, run_id: str, epoch: int) -> None:
        """Give back, and be slow to tell."""
        await super().release(run_id, epoch)
        self.given_back += 1
        await self.told.wait()


async def test_a_run_is_claimed_again_before_its_drive_has_ended() -> None:
    """The new drive waits for the old one, and knows by then that it failed."""
    clock = MovableClock()
    store, gate = Dawdling(clock), Gate()
    await store.open()
    store.fails["r"] = 10
    async with served(store, clock, gate.agent) as place:
        try:
            await place.start(gate.agent, "r", "ada")
            await until(lambda: store.given_back)
            await until(lambda: store._runs["r"].standing.epoch >= 2)
            for _ in range(50):
                await asyncio.sleep(0)
            assert store.fails["r"] == 9
        finally:
            store.told.set()
        await until(lambda: store.fails["r"] == 8)


async def test_a_store_that_fails_is_asked_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case O-059."""
    monkeypatch.setattr(worker_module, "SCAN_SECONDS", 0.005)
    store, clock = new(hurried=True)
    gate = Gate()
    gate.open.set()
    store.deaf = 3
    with caplog.at_level(logging.ERROR, "perdure.worker"):
        async with served(store, clock, gate.agent) as place:
            await place.start(gate.agent, "r", "x")
            await until(lambda: terminal(store, "r"))
    assert [record.getMessage()[:33] for record in caplog.records] == [
        "the store failed, trying again: ["
    ] * 3


# ----------------------------------------------------------------------------------------------------- drains


async def test_a_worker_that_stops_lets_its_steps_end_and_begins_no_other() -> None:
    """The act under way gets its receipt; the run is free for the next worker, and nothing is unknown."""
    store, clock = new()
    gate = Gate()
    async with served(store, clock, gate.agent) as place:
        for name in ("r", "s"):
            await place.start(gate.agent, name, name)
        await until(lambda: gate.inside == 2)
        assert place._worker is not None
        place._worker.stop()
        await place.start(gate.agent, "later", "later")
        for _ in range(100):
            await asyncio.sleep(0)
        assert gate.inside == 2
        gate.open.set()
    for name in ("r", "s"):
        row = await store.row(name)
        assert (row.worker, row.claims, row.due_at, row.terminal) == (None, 0, 0, False)
        record = (await load(store, name)).record
        assert (record.step, record.calls) == (1, {})
    assert (await store.row("later")).epoch == 0
    assert Counter(gate.outside.done) == {"r": 1, "s": 1}
    async with served(store, clock, gate.agent):
        await until(lambda: terminal(store, "r", "s", "later"))
    assert Counter(gate.outside.done) == {"r": 2, "s": 2, "later": 2}
    assert not [event for event in await history(store, "r") if isinstance(event.body, e.CallUnknown)]


async def test_a_step_that_does_not_end_in_time_is_left_as_it_is() -> None:
    """What it recorded is kept, its act is unknown, and its lease is given back."""
    store, clock = new()
    gate = Gate()
    async with served(store, clock, gate.agent) as place:
        await place.start(gate.agent, "r", "x")
        await until(lambda: gate.inside)
        assert place._worker is not None
        place._worker.drain_seconds = 0.02
    row = await store.row("r")
    assert (row.worker, row.claims) == (None, 0)
    assert (await load(store, "r")).record.calls["1:0"].standing == "unknown"
    assert gate.outside.done == ["x"]


async def test_a_store_that_is_away_keeps_no_worker_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a claim under way nor the look at what was left is waited for: each of them may take long."""
    monkeypatch.setattr(worker_module, "LEAVE_SECONDS", 0.02)
    store, clock = new()
    gate, away = Gate(), asyncio.Event()

    async def nothing(*_: object) -> Any:
        away.set()
        await asyncio.Event().wait()

    async with served(store, clock, gate.agent) as place:
        await place.start(gate.agent, "r", "x")
        await until(lambda: gate.inside)
        monkeypatch.setattr(store, "claim", nothing)
        monkeypatch.setattr(store, "load", nothing)
        await place.start(gate.agent, "s", "y")
        await away.wait()
        assert place._worker is not None
        place._worker.drain_seconds = 0.0
        place._worker.stop()
        await asyncio.wait_for(place.drained(), 30.0)
        assert [(one.run_id, one.calls) for one in place._worker.left] == [("r", ())]


@pytest.mark.parametrize("how", ["cancelled", "fault"])
async def test_however_a_worker_ends_no_drive_is_left_behind(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, clock = new()
    gate = Gate()

    async def broken(*_: object) -> int:
        raise ZeroDivisionError("a fault")

    place = Runtime(store, [gate.agent], workers=4, clock=clock, lease_seconds=LEASED)
    await place.__aenter__()
    await place.start(gate.agent, "r", "x")
    await until(lambda: gate.inside)
    assert place._working is not None
    if how == "fault":
        monkeypatch.setattr(store, "due", broken)
        await place.start(gate.agent, "s", "y")
    else:
        place._working.cancel()
    await until(place._working.done)
    assert gate.inside == 0
    assert (await store.row("r")).worker is None
    if how == "fault":
        with pytest.raises(ZeroDivisionError):
            await place.__aexit__(None, None, None)
    else:
        await place.__aexit__(None, None, None)


async def test_a_lease_given_back_in_a_rest_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that stops while a run rests gives that back too."""
    monkeypatch.setattr(worker_module, "RETRY_SECONDS", 5.0)
    store, clock = new()
    gate = Gate()
    gate.open.set()
    store.fails["r"] = 100
    async with served(store, clock, gate.agent) as place:
        await place.start(gate.agent, "r", "x")
        await until(lambda: store._runs["r"].standing.epoch == 2)  # it failed once, and rests now
        for _ in range(100):
            await asyncio.sleep(0)
        assert store.fails["r"] == 99
        assert place._worker is not None
        place._worker.drain_seconds = 0.0
    row = await store.row("r")
    assert (row.worker, row.seq) == (None, 1)
