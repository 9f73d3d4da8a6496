"""One of several processes that drive runs on one store: `python -m bench.hand URL NAME RUNS STEPS`.

A worker for the agent of that name. Says that it is ready, waits for a line, drives so many runs at once,
every step durable, and tells in JSON when it began and ended, what processor time that took, and how long it
waited for the slowest of its commits: from the moment a write was handed to the store until this process's
event loop knew that it was durable.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bench.desks import Plan, desk
from perdure import Runtime
from perdure.store import open_store
from perdure.store.protocol import Appended, Batch, Store
from perdure.worker.collector import collect_seldom


class Waits:
    """How long the appends of a store take, in seconds; `over` once so many runs have ended durably."""

    def __init__(self, store: Store, runs: int) -> None:
        self.seen: list[float] = []
        self.over = asyncio.Event()
        self._left = runs
        self._append = store.append
        store.append = self.append  # type: ignore[method-assign]

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """Hand it on, and look at the clock when it is done."""
        begun = time.perf_counter()
        future = self._append(batch)
        ends = batch.row is not None and batch.row.terminal

        def done(_: asyncio.Future[Appended]) -> None:
            self.seen.append(time.perf_counter() - begun)
            if ends:
                self._left -= 1
            if not self._left:
                self.over.set()

        future.add_done_callback(done)
        return future


async def main(url: str, name: str, runs: int, steps: int) -> None:
    """Drive all runs at once."""
    store = open_store(url)
    agent = desk(Plan(steps, durability="step", every=0, name=name))
    await store.open()
    waits = Waits(store, runs)
    collect_seldom()  # as `perdure worker` does
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    begun, process = time.time(), time.process_time()
    async with Runtime(store, [agent], workers=runs):
        await waits.over.wait()
        told = {"begun": begun, "ended": time.time(), "process": time.process_time() - process}
        print(json.dumps({**told, "worst": max(waits.seen), "commits": (await store.stats()).commits}))
    await store.close()


if __name__ == "__main__":
    _, where, whose, many, long = sys.argv
    asyncio.run(main(where, whose, int(many), int(long)))
