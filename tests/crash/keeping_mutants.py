"""Removal, compaction and import, broken on purpose: each is done in two commits, with a boundary between."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.runtime.boundary import reached
from perdure.store.protocol import Compaction, NewRun, RunRow
from perdure.store.sqlite import SQLiteStore


def removed_in_halves() -> None:
    """The run goes first, what it leaves behind comes after."""
    drop = SQLiteStore.drop

    async def halves(self: SQLiteStore, run_id: str, tombstones: Sequence[bytes] = ()) -> None:
        await drop(self, run_id)
        reached("prune.done")
        await drop(self, run_id, tombstones)

    SQLiteStore.drop = halves  # type: ignore[method-assign]


def compacted_in_halves() -> None:
    """The events go first, what is kept of them comes after."""
    compact = SQLiteStore.compact

    async def halves(self: SQLiteStore, compaction: Compaction) -> None:
        await compact(self, replace(compaction, left=()))
        reached("compact.done")
        await compact(self, compaction)

    SQLiteStore.compact = halves  # type: ignore[method-assign]


def imported_in_halves() -> None:
    """The run comes first without its large values."""
    create = SQLiteStore.create

    async def halves(self: SQLiteStore, run: NewRun) -> tuple[RunRow, bool]:
        made = await create(self, replace(run, blobs=()))
        reached("import.done")
        return made

    SQLiteStore.create = halves  # type: ignore[method-assign]
