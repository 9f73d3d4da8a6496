"""A process that drives runs, to count its syncs: `python -m bench.child DURABILITY RUNS STEPS PATH`."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

from bench.desks import Plan, desk
from perdure import Runtime
from perdure.agent import Durability
from perdure.store import SQLiteStore


async def main(durability: Durability, runs: int, steps: int, path: str) -> None:
    """Drive all runs at once on one store."""
    store = SQLiteStore(path)
    async with Runtime(store) as runtime:
        agent = desk(Plan(steps, durability=durability))
        await asyncio.gather(*(runtime.run(agent, f"run-{number}", "go") for number in range(runs)))
    await store.close()


if __name__ == "__main__":
    _, how, many, long, where = sys.argv
    asyncio.run(main(cast(Durability, how), int(many), int(long), where))
