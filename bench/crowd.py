"""Many runs in one process: 200 of ten steps each, every step waiting for the disk; they share commits."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from dataclasses import replace

from bench.desks import Plan, desk
from bench.room import Room
from bench.table import Line
from perdure import Runtime
from perdure.store import SQLiteStore

GROUP = "200 runs of ten steps at once, every step durable"
RUNS, STEPS = 200, 10

CASES = {
    "models that take no time": Plan(STEPS, durability="step", every=0),
    "models that take up to 5 ms": Plan(STEPS, durability="step", every=0, pause=0.005),
}


class Run:
    """One measured crowd: steps per second, processor time per step, commits."""

    def __init__(self, seconds: float, process: float, commits: int, pace: float, bare: float) -> None:
        steps = RUNS * STEPS
        self.rate = steps / seconds
        self.process = process / steps
        self.commits = commits / steps * 10
        self.pace = pace
        self.bare_rate = 1e6 / bare


async def drive(room: Room, plan: Plan) -> Run:
    """All runs exist and wait; measured is from the first claim until every caller has its result."""
    store, agent = SQLiteStore(room.path()), desk(plan)
    async with Runtime(store, [agent]) as runtime:
        await asyncio.gather(*(runtime.start(agent, f"run-{number}", "go") for number in range(RUNS)))
        gc.collect()
        before = room.pace.look()
        bare = room.bare.commits(100)
        commits = (await store.stats()).commits
        wall, process = time.perf_counter(), time.process_time_ns()
        outcomes = await asyncio.gather(*(runtime.resume(f"run-{number}") for number in range(RUNS)))
        seconds, took = time.perf_counter() - wall, (time.process_time_ns() - process) / 1000
        bare += room.bare.commits(100)
        commits = (await store.stats()).commits - commits
        pace = (before + room.pace.look()) / 2
        assert all(outcome.unwrap() == "done" for outcome in outcomes)
    await store.close()
    return Run(seconds, took, commits, pace, statistics.median(bare))


async def measure(room: Room) -> None:
    """Both cases, interleaved."""
    found: dict[str, list[Run]] = {name: [] for name in CASES}
    for _ in range(room.rounds):
        for name, plan in CASES.items():
            found[name].append(await drive(room, replace(plan, stamps=[])))
    for name, runs in found.items():
        rates = sorted(run.rate for run in runs)
        floor = statistics.median(run.bare_rate for run in runs)
        room.lines.append(Line(GROUP, f"{name}: steps", "1/s", statistics.median(rates), floor=floor))
        ratios = sorted(run.rate / run.bare_rate for run in runs)
        room.lines.append(
            Line(
                GROUP,
                f"{name}: steps divided by bare commits",
                "x",
                statistics.median(ratios),
                least=0.5,
                note=f"best {ratios[-1]:.2f}",
            )
        )
        process = [run.process for run in runs]
        quiet = room.scaled(process, [run.pace for run in runs])
        room.lines.append(
            Line(GROUP, f"{name}: processor time of a step", "µs", statistics.median(process), quiet)
        )
        room.lines.append(
            Line(
                GROUP,
                f"{name}: commits for ten steps",
                "",
                statistics.median(run.commits for run in runs),
                most=1.0,
            )
        )
