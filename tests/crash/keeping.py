"""Runs are removed, compacted, forked and carried elsewhere by a process that is killed at every boundary.

`python -m tests.crash.keeping FOLDER WORK ADDRESS [MUTANT]` prints one JSON line; WORK is one of `WORKS`.
ADDRESS: of an empty database, or `file` for files in the folder. Each life is killed at the next boundary of
the work, until nothing is left to do; after each death every run must be as it was, or as it is to be, and
nothing between.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import psycopg

from perdure import FOREVER, Agent
from perdure.errors import NoSuchRun, RunGone
from perdure.host import Runtime
from perdure.journal import load, retold, verify
from perdure.runtime.boundary import set_hook
from perdure.state import events as e
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Store
from perdure.store.sqlite import SQLiteStore
from perdure.testing.crash.kill import Hook, Kill
from perdure.testing.crash.life import be_alone
from perdure.testing.crash.scenario import find
from perdure.timeline.bundle import Bundle, adopt, bundled, packed, unpacked
from perdure.timeline.change import Change
from perdure.timeline.compaction import compacted
from perdure.timeline.pruning import Rule, epitaph_of, planned, prune

BOUNDARIES = {
    "prune": ("prune.write", "prune.done"),
    "compact": ("compact.write", "compact.done"),
    "import": ("import.write", "import.done", "import.sent"),
    "fork": ("fork.create", "fork.created"),
}
"""In the order in which the work on one run reaches them."""

FILE = "file"
"""In the place of an address: files."""

RUNS = 3
AT = 9
"""The event from which a run is forked: the end of its second step, which has a large value."""

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


@dataclass(frozen=True)
class Place:
    """Where the runs are: files in a folder, or a database, and exported files beside."""

    folder: Path
    address: str

    @property
    def file(self) -> Path:
        """The store's file, if it is one."""
        return self.folder / "runs.db"

    def store(self) -> Store:
        """The store that is worked on; a file without a reserve."""
        if self.address != FILE:
            return PostgresStore(self.address)
        return SQLiteStore(self.file, reserve_bytes=0)

    def bundles(self) -> list[Bundle]:
        """What was exported."""
        return [unpacked(path.read_bytes()) for path in sorted(self.folder.glob("*.perdure"))]


async def fill(place: Place, work: str) -> None:
    """The runs, driven as far as they go, and an exported file of each; elsewhere if they are imported."""
    ends, agent = work == "prune", desk()
    elsewhere = SQLiteStore(place.folder / "other.db", reserve_bytes=0)
    store = elsewhere if work == "import" else place.store()
    async with Runtime(store, [agent]) as runtime:
        for number in range(RUNS):
            name = f"r{number}"
            await runtime.run(agent, name, "end" if ends or number % 2 == 0 else "wait", check=False)
            if not ends and number % 2:
                await runtime.signal(name, "other", "early", id="one")
            (place.folder / f"{name}.perdure").write_bytes(packed(await bundled(store, name)))
    await store.close()


async def _prune(store: Store, place: Place) -> None:
    await prune(store, (await planned(store, Rule())).rows, keep="audit")


async def _compact(store: Store, place: Place) -> None:
    for bundle in place.bundles():
        await compacted(store, bundle.run_id)


async def _import(store: Store, place: Place) -> None:
    for bundle in place.bundles():
        await adopt(store, bundle)


async def _fork(store: Store, place: Place) -> None:
    async with Runtime(store, [desk()]) as runtime:
        for bundle in place.bundles():
            await runtime.fork(bundle.run_id, AT, Change(state={"n": 1}), id=f"{bundle.run_id}-f", by="ada")


WORKS: dict[str, Callable[[Store, Place], Awaitable[None]]] = {
    "prune": _prune,
    "compact": _compact,
    "import": _import,
    "fork": _fork,
}


async def judged(place: Place, work: str) -> tuple[Counter[str], list[str]]:
    """How many runs are as before and how many as after, and what is wrong with any."""
    store, count, wrong = place.store(), Counter[str](), list[str]()
    await store.open()
    judge = _judge_fork if work == "fork" else _judge
    for bundle in place.bundles():
        how, what = await judge(store, bundle, work)
        count[how] += 1
        wrong += [f"{bundle.run_id}, {how}: {one}" for one in what]
    await store.close()
    return count, wrong + _orphans(place)


async def _judge_fork(store: Store, bundle: Bundle, _work: str) -> tuple[str, list[str]]:
    """The origin is what it was; the fork is not there, or whole, with every large value of its own."""
    again = await bundled(store, bundle.run_id)
    wrong = [] if again.events == bundle.events else ["its origin was changed"]
    try:
        row = await store.row(f"{bundle.run_id}-f")
    except NoSuchRun:
        return "before", wrong
    if not (found := await verify(store, row.run_id)).ok:
        return "between", [*wrong, f"its fork is damaged: {found.what}"]
    record = (await load(store, row.run_id)).record
    if record.state != {"n": 1} or row.status != "ready" or row.seq != AT + 1:
        wrong.append(f"its fork is {row.status} at {row.seq} with {record.state}")
    return "after", wrong


async def _judge(store: Store, bundle: Bundle, work: str) -> tuple[str, list[str]]:
    name, events, inbox = bundle.run_id, len(bundle.events), len(bundle.inbox)
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


def _orphans(place: Place) -> list[str]:
    """Rows of runs that are not there."""
    wrong = []
    if place.address != FILE:
        with psycopg.connect(place.address) as database:
            for table in ("event", "snapshot", "blob"):
                orphan = "run_id NOT IN (SELECT run_id FROM perdure_run)"
                sql = f"SELECT count(*) FROM perdure_{table} WHERE {orphan}"
                [count] = database.execute(sql.encode()).fetchone() or (0,)
                wrong += [f"{count} orphans in {table}"] * bool(count)
        return wrong
    connection = apsw.Connection(str(place.file))
    for table, owner in (("event", "key >> 32"), ("snapshot", "key >> 32"), ("blob", "run_no")):
        sql = f"SELECT count(*) FROM perdure_{table} WHERE {owner} NOT IN (SELECT run_no FROM perdure_run)"
        if count := connection.execute(sql).get:
            wrong.append(f"{count} orphans in {table}")
    connection.close()
    return wrong


def live(place: Place, work: str, kill: Kill | None, mutant: str) -> bool:
    """One life, forked; whether it was killed."""
    be_alone()
    if (pid := os.fork()) == 0:
        code = 1
        try:
            signal.alarm(20)
            if mutant:
                find(mutant)()
            set_hook(Hook(kill))
            asyncio.run(_worked(place, work))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


async def _worked(place: Place, work: str) -> None:
    store = place.store()
    await store.open()
    await WORKS[work](store, place)
    await store.close()


def main(place: Place, work: str, mutant: str) -> int:
    """The whole trial: each boundary once more in each life, until a life ends by itself."""
    asyncio.run(fill(place, work))
    asyncio.run(_open(place))
    killed, wrong, counts = Counter[str](), list[str](), list[Counter[str]]()
    for life in range(RUNS * 4):
        boundary = BOUNDARIES[work][life % len(BOUNDARIES[work])]
        # A run that is there already passes the boundaries of an import again; so others are come to.
        hit = life // len(BOUNDARIES[work]) % RUNS + 1 if work == "import" else 1
        if live(place, work, Kill(boundary, hit), mutant):
            killed[boundary] += 1
        count, found = asyncio.run(judged(place, work))
        counts.append(count)
        wrong += found
        if wrong:
            break
    ended = not wrong and not live(place, work, None, mutant)
    count, found = asyncio.run(judged(place, work))
    told = {"killed": killed, "between": [dict(one) for one in counts], "last": count, "ended": ended}
    sys.stdout.write(json.dumps({**told, "wrong": wrong + found}) + "\n")
    return 0


async def _open(place: Place) -> None:
    store = place.store()
    await store.open()
    await store.close()


if __name__ == "__main__":
    where = Place(Path(sys.argv[1]), sys.argv[3])
    sys.exit(main(where, sys.argv[2], sys.argv[4] if len(sys.argv) > 4 else ""))
