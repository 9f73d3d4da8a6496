"""A store that was brought back: no lease counts any more, and no run acts before a person lets it go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import codec
from perdure.agent import Agent, current_call
from perdure.errors import WorkerTaken
from perdure.host import Runtime
from perdure.journal import load, verify
from perdure.store import open_store
from perdure.store.memory import MemoryStore
from perdure.store.protocol import RESTORER, Message, Query, Store
from perdure.testing.contract.trial import refused
from perdure.timeline.restoring import Restored, begin_anew
from tests.database import PLACE


class World:
    """What is outside, and the agent that acts there."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.undone: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.entered = asyncio.Event()
        self.agent: Agent[Any, Any, Any] = Agent(
            "desk", state=dict, goal=str, start=lambda goal: {"goal": goal}
        )
        self._declare(self.agent)

    def _declare(self, agent: Agent[Any, Any, Any]) -> None:
        @agent.tool(effect="irreversible")
        async def pay(cents: int) -> str:
            self.acts.append(current_call().key)
            self.entered.set()
            await self.gate.wait()
            return f"paid {cents}"

        @pay.undo
        async def pay_back(cents: int) -> str:
            self.undone.append(current_call().key)
            return "back"

        @agent.step
        async def step(run: Any) -> None:
            if run.goal == "fails":
                raise ValueError("broken")
            told = await pay(7)
            if run.goal == "naps":
                await run.sleep(1.0)
                await pay(8)
            run.finish(told)


class Place:
    """Where a store is kept, to be opened again and again: a worker's sign of life goes when it is closed."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._kept = MemoryStore()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """The store for the block."""
        store = self._kept if self.address == "memory:" else open_store(self.address)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def working(self, world: World, workers: int = 4) -> AsyncIterator[Runtime]:
        """A worker that serves the agent, or with none somebody at a desk."""
        async with (
            self.opened() as store,
            Runtime(store, [world.agent], workers=workers, lease_seconds=5) as runtime,
        ):
            yield runtime

    async def brought_back(self) -> Restored:
        """Open it as what was brought back from a backup."""
        async with self.opened() as store:
            return await begin_anew(store)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each kind of store."""
    if request.param == "postgres":
        return Place(PLACE.at(tmp_path))
    return Place("memory:" if request.param == "memory" else str(tmp_path / "runs.db"))


async def looked(store: Store, run_id: str) -> tuple[str, str | None, str]:
    """A run's status, who has it, and why it is held."""
    row, record = await store.row(run_id), (await load(store, run_id)).record
    return row.status, row.worker, record.held.reason if record.held is not None else ""


async def ends(store: Store, run_id: str, statuses: set[str]) -> str:
    """Wait until the run's status is one of these."""
    seen = 0
    while (row := await store.row(run_id)).status not in statuses or row.worker is not None:
        seen = await store.changed(seen, 0.2)
    return row.status


async def test_open_runs_act_nothing_until_a_person_lets_them_go_on(place: Place) -> None:
    world = World()
    async with place.working(world, workers=0) as desk:
        for run_id in ("r1", "r2"):
            await desk.start(world.agent, run_id, "pays")
    assert await place.brought_back() == Restored(("r2", "r1"))
    async with place.working(world) as runtime:
        store = runtime.store
        await asyncio.sleep(0.3)
        assert [await looked(store, name) for name in ("r1", "r2")] == [("held", None, "restored")] * 2
        assert world.acts == []
        await runtime.release("r1", by="ada", sure=True)
        assert await ends(store, "r1", {"succeeded"})
        assert (len(world.acts), await looked(store, "r2")) == (1, ("held", None, "restored"))
        assert [(await verify(store, name)).ok for name in ("r1", "r2")] == [True, True]


async def test_a_call_that_was_open_is_unknown_and_is_not_sent_again(place: Place) -> None:
    world = World()
    world.gate.clear()
    async with place.working(world) as runtime:
        await runtime.start(world.agent, "r", "pays")
        await world.entered.wait()
        assert runtime._worker is not None
        runtime._worker.drain_seconds = 0.01  # it leaves the act as an intent
    await place.brought_back()
    world.gate.set()
    async with place.working(world) as runtime:
        await runtime.release("r", by="ada")
        for _ in range(500):
            if (await looked(runtime.store, "r"))[2] == "unknown-outcome":
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("it is not held as unknown")
    assert len(world.acts) == 1


async def test_a_timer_that_has_come_waits_for_the_person_too(place: Place) -> None:
    world = World()
    async with place.working(world) as runtime:
        await runtime.start(world.agent, "r", "naps")
        await ends(runtime.store, "r", {"waiting"})
    await place.brought_back()
    async with place.working(world) as runtime:
        await asyncio.sleep(1.0)
        assert (len(world.acts), (await looked(runtime.store, "r"))[0]) == (1, "held")
        await runtime.release("r", by="ada", sure=True)
        await ends(runtime.store, "r", {"succeeded"})
    assert len(set(world.acts)) == len(world.acts) == 2


async def test_what_was_said_before_the_backup_lets_nothing_go_on(place: Place) -> None:
    """A release and two cancels that nobody had taken yet."""
    world = World()
    async with place.working(world) as runtime:
        await runtime.start(world.agent, "failed", "fails")
        for name in ("waits", "plain"):
            await runtime.start(world.agent, name, "naps")
        await ends(runtime.store, "failed", {"held"})
        for name in ("waits", "plain"):
            await ends(runtime.store, name, {"waiting"})
    async with place.working(world, workers=0) as desk:
        await desk.release("failed", by="ada")
        await desk.cancel("waits", by="ada", compensate=True)
        said = codec.encode({"by": "ada"})
        await desk.store.deliver(Message("plain", "m1", "cancel", said))  # with no desk to end it at once
    await place.brought_back()
    async with place.working(world) as runtime:
        store = runtime.store
        await asyncio.sleep(0.4)
        for name, why in (("failed", ""), ("waits", "-cancelled"), ("plain", "-cancelled")):
            await ends(store, name, {"held", "cancelled"})  # a worker may look at it just now
            assert await looked(store, name) == ("held", None, f"restored{why}")
        assert (len(world.acts), world.undone) == (2, [])
        await runtime.cancel("failed", by="ada")  # said of this incarnation
        await ends(store, "failed", {"cancelled"})
        for name in ("waits", "plain"):
            await runtime.release(name, by="ada")
            await ends(store, name, {"cancelled"})
    assert (len(world.acts), len(world.undone)) == (2, 1)


async def test_one_that_ended_half_way_leaves_the_rest_to_nobody_and_is_done_again(place: Place) -> None:
    world = World()
    async with place.working(world, workers=0) as desk:
        for number in range(3):
            await desk.start(world.agent, f"r{number}", "pays")
    async with place.opened() as store:
        await store.restore()  # and then the process died
    async with place.working(world) as runtime:
        await asyncio.sleep(0.3)
        assert world.acts == []
        assert {row.worker for row in await runtime.store.list(Query())} == {RESTORER}
    for _ in range(2):
        assert set((await place.brought_back()).held) == {"r0", "r1", "r2"}, "and once more changes nothing"
    async with place.opened() as store:
        assert [(await store.row(f"r{number}")).claims for number in range(3)] == [0, 0, 0]


async def test_a_store_that_is_at_work_is_refused(place: Place) -> None:
    if place.address == "memory:":
        return  # nobody else can be at work in it
    world = World()
    async with place.working(world) as runtime:
        await runtime.start(world.agent, "r", "naps")
        await ends(runtime.store, "r", {"waiting"})
        with refused(WorkerTaken) as errors:
            await place.brought_back()
        assert "stop every worker" in errors[0].remedy
        await ends(runtime.store, "r", {"succeeded"})
    assert (await place.brought_back()).held == ()
