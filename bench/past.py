"""A long run's past: its whole history replayed against today's code, and its first page shown.

The run has 10,000 events: five thousand steps of one read and a change of state.
"""

from __future__ import annotations

import statistics
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.room import Room
from bench.table import Line
from perdure import Agent, Run, Runtime, tool
from perdure.clock import SYSTEM
from perdure.journal import load
from perdure.store import SQLiteStore
from perdure.timeline.page import first_page
from perdure.timeline.replays import replay
from perdure.timeline.simulate import simulate
from perdure.timeline.simulation import Given

GROUP = "The past of a run of 10,000 events"
STEPS = 5000


@tool(effect="read")
async def look(at: int) -> int:
    """Read something."""
    return at


def counter(steps: int) -> Agent[Any, Any, Any]:
    """An agent that reads and counts."""
    agent = Agent("counter", state=dict[str, Any], start=lambda goal: {"at": 0}, tools=[look])

    @agent.step
    async def step(run: Run[Any]) -> None:
        run.state["at"] = await look(run.state["at"]) + 1
        if run.state["at"] == steps:
            run.finish("done")

    return agent


async def fill(path: Path, agent: Agent[Any, Any, Any]) -> None:
    """The run, lived."""
    async with Runtime(str(path)) as runtime:
        await runtime.run(agent, "long", "go", patience=timedelta(0), check=False)


async def measure(room: Room) -> None:
    """Steps a second of a replay and of a simulation, and milliseconds for a page."""
    steps = 1000 if room.quick else STEPS
    agent, path = counter(steps), room.path()
    await fill(path, agent)
    store = SQLiteStore(path, look=True)
    await store.open()

    async def replayed() -> float:
        found = await replay(store, [agent], SYSTEM, "long")
        assert found.ok
        assert found.steps == steps
        return steps

    async def simulated() -> float:
        found = await simulate(store, [agent], SYSTEM, "long", Given(at=2 * (steps - 900)))
        assert found.same
        return found.steps

    async def shown() -> float:
        past = await load(store, "long")
        await first_page(store, "long", past.record.seq, past.record.step + 1)
        return 1.0

    try:
        for name, work, target in (
            ("replayed against today's code", replayed, {"least": 2000.0}),
            ("simulated", simulated, {}),
            ("its first page", shown, {"most": 100.0}),
        ):
            paces, walls, costs = [], [], []
            for _ in range(room.rounds):
                paces.append(room.pace.look())
                begun, used = time.perf_counter(), time.process_time()
                count = await work()
                walls.append((time.perf_counter() - begun) / count * 1000)
                costs.append((time.process_time() - used) / count * 1000)
            wall, quiet = statistics.median(walls), room.scaled(costs, paces)
            if "page" in name:
                room.lines.append(Line(GROUP, name, "ms", wall, quiet, **target))
            else:
                room.lines.append(Line(GROUP, name, "steps/s", 1000 / wall, 1000 / quiet, **target))
    finally:
        await store.close()
