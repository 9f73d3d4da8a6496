"""Provisional output: told with its attempt and number, between the events, never again by a replay."""

from __future__ import annotations

import asyncio
from typing import Any

import perdure
from perdure.runtime.chunks import KEPT, Chunk
from perdure.state import events as e
from tests.unit.runtime.stage import RUN, Stage, agent


async def _heard(place: Any, made: Any) -> tuple[list[Chunk], list[Any]]:
    """Listen from the start while the run is driven; the chunks, and everything in its order."""
    everything: list[Any] = []

    async def listen() -> None:
        async for one in place.listen(RUN):
            everything.append(one)  # noqa: PERF401  (what came before a failure is wanted too)

    await place.start(made, RUN, "go")
    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.01)
    outcome = await place.run(made, RUN, "go")
    assert outcome.status == "succeeded", outcome
    await asyncio.wait_for(listening, 20)
    return [one for one in everything if isinstance(one, Chunk)], everything


async def test_each_try_says_which_it_is(stage: Stage) -> None:
    """A body that writes twice and fails, twice, then succeeds: three attempts, each numbered from 1."""
    tries: list[int] = []

    @perdure.tool(effect="idempotent")
    async def write() -> str:
        tries.append(1)
        perdure.publish("p1")
        perdure.publish("p2")
        if len(tries) < 3:
            raise ConnectionError("the line broke")
        return "written"

    async def step(run: Any) -> None:
        run.finish(await write())

    made = agent(step, write)
    async with stage.runtime(made, check=True) as place:
        chunks, everything = await _heard(place, made)
    assert [(one.path, one.attempt, one.number, one.value) for one in chunks] == [
        ("1:0", attempt, number, f"p{number}") for attempt in (1, 2, 3) for number in (1, 2)
    ]
    events = [one for one in everything if not isinstance(one, Chunk)]
    assert [one.seq for one in events] == list(range(1, len(events) + 1))
    last = next(at for at, one in enumerate(everything) if getattr(one, "kind", "") == "run.finished")
    assert max(at for at, one in enumerate(everything) if isinstance(one, Chunk)) < last


async def test_a_thousand_chunks_of_one_moment_are_told_apart(memory: Stage) -> None:
    """The clock stands still; numbers, not moments, tell them apart. A plain tool publishes from a thread."""

    @perdure.tool(effect="read")
    def stream() -> int:
        for number in range(1000):
            perdure.publish(number)
        return 1000

    async def step(run: Any) -> None:
        run.finish(await run.call(stream))

    made = agent(step, stream)
    async with memory.runtime(made) as place:
        chunks, _ = await _heard(place, made)
    assert [(one.number, one.value) for one in chunks] == [(n + 1, n) for n in range(1000)]


async def test_a_follower_that_is_slow_loses_the_oldest_and_can_tell(memory: Stage) -> None:
    """What waits for it is bounded."""

    @perdure.tool(effect="read")
    async def stream() -> int:
        for number in range(KEPT + 5):
            perdure.publish(number)
        return 0

    async def step(run: Any) -> None:
        run.finish(await stream())

    made = agent(step, stream)
    async with memory.runtime(made) as place:
        chunks, _ = await _heard(place, made)
    assert (len(chunks), chunks[0].number, chunks[-1].number) == (KEPT, 6, KEPT + 5)


async def test_nobody_listens_nothing_is_kept(memory: Stage) -> None:
    """And an iterator that is closed stops listening."""

    @perdure.tool(effect="read")
    async def stream() -> int:
        perdure.publish("unheard")
        return 0

    async def step(run: Any) -> None:
        run.finish(await stream())

    made = agent(step, stream)
    async with memory.runtime(made) as place:
        await place.start(made, RUN, "go")
        listening = place.listen(RUN)
        first: Any = await anext(listening)
        assert isinstance(first.body, e.RunStarted)
        await listening.aclose()  # type: ignore[attr-defined]
        assert not place.host.chunks._ears
        await place.run(made, RUN, "go")
