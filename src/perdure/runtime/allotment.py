"""A child's part of its parent's budget: reserved when it is spawned, what it left comes back with its end.

Law 7 for families: whatever the parent is limited in, the child is too, by a part of what is left. Without
limits of its own a child gets all that is left, but for one step and half of the time, which its parent needs
to go on. Who comes too late for a part waits until a child has given back.
"""

from __future__ import annotations

from typing import Any

from perdure.runtime import budgets
from perdure.runtime.execution import Execution, here
from perdure.state.amount import KINDS, Amount, Kind, Limits
from perdure.store.protocol import NEVER


async def allot(execution: Execution, path: str, own: Limits | None) -> tuple[Limits | None, Amount | None]:
    """The limits of the child that is spawned at `path`, and what is reserved for it. `own`: its own limits.

    Unwinds where the parent cannot give so much: for good, or until a child has ended.
    """
    drive, branch = execution.drive, here(execution)
    if drive.record.ledger is None:
        return own, None
    room = budgets.room_of(drive, path)
    part = {kind: _part(own, kind, left) for kind, left in room.items()}
    short = any(part[kind] > max(left, 0) for kind, left in room.items())
    if short and budgets.gives_back(execution, path):
        execution.suspend(branch, NEVER, "waits for what a child leaves of the budget")
    held = await budgets.carve(drive, path, Amount(**part))
    if held is not None:
        execution.hold(branch, held)
    execution.spawning.add(path)
    limits: dict[str, Any] = {} if own is None else {kind: own.of(kind) for kind in KINDS}
    limits.update({str(kind): amount for kind, amount in part.items()})
    return Limits(**limits, own=() if own is None else own.own), Amount(**part)


def _part(own: Limits | None, kind: Kind, left: int) -> int:
    if own is not None and (limit := own.of(kind)) is not None:
        return limit
    match kind:
        case "steps":
            return max(left - 1, 1)
        case "micros":
            return max(left // 2, 1)
        case _:
            return max(left, 1)
