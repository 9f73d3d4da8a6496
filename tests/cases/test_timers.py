"""Timers that a platform cannot wait for in one piece."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure.clock import SYSTEM
from perdure.store.memory import MemoryStore
from perdure.store.sqlite import SQLiteStore
from tests.unit.runtime.people import payer, paying
from tests.unit.runtime.stage import RUN, Stage, World, agent

MOST = 4294.967
"""Seconds: the longest wait of a thread on a platform that counts milliseconds in 32 bits."""


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Threads and the event loop cannot wait for longer than the platform can; what was asked of them."""
    asked: list[float] = []

    def checked(wait: Any) -> Any:
        def bounded(self: Any, timeout: float | None = None) -> Any:
            if timeout is not None:
                asked.append(timeout)
                if timeout > MOST:
                    raise OverflowError("timestamp too large to convert to C PyTime_t")
            return wait(self, timeout)

        return bounded

    monkeypatch.setattr(threading, "TIMEOUT_MAX", MOST)
    monkeypatch.setattr(threading.Condition, "wait", checked(threading.Condition.wait))
    monkeypatch.setattr(threading.Event, "wait", checked(threading.Event.wait))
    later = asyncio.BaseEventLoop.call_later

    def call_later(self: Any, delay: float, callback: Any, *args: Any, **more: Any) -> Any:
        asked.append(delay)
        assert delay <= MOST, f"the loop was asked to wait {delay} s in one piece"
        return later(self, delay, callback, *args, **more)

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_later", call_later)
    return asked


async def _until(store: Any, status: str) -> Any:
    """The run's row, once it stands so."""
    for _ in range(4000):
        row = await store.row(RUN)
        if row.status == status:
            return row
        await asyncio.sleep(0.005)
    raise AssertionError(f"it never was {status}")


async def test_no_thread_waits_longer_than_a_platform_can(stage: Stage, short_waits: list[float]) -> None:
    """O-095: waits above 4,295 s overflow on one platform, and the thread that kept the deadlines died
    without a sign. A request that ends in a day, on a clock that is moved: its end comes, and no wait is
    so long.
    """
    world = World()
    pay = payer(world, expires=timedelta(days=1))
    made = agent(paying(pay), pay)
    async with stage.runtime(made, workers=1) as place:
        await place.start(made, RUN, "go")
        await _until(stage.store, "waiting")
        stage.clock.advance(23 * 3600)
        await asyncio.sleep(0.02)
        assert "approval.expired" not in await stage.kinds()
        stage.clock.advance(3601)
        await _until(stage.store, "succeeded")
    assert "approval.expired" in await stage.kinds()
    assert not world.acts
    assert short_waits


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("days", [1, 400, 2_900_000])
async def test_a_worker_waits_for_a_far_moment_in_pieces(
    tmp_path: Any, short_waits: list[float], kind: str, days: int
) -> None:
    """O-050, O-095: on the real clock a worker sits through a sleep of a day, of 400, to the year 9999, in
    pieces, and is still there for other runs.
    """

    async def step(run: Any) -> None:
        if run.goal == "sleep":
            await run.sleep(timedelta(days=days))
        run.finish("awake")

    made = agent(step)
    store: Any = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "runs.db")
    await store.open()
    async with perdure.Runtime(store, [made], workers=1) as place:
        await place.start(made, RUN, "sleep")
        assert (await _until(store, "waiting")).due_at > SYSTEM.now()
        await asyncio.sleep(0.05)
        assert (await asyncio.wait_for(place.run(made, "other", "go"), 20)).unwrap() == "awake"
        outcome = await asyncio.wait_for(place.run(made, RUN, "sleep"), 20)
        assert outcome.status == "waiting"
    await store.close()
