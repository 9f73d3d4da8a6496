"""Sleeping: short, long, across restarts, absurd."""

from __future__ import annotations

import asyncio
import gc
import math
import tracemalloc
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.agent import Cancelled, Held, Waiting
from perdure.clock import SECOND
from perdure.host import Runtime
from perdure.state import events as e
from perdure.store.protocol import Query
from tests.unit.runtime.stage import LEASE, RUN, Stage, World, agent, build


def sleeper(*naps: Any, **options: Any) -> Any:
    """A step that sleeps so long, one after the other."""

    async def step(run: Any) -> None:
        for nap in naps:
            await run.sleep(nap)
        run.finish("woke")

    return agent(step, **options)


async def test_a_short_sleep_is_waited_for(stage: Stage) -> None:
    """The caller of run() stays for it; seconds and timedeltas are alike."""
    before = stage.clock.now()
    assert (await stage.run(sleeper(20, timedelta(seconds=10)), check=True)).unwrap() == "woke"
    assert 30 * SECOND <= stage.clock.now() - before < 60 * SECOND
    assert (await stage.kinds()).count("wait.closed") == 2


async def test_a_long_sleep_is_told_as_waiting(stage: Stage) -> None:
    """With what it waits for and until when; the run holds no lease meanwhile."""
    until = datetime.fromtimestamp(stage.clock.now() / SECOND, UTC) + timedelta(days=2)
    outcome = await stage.run(sleeper(timedelta(days=2)))
    assert outcome == Waiting(("sleep at 1:0",), (), until, run_id=RUN)
    row = await stage.store.row(RUN)
    assert (row.status, row.worker, row.due_at) == ("waiting", None, round(until.timestamp() * SECOND))


@pytest.mark.parametrize("where", ["wait.opened", "run.suspend", "run.suspended"])
async def test_a_restart_does_not_begin_the_sleep_anew(stage: Stage, where: str) -> None:
    """The deadline is absolute, from the moment on when it is durable."""
    made = sleeper(1000, durability="strict")
    await stage.crash(made, where)
    start = stage.clock.now()
    waiting = await stage.run(made)
    assert waiting.until.timestamp() * SECOND - start == (1000 - LEASE - 1) * SECOND
    stage.clock.advance(1000)
    assert (await stage.run(made)).unwrap() == "woke"
    assert len(await stage.bodies(e.WaitOpened)) == 1


async def test_a_sleep_never_ends_early(stage: Stage) -> None:
    """Claimed too early, because somebody sent a message: it sleeps on, until the same moment."""
    made = sleeper(1000)
    first = await stage.run(made)
    stage.clock.advance(999)
    async with stage.runtime(made) as place:
        await place.store.deliver(_stray(RUN))
        again = await place.run(made, RUN, "go", patience=timedelta(0))
    assert again == first
    stage.clock.advance(1)
    assert (await stage.run(made)).unwrap() == "woke"


def _stray(run_id: str) -> Any:
    from perdure import codec
    from perdure.store.protocol import Message

    return Message(run_id, "m-1", "resolve", codec.encode({"by": "ada", "path": "9:9", "verdict": "done"}))


async def test_a_clock_that_is_set_back_makes_it_later_and_never_twice(stage: Stage) -> None:
    """A day back: the sleep ends by the clock, a day late, once."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def ring() -> str:
        return str(world.act("rang"))

    async def step(run: Any) -> None:
        await run.sleep(1000)
        run.finish(await ring())

    made = agent(step, ring)
    waiting = await stage.run(made)
    stage.clock.advance(999)
    stage.clock.set_back(86_400)
    assert await stage.run(made) == waiting
    stage.clock.advance(86_401)
    assert (await stage.run(made)).unwrap() == "rang"
    stage.clock.set_back(86_400)
    assert (await stage.run(made)).unwrap() == "rang"
    assert len(world) == 1


@pytest.mark.parametrize("days", [400, 365 * 1000])
async def test_very_long_sleeps_are_kept(stage: Stage, days: int) -> None:
    """In the row as a moment; nobody counts it down (O-050)."""
    waiting = await stage.run(sleeper(timedelta(days=days)))
    assert waiting.until - datetime.fromtimestamp(stage.clock.now() / SECOND, UTC) == timedelta(days=days)
    stage.clock.advance(days * 86_400)
    assert (await stage.run(sleeper(timedelta(days=days)))).unwrap() == "woke"


async def test_the_end_of_the_calendar_can_be_waited_for(memory: Stage) -> None:
    """And its last second is told, not an overflow."""
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    left = end - datetime.fromtimestamp(memory.clock.now() / SECOND, UTC)
    waiting = await memory.run(sleeper(left))
    assert waiting.until == end


@pytest.mark.parametrize(
    "absurd", [timedelta(days=999_999_999), timedelta(days=3_000_000), 1e300, math.inf, math.nan, -1, -0.001]
)
async def test_absurd_sleeps_are_refused_before_they_are_stored(memory: Stage, absurd: Any) -> None:
    """With the limits in the message (O-050)."""
    held = await memory.run(sleeper(absurd))
    assert isinstance(held, Held)
    assert held.reason == "step-error"
    assert "9999" in held.detail
    assert "T204" in held.detail
    assert await memory.bodies(e.WaitOpened) == []


async def test_a_sleep_of_nothing_goes_on_at_once(memory: Stage) -> None:
    """And is recorded like any other."""
    assert (await memory.run(sleeper(0), check=True)).unwrap() == "woke"


async def test_a_cancelled_sleeper_ends_at_once(stage: Stage) -> None:
    """A message wakes it long before its time."""
    made = sleeper(timedelta(days=400))
    await stage.run(made)
    async with stage.runtime(made) as place:
        await place.cancel(RUN, by="ada")
        outcome = await place.run(made, RUN, "go")
    assert outcome == Cancelled("ada", run_id=RUN)


@pytest.mark.parametrize("reads_a_step", [1, 1000])
async def test_a_cancel_reaches_a_live_run_that_only_reads(memory: Stage, reads_a_step: int) -> None:
    """It intends nothing, so that no fence would tell it: it looks into its inbox now and then, also in the
    middle of a long step.
    """
    reads: list[int] = []

    @perdure.tool(effect="read")
    async def look(n: int) -> int:
        reads.append(n)
        memory.clock.advance(0.4)
        if n == 5:
            await place.cancel(RUN, by="ada")
        return n

    async def step(run: Any) -> None:
        for _ in range(reads_a_step):
            await look(len(reads))
        run.state["log"].append(len(reads))

    made = agent(step, look)
    async with memory.runtime(made) as place:
        outcome = await asyncio.wait_for(place.run(made, RUN, "go"), 10)
    assert outcome.status == "cancelled"
    assert 6 <= len(reads) <= 10


def _ours() -> Counter[str]:
    """The engine's own objects, and asyncio's tasks, that are alive, by class."""
    gc.collect()
    kinds = (type(one) for one in gc.get_objects())
    return Counter(
        kind.__qualname__
        for kind in kinds
        if str(kind.__module__).startswith("perdure") or kind is asyncio.Task
    )


@pytest.mark.slow
async def test_waiting_runs_cost_a_worker_no_memory(tmp_path: Path) -> None:
    """Hundreds more runs that wait: rows in the file, nothing in the process. Then all of them wake.

    Objects are counted, since bytes depend on what else the process does: one run that is kept alive shows
    as a drive, a journal, a record. The bytes are bounded far below what one such run takes.
    """
    stage = build("sqlite", tmp_path, hurried=False)
    await stage.store.open()
    made = sleeper(86_400)

    async def wait(first: int, last: int) -> tuple[Counter[str], int]:
        await asyncio.gather(*(place.start(made, f"r-{n}", "go") for n in range(first, last)))
        waiting = Query(statuses=("waiting",), limit=10_000)
        while len(await stage.store.list(waiting)) < last or place._worker._drives:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # until the event loop has dropped its ended timers
        return _ours(), tracemalloc.get_traced_memory()[0]

    place: Any = Runtime(stage.store, [made], workers=100, clock=stage.clock, lease_seconds=LEASE)
    async with place:
        await wait(0, 100)
        tracemalloc.start()
        before, bytes_before = await wait(100, 150)
        after, bytes_after = await wait(150, 350)
        tracemalloc.stop()
        more = {name: count - before[name] for name, count in after.items() if count > before[name] + 20}
        assert more == {}, "objects that grew with the number of waiting runs"
        assert bytes_after - bytes_before < 200 * 1000
        stage.clock.advance(86_400)
        while await stage.store.list(Query(open_only=True, limit=1)):
            await asyncio.sleep(0.01)
            stage.clock.advance(0.5)
    done = await stage.store.list(Query(statuses=("succeeded",), limit=10_000))
    assert len(done) == 350
    await stage.close()
