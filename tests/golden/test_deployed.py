"""A store as it was written by this format: a copy of it is opened, verified, and its runs are carried on.

`deployed-v1.sqlite` has three runs of version 1 of an agent: one waits, one was killed inside an irreversible
call, one has ended; all have snapshots. Today's code, two state versions later, finishes both open ones. A
changed format gets a new file beside this one.
"""

from __future__ import annotations

import asyncio
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import Any

import pytest

from perdure import FOREVER, Agent, Done, NotDone
from perdure.host import Runtime
from perdure.journal import verify
from perdure.runtime.boundary import set_hook
from perdure.store.memory import MemoryStore
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Store
from perdure.store.sqlite import SQLiteStore
from perdure.timeline.bundle import adopt, bundled
from tests.database import PLACE

FILE = pathlib.Path(__file__).parent / "deployed-v1.sqlite"
RUNS = ("ended", "killed", "parked")


class Killed(BaseException):
    """The process that wrote the file died here."""


def desk(version: int, outside: list[str]) -> Agent[Any, Any, Any]:
    """The agent in its first version, and in its third."""
    made: Agent[Any, Any, Any] = Agent("desk", state=dict, state_version=version, storage="snapshot")
    made._start = lambda goal: {"goal": goal, "log": []}

    @made.tool(effect="irreversible")
    async def pay(log: list[str], cents: int) -> str:
        outside.append(f"{log} {cents}")
        return f"paid {cents}"

    @pay.reconcile
    async def paid(log: list[str], cents: int) -> Done[str] | NotDone:
        assert log == ["begun"]
        return Done(f"paid {cents}")

    @made.step
    async def step(run: Any) -> None:
        log = run.state["log"]
        if not log:
            log.append("begun")
            return
        log.append(await pay(log, 5))
        if run.state["goal"] != "now":
            await run.wait("word", str, timeout=FOREVER)
        run.finish(log)

    if version == 3:
        made.migration(1)(lambda old: {**old, "currency": "EUR"})
        made.migration(2)(lambda old: {**old, "cents": [5]})
    return made


async def write(path: pathlib.Path) -> None:
    """Make the file; `killed` dies after its act, before its receipt."""
    store = SQLiteStore(path, reserve_bytes=0)
    made = desk(1, [])
    async with Runtime(store, [made], lease_seconds=5.0) as runtime:
        await runtime.run(made, "ended", "now")
        await runtime.run(made, "parked", "later")

        def die(name: str) -> None:
            if name == "call.acted":
                raise Killed

        set_hook(die)
        try:
            await runtime.run(made, "killed", "later")
        except Killed:
            pass
        finally:
            set_hook(None)
    await store.close()


async def test_todays_code_carries_on_what_was_written_then(tmp_path: pathlib.Path) -> None:
    """Every run verifies; the waiting one wakes up, the killed one asks what became of its act."""
    path = tmp_path / "runs.db"
    shutil.copy(FILE, path)
    store = SQLiteStore(path, reserve_bytes=0)
    outside: list[str] = []
    made = desk(3, outside)
    async with Runtime(store, [made]) as runtime:
        for name in RUNS:
            found = await verify(store, name)
            assert found.ok, (name, found)
        assert (await runtime.outcome("ended")).unwrap() == ["begun", "paid 5"]
        for name in ("parked", "killed"):
            await runtime.signal(name, "word", "go")
            outcome = await runtime.resume(name)
            assert outcome.unwrap() == ["begun", "paid 5"], name
            assert set(await runtime.state_at(name)) == {"goal", "log", "currency", "cents"}
    await store.close()
    assert outside == [], "what was done then is not done again"


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_every_store_carries_on_what_was_written_then(tmp_path: pathlib.Path, kind: str) -> None:
    """Field case O-013: one of several stores lacked the way from the old format, and dropped open work.

    The old runs are carried into each store, and end there as they do in the one that they came from.
    """
    shutil.copy(FILE, tmp_path / "old.db")
    stores: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SQLiteStore(tmp_path / "new.db"),
        "postgres": lambda: PostgresStore(PLACE.at(tmp_path)),
    }
    old, store = SQLiteStore(tmp_path / "old.db", reserve_bytes=0), stores[kind]()
    await old.open()
    await store.open()
    outside: list[str] = []
    async with Runtime(store, [desk(3, outside)]) as runtime:
        for name in RUNS:
            await adopt(store, await bundled(old, name))
            assert (await verify(store, name)).ok
        assert (await runtime.outcome("ended")).unwrap() == ["begun", "paid 5"]
        for name in ("parked", "killed"):
            await runtime.release(name, by="ada")
            await runtime.signal(name, "word", "go")
            assert (await runtime.resume(name)).unwrap() == ["begun", "paid 5"], name
            assert set(await runtime.state_at(name)) == {"goal", "log", "currency", "cents"}
    await old.close()
    await store.close()
    assert outside == [], "what was done then is not done again"


if __name__ == "__main__":  # python -m tests.golden.test_deployed: only while no release has written the file
    FILE.unlink(missing_ok=True)
    asyncio.run(write(FILE))
    for left in FILE.parent.glob("deployed-v1.sqlite-*"):
        shutil.rmtree(left, ignore_errors=True)
        left.unlink(missing_ok=True) if left.is_file() else None
    sys.stdout.write(f"{FILE.stat().st_size} bytes\n")
