"""Who is alive: a dead worker is noticed at once, a silent one when its lease ends."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.clock import SECOND
from perdure.errors import WorkerTaken
from perdure.store import SQLiteStore
from perdure.store.protocol import NEVER, Batch, Claim, Query, RowChange
from perdure.testing.clock import MovableClock
from perdure.testing.contract.trial import events, new_run, refused
from tests.unit.store.elsewhere import elsewhere
from tests.unit.store.test_sqlite_file import opened

WORKER = """
worker, seconds = args[0], float(args[1])
await store.enlist(worker)
await store.create(NewRun("r", "a", "1", "ready", (event(1),)))
(claimed,) = await store.claim(Claim(worker, seconds))
say(claimed.row.epoch, claimed.previous, claimed.died)
hear()
"""


async def test_a_killed_workers_runs_are_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        with elsewhere(path, WORKER, "w1", 3600) as other:
            assert other.hear() == "1 None False"
            assert await store.claim(Claim("w2", 30)) == ()
            assert await store.due() > store.now()
            other.kill()
        row = await store.row("r")
        assert (row.worker, row.lost, row.died) == (None, "w1", True)
        assert (await store.list(Query()))[0] == (await store.load("r")).row == row
        assert await store.due() == 0
        (claimed,) = await store.claim(Claim("w2", 30))
        assert (claimed.previous, claimed.died, claimed.row.epoch) == ("w1", True, 2)
        assert claimed.previous_until > store.now()
        assert os.listdir(store.place.workers) == []


async def test_a_claim_by_id_notices_a_death_too(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        with elsewhere(path, WORKER, "w1", 3600) as other:
            other.hear()
            assert await store.claim(Claim("w2", 30, run_id="r")) == ()
            other.kill()
        (claimed,) = await store.claim(Claim("w2", 30, run_id="r"))
        assert (claimed.previous, claimed.died) == ("w1", True)


async def test_a_death_wakes_whoever_waits(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        with elsewhere(path, WORKER, "w1", 3600) as other:
            other.hear()
            seen = await store.changed(0, 0)
            waiting = asyncio.ensure_future(store.changed(seen, 60))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            other.kill()
            assert await waiting != seen


async def test_the_same_name_started_again_is_another_worker(tmp_path: Path) -> None:
    """Field case O-060."""
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        with elsewhere(path, WORKER, "w1", 3600) as other:
            other.hear()
            with refused(WorkerTaken) as errors:
                await store.enlist("w1")
            assert str(other.pid) in errors[0].what
            other.kill()
        await store.enlist("w1")
        assert (await store.renew("w1", ["r"], 30)) == frozenset()
        (claimed,) = await store.claim(Claim("w1", 30))
        assert (claimed.previous, claimed.died, claimed.row.epoch) == ("w1", True, 2)
        assert await store.renew("w1", ["r"], 30) == {"r"}


async def test_without_its_sign_of_life_a_dead_worker_loses_its_runs_with_the_lease(tmp_path: Path) -> None:
    """Someone cleaned up the dead worker's file before its death was noticed (O-060)."""
    path, clock = tmp_path / "runs.db", MovableClock()
    async with opened(path, clock=clock) as store:
        with elsewhere(path, WORKER, "w1", 3600) as other:
            other.hear()
            (sign,) = (tmp_path / "runs.db-workers").iterdir()
            sign.unlink()
            other.kill()
        until = (await store.row("r")).lease_until
        assert await store.claim(Claim("w2", 30)) == ()
        clock.advance((until - clock.now()) / SECOND)
        (claimed,) = await store.claim(Claim("w2", 30))
        assert (claimed.previous, claimed.died) == ("w1", False)


async def test_what_the_dead_left_is_cleaned_up(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        for number in range(3):
            with elsewhere(path, "await store.enlist(args[0]); say('in'); hear()", f"w{number}") as other:
                assert other.hear() == "in"
                other.kill()
        (left,) = os.listdir(store.place.workers)
        await store.enlist("me")
        assert left not in os.listdir(store.place.workers)
        assert len(os.listdir(store.place.workers)) == 1
    assert os.listdir(store.place.workers) == []


async def test_an_orderly_end_is_no_death(tmp_path: Path) -> None:
    """A store that closes may still have threads at work: its leases end by the clock."""
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        with elsewhere(path, WORKER, "w1", 3600) as other:
            other.hear()
            other.say()
            other.end()
        assert await store.claim(Claim("w2", 30)) == ()
        row = await store.row("r")
        assert (row.worker, row.died) == ("w1", False)


STALLED = """
await store.enlist("w1")
await store.create(NewRun("r", "a", "1", "ready", (event(1),)))
(claimed,) = await store.claim(Claim("w1", 0.3))
say(claimed.row.epoch)
hear()
kept = await store.renew("w1", ["r"], 30)
try:
    await store.append(Batch("r", 1, 1, (event(2),), RowChange(status="stolen")))
    wrote = "wrote"
except StaleEpoch:
    wrote = "refused"
await store.release("r", 1)
say(sorted(kept), wrote)
"""


async def test_a_stalled_worker_finds_itself_fenced_off(tmp_path: Path) -> None:
    """Stopped past its lease, overtaken, woken: its heartbeat, its result and its release change nothing.

    Field case O-040.
    """
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        with elsewhere(path, STALLED) as other:
            assert other.hear() == "1"
            os.kill(other.pid, signal.SIGSTOP)
            seen = 0
            while not (claimed := await store.claim(Claim("w2", 30))):
                seen = await store.changed(seen, 0.02)
            assert (claimed[0].previous, claimed[0].died) == ("w1", False)
            os.kill(other.pid, signal.SIGCONT)
            other.say("go on")
            assert other.hear() == "[] refused"
            other.end()
        row = await store.row("r")
        assert (row.worker, row.epoch, row.seq, row.status) == ("w2", 2, 1, "ready")


async def test_a_death_is_judged_by_the_kernel_not_by_a_clock(tmp_path: Path) -> None:
    """However wrong the clocks are, the dead are dead and the living are alive."""
    path = tmp_path / "runs.db"
    clock = MovableClock()
    async with opened(path, clock=clock) as store:
        with elsewhere(path, WORKER, "w1", 3600) as other:
            other.hear()
            clock.set_back(10_000_000)
            assert await store.claim(Claim("w2", 30)) == ()
            other.kill()
            (claimed,) = await store.claim(Claim("w2", 30))
            assert claimed.died


async def test_one_machine_has_one_clock(tmp_path: Path) -> None:
    """Every process of the file reads the same machine's clock; a movable one moves only who owns it.

    Field case O-041.
    """
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        await store.create(new_run())
        await store.claim(Claim("w1", 30))
        async with opened(path) as other:
            assert abs(other.now() - store.now()) < SECOND
            assert await other.claim(Claim("w2", 30)) == ()


@pytest.mark.slow
async def test_a_hundred_thousand_waiting_runs_do_not_slow_a_claim(tmp_path: Path) -> None:
    """No statement of a claim, of `due` or of a release walks through the waiting: SQLite's steps tell."""
    path, clock = tmp_path / "runs.db", MovableClock()
    async with opened(path, clock=clock) as store:
        await store.create(new_run("due"))
        assert store._writer is not None
        assert store._reader is not None
        connection = store._writer.connection
        assert connection is not None
        columns = (
            "(run_id, agent, version, created_at, status, updated_at, due_at, held, holder, lease_until)"
        )
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            f"INSERT INTO perdure_run {columns} VALUES (?, 'a', '1', 1, 'waiting', 1, ?, ?, ?, ?)",
            (
                (
                    f"w{n}",
                    NEVER if n % 2 else clock.now() + 3600 * SECOND,
                    n % 1000 == 0,
                    f"worker{n % 7}",
                    NEVER,
                )
                for n in range(100_000)
            ),
        )
        connection.execute("COMMIT")
        steps: list[tuple[int, str]] = []

        def note(event: dict[str, Any]) -> None:
            steps.append((event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"], event["sql"]))

        for watched in (connection, store._reader.connection):
            assert watched is not None
            watched.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
        (claimed,) = await store.claim(Claim("w", 30, {"a": frozenset({"1"})}))
        assert claimed.row.run_id == "due"
        await store.release("due", 1)
        (claimed,) = await store.claim(Claim("w", 30))
        waits = RowChange(status="waiting", due_at=NEVER)
        await store.append(Batch("due", 2, 1, events(2, 2), waits, release=True))
        assert await store.claim(Claim("w", 30)) == ()
        assert await store.due(Claim("w", 30, {"a": frozenset()})) == clock.now() + 3600 * SECOND
        most = max(steps)
        print(f"{len(steps)} statements, the longest took {most[0]} steps: {most[1]}")
        assert most[0] < 5_000
        for watched in (connection, store._reader.connection):
            assert watched is not None
            watched.trace_v2(0, None)


def test_a_store_is_forgotten_with_its_object(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    assert os.listdir(tmp_path) == []
    del store
