"""A hundred parked runs are migrated by a process that is killed at every boundary of every one of them.

`python -m tests.crash.migrations FOLDER RUNS [MODULE:MUTANT]` prints one JSON line. Each life is killed at
the next boundary of the first run that is not migrated yet; after each death every run must be old and whole,
or new and whole, and at the end each was migrated once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from perdure import FOREVER, Agent
from perdure.codec import decode
from perdure.host import Runtime
from perdure.journal import history, load, verify
from perdure.runtime.boundary import set_hook
from perdure.state import events as e
from perdure.store.sqlite import SQLiteStore
from perdure.testing.crash.kill import Hook, Kill
from perdure.testing.crash.life import be_alone
from perdure.testing.crash.scenario import find

BOUNDARIES = ("migrate.nudge", "migrate.claimed", "migrate.write", "migrate.done")
"""In the order in which one run reaches them."""

OLD = {"first": "Ana", "last": "Li", "log": ["x"] * 30}
NEW = {"name": "Ana Li", "log": ["x"] * 30, "seen": []}


def code(version: int) -> Agent[Any, Any, Any]:
    """The agent in this version."""
    desk: Agent[Any, Any, Any] = Agent("desk", version=str(version), state=dict, state_version=version)
    desk._start = lambda goal: dict(OLD)

    @desk.step
    async def step(run: Any) -> None:
        await run.wait("word", str, timeout=FOREVER)
        run.finish("done")

    if version == 2:

        @desk.migration(1)
        def joined(old: dict[str, Any]) -> dict[str, Any]:
            return {"name": f"{old['first']} {old['last']}", "log": old["log"], "seen": []}

    return desk


def store_of(folder: Path) -> SQLiteStore:
    """The store; its clock is the machine's, since the death of a worker is noticed by its lock."""
    return SQLiteStore(folder / "runs.db", reserve_bytes=0)


async def park(folder: Path, runs: int) -> None:
    """Start them, until they wait."""
    store, one = store_of(folder), code(1)
    async with Runtime(store, [one]) as runtime:
        for number in range(runs):
            await runtime.run(one, f"r{number:03}", "go")
    await store.close()


async def migrate(folder: Path) -> dict[str, int]:
    """What the command does."""
    store = store_of(folder)
    async with Runtime(store, [code(2)]) as runtime:
        found = await runtime.migrate()
    await store.close()
    return {str(how): count for how, count in found.counts.items()}


async def judged(folder: Path, runs: int) -> tuple[Counter[str], list[str]]:
    """How many runs are old and how many new, and what is wrong with any."""
    store = store_of(folder)
    await store.open()
    count, wrong = Counter[str](), []
    for number in range(runs):
        name = f"r{number:03}"
        found, past = await verify(store, name), await load(store, name)
        record = past.record
        knows = decode(record.manifest)["state_version"]
        migrated = [x for x in await history(store, name) if isinstance(x.body, e.RunMigrated)]
        whole = (record.state, len(migrated)) == ((OLD, 0) if record.state_version == 1 else (NEW, 1))
        if not (found.ok and whole and knows == record.state_version and past.row.status == "waiting"):
            wrong.append(
                f"{name}: state {record.state_version}, manifest {knows}, {past.row.status}: {found}"
            )
        count["new" if record.state_version == 2 else "old"] += 1
    await store.close()
    return count, wrong


def live(folder: Path, kill: Kill, mutant: str) -> bool:
    """One life, forked; whether it was killed."""
    be_alone()
    if (pid := os.fork()) == 0:
        code_ = 1
        try:
            signal.alarm(20)
            if mutant:
                find(mutant)()
            set_hook(Hook(kill))
            asyncio.run(migrate(folder))
            code_ = 0
        finally:
            os._exit(code_)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def main(folder: Path, runs: int, mutant: str) -> int:
    """The whole trial."""
    asyncio.run(park(folder, runs))
    lives, killed, wrong = 0, Counter[str](), list[str]()
    count = Counter(old=runs)
    while count["old"] and not wrong and lives < runs * (len(BOUNDARIES) + 1):
        boundary = BOUNDARIES[lives % len(BOUNDARIES)]
        lives += 1
        if live(folder, Kill(boundary), mutant):
            killed[boundary] += 1
        count, wrong = asyncio.run(judged(folder, runs))
    last = asyncio.run(migrate(folder))
    count, more = asyncio.run(judged(folder, runs))
    told = {"lives": lives, "killed": killed, "count": count, "last": last, "wrong": wrong + more}
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""))
