"""A look at every open run before a deploy: how many runs a second, of runs in the middle of a step.

Each run has committed four steps and waits in the fifth, with a conversation in its state, a read and an act
recorded: what a rehearsal has to load, fold and go through.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.room import Room
from bench.table import Line
from perdure import Agent, Run, Runtime, tool
from perdure.clock import SYSTEM
from perdure.runtime.preflight import preflight
from perdure.store import SQLiteStore

GROUP = "A look at every open run before a deploy"
STEPS = 4


@tool(effect="read")
async def look(at: int) -> str:
    """Read something of a page's length."""
    return f"page {at}: " + "x" * 1000


@tool(effect="irreversible")
async def pay(cents: int) -> str:
    """Act."""
    return f"paid {cents}"


def clerk(*, cents: int) -> Agent[Any, Any, Any]:
    """An agent that works for some steps and then waits for a signal."""
    agent = Agent("clerk", state=dict[str, Any], start=lambda goal: {"messages": []}, tools=[look, pay])

    @agent.step
    async def step(run: Run[Any]) -> None:
        messages = run.state["messages"]
        messages.append({"role": "tool", "content": await look(len(messages))})
        messages.append({"role": "tool", "content": await pay(cents)})
        if len(messages) > 2 * STEPS:
            await run.wait("go")
            run.finish("done")

    return agent


async def fill(path: Path, count: int) -> None:
    """Bring so many runs to their wait."""
    agent = clerk(cents=5)
    async with Runtime(str(path)) as runtime:
        for first in range(0, count, 200):
            names = [f"run-{number}" for number in range(first, min(first + 200, count))]
            await asyncio.gather(*(runtime.run(agent, name, "go", patience=timedelta(0)) for name in names))


async def cost(path: Path, agent: Agent[Any, Any, Any], count: int, prospect: str) -> tuple[float, float]:
    """Milliseconds for each run: on the wall, and of processor time."""
    store = SQLiteStore(path, look=True)
    await store.open()
    try:
        begun, used = time.perf_counter(), time.process_time()
        found = await preflight(store, [agent], SYSTEM)
        took, used = time.perf_counter() - begun, time.process_time() - used
    finally:
        await store.close()
    assert found.counts == {prospect: count}, found.counts
    return took / count * 1000, used / count * 1000


async def measure(room: Room) -> None:
    """One store, looked at with the code that its runs know and with one that diverges."""
    count, path = (300 if room.quick else 2000), room.path()
    await fill(path, count)
    for name, agent, prospect in (
        ("the same code", clerk(cents=5), "resumes"),
        ("code that diverges, rehearsed twice", clerk(cents=6), "diverges"),
    ):
        paces, costs = [], []
        for _ in range(3):
            paces.append(room.pace.look())
            costs.append(await cost(path, agent, count, prospect))
        wall = statistics.median([one for one, _ in costs])
        quiet = room.scaled([used for _, used in costs], paces)
        line = f"{count:,} runs, {name}"
        room.lines.append(Line(GROUP, line, "runs/s", 1000 / wall, 1000 / quiet, least=200.0))
