"""The encrypted store keeps the contract, over every kind of store."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from perdure.clock import Clock
from perdure.store import MemoryStore, SQLiteStore
from perdure.store.master import MORE_BYTES
from perdure.store.protocol import Store
from perdure.store.sealed import SealedStore
from perdure.testing.contract import StoreContract
from perdure.testing.contract.appends import EventPromises
from perdure.testing.contract.compaction import CompactionPromises
from perdure.testing.contract.kept import KeptPromises
from perdure.testing.contract.messages import MessagePromises
from perdure.testing.contract.trial import Promises
from tests.database import PLACE


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEY", base64.b64encode(b"k" * 32).decode())


class Sealed(Promises):
    """Whoever counts its bytes finds more than were given."""

    def size(self, data: bytes, digest: bytes | None = None) -> int:
        return len(data) + MORE_BYTES + (0 if digest is None else 1 + len(digest))


class TestSealedMemory(Sealed, StoreContract):
    """Gone with its process."""

    shared = False

    def new_store(self, folder: Path, clock: Clock) -> Store:
        return SealedStore(MemoryStore(clock=clock))


class TestSealedSQLite(Sealed, StoreContract):
    """One file."""

    def new_store(self, folder: Path, clock: Clock) -> Store:
        return SealedStore(SQLiteStore(folder / "runs.db", clock=clock))


@pytest.mark.postgres
class TestSealedPostgres(Sealed, EventPromises, MessagePromises, CompactionPromises, KeptPromises):
    """One database: what has to do with content."""

    def new_store(self, folder: Path, clock: Clock) -> Store:
        from perdure.store.postgres import PostgresStore

        return SealedStore(PostgresStore(PLACE.at(folder), clock=clock))
