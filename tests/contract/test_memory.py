"""The store in memory keeps the contract, except to outlive its process."""

from __future__ import annotations

from pathlib import Path

from perdure.clock import Clock
from perdure.store import MemoryStore
from perdure.testing.contract import StoreContract


class TestMemory(StoreContract):
    """Gone with its process."""

    shared = False

    def new_store(self, folder: Path, clock: Clock) -> MemoryStore:
        return MemoryStore(clock=clock)
