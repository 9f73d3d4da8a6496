"""Servers that go away, listeners that die, and loops that watch no sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import perdure
from perdure import Agent
from perdure.errors import StoreError
from perdure.host import Runtime
from perdure.journal import history, verify
from perdure.state import events as e
from perdure.store import open_store
from perdure.store.protocol import Query
from tests.cluster import servers
from tests.database import PLACE
from tests.unit.store.elsewhere import elsewhere

RUNS = 250


def counting(acting: asyncio.Event | None = None) -> tuple[Agent[Any, Any, Any], dict[str, int]]:
    """An agent that acts once, and how often it has in each run. `acting`: set by the first act."""
    acts: dict[str, int] = {}
    agent: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {})

    @agent.tool(effect="idempotent")
    async def work() -> str:
        run_id = perdure.current_call().run_id
        acts[run_id] = acts.get(run_id, 0) + 1
        if acting is not None:
            acting.set()
        await asyncio.sleep(0.002)
        return run_id

    @agent.step
    async def step(run: Any) -> None:
        run.finish(await work())

    return agent, acts


CLAIMED = f"""
await store.enlist("gone")
rows = await store.claim(Claim("gone", 3600, limit={RUNS}))
say(len(rows))
hear()
"""


async def until(so: Callable[[], Awaitable[object]]) -> None:
    """Wait until it is so; a server that is away is asked again."""
    async with asyncio.timeout(60):
        for _ in range(10_000):
            with suppress(StoreError):
                if await so():
                    return
            await asyncio.sleep(0.02)


async def ended(store: Any, count: int) -> None:
    """Wait until so many runs have ended well."""

    async def so() -> bool:
        return len(await store.list(Query(statuses=("succeeded",), limit=count + 1))) >= count

    await until(so)


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.postgres
async def test_a_server_that_restarts_amid_recovery_loses_no_run() -> None:
    """O-059: the server restarted while the runs of a dead worker were recovered, and those were never looked
    at again. Here 250 of them, the server away for two seconds from 0.2 s on: all end, each act once or,
    where its receipt was lost with the server, again under its key.
    """
    acting = asyncio.Event()
    agent, acts = counting(acting)
    with servers("a") as (server,):
        server.make().start()
        async with Runtime(server.url, [agent]) as first:
            for number in range(RUNS):
                await first.start(agent, f"r{number}", "go")
        with elsewhere(server.url, CLAIMED) as other:
            assert other.hear() == str(RUNS)
            other.kill()
        began = asyncio.Event()
        store = open_store(server.url)
        async with Runtime(store, [agent], workers=20):

            async def outage() -> None:
                await acting.wait()
                await asyncio.sleep(0.2)
                began.set()
                await asyncio.to_thread(server.stop)
                await asyncio.sleep(2)
                await asyncio.to_thread(server.start)

            going = asyncio.create_task(outage())
            await began.wait()
            assert len(acts) < RUNS, "the outage came too late to tell anything"
            await going
            await ended(store, RUNS)
            for number in range(0, RUNS, 25):
                assert (await verify(store, f"r{number}")).ok
        await store.close()
    assert len(acts) == RUNS
    assert max(acts.values()) <= 2


@pytest.mark.postgres
async def test_a_worker_whose_listener_was_ended_still_gets_work(tmp_path: Path) -> None:
    """O-078: the listener died, and the worker stayed alive without work. Only its session is ended: the
    next run is driven, and the store tells that it listens again.
    """
    agent, acts = counting()
    url = PLACE.at(tmp_path)
    store: Any = open_store(url)

    async def listens() -> bool:
        return bool((await store.stats()).facts["listening"] == "listening")

    await store.open()
    try:
        async with Runtime(store, [agent], workers=4), Runtime(url, [agent]) as caller:
            for number in range(3):
                with psycopg.connect(url, autocommit=True) as sql:
                    killed = sql.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE query = 'LISTEN perdure' OR pid IN (SELECT pid FROM pg_locks"
                        " WHERE locktype = 'advisory' AND pid <> pg_backend_pid())"
                    ).fetchall()
                assert (True,) in killed
                await caller.start(agent, f"r{number}", "go")
                await ended(store, number + 1)
                await until(listens)
    finally:
        await store.close()
    assert acts == {"r0": 1, "r1": 1, "r2": 1}


class Unwatching(asyncio.SelectorEventLoop):
    """An event loop that watches no sockets for anybody, as the default one of Windows."""

    def add_reader(self, *_: Any) -> None:  # type: ignore[override]
        """Refuse."""
        raise NotImplementedError

    def add_writer(self, *_: Any) -> None:  # type: ignore[override]
        """Refuse."""
        raise NotImplementedError

    def add_signal_handler(self, *_: Any) -> None:  # type: ignore[override]
        """Refuse."""
        raise NotImplementedError


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_loop_that_watches_no_sockets_is_enough(kind: str, tmp_path: Path) -> None:
    """O-094: an asynchronous driver could not be used under the default event loop of another platform. The
    stores ask nothing of the loop but to be woken: a run with a worker, a wait and a signal, on each.
    """
    agent: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {})

    @agent.step
    async def step(run: Any) -> None:
        await run.sleep(0.01)
        run.finish(await run.wait("go", str))

    url = PLACE.at(tmp_path) if kind == "postgres" else str(tmp_path / "runs.db")

    async def main() -> str:
        async with Runtime(url, [agent], workers=2) as runtime:
            await runtime.start(agent, "r", "goal")
            await runtime.signal("r", "go", "went", id="1", by="ana")
            await ended(runtime.store, 1)
            return str((await runtime.outcome("r")).unwrap())

    with asyncio.Runner(loop_factory=Unwatching) as runner:
        assert runner.run(main()) == "went"


@pytest.mark.postgres
async def test_results_that_come_together_are_all_kept_on_postgres(tmp_path: Path) -> None:
    """O-033: sixteen results released by one barrier, ten rounds, on a server."""
    gate = asyncio.Barrier(16)
    agent: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {"log": []})

    @agent.tool(effect="idempotent")
    async def work(n: int) -> int:
        await gate.wait()
        return n

    @agent.step
    async def step(run: Any) -> None:
        run.state["log"].append(await run.map(work, range(16), limit=16))
        if len(run.state["log"]) == 10:
            run.finish(run.state["log"])

    async with Runtime(PLACE.at(tmp_path), [agent]) as runtime:
        outcome = await runtime.run(agent, "r", "go")
        assert outcome.unwrap() == [list(range(16))] * 10
        facts = [event.body for event in await history(runtime.store, "r")]
        receipts = [fact.path for fact in facts if isinstance(fact, e.CallSettled)]
        assert len(receipts) == len(set(receipts)) == 160


@pytest.mark.postgres
@pytest.mark.parametrize("size", [1_900_000, 5_000_000])
async def test_large_results_are_kept_out_of_line_on_postgres(size: int, tmp_path: Path) -> None:
    """O-074: an oversized result was sent for again and again. Each act is made once, its result comes back
    whole in another process, and equal ones are kept once.
    """
    acts: list[int] = []
    agent: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {"seen": 0})
    noise = random.Random(size).randbytes(size)

    @agent.tool()
    async def fetch(n: int) -> bytes:
        acts.append(n)
        return noise

    @agent.step
    async def step(run: Any) -> None:
        seen = run.state["seen"]
        run.state["seen"] = seen + (await fetch(seen) == noise)
        if run.state["seen"] == 5:
            await run.sleep(0.05)
            run.finish(len(await fetch(9)))

    url = PLACE.at(tmp_path)
    async with Runtime(url, [agent]) as runtime:
        assert (await runtime.run(agent, "r", "go", patience=timedelta(0))).status == "waiting"
    async with Runtime(url, [agent]) as runtime:
        assert (await runtime.run(agent, "r", "go")).unwrap() == size
        assert acts == [0, 1, 2, 3, 4, 9]
        assert (await verify(runtime.store, "r")).ok
        assert (await runtime.store.stats()).blob_bytes < 2 * size
