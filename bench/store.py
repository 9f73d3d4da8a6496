"""The SQLite store alone, without the engine: a waited commit, a crowd of runs, a claim.

A waited commit is an append of two events of 200 bytes, awaited before the next: half of the bare loop's row
twice, plus fence, digests, and the way to the writer's thread and back. Bare commits run before and after it,
made by the measuring thread itself and handed to another one.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from bench.floor import Bare
from bench.room import Room, use
from bench.table import Line
from perdure.clock import SECOND
from perdure.store import SQLiteStore
from perdure.store.protocol import NEVER, Batch, Claim, NewRun, RowChange, Stored

T = TypeVar("T")

GROUP = "The SQLite store alone"

_DIGEST = bytes(16)


def two(after: int, data: bytes) -> tuple[Stored, ...]:
    """The next two events."""
    return (Stored(after + 1, data, _DIGEST), Stored(after + 2, data, _DIGEST))


async def runs(store: SQLiteStore, count: int) -> list[str]:
    """So many new runs, leased."""
    names = [f"run-{number}" for number in range(count)]
    await asyncio.gather(*(store.create(NewRun(name, "a", "1", "ready", ())) for name in names))
    await store.claim(Claim("bench", 3600, {"a": frozenset()}, limit=count))
    return names


async def waited(store: SQLiteStore, bare: Bare) -> tuple[float, float, float]:
    """Microseconds of an append of one run that is awaited before the next, of a bare commit, and of one that
    is handed to a thread: the medians of a hundred of each, ten by ten in turn.
    """
    (name,) = await runs(store, 1)
    data, after = os.urandom(200), 0
    alone: list[float] = []
    plain: list[float] = []
    handed: list[float] = []
    for _ in range(10):
        plain += bare.commits(10)
        handed += await bare.handed(10)
        for _ in range(10):
            begun = time.perf_counter_ns()
            await store.append(Batch(name, 1, after, two(after, data), urgent=True))
            alone.append((time.perf_counter_ns() - begun) / 1000)
            after += 2
    return statistics.median(alone), statistics.median(plain), statistics.median(handed)


async def crowd(store: SQLiteStore, count: int, appends: int) -> float:
    """Batches per second of so many runs at once, each waiting for its own."""
    names, data = await runs(store, count), os.urandom(200)

    async def one(name: str) -> None:
        for after in range(0, 2 * appends, 2):
            await store.append(Batch(name, 1, after, two(after, data)))

    begun = time.perf_counter()
    await asyncio.gather(*(one(name) for name in names))
    return count * appends / (time.perf_counter() - begun)


async def opened(room: Room, work: Callable[[SQLiteStore], Awaitable[T]]) -> T:
    """What comes of some work on a new store."""
    store = SQLiteStore(room.path())
    await store.open()
    try:
        return await work(store)
    finally:
        await store.close()


async def claims(store: SQLiteStore, waiting: int) -> float:
    """Microseconds of a claim that finds one run due among so many that wait, and of giving it back."""
    later = store.now() + 3600 * SECOND
    for first in range(0, waiting, 1000):
        names = [f"waits-{number}" for number in range(first, min(first + 1000, waiting))]
        new = [
            NewRun(name, "a", "1", "waiting", (), later if number % 2 else NEVER)
            for number, name in enumerate(names)
        ]
        await asyncio.gather(*map(store.create, new))
    await store.create(NewRun("due", "a", "1", "ready", ()))
    took = []
    for epoch in range(1, 51):
        begun = time.perf_counter_ns()
        (claimed,) = await store.claim(Claim("bench", 30, {"a": frozenset()}))
        assert claimed.row.run_id == "due"
        await store.append(Batch("due", epoch, 0, row=RowChange(status="ready"), release=True))
        took.append((time.perf_counter_ns() - begun) / 1000)
    return statistics.median(took)


async def measure(room: Room) -> None:
    """Waited commits and crowds beside the bare loops, then the claims."""
    used: list[tuple[float, float, float]] = []
    new: list[tuple[float, float, float]] = []
    many: list[float] = []
    for _ in range(room.rounds):
        used.append(await opened(room, lambda store: _in_use(store, room.bare)))
        growing = room.new_bare()
        new.append(await opened(room, partial(waited, bare=growing)))
        growing.close()
        many.append(await opened(room, lambda store: crowd(store, 200, 10)))
    add = room.lines.append
    _alone(room, "", used)
    _alone(room, " on a new store, whose log still grows", new)
    floor = statistics.median(plain for _, plain, _ in used)
    name = "200 runs at once, each waiting for its append"
    add(Line(GROUP, name, "batches/s", statistics.median(many), floor=floor, least=8000))
    few = await opened(room, lambda store: claims(store, 100))
    crowded = await opened(room, lambda store: claims(store, 2_000 if room.quick else 100_000))
    add(Line(GROUP, "claim one run and give it back, 100 waiting", "µs", few, floor=floor))
    name = f"the same, {2_000 if room.quick else 100_000:,} waiting, divided by it"
    add(Line(GROUP, name, "x", crowded / few, most=1.5))


async def _in_use(store: SQLiteStore, bare: Bare) -> tuple[float, float, float]:
    await use(store)
    return await waited(store, bare)


def _alone(room: Room, where: str, found: list[tuple[float, float, float]]) -> None:
    add = room.lines.append
    alone, plain, handed = (statistics.median(part) for part in zip(*found, strict=True))
    add(Line(GROUP, f"a waited append of two events{where}", "µs", alone, floor=plain))
    ratios = sorted(one / other for one, other, _ in found)
    name, best = "the same, divided by a bare commit beside it", f"best {ratios[0]:.2f}"
    add(Line(GROUP, name, "x", statistics.median(ratios), most=2.0, note=best))
    add(Line(GROUP, "a bare commit handed to a thread and awaited", "µs", handed, floor=plain))
    ratio = statistics.median(one / other for one, _, other in found)
    add(Line(GROUP, "the append, divided by that", "x", ratio))
