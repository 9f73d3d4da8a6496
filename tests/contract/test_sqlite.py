"""The SQLite store keeps the contract."""

from __future__ import annotations

from pathlib import Path

from perdure.clock import Clock
from perdure.store import SQLiteStore
from perdure.testing.contract import StoreContract


class TestSQLite(StoreContract):
    """One file."""

    def new_store(self, folder: Path, clock: Clock) -> SQLiteStore:
        return SQLiteStore(folder / "runs.db", clock=clock)
