"""`Hybrid(resume_within=…)`: what was promised, and what reading and replaying a stopped run takes.

A run is driven; at random moments it stands still, and another process, warm like a worker's, loads what lies
in the store at that moment: its newest snapshot and the events after it, verified and folded.
`python -m bench.resuming URL` is that process: for each line that it reads it loads the run, some times over,
and prints the milliseconds of the first by the wall clock, the least of processor time, what the journal
expected, and the events after the snapshot.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple, Self

from bench.room import Room
from bench.table import HERE, Line
from perdure import Agent, Hybrid, Run, Runtime
from perdure.journal import load
from perdure.journal.snapshots import LoadCosts
from perdure.store import open_store

GROUP = "Reading a stopped run, against resume_within"
PROMISES_MS = (5, 20, 100, 500)
STOPS, QUICK_STOPS = 60, 15
CYCLES = 3
"""So many times the promised time a run's whole log would take."""

RUN = "run"
SEED = 20260301
READS = 200
"""Reads of one step, where a step has many."""

TEXT = 300
LARGE = 20_000
ENTRIES = 1000


AGAIN = 3
"""Loads of one moment: what else the machine does makes processor time longer too, so the least counts."""


class Load(NamedTuple):
    """One moment: milliseconds by the wall and of the processor, and as they were expected; events read."""

    wall: float
    process: float
    expected: float
    events: int


class Kind(NamedTuple):
    """A shape of run: `calls` for each promised millisecond and cycle; `most` of them, for the run ends."""

    name: str
    calls: float
    most: int
    start: Callable[[], dict[str, Any]]
    step: Callable[[dict[str, Any], int, Callable[[int], Awaitable[str]]], Awaitable[None]]
    size: int = 8


def text(number: int, size: int) -> str:
    """Random letters, as many as `size` says, that compress like random letters."""
    return f"{number:08d}" + random.Random(number).randbytes((size - 8) // 2).hex()


async def _small(state: dict[str, Any], number: int, look: Callable[[int], Awaitable[str]]) -> None:
    state["at"] = await look(number)


async def _conversation(state: dict[str, Any], number: int, look: Callable[[int], Awaitable[str]]) -> None:
    state["messages"].append({"role": "assistant", "content": await look(number)})


async def _entries(state: dict[str, Any], number: int, look: Callable[[int], Awaitable[str]]) -> None:
    state["entries"][number % ENTRIES] = await look(number)


async def _many(state: dict[str, Any], number: int, look: Callable[[int], Awaitable[str]]) -> None:
    for place in range(READS):
        state["last"] = await look(number * READS + place)


KINDS = (
    Kind("small steps", 50, 15_000, lambda: {"at": ""}, _small),
    Kind("a conversation that grows", 40, 6000, lambda: {"messages": []}, _conversation, TEXT),
    Kind(
        "a state of a megabyte",
        40,
        6000,
        lambda: {"entries": [text(number, 1000) for number in range(ENTRIES)]},
        _entries,
        1000,
    ),
    Kind("steps of 200 reads", 100, 60_000, dict, _many),
    Kind("values of 20 kB", 8, 6000, lambda: {"at": ""}, _small, LARGE),
)


class Reader:
    """The other process, from this side."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "bench.resuming", self._url)
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, cwd=HERE.parent
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._process.communicate(b"")

    async def load(self) -> Load:
        """Have the run loaded."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        wall, process, expected, events = (await self._process.stdout.readline()).split()
        return Load(float(wall), float(process), float(expected), int(events))


async def serve(url: str) -> None:
    """That process."""
    store = open_store(url, look=True)
    await store.open()
    while await asyncio.to_thread(sys.stdin.readline):
        gc.collect()
        walls, costs = list[float](), list[float]()
        for _ in range(AGAIN):
            begun, used = time.perf_counter(), time.process_time()
            past = await load(store, RUN)
            walls.append(time.perf_counter() - begun)
            costs.append(time.process_time() - used)
        events, expected = past.record.seq - past.snapshot_seq, LoadCosts()
        told = expected.of(events, past.tail_bytes, past.snapshot_bytes)
        print(*(f"{one * 1000:.3f}" for one in (walls[0], min(costs), told)), events, flush=True)
    await store.close()


async def stopped(url: str, kind: Kind, promised_ms: int, stops: int) -> list[Load]:
    """A run of this kind, and its loads at random moments."""
    calls = min(round(promised_ms * kind.calls * CYCLES), kind.most)
    chance = random.Random(SEED + promised_ms)
    moments = set(chance.sample(range(calls // 10, calls), min(stops, calls * 9 // 10)))
    loads: list[Load] = []
    agent: Agent[Any, Any, Any] = Agent(
        "stopped",
        state=dict[str, Any],
        start=lambda goal: {"number": 0, **kind.start()},
        storage=Hybrid(resume_within=timedelta(milliseconds=promised_ms)),
    )
    store = open_store(url)
    await store.open()
    async with Reader(url) as reader, Runtime(store) as runtime:
        _declare(agent, kind, calls, moments, reader, loads)
        (await runtime.run(agent, RUN, "go", check=False)).unwrap()
    await store.close()
    return loads


def _declare(
    agent: Agent[Any, Any, Any], kind: Kind, calls: int, moments: set[int], reader: Reader, loads: list[Load]
) -> None:
    """What the agent does, and where it stands still."""
    made = 0

    @agent.tool(effect="read")
    async def look(number: int) -> str:
        nonlocal made
        made += 1
        if made in moments:
            loads.append(await reader.load())
        return text(number, kind.size)

    @agent.step
    async def step(run: Run[dict[str, Any]]) -> None:
        number = run.state["number"]
        await kind.step(run.state, number, look)
        run.state["number"] = number + 1
        if made >= calls:
            run.finish("done")


async def measure(room: Room) -> None:
    """Every kind with every promise."""
    stops = QUICK_STOPS if room.quick else STOPS
    for kind in KINDS:
        for promised in PROMISES_MS[: 2 if room.quick else None]:
            pace = room.pace.look()
            loads = await stopped(f"sqlite:///{room.path()}", kind, promised, stops)
            room.lines.append(line(room, kind, promised, loads, pace))


def line(room: Room, kind: Kind, promised: int, loads: list[Load], pace: float) -> Line:
    """What was promised, and the slowest of the loads."""
    walls = sorted(one.wall for one in loads)
    middle, most = walls[len(walls) // 2], walls[len(walls) * 95 // 100]
    name = f"{kind.name}, {promised} ms: the worst of {len(loads)} (middle {middle:.3g}, 95 % {most:.3g})"
    quiet = max(one.process for one in loads) * min(room.pace.quiet / pace, 1.0)
    return Line(GROUP, name, "ms", walls[-1], quiet, most=float(promised))


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
