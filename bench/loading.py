"""Taking up a long run again: 10,000 events, from a snapshot and from the log alone."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

from bench.desks import Plan, desk
from bench.room import Room
from bench.table import Line
from perdure import Hybrid, Runtime
from perdure.journal import load
from perdure.store import SQLiteStore

GROUP = "Loading a run of 10,000 events, 5,000 messages"
STEPS = 5000


@dataclass
class _Case:
    name: str
    plan: Plan
    most: float | None
    walls: list[float] = field(default_factory=list)
    process: list[float] = field(default_factory=list)


async def measure(room: Room) -> None:
    """Build one run of each kind, then open and load it again and again, interleaved."""
    cases = [
        _Case("from a snapshot", Plan(STEPS, storage=Hybrid(every=STEPS - 1), every=0), 20.0),
        _Case("as kept by default", Plan(STEPS, every=0), 20.0),
        _Case("from the log alone", Plan(STEPS, storage="log", every=0), None),
    ]
    paths = [room.path() for _ in cases]
    for case, path in zip(cases, paths, strict=True):
        store = SQLiteStore(path)
        async with Runtime(store) as runtime:
            (await runtime.run(desk(case.plan), "run", "go", check=False)).unwrap()
        await store.close()
    opening: list[float] = []
    paces: list[float] = []
    for _ in range(max(room.rounds, 5)):
        paces.append(room.pace.look())
        for case, path in zip(cases, paths, strict=True):
            store = SQLiteStore(path)
            begun = time.perf_counter_ns()
            await store.open()
            opened, used = time.perf_counter_ns(), time.process_time_ns()
            past = await load(store, "run")
            ended, after = time.perf_counter_ns(), time.process_time_ns()
            await store.close()
            assert past.record.seq >= 2 * STEPS
            opening.append((opened - begun) / 1e6)
            case.walls.append((ended - opened) / 1e6)
            case.process.append((after - used) / 1e6)
            events = past.record.seq - past.snapshot_seq
            case.name = case.name.partition(",")[0] + f", {events:,} events after the snapshot" * (
                events < STEPS
            )
    room.lines.append(Line(GROUP, "opening the store", "ms", statistics.median(opening)))
    for case in cases:
        quiet = room.scaled(case.process, paces)
        room.lines.append(Line(GROUP, case.name, "ms", statistics.median(case.walls), quiet, most=case.most))
