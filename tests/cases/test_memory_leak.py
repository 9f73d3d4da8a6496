"""What a long run keeps in memory while its store is slow."""

from __future__ import annotations

import tracemalloc
from typing import Any

from perdure.agent import Agent
from tests.unit.runtime.stage import RUN, Lagging, Stage

STEPS, LARGE = 500, 100_000


async def test_a_run_of_large_steps_on_a_slow_store_keeps_little(sqlite: Stage) -> None:
    """O-093: saves that hang on one another kept every checkpoint of a run in memory. 500 steps of 100 KB on a
    store that takes 50 ms for a write: what is pending is bounded, and memory grows by less than 20 MB.
    """
    made: Agent[Any, Any, Any] = Agent("writer", state=dict, start=lambda goal: {"n": 0, "text": ""})
    seen: list[int] = []

    @made.step
    async def step(run: Any) -> None:
        run.state["n"] += 1
        run.state["text"] = f"{run.state['n']:05d}" * (LARGE // 5)
        if run.state["n"] % 25 == 0:
            seen.append(tracemalloc.get_traced_memory()[0])
        if run.state["n"] == STEPS:
            run.finish(run.state["n"])

    sqlite.wrap(Lagging(sqlite.store, seconds=0.05))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert (await sqlite.run(made, run_id=RUN)).unwrap() == STEPS
    finally:
        tracemalloc.stop()
    assert max(seen) - before < 20_000_000, [size - before for size in seen]
