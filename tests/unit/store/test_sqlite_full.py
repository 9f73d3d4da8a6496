"""A full disk: a clean error, nothing half-written, receipts and removals from the reserve."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from perdure.errors import DiskFull, StaleEpoch
from perdure.store import SQLiteStore
from perdure.store.protocol import Batch, Claim, RowChange
from perdure.store.sqlite import wal
from perdure.store.sqlite.place import Place, Reserve
from perdure.testing.contract.trial import event, events, message, new_run, refused
from tests.unit.store.test_sqlite_file import opened


async def fill(store: SQLiteStore, run_id: str, after: int, size: int) -> int:
    """Append events of this size until the disk is full; returns the last acknowledged one."""
    while True:
        try:
            after = (await store.append(Batch(run_id, 1, after, (event(after + 1, bytes(size)),)))).seq
        except DiskFull:
            return after


async def test_a_run_goes_on_where_it_was_once_there_is_room(tmp_path: Path) -> None:
    """Field case O-079."""
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        await store.create(new_run())
        await store.claim(Claim("w", 300))
        assert store._writer is not None
        connection = store._writer.connection
        assert connection is not None
        pages = connection.pragma("page_count")
        connection.pragma("max_page_count", pages + 10)
        last = await fill(store, "r", 1, 3000)
        assert 5 < last < 15
        with refused(DiskFull):
            await store.append(Batch("r", 1, last, tuple(event(last + n, bytes(3000)) for n in range(1, 9))))
        stored = await store.read("r")
        assert [item.seq for item in stored] == list(range(1, last + 1))
        connection.pragma("max_page_count", pages + 10_000)
        assert await fill_once(store, last) == last + 1
        assert connection.pragma("integrity_check") == "ok"


async def fill_once(store: SQLiteStore, after: int) -> int:
    """One more event."""
    return (await store.append(Batch("r", 1, after, events(after + 1, after + 1)))).seq


async def test_what_does_not_fit_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path, reserve_bytes=0) as store:
        for run_id in ("r", "s", "t"):
            await store.create(new_run(run_id))
        await store.claim(Claim("w", 300, limit=3))
        assert store._writer is not None
        connection = store._writer.connection
        assert connection is not None
        connection.pragma("max_page_count", connection.pragma("page_count") + 3)
        futures = (
            store.append(Batch("r", 1, 1, events(2, 2))),
            store.append(Batch("s", 1, 1, (event(2, bytes(100_000)),))),
            store.append(Batch("t", 0, 1, events(2, 2))),
            store.append(Batch("t", 1, 1, events(2, 2))),
            store.append(Batch("s", 1, 2, events(3, 3))),
        )
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        kinds = [type(outcome).__name__ for outcome in outcomes]
        assert kinds == ["Appended", "DiskFull", "StaleEpoch", "Appended", "SeqConflict"]
        assert [(await store.row(run_id)).seq for run_id in ("r", "s", "t")] == [2, 1, 2]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT TRIED: no right to mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_on_a_full_disk_receipts_and_removals_still_work(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "RECLAIM_SECONDS", 0.0)
    monkeypatch.setattr(wal, "CHECKPOINT_PAGES", 20)  # a log far smaller than the reserve, as by default
    path = small_disk / "runs.db"
    async with opened(path, reserve_bytes=512 << 10) as store:
        for run_id in ("r", "done"):
            await store.create(new_run(run_id))
        await store.claim(Claim("w", 300, limit=2))
        await store.append(Batch("done", 1, 1, tuple(event(seq, bytes(10_000)) for seq in range(2, 60))))
        last = 1
        for size in (20_000, 4_000, 10):
            last = await fill(store, "r", last, size)
        print(f"full after {last} events; {os.statvfs(small_disk).f_bavail * 4096} bytes left")
        assert (await store.stats()).facts["reserve"] == "524288 bytes"
        monkeypatch.setattr(wal, "RECLAIM_SECONDS", 3600.0)
        for _ in range(20):
            last = (await store.append(Batch("r", 1, last, events(last + 1, last + 1), reserve=True))).seq
            with refused(DiskFull):
                await store.append(Batch("r", 1, last, events(last + 1, last + 1)))
        assert "spent, 524288 bytes" in (await store.stats()).facts["reserve"]
        with refused(DiskFull):
            await store.deliver(message("r", "m"))
        with refused(DiskFull):
            await store.create(new_run("s"))
        with refused(StaleEpoch):
            await store.append(Batch("r", 0, last, events(last + 1, last + 1), reserve=True))
        assert await store.renew("w", ["r"], 300) == {"r"}
        assert [item.seq for item in await store.read("r")] == list(range(1, last + 1))
        end = Batch("done", 1, 59, row=RowChange(status="succeeded", terminal=True), reserve=True)
        await store.append(end)
        await store.drop("done", (b"key",))
        monkeypatch.setattr(wal, "RECLAIM_SECONDS", 0.0)
        assert await fill_once(store, last) == last + 1
        assert (await store.stats()).facts["reserve"] == "524288 bytes"
        await store.deliver(message("r", "m"))
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


async def test_a_disk_without_room_for_a_reserve_is_used_all_the_same(small_disk: Path) -> None:
    path = small_disk / "runs.db"
    async with opened(path, reserve_bytes=1 << 30) as store:
        await store.create(new_run())
        await store.claim(Claim("w", 300))
        assert (await store.stats()).facts["reserve"] == "none"
        last = await fill(store, "r", 1, 20_000)
        assert last > 50
        with refused(DiskFull):
            await store.append(Batch("r", 1, last, (event(last + 1, bytes(20_000)),), reserve=True))


def test_a_reserve_takes_what_a_small_disk_can_spare(small_disk: Path) -> None:
    reserve = Reserve(Place(str(small_disk / "runs.db"), reserve_bytes=4 << 20))
    assert reserve.make()
    assert reserve.state() == f"{2 << 20} bytes"
    assert not reserve.spent()
    assert reserve.spend()
    assert not reserve.spend()
    assert reserve.spent()
    assert os.statvfs(small_disk).f_bavail * 4096 == (3 << 20) - 4096
    other = small_disk / "other"
    other.write_bytes(bytes(1200 << 10))
    assert not reserve.make()  # less would mean less again next time
    assert reserve.spent()
    other.unlink()
    assert reserve.make()
    assert not reserve.spent()
