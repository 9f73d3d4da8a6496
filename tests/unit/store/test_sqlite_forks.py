"""A forked child uses nothing of its parent's: not its connection, not its thread, not its locks."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

from perdure.errors import StoreUnavailable
from perdure.store import SQLiteStore, forks
from perdure.store.protocol import Batch, Claim, NewRun, Stored
from perdure.testing.contract.trial import events, new_run
from tests.unit.store.test_sqlite_file import opened

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    # Newer Pythons warn of every fork beside a thread; that such forks are harmless is what is tried here.
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]


def forked(work: Callable[[], Awaitable[None]]) -> int:
    """Run a coroutine in a forked child, which then ends at once; returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        asyncio.run(work())  # type: ignore[arg-type]
        os._exit(0)
    except BaseException:  # noqa: BLE001 - nothing of the test may run on in a child
        traceback.print_exc()
        os._exit(1)


def ended_well(pid: int) -> bool:
    """Wait for a child."""
    return os.waitpid(pid, 0)[1] == 0


def tagged(tag: str, seq: int) -> Stored:
    """An event that tells who wrote it."""
    return Stored(seq, f"{tag} {seq}".encode(), b"%16d" % seq)


def test_four_children_and_their_parent_write_and_read_their_own(tmp_path: Path) -> None:
    """Field case O-047."""
    store = SQLiteStore(tmp_path / "runs.db")
    loop = asyncio.new_event_loop()

    async def use(tag: str) -> None:
        await store.create(NewRun(tag, "a", "1", "ready", ()))
        for seq in range(1, 101):
            await store.append(Batch(tag, 0, seq - 1, (tagged(tag, seq),)))
            if seq % 25 == 0:
                assert await store.read(tag) == tuple(tagged(tag, n) for n in range(1, seq + 1))
        await store.close()

    async def first() -> None:
        await store.open()
        await store.create(new_run("before"))
        store.append(Batch("before", 0, 1, events(2, 2)))  # may be under way while the process forks

    loop.run_until_complete(first())
    parents = threading.active_count()
    children = [forked(partial(use, f"child-{n}")) for n in range(4)]
    loop.run_until_complete(use("parent"))
    assert [ended_well(pid) for pid in children] == [True] * 4
    loop.close()
    assert threading.active_count() < parents

    async def look() -> None:
        async with opened(tmp_path / "runs.db") as again:
            for tag in ("parent", *(f"child-{n}" for n in range(4))):
                assert await again.read(tag) == tuple(tagged(tag, n) for n in range(1, 101))
            assert await again.read("before") == events(1, 2)

    asyncio.run(look())
    connection = apsw.Connection(str(tmp_path / "runs.db"))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


def test_forks_amid_a_storm_of_commits_harm_nobody(tmp_path: Path) -> None:
    """Children are forked while the parent's writer is busy; each writes and dies; the parent goes on."""
    store = SQLiteStore(tmp_path / "runs.db")

    async def child(tag: str) -> None:
        await store.create(NewRun(tag, "a", "1", "ready", (tagged(tag, 1),)))
        os._exit(0)  # no goodbye

    async def parent() -> None:
        await store.open()
        await store.create(new_run())
        pending = [store.append(Batch("r", 0, seq, events(seq + 1, seq + 1))) for seq in range(1, 200)]
        children = []
        for number in range(8):
            await asyncio.sleep(0.002)
            children.append(await asyncio.to_thread(forked, partial(child, f"child-{number}")))
        await asyncio.gather(*pending)
        assert [ended_well(pid) for pid in children] == [True] * 8
        assert await store.read("r") == events(1, 200)
        for number in range(8):
            assert (await store.row(f"child-{number}")).seq == 1
        await store.close()

    asyncio.run(parent())


def test_a_child_keeps_no_lock_of_its_dead_parent(tmp_path: Path) -> None:
    """A worker forks a child that lives on; the worker dies; its runs are free at once."""
    path = tmp_path / "runs.db"
    reading, writing = os.pipe()
    held, release = os.pipe()

    async def worker() -> None:
        store = SQLiteStore(path)
        await store.open()
        await store.enlist("w1")
        await store.create(new_run())
        await store.claim(Claim("w1", 3600))
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.close(release)
            os.read(held, 1)  # until the test closes the other end
            os._exit(0)
        os.write(writing, b"forked")
        os._exit(0)  # the worker dies without a goodbye

    pid = forked(worker)
    assert os.read(reading, 6) == b"forked"
    os.close(writing)
    os.waitpid(pid, 0)

    async def look() -> None:
        async with opened(path) as store:
            (claimed,) = await store.claim(Claim("w2", 30))
            assert (claimed.previous, claimed.died) == ("w1", True)

    asyncio.run(look())
    for fd in (reading, held, release):
        os.close(fd)


def test_a_child_that_could_not_be_forked_in_peace_may_not_touch_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "QUIET_SECONDS", 0.05)
    store = SQLiteStore(tmp_path / "runs.db", busy_seconds=1)

    async def child() -> None:
        for other in (store, SQLiteStore(tmp_path / "runs.db")):
            with pytest.raises(StoreUnavailable, match="forked while"):
                await other.open()

    async def parent() -> None:
        await store.open()
        await store.create(new_run())
        lock = apsw.Connection(str(tmp_path / "runs.db"))
        lock.execute("BEGIN IMMEDIATE")
        blocked = store.append(Batch("r", 0, 1, events(2, 2)))
        await asyncio.sleep(0.05)  # the writer now waits inside SQLite
        pid = await asyncio.to_thread(forked, child)
        assert ended_well(pid)
        lock.execute("COMMIT")
        lock.close()
        assert (await blocked).seq == 2
        await store.close()

    asyncio.run(parent())


def test_a_closed_store_is_not_touched_by_a_fork(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")

    async def once() -> None:
        await store.open()
        await store.create(new_run())
        await store.close()

    async def child() -> None:
        await store.open()
        assert (await store.row("r")).seq == 1
        await store.close()

    asyncio.run(once())
    assert ended_well(forked(child))
    asyncio.run(child())
