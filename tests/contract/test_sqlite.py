"""The SQLite store keeps the contract."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure.clock import Clock
from perdure.store import SQLiteStore
from perdure.store.protocol import Appended, Batch
from perdure.store.sqlite import writer
from perdure.testing.contract import StoreContract


class TestSQLite(StoreContract):
    """One file."""

    def new_store(self, folder: Path, clock: Clock) -> SQLiteStore:
        return SQLiteStore(folder / "runs.db", clock=clock)


class AtOnce(SQLiteStore):
    """A store whose every append is urgent, and comes from the run that wrote last."""

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        self._last = batch.run_id
        return super().append(replace(batch, urgent=True))


class TestSQLiteAtOnce(StoreContract):
    """One file, to which the event loop's own thread writes wherever it may."""

    @pytest.fixture(autouse=True)
    def _always_brief(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writer, "BRIEF_SECONDS", 3600.0)

    def new_store(self, folder: Path, clock: Clock) -> SQLiteStore:
        return AtOnce(folder / "runs.db", clock=clock)
