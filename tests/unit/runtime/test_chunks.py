"""Provisional output: told with its attempt and number, between the events, never again by a replay."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import perdure
from perdure.runtime.chunks import KEPT, Chunk, Reset
from perdure.state import events as e
from perdure.store.protocol import Claim
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
    """A body that writes twice and fails, twice, then succeeds: three attempts, each numbered from 1.

    Field case O-073.
    """
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
    events = [one for one in everything if not isinstance(one, Chunk | Reset)]
    assert [one.seq for one in events] == list(range(1, len(events) + 1))
    last = next(at for at, one in enumerate(everything) if getattr(one, "kind", "") == "run.finished")
    assert max(at for at, one in enumerate(everything) if isinstance(one, Chunk)) < last


async def test_a_thousand_chunks_of_one_moment_are_told_apart(memory: Stage) -> None:
    """The clock stands still; numbers, not moments, tell them apart. A plain tool publishes from a thread.

    Field case O-072.
    """

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


# --------------------------------------------------------------------------------------------------- reset


def _streaming(gate: asyncio.Event, *, effect: Any = "read", tries: list[int] | None = None) -> Any:
    """A tool that says three words, waits for the gate after the second, and fails as often as it is told."""
    made: list[int] = []

    @perdure.tool(effect=effect, retry=perdure.Retry(attempts=5, backoff=0.0))
    async def stream() -> str:
        made.append(1)
        perdure.publish("one")
        perdure.publish("two")
        await gate.wait()
        if tries and len(made) <= tries[0]:
            raise ConnectionError("the line broke")
        perdure.publish("three")
        return "all"

    async def step(run: Any) -> None:
        run.finish(await stream())

    return agent(step, stream)


def told(everything: list[Any]) -> list[Any]:
    """Chunks by their values, resets by their path, in their order."""
    said = [one for one in everything if isinstance(one, Chunk | Reset)]
    return [one.value if isinstance(one, Chunk) else ("reset", one.epoch, one.path) for one in said]


class Listening:
    """A listener in a task of its own. `news`: what it has heard."""

    def __init__(self, place: Any, **where: Any) -> None:
        self.news: list[Any] = []
        self._place, self._where = place, where
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for one in self._place.listen(RUN, **self._where):
            self.news.append(one)

    async def until(self, *values: Any) -> None:
        """Until it was told just this."""
        for _ in range(2000):
            if told(self.news) == list(values):
                return
            if self.task.done():
                self.task.result()
            await asyncio.sleep(0.002)
        raise AssertionError(told(self.news))

    async def end(self) -> list[Any]:
        """Everything, after the end of the run."""
        await asyncio.wait_for(self.task, 20)
        return self.news

    @property
    def last(self) -> Chunk:
        """The last chunk that it has heard."""
        return [one for one in self.news if isinstance(one, Chunk)][-1]

    async def leave(self) -> None:
        """Listen no more."""
        self.task.cancel()
        await asyncio.wait([self.task])


async def test_a_body_that_begins_anew_takes_back_what_it_said(stage: Stage) -> None:
    """A read that fails twice after its second chunk: its first words are taken back each time (O-073)."""
    gate = asyncio.Event()
    gate.set()
    made = _streaming(gate, tries=[2])
    async with stage.runtime(made) as place:
        await place.start(made, RUN, "go")
        ear = Listening(place)
        await place.run(made, RUN, "go")
        news = await ear.end()
    back = ("reset", 1, "1:0")
    assert told(news) == ["one", "two", back, "one", "two", back, "one", "two", "three"]
    positions = [(one.epoch, one.position) for one in news if isinstance(one, Chunk)]
    assert positions == sorted(set(positions))


@pytest.mark.parametrize("again", ["here", "elsewhere"])
async def test_a_new_claim_takes_back_what_has_no_receipt(stage: Stage, again: str) -> None:
    """The driver is stopped in the middle; the run is claimed anew, in its process or in another."""
    gate = asyncio.Event()
    made = _streaming(gate)
    async with stage.runtime(made) as first, stage.runtime(made) as second:
        await first.start(made, RUN, "go")
        ear = Listening(first)
        driving = asyncio.create_task(first.run(made, RUN, "go"))
        await ear.until("one", "two")
        driving.cancel()
        await asyncio.wait([driving])
        gate.set()
        assert (await (first if again == "here" else second).run(made, RUN, "go")).unwrap() == "all"
        news = await ear.end()
    words = ["one", "two", "three"] if again == "here" else []
    assert told(news) == ["one", "two", ("reset", 2, ""), *words]
    events = [one for one in news if not isinstance(one, Chunk | Reset)]
    assert [one.seq for one in events] == list(range(1, len(events) + 1))


async def test_what_has_a_receipt_is_not_taken_back(memory: Stage) -> None:
    """One call has ended when the run pauses; its chunks stand, and a replay says nothing again."""

    @perdure.tool(effect="read")
    async def stream() -> str:
        perdure.publish("word")
        return "said"

    async def step(run: Any) -> None:
        said = await stream()
        await run.sleep(5)
        run.finish(said)

    made = agent(step, stream)
    async with memory.runtime(made, check=True) as place:
        await place.start(made, RUN, "go")
        ear = Listening(place)
        assert (await place.run(made, RUN, "go")).unwrap() == "said"
        news = await ear.end()
    assert told(news) == ["word"]


async def test_a_body_that_outlives_its_lease_is_not_heard_any_more(memory: Stage) -> None:
    """A thread that nobody can stop goes on talking after another process has taken its run."""
    gate, ended = threading.Event(), threading.Event()

    @perdure.tool(effect="read")
    def stream() -> str:
        perdure.publish("one")
        gate.wait(20)
        perdure.publish("late")
        ended.set()
        return "all"

    async def step(run: Any) -> None:
        run.finish(await run.call(stream))

    made = agent(step, stream)
    async with memory.runtime(made) as first, memory.runtime(made) as second:
        await first.start(made, RUN, "go")
        ear = Listening(first)
        driving = asyncio.create_task(first.run(made, RUN, "go"))
        await ear.until("one")
        await memory.store.release(RUN, 1)
        (claimed,) = await memory.store.claim(Claim(second.host.worker, 3600.0, run_id=RUN))
        voice = first.host.chunks.voice(RUN, claimed.row.epoch)  # as if it had been claimed here
        gate.set()
        await asyncio.to_thread(ended.wait, 20)
        voice("word")
        await ear.until("one", ("reset", 2, ""), "word")
        await ear.leave()
        await memory.store.release(RUN, claimed.row.epoch)  # or the first follows it until the lease is over
        await asyncio.wait([driving])


# ----------------------------------------------------------------------------------------- coming late, back


async def test_who_comes_late_hears_a_running_body_from_its_beginning(memory: Stage) -> None:
    """And what has a receipt only as that."""
    gate = asyncio.Event()
    made = _streaming(gate)
    async with memory.runtime(made) as place:
        await place.start(made, RUN, "go")
        early = Listening(place)
        driving = asyncio.create_task(place.run(made, RUN, "go"))
        await early.until("one", "two")
        late = Listening(place)
        await late.until("one", "two")
        gate.set()
        await driving
        assert told(await early.end()) == told(await late.end()) == ["one", "two", "three"]
        after = Listening(place)
        assert told(await after.end()) == []
        assert not place.host.chunks._ears


async def test_who_comes_back_hears_the_rest_once(memory: Stage) -> None:
    """A thousand chunks under a clock that stands still; the listener is away for the second half (O-072)."""
    half, gate = asyncio.Event(), asyncio.Event()

    @perdure.tool(effect="read")
    async def stream() -> int:
        for number in range(1, 1001):
            perdure.publish(number)
            if number == 500:
                await half.wait()
        await gate.wait()
        return 1000

    async def step(run: Any) -> None:
        run.finish(await stream())

    made = agent(step, stream)
    async with memory.runtime(made) as place:
        await place.start(made, RUN, "go")
        first = Listening(place)
        driving = asyncio.create_task(place.run(made, RUN, "go"))
        await first.until(*range(1, 501))
        await first.leave()
        half.set()
        await asyncio.sleep(0.01)
        second = Listening(place, heard=first.last)
        await second.until(*range(501, 1001))
        gate.set()
        await driving
        await second.end()
    chunks = [one for one in first.news + second.news if isinstance(one, Chunk)]
    ids = [(one.epoch, one.position) for one in chunks]
    assert ids == sorted(set(ids))
    assert len(ids) == 1000


async def test_who_comes_back_after_a_new_claim_is_told_so(stage: Stage) -> None:
    """Though it was away when the run was claimed anew, and the new body has not said anything yet."""
    gate = asyncio.Event()
    made = _streaming(gate)
    async with stage.runtime(made) as place:
        await place.start(made, RUN, "go")
        first = Listening(place)
        driving = asyncio.create_task(place.run(made, RUN, "go"))
        await first.until("one", "two")
        await first.leave()
        driving.cancel()
        await asyncio.wait([driving])
        heard = first.last
        driving = asyncio.create_task(place.run(made, RUN, "go"))
        second = Listening(place, heard=heard)
        await second.until(("reset", 2, ""), "one", "two")
        gate.set()
        await driving
        assert told(await second.end()) == [("reset", 2, ""), "one", "two", "three"]


async def test_chunks_of_branches_are_told_apart(memory: Stage) -> None:
    """Bodies that speak at once, from threads: each has its own numbers, the run has one order."""

    @perdure.tool(effect="read")
    def stream(n: int) -> int:
        for number in range(200):
            perdure.publish((n, number))
        return n

    async def step(run: Any) -> None:
        run.finish(await run.map(stream, [0, 1, 2]))

    made = agent(step, stream)
    async with memory.runtime(made) as place:
        chunks, _ = await _heard(place, made)
    for n in range(3):
        mine = [one for one in chunks if one.path == f"1:0.{n}.0"]
        assert [one.number for one in mine] == list(range(1, 201))
        assert [one.value for one in mine] == [(n, number) for number in range(200)]
    assert [one.position for one in chunks] == list(range(1, 601))
