"""Who is alive, on PostgreSQL: a dead worker is noticed at once, one whose connection broke may come back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from perdure.clock import SECOND
from perdure.errors import WorkerTaken
from perdure.store.protocol import NEVER, Claim, Query
from perdure.testing.clock import MovableClock
from perdure.testing.contract.trial import new_run, refused
from tests.database import PLACE
from tests.unit.store.elsewhere import elsewhere
from tests.unit.store.test_postgres_tables import opened
from tests.unit.store.test_sqlite_workers import STALLED, WORKER

T = TypeVar("T")


async def claimed_by(store: Any, worker: str, **more: Any) -> Any:
    """The next claim that gets something."""
    seen = 0
    while not (claimed := await store.claim(Claim(worker, 30, **more))):
        seen = await store.changed(seen, 0.2)
    return claimed[0]


async def until(ask: Callable[[], Awaitable[T]], good: Callable[[T], bool]) -> T:
    """Ask again and again until the answer is good."""
    answer = await ask()
    for _ in range(2000):
        if good(answer):
            return answer
        await asyncio.sleep(0.01)
        answer = await ask()
    raise AssertionError(f"it stayed {answer!r}")


def _asked(sql: psycopg.Connection[Any], statement: str) -> Callable[[], Awaitable[Any]]:
    async def ask() -> Any:
        return sql.execute(statement.encode()).fetchone()

    return ask


async def test_a_killed_workers_runs_are_free_at_once(tmp_path: Path) -> None:
    url = PLACE.at(tmp_path)
    async with opened(url) as store:
        with elsewhere(url, WORKER, "w1", 3600) as other:
            assert other.hear() == "1 None False"
            assert await store.claim(Claim("w2", 30)) == ()
            assert await store.due() > store.now()
            seen = await store.changed(0, 0)
            waiting = asyncio.ensure_future(store.changed(seen, 60))
            await asyncio.sleep(0.3)
            assert not waiting.done(), "nothing has happened yet"
            other.kill()
        assert await waiting != seen, "a death wakes whoever waits"
        row = await store.row("r")
        assert (row.worker, row.lost, row.died) == (None, "w1", True)
        assert (await store.list(Query()))[0] == (await store.load("r")).row == row
        assert await store.due() == 0
        (claimed,) = await store.claim(Claim("w2", 30))
        assert (claimed.previous, claimed.died, claimed.row.epoch) == ("w1", True, 2)
        assert claimed.previous_until > store.now()
        with psycopg.connect(url) as sql:
            assert sql.execute("SELECT worker FROM perdure_worker").fetchall() == []


async def test_a_death_counts_only_after_the_grace(tmp_path: Path) -> None:
    url, clock = PLACE.at(tmp_path), MovableClock()
    async with opened(url, clock=clock) as store:
        with elsewhere(url, WORKER, "w1", 3600) as other:
            other.hear()
            other.kill()
        await until(lambda: store.row("r"), lambda row: row.died)  # the server needs a moment to see it
        assert await store.claim(Claim("w2", 30, run_id="r")) == ()
        assert await store.due() == clock.now() + SECOND
        clock.advance(0.999)
        assert await store.claim(Claim("w2", 30)) == ()
        clock.advance(0.001)
        (claimed,) = await store.claim(Claim("w2", 30, run_id="r"))
        assert (claimed.previous, claimed.died) == ("w1", True)


async def test_a_worker_whose_connection_broke_comes_back_and_keeps_its_runs(tmp_path: Path) -> None:
    url = PLACE.at(tmp_path)
    async with opened(url) as store, opened(url, grace_seconds=30) as other:
        await store.enlist("w1")
        await store.create(new_run())
        await store.claim(Claim("w1", 3600))
        with psycopg.connect(url, autocommit=True) as sql:
            for _ in range(3):
                ended = sql.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                    " AND granted AND pid <> pg_backend_pid()"
                ).fetchall()
                assert ended == [(True,)]
                assert await other.claim(Claim("w2", 30)) == ()
                await until(
                    _asked(sql, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted"), bool
                )
            await until(_asked(sql, "SELECT 1 FROM perdure_worker WHERE missed_at IS NULL"), bool)
        assert (await other.row("r")).worker == "w1"
        assert await store.renew("w1", ["r"], 30) == {"r"}
        seen = await other.changed(0, 0)
        waiting = asyncio.ensure_future(store.changed(await store.changed(0, 0), 30))
        await other.create(new_run("s"))
        assert await waiting != seen, "and it listens again"


async def test_the_same_name_started_again_is_another_worker(tmp_path: Path) -> None:
    """Field case O-060."""
    url = PLACE.at(tmp_path)
    async with opened(url) as store:
        with elsewhere(url, WORKER, "w1", 3600) as other:
            other.hear()
            with refused(WorkerTaken):
                await store.enlist("w1")
            other.kill()
        while True:
            try:
                await store.enlist("w1")
                break
            except WorkerTaken:  # the server needs a moment to see it
                await asyncio.sleep(0.01)
        assert (await store.renew("w1", ["r"], 30)) == frozenset()
        (claimed,) = await store.claim(Claim("w1", 30))
        assert (claimed.previous, claimed.died, claimed.row.epoch) == ("w1", True, 2)
        assert await store.renew("w1", ["r"], 30) == {"r"}


async def test_an_orderly_end_is_no_death(tmp_path: Path) -> None:
    url = PLACE.at(tmp_path)
    async with opened(url) as store:
        with elsewhere(url, WORKER, "w1", 3600) as other:
            other.hear()
            other.say()
            other.end()
        assert await store.claim(Claim("w2", 30)) == ()
        row = await store.row("r")
        assert (row.worker, row.died) == ("w1", False)


async def test_a_stalled_worker_finds_itself_fenced_off(tmp_path: Path) -> None:
    """Stopped past its lease, overtaken, woken: its heartbeat, its result and its release change nothing.

    Field case O-040.
    """
    url = PLACE.at(tmp_path)
    async with opened(url) as store:
        with elsewhere(url, STALLED) as other:
            assert other.hear() == "1"
            os.kill(other.pid, signal.SIGSTOP)
            claimed = await claimed_by(store, "w2")
            assert (claimed.previous, claimed.died) == ("w1", False)
            os.kill(other.pid, signal.SIGCONT)
            other.say("go on")
            assert other.hear() == "[] refused"
            other.end()
        row = await store.row("r")
        assert (row.worker, row.epoch, row.seq, row.status) == ("w2", 2, 1, "ready")


async def test_many_machines_have_the_databases_clock(tmp_path: Path) -> None:
    """A machine whose own clock is two hours off neither steals a lease nor keeps one.

    Field case O-041.
    """
    url = PLACE.at(tmp_path)
    async with opened(url) as store:
        await store.create(new_run())
        (claimed,) = await store.claim(Claim("w1", 30))
        assert abs(claimed.row.lease_until - store.now() - 30 * SECOND) < 10 * SECOND
        wrong = (
            "import perdure.clock as c; c.Clock.now = lambda self: 7_200_000_000 + time.time_ns() // 1000\n"
        )
        look = "say(len(await store.claim(Claim('w2', 30))), round((store.now() - int(args[0])) / 1e6 / 60))"
        with elsewhere(url, wrong + "await store.close(); await store.open()\n" + look, store.now()) as other:
            assert other.hear() == "0 0"
            other.end()


async def test_a_claim_walks_through_no_waiting_run(tmp_path: Path) -> None:
    """Rows that its statements touch, counted by the server among ten thousand that wait."""
    url = PLACE.at(tmp_path)
    async with opened(url) as store:
        with psycopg.connect(url, autocommit=True) as sql:
            sql.execute(
                "INSERT INTO perdure_run (run_id, agent, version, created_at, status, due_at, updated_at)"
                " SELECT 'w' || n, 'a', '1', 1, 'waiting', %s, 1 FROM generate_series(1, 10000) n",
                (NEVER,),
            )
            # What the server guesses of a table that it saw emptied is not the matter here.
            sql.execute("VACUUM ANALYZE perdure_run")
            await store.create(new_run("due"))
            before = _touched(sql)
            (claimed,) = await store.claim(Claim("w1", 30, {"a": frozenset({"1"})}))
            assert claimed.row.run_id == "due"
            assert await store.claim(Claim("w1", 30)) == ()
            assert await store.due(Claim("w", 30, {"a": frozenset()})) > store.now()
            await store.close()
            touched = await until(_answer(lambda: _touched(sql) - before), lambda rows: rows > 0)
            sql.execute("DELETE FROM perdure_run")
    assert touched < 1000, touched


def _touched(sql: psycopg.Connection[Any]) -> int:
    """Rows that were read from the parts of the table of runs, or found in their indexes, so far."""
    sql.execute("SELECT pg_stat_force_next_flush()")
    row = sql.execute(
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables"
        " WHERE relname ~ '^perdure_run_'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def _answer(ask: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    async def answer() -> T:
        return ask()

    return answer


async def test_a_forked_child_has_connections_of_its_own(tmp_path: Path) -> None:
    """Neither the child's work nor its end disturbs its parent's sessions.

    Field case O-047.
    """
    url = PLACE.at(tmp_path)
    with elsewhere(url, FORKS) as other:
        assert other.hear() == "child wrote"
        assert other.hear() == "parent 2 w1"
        other.end()


FORKS = """
await store.enlist("w1")
await store.create(NewRun("r", "a", "1", "ready", (event(1),)))
await store.claim(Claim("w1", 3600))
pid = os.fork()
if pid == 0:
    async def child():
        await store.append(Batch("r", 1, 1, (event(2),)))
        say("child wrote")
    asyncio._set_running_loop(None)
    asyncio.new_event_loop().run_until_complete(child())
    os._exit(0)
os.waitpid(pid, 0)
await asyncio.sleep(0.3)
row = await store.row("r")
say("parent", row.seq, row.worker)
"""


async def test_a_claim_that_gets_nothing_writes_nothing(tmp_path: Path) -> None:
    """Else it would wake everybody who waits for a change, whoever made it among them."""
    async with opened(PLACE.at(tmp_path)) as store:
        await store.enlist("w1")
        await store.claim(Claim("w1", 30))
        seen = await store.changed(0, 0)
        commits = (await store.stats()).commits
        for _ in range(5):
            assert await store.claim(Claim("w1", 30)) == ()
        assert await store.changed(seen, 0) == seen
        assert (await store.stats()).commits == commits
