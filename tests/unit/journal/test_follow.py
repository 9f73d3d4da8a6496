"""Following a run: every event once, in order, from wherever the follower was."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import BadPoint, NoSuchRun
from perdure.host import Runtime
from perdure.journal import history
from perdure.store.sqlite import SQLiteStore
from tests.unit.runtime.stage import LEASE, RUN, agent, build


def counter(last: int) -> Any:
    """A run of so many steps, each with a recorded draw."""

    async def step(run: Any) -> None:
        run.state["log"].append(run.random())
        if len(run.state["log"]) == last:
            run.finish(last)

    return agent(step)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_follower_that_comes_back_misses_nothing(tmp_path: Path, kind: str) -> None:
    """A thousand events, many of one moment, as the clock stands still; cut off after the five hundredth."""
    stage = build(kind, tmp_path)
    await stage.store.open()
    made = counter(500)
    seen: list[Any] = []

    async def follow(place: Runtime, most: int) -> None:
        last = seen[-1].seq if seen else 0
        async for event in place.follow(RUN, after=last):
            seen.append(event)
            if len(seen) == most:
                return

    async with stage.runtime(made) as place:
        await place.start(made, RUN, "go")
        following = asyncio.create_task(follow(place, 500))
        await place.run(made, RUN, "go")
        await asyncio.wait_for(following, 20)
        await asyncio.wait_for(follow(place, 10**9), 20)
    assert len({event.at for event in seen}) < 20
    assert seen == await history(stage.store, RUN)
    assert [event.seq for event in seen] == list(range(1, 1003))
    await stage.close()


async def test_a_follower_in_another_process_sees_what_is_written_here(tmp_path: Path) -> None:
    """Another store object on the same file hears of each commit."""
    stage = build("sqlite", tmp_path, hurried=False)
    await stage.store.open()
    made = waiter()
    other = SQLiteStore(tmp_path / "perdure.db")
    await other.open()
    seen: list[str] = []
    opened = asyncio.Event()

    async def follow() -> None:
        async for event in Runtime(other).follow(RUN):
            seen.append(event.kind)
            if event.kind == "wait.opened":
                opened.set()

    async with Runtime(stage.store, [made], workers=1, clock=stage.clock, lease_seconds=LEASE) as place:
        await place.start(made, RUN, "go")
        following = asyncio.create_task(follow())
        await asyncio.wait_for(opened.wait(), 20)
        await place.signal(RUN, "go", 1)
        await asyncio.wait_for(following, 20)
    assert seen[-1] == "run.finished"
    assert seen == [event.kind for event in await history(stage.store, RUN)]
    await other.close()
    await stage.close()


def waiter() -> Any:
    """A run that waits for a signal."""

    async def step(run: Any) -> None:
        run.finish(await run.wait("go"))

    return agent(step)


async def test_what_is_not_there_cannot_be_followed(tmp_path: Path) -> None:
    """No run, no event to go on from; an ended run ends at once."""
    stage = build("memory", tmp_path)
    await stage.store.open()
    made = counter(1)
    async with stage.runtime(made) as place:
        with pytest.raises(NoSuchRun):
            await anext(place.follow("nobody"))
        await place.run(made, RUN, "go")
        with pytest.raises(BadPoint):
            await anext(place.follow(RUN, after=99))
        last = (await place.store.row(RUN)).seq
        assert [event async for event in place.follow(RUN, after=last)] == []
