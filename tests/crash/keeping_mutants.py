"""Removal, compaction, import and fork, broken on purpose: two commits, with a boundary between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from perdure.runtime.boundary import reached
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Compaction, NewRun, RunRow
from perdure.store.sqlite import SQLiteStore

STORES: tuple[Any, ...] = (SQLiteStore, PostgresStore)


def removed_in_halves() -> None:
    """The run goes first, what it leaves behind comes after."""
    for kind in STORES:
        drop = kind.drop

        async def halves(
            self: Any, run_id: str, tombstones: Sequence[bytes] = (), *, drop: Any = drop
        ) -> bool:
            await drop(self, run_id)
            reached("prune.done")
            await drop(self, run_id, tombstones)
            return True

        kind.drop = halves


def compacted_in_halves() -> None:
    """The events go first, what is kept of them comes after."""
    for kind in STORES:
        compact = kind.compact

        async def halves(self: Any, compaction: Compaction, *, compact: Any = compact) -> None:
            await compact(self, replace(compaction, left=()))
            reached("compact.done")
            await compact(self, compaction)

        kind.compact = halves


def made_in_halves(boundary: str) -> None:
    """The run comes first without its large values."""
    for kind in STORES:
        create = kind.create

        async def halves(self: Any, run: NewRun, *, create: Any = create) -> tuple[RunRow, bool]:
            made: tuple[RunRow, bool] = await create(self, replace(run, blobs=()))
            reached(boundary)
            return made

        kind.create = halves


def imported_in_halves() -> None:
    """An imported run."""
    made_in_halves("import.done")


def forked_in_halves() -> None:
    """A fork."""
    made_in_halves("fork.created")
