"""The PostgreSQL store keeps the contract."""

from __future__ import annotations

from pathlib import Path

from perdure.clock import Clock
from perdure.store.postgres import PostgresStore
from perdure.testing.contract import StoreContract
from tests.database import PLACE


class TestPostgres(StoreContract):
    """One database."""

    def new_store(self, folder: Path, clock: Clock) -> PostgresStore:
        return PostgresStore(PLACE.at(folder), clock=clock)
