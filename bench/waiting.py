"""Ten thousand runs that wait for a timer: what do they cost a worker that serves them?

Two new processes idle as workers, one beside the waiting runs and one beside an empty store; compared is what
each holds in memory and how much processor time it uses while nothing is due.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
import tracemalloc
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.room import Room
from bench.table import HERE, Line
from perdure import Agent, Run, Runtime
from perdure.store import SQLiteStore
from perdure.store.protocol import Query

GROUP = "Runs that wait for a timer"
IDLE_SECONDS = 4.0


def sleeper() -> Agent[Any, Any, Any]:
    """An agent that sleeps for a day."""
    agent: Agent[Any, Any, Any] = Agent("sleeper")

    @agent.step
    async def step(run: Run[Any]) -> None:
        await run.sleep(timedelta(days=1))
        run.finish("done")

    return agent


async def fill(path: Path, count: int) -> float:
    """Put so many runs to sleep; returns the seconds it took."""
    store = SQLiteStore(path)
    agent = sleeper()
    async with Runtime(store) as runtime:
        begun = time.perf_counter()
        for first in range(0, count, 500):
            names = [f"run-{number}" for number in range(first, min(first + 500, count))]
            await asyncio.gather(*(runtime.run(agent, name, "go", patience=timedelta(0)) for name in names))
        took = time.perf_counter() - begun
        assert len(await store.list(Query(statuses=("waiting",), limit=count + 1))) == count
    await store.close()
    return took


async def idle(path: Path) -> dict[str, float]:
    """Serve the store with nothing due; what this process holds then, in bytes, and uses, in CPU seconds."""
    tracemalloc.start()
    store = SQLiteStore(path)
    async with Runtime(store, [sleeper()], workers=4):
        await asyncio.sleep(1.0)
        begun = time.process_time()
        await asyncio.sleep(IDLE_SECONDS)
        used = time.process_time() - begun
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        resident = _resident()
    await store.close()
    return {"held": held, "resident": resident, "used": used / IDLE_SECONDS}


def _resident() -> int:
    """Bytes of memory that this process has in use; 0 where the system does not tell."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if told.exists() else 0


def _idle_process(path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.waiting", str(path)]
    done = subprocess.run(command, check=True, cwd=HERE.parent, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


async def measure(room: Room) -> None:
    """Fill one store, leave one empty, idle beside each."""
    count = 1000 if room.quick else 10_000
    full, empty = room.path(), room.path()
    took = await fill(full, count)
    await fill(empty, 0)
    there, nothing = _idle_process(full), _idle_process(empty)
    add = room.lines.append
    more = (there["held"] - nothing["held"]) / count
    resident = (there["resident"] - nothing["resident"]) / count
    add(Line(GROUP, f"{count:,} runs: Python memory for each", "bytes", more, most=1.0))
    add(Line(GROUP, f"{count:,} runs: resident memory for each", "bytes", resident, most=100.0))
    add(Line(GROUP, f"{count:,} runs: share of a core while idle", "%", there["used"] * 100))
    add(Line(GROUP, "no runs: share of a core while idle", "%", nothing["used"] * 100))
    add(Line(GROUP, "starting a run and putting it to sleep, 500 at once", "µs", took / count * 1e6))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(idle(Path(sys.argv[1])))))
