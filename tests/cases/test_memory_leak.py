"""What a long run keeps in memory while its store is slow."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from typing import Any

from perdure.agent import Agent
from perdure.store.protocol import Appended, Batch
from tests.unit.runtime.stage import RUN, Stage

STEPS, LARGE = 500, 100_000


class Slow:
    """A store that takes 50 ms for a write, of however many batches; everything else is the store below."""

    def __init__(self, below: Any) -> None:
        self.below = below
        self._queue: list[tuple[Batch, asyncio.Future[Appended]]] = []
        self._task: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """Queue a write."""
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._queue.append((batch, future))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write())
        return future

    async def _write(self) -> None:
        while self._queue:
            await asyncio.sleep(0.05)
            group, self._queue = self._queue, []
            for (_, future), done in zip(
                group, [self.below.append(batch) for batch, _ in group], strict=True
            ):
                try:
                    future.set_result(await done)
                except Exception as error:  # noqa: BLE001  (whoever appended is told)
                    future.set_exception(error)


async def test_a_run_of_large_steps_on_a_slow_store_keeps_little(sqlite: Stage) -> None:
    """O-093: saves that hang on one another kept every checkpoint of a run in memory. 500 steps of 100 KB on
    a store that takes 50 ms for a write: what is pending is bounded, and memory grows by less than 20 MB.
    """
    made: Agent[Any, Any, Any] = Agent("writer", state=dict, start=lambda goal: {"n": 0, "text": ""})
    seen: list[int] = []

    @made.step
    async def step(run: Any) -> None:
        run.state["n"] += 1
        run.state["text"] = random.Random(run.state["n"]).randbytes(LARGE // 2).hex()
        if run.state["n"] % 25 == 0:
            seen.append(tracemalloc.get_traced_memory()[0])
        if run.state["n"] == STEPS:
            run.finish(run.state["n"])

    sqlite.wrap(Slow(sqlite.store))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert (await sqlite.run(made, run_id=RUN)).unwrap() == STEPS
    finally:
        tracemalloc.stop()
    assert max(seen) - before < 20_000_000, [size - before for size in seen]
