"""The write-ahead log: it grows beside a long reader, stops nobody, and shrinks when the reader has gone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import apsw
import pytest

from perdure.store.protocol import Batch
from perdure.store.sqlite import wal
from perdure.store.sqlite.connection import WAL_LIMIT_BYTES
from perdure.testing.contract.trial import event, events, new_run
from tests.unit.store.test_sqlite_file import opened

LARGE = bytes(range(256)) * 12


@pytest.mark.slow
async def test_a_long_reader_makes_no_writer_wait_and_the_log_shrinks_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case O-039."""
    monkeypatch.setattr(wal, "CHECKPOINT_RETRY_SECONDS", 0.05)
    path = tmp_path / "runs.db"
    async with opened(path, busy_seconds=2) as store:
        await store.create(new_run())
        reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM perdure_event").get == 1
        longest = 0.0
        for start in range(1, 6001, 100):
            began = time.monotonic()
            futures = [
                store.append(Batch("r", 0, seq, (event(seq + 1, LARGE),)))
                for seq in range(start, start + 100)
            ]
            await asyncio.gather(*futures)
            longest = max(longest, time.monotonic() - began)
        stats = await store.stats()
        print(f"beside the reader: log {stats.wal_bytes} bytes, longest wait {longest:.3f} s")
        assert stats.wal_bytes > 2 * WAL_LIMIT_BYTES
        assert stats.facts["wal_held_by_reader"].startswith("for ")
        assert reader.execute("SELECT count(*) FROM perdure_event").get == 1
        reader.execute("COMMIT")
        reader.close()
        for seq in range(6001, 6004):
            await asyncio.sleep(0.1)
            await store.append(Batch("r", 0, seq, events(seq + 1, seq + 1)))
        stats = await store.stats()
        assert stats.wal_bytes <= WAL_LIMIT_BYTES
        assert stats.facts["wal_held_by_reader"] == "no"
        assert len(await store.read("r", limit=10_000)) == 6004


async def test_the_log_is_brought_home_as_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "CHECKPOINT_PAGES", 20)
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        await store.create(new_run())
        for seq in range(1, 301):
            await store.append(Batch("r", 0, seq, (event(seq + 1, LARGE),)))
        stats = await store.stats()
        assert stats.wal_bytes < 60 * 4096 < stats.file_bytes, (stats.wal_bytes, stats.file_bytes)
