"""Runs are removed, compacted and carried elsewhere by a process that is killed at every boundary of it.

`python -m tests.crash.keeping FOLDER WORK [MUTANT]` prints one JSON line; WORK is `prune`, `compact` or
`import`. Each life is killed at the next boundary of the work, until nothing is left to do; after each death
every run must be as it was, or as it is to be, and nothing between.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw

from perdure import FOREVER, Agent
from perdure.errors import NoSuchRun, RunGone
from perdure.host import Runtime
from perdure.journal import load, retold, verify
from perdure.runtime.boundary import set_hook
from perdure.state import events as e
from perdure.store.protocol import Store
from perdure.store.sqlite import SQLiteStore
from perdure.testing.crash.kill import Hook, Kill
from perdure.testing.crash.life import be_alone
from perdure.testing.crash.scenario import find
from perdure.timeline.bundle import Bundle, adopt, bundled, packed, unpacked
from perdure.timeline.compaction import compacted
from perdure.timeline.pruning import Rule, epitaph_of, planned, prune

BOUNDARIES = {
    "prune": ("prune.write", "prune.done"),
    "compact": ("compact.write", "compact.done"),
    "import": ("import.write", "import.done", "import.sent"),
}
"""In the order in which the work on one run reaches them."""

RUNS = 4
LARGE = random.Random(1).randbytes(400_000).hex()


def desk() -> Agent[Any, Any, Any]:
    """Three steps with an act and a large value each; an odd one waits in the end, with a word that came."""
    agent: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {"n": 0}, wait_limit=FOREVER)

    @agent.model("m")
    async def think(n: int) -> str:
        return LARGE if n == 1 else f"thought {n}"

    @agent.tool(effect="irreversible")
    async def pay(n: int, about: str) -> str:
        return f"paid {n}"

    @agent.step
    async def step(run: Any) -> None:
        n = run.state["n"]
        thought = await think(n)
        await pay(n, thought)
        run.state["n"] = n + 1
        if n == 2:
            run.finish("done" if run.goal == "end" else await run.wait("word"))

    return agent


def store_of(folder: Path, name: str = "runs.db") -> SQLiteStore:
    """A store without a reserve."""
    return SQLiteStore(folder / name, reserve_bytes=0)


async def fill(folder: Path, ends: bool) -> None:
    """The runs, driven as far as they go, and an exported file of each."""
    store, agent = store_of(folder), desk()
    async with Runtime(store, [agent]) as runtime:
        for number in range(RUNS):
            name = f"r{number}"
            await runtime.run(agent, name, "end" if ends or number % 2 == 0 else "wait", check=False)
            if not ends and number % 2:
                await runtime.signal(name, "other", "early", id="one")
            (folder / f"{name}.perdure").write_bytes(packed(await bundled(store, name)))
    await store.close()


async def _prune(folder: Path) -> None:
    store = store_of(folder)
    await store.open()
    await prune(store, (await planned(store, Rule())).rows, keep="audit")
    await store.close()


async def _compact(folder: Path) -> None:
    store = store_of(folder)
    await store.open()
    for number in range(RUNS):
        await compacted(store, f"r{number}")
    await store.close()


def _bundles(folder: Path) -> list[Bundle]:
    return [unpacked(path.read_bytes()) for path in sorted(folder.glob("*.perdure"))]


async def _import(folder: Path) -> None:
    store = store_of(folder, "other.db")
    await store.open()
    for bundle in _bundles(folder):
        await adopt(store, bundle)
    await store.close()


WORKS: dict[str, Callable[[Path], Awaitable[None]]] = {
    "prune": _prune,
    "compact": _compact,
    "import": _import,
}


async def judged(folder: Path, work: str) -> tuple[Counter[str], list[str]]:
    """How many runs are as before and how many as after, and what is wrong with any."""
    name = "other.db" if work == "import" else "runs.db"
    store, count, wrong = store_of(folder, name), Counter[str](), list[str]()
    await store.open()
    for bundle in _bundles(folder):
        how, what = await _judge(store, bundle.run_id, work, len(bundle.events), len(bundle.inbox))
        count[how] += 1
        wrong += [f"{bundle.run_id}, {how}: {one}" for one in what]
    await store.close()
    return count, wrong + _orphans(folder / name)


async def _judge(store: Store, name: str, work: str, events: int, inbox: int) -> tuple[str, list[str]]:
    wrong = []
    try:
        row = await store.row(name)
    except RunGone:
        left = epitaph_of(await store.tombstones(name))
        whole = left is not None and len(left.keys) == 3 and bool(left.told())
        return ("after" if work == "prune" else "gone"), [] if whole else ["its epitaph is not whole"]
    except NoSuchRun:
        return "before" if work == "import" else "lost", [] if work == "import" else ["it is lost"]
    if not (found := await verify(store, name)).ok:
        wrong.append(f"damaged: {found.what}")
        return "between", wrong
    told, record = await retold(store, name), (await load(store, name)).record
    acts = [event for event in told.events if isinstance(event.body, e.CallIntended)]
    if record.state["n"] not in (2, 3) or len(acts) != 3:
        wrong.append(f"state {record.state}, {len(acts)} acts")
    if work == "import":
        waiting = len(await store.inbox(name))
        if row.seq != events + (not row.terminal) or waiting not in (0, inbox):
            wrong.append(f"{row.seq} of {events} events, {waiting} of {inbox} messages")
        return ("after" if waiting == inbox else "begun"), wrong
    if row.seq != events or (not row.floor and len(told.events) != events):
        wrong.append(f"{row.seq} of {events} events")
    if bool(row.floor) != bool(await store.tombstones(name)):
        wrong.append("the floor and what was kept disagree")
    return ("after" if row.floor else "before"), wrong


def _orphans(path: Path) -> list[str]:
    """Rows of runs that are not there."""
    connection = apsw.Connection(str(path))
    wrong = []
    for table, owner in (("event", "key >> 32"), ("snapshot", "key >> 32"), ("blob", "run_no")):
        sql = f"SELECT count(*) FROM perdure_{table} WHERE {owner} NOT IN (SELECT run_no FROM perdure_run)"
        if count := connection.execute(sql).get:
            wrong.append(f"{count} orphans in {table}")
    connection.close()
    return wrong


def live(folder: Path, work: str, kill: Kill | None, mutant: str) -> bool:
    """One life, forked; whether it was killed."""
    be_alone()
    if (pid := os.fork()) == 0:
        code = 1
        try:
            signal.alarm(20)
            if mutant:
                find(mutant)()
            set_hook(Hook(kill))
            asyncio.run(_worked(folder, work))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


async def _worked(folder: Path, work: str) -> None:
    await WORKS[work](folder)


def main(folder: Path, work: str, mutant: str) -> int:
    """The whole trial: each boundary once more in each life, until a life ends by itself."""
    asyncio.run(fill(folder, ends=work == "prune"))
    if work == "import":
        asyncio.run(_open(folder))
    killed, wrong, counts = Counter[str](), list[str](), list[Counter[str]]()
    for life in range(RUNS * 4):
        boundary = BOUNDARIES[work][life % len(BOUNDARIES[work])]
        # A run that is there already passes the boundaries of an import again; so others are come to.
        hit = life // len(BOUNDARIES[work]) % RUNS + 1 if work == "import" else 1
        if live(folder, work, Kill(boundary, hit), mutant):
            killed[boundary] += 1
        count, found = asyncio.run(judged(folder, work))
        counts.append(count)
        wrong += found
        if wrong:
            break
    ended = not wrong and not live(folder, work, None, mutant)
    count, found = asyncio.run(judged(folder, work))
    told = {"killed": killed, "between": [dict(one) for one in counts], "last": count, "ended": ended}
    sys.stdout.write(json.dumps({**told, "wrong": wrong + found}) + "\n")
    return 0


async def _open(folder: Path) -> None:
    store = store_of(folder, "other.db")
    await store.open()
    await store.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""))
