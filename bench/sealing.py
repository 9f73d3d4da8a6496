"""What an encrypted store costs beside one in the clear: a step, a load, the bytes, and another key for all.

Both sides of each ratio are the same run, interleaved, in processor time of the whole process.
"""

from __future__ import annotations

import base64
import os
import time
from dataclasses import dataclass

from bench.desks import Plan
from bench.room import Room, ride, use
from bench.table import Line
from perdure import Runtime
from perdure.journal import load
from perdure.store import SQLiteStore, Store
from perdure.store.protocol import Query
from perdure.store.sealed import SealedStore
from perdure.timeline.rotation import rotate

GROUP = "An encrypted store"

STEPS = 200
LOADS = 20


async def measure(room: Room) -> None:
    """Runs in the clear and sealed by turns; then one large store under another key."""
    keys = [base64.b64encode(os.urandom(32)).decode() for _ in range(2)]
    before = os.environ.get("PERDURE_KEY")
    os.environ["PERDURE_KEY"] = keys[0]
    try:
        await _steps(room)
        await _rotation(room, keys)
    finally:
        os.environ.pop("PERDURE_KEY")
        if before is not None:
            os.environ["PERDURE_KEY"] = before


async def _steps(room: Room) -> None:
    for name, plan in {"effects": Plan(STEPS), "step": Plan(STEPS, durability="step")}.items():
        plain, sealed = list[_Cost](), list[_Cost]()
        for _ in range(max(room.rounds, 3)):
            plain.append(await _cost(room, plan.anew(), SQLiteStore(room.path())))
            sealed.append(await _cost(room, plan.anew(), SealedStore(SQLiteStore(room.path()))))
        steps = _quiet(room, sealed, "step") / _quiet(room, plain, "step")
        what = f"{name}, 200 messages: processor time of a step, divided by that in the clear"
        room.lines.append(Line(GROUP, what, "x", steps, most=1.3))
        if name == "effects":
            loads = _quiet(room, sealed, "load") / _quiet(room, plain, "load")
            room.lines.append(Line(GROUP, "a load of the run, divided by one in the clear", "x", loads))
            size = sealed[0].size / plain[0].size
            room.lines.append(Line(GROUP, "bytes of the run, divided by those in the clear", "x", size))


@dataclass
class _Cost:
    """Microseconds of a step, of a load of the whole run, and the pace beside them; the run's bytes."""

    step: float
    load: float
    pace: float
    size: int


def _quiet(room: Room, costs: list[_Cost], what: str) -> float:
    return room.scaled([getattr(cost, what) for cost in costs], [cost.pace for cost in costs])


async def _cost(room: Room, plan: Plan, store: Store) -> _Cost:
    async with Runtime(store) as runtime:
        await store.open()
        try:
            await use(store)
            one = await ride(room, plan, runtime)
            [row] = [row for row in await store.list(Query()) if row.agent != "use"]
            begun = time.process_time()
            for _ in range(LOADS):
                await load(store, row.run_id)
            spent = (time.process_time() - begun) / LOADS * 1e6
            size = (await store.sizes([row.run_id]))[row.run_id]
            return _Cost(one.part(0, plan.steps).process, spent, one.pace, size)
        finally:
            await store.close()


async def _rotation(room: Room, keys: list[str]) -> None:
    inner = SQLiteStore(room.path())
    store = SealedStore(inner)
    async with Runtime(store) as runtime:
        await store.open()
        for _ in range(5):
            await ride(room, Plan(STEPS), runtime)
    os.environ["PERDURE_KEY"] = f"{keys[1]},{keys[0]}"
    begun = time.perf_counter()
    found = await rotate(inner)
    took = time.perf_counter() - begun
    await store.close()
    note = f"{found.written:,} values; each in a transaction of its page, read through twice"
    room.lines.append(Line(GROUP, "values under another key", "/s", found.written / took, note=note))
