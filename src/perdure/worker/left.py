"""What a worker left behind when it ended: runs whose calls have begun, and nobody knows how they went.

Read from the store, so that it is what the next worker will find.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from perdure.errors import PerdureError
from perdure.journal import load
from perdure.store.protocol import Store


class Left(Struct, frozen=True):
    """A run that was left in the middle: its calls that have no known outcome, as `PATH TOOL (EFFECT)`."""

    run_id: str
    calls: tuple[str, ...]


async def left_open(store: Store, run_ids: Iterable[str]) -> tuple[Left, ...]:
    """Those of these runs in which a call has no known outcome; one that cannot be read is named without."""
    found = []
    for run_id in run_ids:
        try:
            record = (await load(store, run_id)).record
        except PerdureError:
            found.append(Left(run_id, ()))
            continue
        calls = tuple(
            f"{call.path} {call.name} ({call.effect})"
            for call in record.calls.values()
            if call.standing in ("open", "unknown") and call.effect != "read"
        )
        if calls:
            found.append(Left(run_id, calls))
    return tuple(found)
