"""What a plan rests on, measured on this machine in some seconds: commits, steps, bytes, loads, waits.

Drives real runs on an SQLite file in a folder of its own. Knows no load: what follows from these figures is
arithmetic, in `perdure.lab.plan`.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw

from perdure import FOREVER, Agent, Run, Runtime
from perdure.agent.policy import Durability
from perdure.journal import load
from perdure.lab.life import Message, Talk, talk
from perdure.lab.report import Tick
from perdure.lab.server import postgres
from perdure.store import open_store
from perdure.store.protocol import Store
from perdure.store.sqlite import SQLiteStore

CROWD, CROWD_STEPS = 100, 10
"""Runs at once, and their steps."""

LONG = 600
"""Steps of the run that is loaded."""

PARTS = 6
"""What is measured, one after the other."""

WAITERS = 300
"""Runs that are put to wait."""


@dataclass(frozen=True)
class Constants:
    """Seconds and bytes, each measured unless its name says assumed.

    `commit`: one durable commit, alone. `step_cpu`: processor time of a step that waits for nothing.
    `steps_per_second`: on one file, 100 runs at once, each step durable; `runs_per_commit`: how many of them
    shared one. `step_file` and `message_file`: bytes of the file for a step, and for each byte of its
    message. `load_base`, `load_event`: reading, verifying and folding a run, and each event of it.
    `wait_file`: bytes of the file for a run that waits; `wake`: seconds to signal one and carry it to its
    end, many at once. `machine`: where. `postgres_steps`: as `steps_per_second`, on one PostgreSQL on this
    machine; None if there was none.
    """

    commit: float
    step_cpu: float
    steps_per_second: float
    runs_per_commit: float
    step_file: float
    message_file: float
    load_base: float
    load_event: float
    wait_file: float
    wake: float
    machine: str
    postgres_steps: float | None = None


def talker(steps: int, message: int, durability: Durability) -> Agent[Talk, str, str]:
    """Asks a model that takes no time, with the whole conversation, and adds the reply."""
    agent: Agent[Talk, str, str] = Agent(
        "talker",
        state=Talk,
        goal=str,
        result=str,
        start=lambda goal: Talk(),
        durability=durability,
        storage="log",
    )
    texts = [talk(number, message) for number in range(64)]

    @agent.model("model")
    async def chat(messages: list[Message]) -> Message:
        return Message("assistant", texts[len(messages) % 64])

    @agent.step
    async def step(run: Run[Talk]) -> None:
        run.state.messages.append(await chat(run.state.messages))
        if len(run.state.messages) >= steps:
            run.finish("done")

    return agent


def waiter() -> Agent[Any, Any, Any]:
    """Waits for a message, and ends."""
    agent: Agent[Any, Any, Any] = Agent("waiter")

    @agent.step
    async def step(run: Run[Any]) -> None:
        run.finish(await run.wait("go", str, timeout=FOREVER))

    return agent


def calibrate(tick: Tick) -> Constants:
    """Measure everything; takes some seconds. To be called where no event loop runs."""
    with tempfile.TemporaryDirectory(prefix="perdure-lab-") as name:
        found = asyncio.run(_calibrate(Path(name), tick))
    with postgres() as server:
        if server is not None:
            tick("many runs at once, PostgreSQL", 5, PARTS)
            with server.database() as database:
                rate, _ = asyncio.run(_crowd(open_store(database.url)))
                found = replace(found, postgres_steps=rate)
    tick("done", PARTS, PARTS)
    return found


async def _calibrate(folder: Path, tick: Tick) -> Constants:
    tick("commits", 0, PARTS)
    commit = _commit(folder / "bare.db")
    tick("steps", 1, PARTS)
    step_cpu, small = await _long_run(folder / "small.db", 300)
    _, large = await _long_run(folder / "large.db", 3000)
    tick("loads", 2, PARTS)
    base, event = await _loads(folder / "small.db", folder / "short.db")
    tick("many runs at once", 3, PARTS)
    rate, shared = await _crowd(SQLiteStore(folder / "crowd.db", reserve_bytes=0))
    tick("runs that wait", 4, PARTS)
    wait_file, wake = await _waits(folder / "waits.db")
    per_byte = (large - small) / (3000 - 300)
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    return Constants(
        commit=commit,
        step_cpu=step_cpu,
        steps_per_second=rate,
        runs_per_commit=shared,
        step_file=small - 300 * per_byte,
        message_file=per_byte,
        load_base=base,
        load_event=event,
        wait_file=wait_file,
        wake=wake,
        machine=machine,
    )


def _commit(path: Path) -> float:
    """The median of 200 commits of one small row each, with the store's own settings."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE bare (key INTEGER PRIMARY KEY, data BLOB NOT NULL)")
    took = []
    for _ in range(200):
        begun = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE; INSERT INTO bare (data) VALUES (zeroblob(400)); COMMIT")
        took.append(time.perf_counter() - begun)
    connection.close()
    return statistics.median(took)


def _file(path: Path) -> int:
    """The file's bytes once its write-ahead log has been brought home."""
    connection = apsw.Connection(str(path))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return path.stat().st_size


async def _long_run(path: Path, message: int) -> tuple[float, float]:
    """One long run that waits for nothing: processor seconds and bytes of the file, for each step."""
    store = SQLiteStore(path, reserve_bytes=0)
    async with Runtime(store) as runtime:
        empty = _file(path)
        begun = time.process_time()
        (await runtime.run(talker(LONG, message, "effects"), "run", "talk")).unwrap()
        used = time.process_time() - begun
    await store.close()
    return used / LONG, (_file(path) - empty) / LONG


async def _loads(long: Path, short: Path) -> tuple[float, float]:
    """Seconds to load a run, at all and for each event: from a long one and from a short one."""
    store = SQLiteStore(short, reserve_bytes=0)
    async with Runtime(store) as runtime:
        (await runtime.run(talker(20, 300, "effects"), "run", "talk")).unwrap()
    await store.close()
    found = []
    for path in (short, long):
        store = SQLiteStore(path, reserve_bytes=0)
        await store.open()
        events, took = (await load(store, "run")).record.seq, []
        for _ in range(9):
            begun = time.perf_counter()
            await load(store, "run")
            took.append(time.perf_counter() - begun)
        await store.close()
        found.append((events, statistics.median(took)))
    (few, quick), (many, slow) = found
    event = max(slow - quick, 0.0) / (many - few)
    return max(quick - few * event, 0.0), event


async def _crowd(store: Store) -> tuple[float, float]:
    """Many runs at once, each step durable: steps a second, and how many of them share a commit."""
    agent = talker(CROWD_STEPS, 300, "step")
    async with Runtime(store) as runtime:
        names = [f"run-{number}" for number in range(CROWD)]
        await asyncio.gather(*(runtime.start(agent, name, "talk") for name in names))
        commits = (await store.stats()).commits
        begun = time.perf_counter()
        await asyncio.gather(*(runtime.run(agent, name, "talk") for name in names))
        took = time.perf_counter() - begun
        commits = (await store.stats()).commits - commits
    await store.close()
    steps = CROWD * CROWD_STEPS
    return steps / took, steps / max(commits, 1)


async def _waits(path: Path) -> tuple[float, float]:
    """Runs that wait for a message: bytes of the file for each, and seconds to wake each and end it."""
    agent, names = waiter(), [f"run-{number}" for number in range(WAITERS)]
    empty = await _put_to_wait(path, agent, [])
    held = (await _put_to_wait(path, agent, names) - empty) / WAITERS
    store = SQLiteStore(path, reserve_bytes=0)
    async with Runtime(store) as runtime:
        begun = time.perf_counter()
        await asyncio.gather(*(runtime.signal(name, "go", "now") for name in names))
        outcomes = await asyncio.gather(*(runtime.run(agent, name, "go") for name in names))
        took = time.perf_counter() - begun
        assert all(outcome.unwrap() == "now" for outcome in outcomes)
    await store.close()
    return held, took / WAITERS


async def _put_to_wait(path: Path, agent: Agent[Any, Any, Any], names: list[str]) -> int:
    """Start these runs; the file's bytes once they wait."""
    store = SQLiteStore(path, reserve_bytes=0)
    async with Runtime(store) as runtime:
        await asyncio.gather(*(runtime.run(agent, name, "go", patience=timedelta(0)) for name in names))
    await store.close()
    return _file(path)
