"""A look at a store's file between two lives of a process: what is durable, read without the engine's
threads.

It opens the file as any reader would after a crash, verifies the chain, the snapshots and the blobs of a
run, and folds its events. It writes nothing and can be used before a fork, since nothing of it stays open.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import apsw

from perdure import codec
from perdure.clock import SYSTEM
from perdure.errors import NoSuchRun, StoreReadOnly
from perdure.journal import Verification, history, verify
from perdure.state import events as e
from perdure.state.fold import fold_all
from perdure.state.record import RunRecord
from perdure.store.protocol import RunRow, Snapshot, Store, Stored
from perdure.store.sqlite import reads
from perdure.store.sqlite.connection import check_tables, open_reader
from perdure.store.standing import Standing

BUSY_SECONDS = 5.0
"""How long a look waits for a writer."""


@dataclass(frozen=True, slots=True)
class Look:
    """One run as it lies on disk. `digests` are the chain digests by event number."""

    row: RunRow
    verification: Verification
    events: tuple[e.Event, ...]
    digests: dict[int, str]
    record: RunRecord


class _Reading:
    """The reading verbs that `history` and `verify` need: a store's own, on an open connection."""

    def __init__(self, verbs: Any, connection: Any) -> None:
        self._verbs = verbs
        self._connection = connection

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> tuple[Stored, ...]:
        found: tuple[Stored, ...] = self._verbs.read(self._connection, run_id, after, limit)
        return found

    async def snapshots(self, run_id: str) -> tuple[Snapshot, ...]:
        found: tuple[Snapshot, ...] = self._verbs.snapshots(self._connection, run_id)
        return found

    async def blob(self, run_id: str, digest: bytes) -> bytes:
        found: bytes = self._verbs.blob(self._connection, run_id, digest)
        return found

    async def row(self, run_id: str) -> RunRow:
        standing: Standing = self._verbs.find(self._connection, run_id)[1]
        return standing.row(SYSTEM.now())


def look(path: Path | str, run_id: str) -> Look | None:
    """The run in the store at `path`; None if there is no such store or run. Raises Damaged."""
    found = look_all(path, (run_id,))
    return found.get(run_id)


def look_all(path: Path | str, run_ids: tuple[str, ...]) -> dict[str, Look]:
    """Those of these runs that the store at `path`, a file or a database's address, holds. Raises Damaged."""
    if isinstance(path, str):
        return _look_at_database(path, run_ids)
    if not path.exists() or not path.stat().st_size:
        return {}
    connection = _open(path)
    try:
        if not check_tables(connection, str(path)):
            return {}
        return asyncio.run(_look(_Reading(reads, connection), run_ids))
    finally:
        connection.close(True)


def _look_at_database(address: str, run_ids: tuple[str, ...]) -> dict[str, Look]:
    from perdure.store.postgres import reads as verbs
    from perdure.store.postgres import schema
    from perdure.store.postgres.address import parsed
    from perdure.store.postgres.connection import Link

    link = Link(parsed(address), look=True, patience_seconds=BUSY_SECONDS)
    connection = link.open()
    try:
        if not schema.version(connection, address):
            return {}
        return asyncio.run(_look(_Reading(verbs, connection), run_ids))
    finally:
        connection.close()
        link.limit.close()


def _open(path: Path) -> apsw.Connection:
    """A reading connection; a file that was killed while it was being made is first put right by a writing
    one.
    """
    try:
        return open_reader(str(path), BUSY_SECONDS)
    except StoreReadOnly:
        writing = apsw.Connection(str(path))
        writing.pragma("user_version")
        writing.close(True)
        return open_reader(str(path), BUSY_SECONDS)


async def _look(reading: _Reading, run_ids: tuple[str, ...]) -> dict[str, Look]:
    store = cast(Store, reading)
    found: dict[str, Look] = {}
    for run_id in run_ids:
        try:
            row = await store.row(run_id)
        except NoSuchRun:
            continue
        stored = await store.read(run_id, 0, 1 << 30)
        events = await history(store, run_id)
        found[run_id] = Look(
            row,
            await verify(store, run_id),
            tuple(events),
            {item.seq: item.digest.hex() for item in stored},
            fold_all(RunRecord(), events, codec.decode),
        )
    return found
