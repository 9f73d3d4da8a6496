"""Many writers of one file: no lock error, no lost turn, no write that a failure leaves open."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from perdure.errors import StoreIO, StoreLocked
from perdure.store import SQLiteStore
from perdure.store.protocol import Batch, RowChange
from perdure.store.sqlite import writer
from perdure.store.sqlite.turn import Turn
from perdure.testing.contract.trial import events, message, new_run, refused
from tests.unit.store.elsewhere import elsewhere
from tests.unit.store.test_sqlite_file import opened

APPENDS = """
async def append_all(run_id):
    mine = SQLiteStore(sys.argv[1])  # a store object belongs to one loop
    await mine.open()
    await mine.create(NewRun(run_id, "a", "1", "ready", ()))
    for seq in range(1, 101):
        await mine.append(Batch(run_id, 0, seq - 1, (event(seq, run_id.encode()),)))
    await mine.close()

from threading import Thread
say("ready")
hear()
threads = [Thread(target=asyncio.run, args=(append_all(f"{args[0]}-{n}"),)) for n in range(4)]
for thread in threads:
    thread.start()
while any(thread.is_alive() for thread in threads):
    await asyncio.sleep(0.01)
"""


@pytest.mark.slow
async def test_eight_processes_of_four_threads_meet_no_lock_error(tmp_path: Path) -> None:
    """Each of 32 threads has its own store object on the one file and appends 100 events (O-036)."""
    path = tmp_path / "runs.db"
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(elsewhere(path, APPENDS, number)) for number in range(8)]
        for other in others:
            assert other.hear() == "ready"
        for other in others:
            other.say("go")
        for other in others:
            assert other.end() == ""
    async with opened(path) as store:
        stats = await store.stats()
        assert (stats.events, stats.runs) == (3200, {"ready": 32})
        for process in range(8):
            for thread in range(4):
                run_id = f"{process}-{thread}"
                stored = await store.read(run_id)
                assert [item.seq for item in stored] == list(range(1, 101))
                assert {item.data for item in stored} == {run_id.encode()}


FIRST = """
for round in range(20):
    hear()
    mine = SQLiteStore(f"{sys.argv[1]}-{round}")
    await mine.open()
    row, made = await mine.create(NewRun("r", "a", "1", "ready", (event(1),)))
    say("opened", made)
    await mine.close()
"""


@pytest.mark.slow
async def test_many_first_openings_at_once_all_succeed(tmp_path: Path) -> None:
    """Field case O-038, O-083."""
    path = tmp_path / "runs.db"
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(elsewhere(path, FIRST)) for _ in range(8)]
        for number in range(20):
            for other in others:
                other.say("go")
            said = sorted(other.hear() for other in others)
            assert said == ["opened False"] * 7 + ["opened True"], (number, said)
        for other in others:
            other.end()
    for number in range(20):
        connection = apsw.Connection(f"{path}-{number}")
        assert connection.pragma("integrity_check") == "ok"
        assert connection.execute("SELECT count(*) FROM perdure_run").get == 1
        connection.close()


@contextlib.contextmanager
def foreign_lock(path: Path) -> Iterator[apsw.Connection]:
    """Another program's open write transaction."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    finally:
        connection.close(True)


async def test_a_foreign_lock_is_waited_for_and_then_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path, busy_seconds=0.1) as store:
        await store.create(new_run())
        with foreign_lock(path):
            futures = [
                store.append(Batch("r", 0, 1, events(2, 2))),
                store.append(Batch("r", 0, 2, events(3, 3))),
            ]
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StoreLocked] * 2
            assert await store.read("r") == events(1, 1)
            with refused(StoreLocked):
                await store.deliver(message("r", "m"))
            assert (await store.stats()).facts["last_failure"].endswith("is locked by another program")
        assert (await store.append(Batch("r", 0, 1, events(2, 2)))).seq == 2
    async with opened(path, busy_seconds=30) as store:
        with foreign_lock(path) as lock:
            future = store.append(Batch("r", 0, 2, events(3, 3)))
            await asyncio.sleep(0.05)
            assert not future.done()
            lock.execute("COMMIT")
            assert (await future).seq == 3


async def test_a_store_opens_and_reads_under_a_foreign_lock(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        await store.create(new_run())
        with foreign_lock(path):
            async with opened(path, busy_seconds=0.1) as other:
                assert await other.read("r") == events(1, 1)


async def test_a_failed_statement_leaves_no_transaction_open(tmp_path: Path) -> None:
    """The second of two deletes fails: the first is rolled back, and another connection writes at once.

    Field case O-037.
    """
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        await store.create(new_run(events=3))
        await store.create(new_run("s"))
        await store.append(Batch("r", 0, 3, row=RowChange(terminal=True)))
        other = apsw.Connection(str(path))
        other.execute(
            "CREATE TRIGGER stop BEFORE DELETE ON perdure_run BEGIN SELECT raise(ABORT, 'not this one'); END"
        )
        outcomes = await asyncio.gather(
            store.drop("r", (b"key",)), store.append(Batch("s", 0, 1, events(2, 2))), return_exceptions=True
        )
        assert [type(outcome).__name__ for outcome in outcomes] == ["Damaged", "Appended"]
        assert await store.read("r") == events(1, 3)
        assert await store.tombstones("r") == ()
        other.execute("BEGIN IMMEDIATE; DROP TRIGGER stop; COMMIT")
        other.close()
        await store.drop("r", (b"key",))
        assert await store.tombstones("r") == (b"key",)


TURNS = """
await store.create(NewRun(args[0], "a", "1", "ready", ()))
say("ready")
hear()
seq = worst = 0
end = time.monotonic() + 1.0
while (began := time.monotonic()) < end:
    await store.append(Batch(args[0], 0, seq, (event(seq + 1),)))
    seq += 1
    worst = max(worst, time.monotonic() - began)
say(seq, worst)
"""


@pytest.mark.slow
async def test_writers_in_tight_loops_take_turns(tmp_path: Path) -> None:
    """With SQLite's own lock one of four may get nearly nothing; here none is left behind."""
    path = tmp_path / "runs.db"
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(elsewhere(path, TURNS, f"r{number}")) for number in range(4)]
        for other in others:
            assert other.hear() == "ready"
        for other in others:
            other.say("go")
        counts = [int(other.hear().split()[0]) for other in others]
        for other in others:
            other.end()
    print(counts)
    assert min(counts) * 10 >= max(counts), counts


async def test_a_writer_that_stopped_in_its_turn_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TURN_PATIENCE_SECONDS", 0.05)
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        await store.create(new_run())
        fd = os.open(store.place.turn, os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX)
        for seq in range(1, 20):
            assert (
                await asyncio.wait_for(store.append(Batch("r", 0, seq, events(seq + 1, seq + 1))), 30)
            ).seq
        async with opened(path) as other:
            await other.append(Batch("r", 0, 20, events(21, 21)))
        os.close(fd)
        assert store._writer is not None
        store._writer._impatient_until = 0  # as if that had been some seconds ago
        for seq in range(21, 40):
            await store.append(Batch("r", 0, seq, events(seq + 1, seq + 1)))
        assert await store.read("r") == events(1, 40)
    for thread in threading.enumerate():
        if thread.name.startswith("perdure-writer"):
            thread.join(10)
            assert not thread.is_alive(), "a writer that was overtaken did not end"


async def test_closing_waits_for_no_turn_that_does_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TURN_PATIENCE_SECONDS", 0.05)
    path = tmp_path / "runs.db"
    store = SQLiteStore(path)
    await store.open()
    await store.create(new_run())
    fd = os.open(store.place.turn, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    queued = store.append(Batch("r", 0, 1, events(2, 2)))
    await asyncio.wait_for(store.close(), 60)
    assert queued.result().seq == 2
    await store.open()
    await asyncio.wait_for(store.close(), 60)
    os.close(fd)


STOPPED = """
await store.create(NewRun("theirs", "a", "1", "ready", ()))
seq = 0
say("ready")
while True:
    await store.append(Batch("theirs", 0, seq, (event(seq + 1),)))
    seq += 1
"""


async def test_a_process_stopped_amid_its_writes_blocks_nobody_for_good(tmp_path: Path) -> None:
    """Stopped before its turn, in its transaction, after it: whoever waits is answered or written."""
    path = tmp_path / "runs.db"
    async with opened(path, busy_seconds=0.2) as store:
        await store.create(new_run())
        seq, locked = 1, 0
        with elsewhere(path, STOPPED) as other:
            assert other.hear() == "ready"
            for _ in range(10):
                os.kill(other.pid, signal.SIGSTOP)
                try:
                    await asyncio.wait_for(store.append(Batch("r", 0, seq, events(seq + 1, seq + 1))), 30)
                    seq += 1
                except StoreLocked:
                    locked += 1
                os.kill(other.pid, signal.SIGCONT)
                await asyncio.sleep(0.005)
        print(f"{seq - 1} written, {locked} found the file locked")
        assert await store.read("r") == events(1, seq)


async def test_reading_goes_on_while_a_writer_is_blocked(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path, busy_seconds=5) as store:
        await store.create(new_run())
        with foreign_lock(path):
            future = store.append(Batch("r", 0, 1, events(2, 2)))
            began = time.monotonic()
            for _ in range(20):
                assert (await store.row("r")).seq == 1
            assert not future.done()
            print(f"20 readings in {time.monotonic() - began:.3f} s beside a blocked write")
        assert (await future).seq == 2


def test_a_store_left_open_does_not_keep_the_process(tmp_path: Path) -> None:
    code = """
    store.append(Batch("r", 0, 0, ()))
    store.close = lambda: asyncio.sleep(0)
    """
    with elsewhere(tmp_path / "runs.db", code) as other:
        assert other.end() == ""


async def test_whoever_cancels_a_wait_cancels_no_write(tmp_path: Path) -> None:
    async with opened(tmp_path / "runs.db") as store:
        waiting = asyncio.ensure_future(store.create(new_run()))
        await asyncio.sleep(0)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert (await store.append(Batch("r", 0, 1, events(2, 2)))).seq == 2


def test_a_store_closed_while_its_loop_ends_loses_nothing(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")

    async def hurry() -> None:
        await store.open()
        await store.create(new_run())
        store.append(Batch("r", 0, 1, events(2, 2)))  # nobody waits for it

    async def look() -> None:
        await store.open()
        await store.append(Batch("r", 0, 2, events(3, 3)))
        assert await store.read("r") == events(1, 3)
        await store.close()

    asyncio.run(hurry())
    asyncio.run(look())


async def test_a_fault_of_our_own_stops_neither_the_thread_nor_whoever_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await store.create(new_run())
        with monkeypatch.context() as broken:
            broken.setattr(writer.Writer, "_hold_back", lambda _self, _jobs: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await store.append(Batch("r", 0, 1, events(2, 2)))
        with monkeypatch.context() as broken:
            broken.setattr(Turn, "take", _no_locks)
            with refused(StoreIO):
                await store.append(Batch("r", 0, 1, events(2, 2)))
        assert (await store.append(Batch("r", 0, 1, events(2, 2)))).seq == 2


def _no_locks(_turn: Turn) -> None:
    raise OSError("no locks available")
