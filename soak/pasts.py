"""The state at every point of a thousand random histories, with any snapshots and after compactions."""

from __future__ import annotations

import asyncio
from pathlib import Path

from perdure.store import SQLiteStore
from perdure.store.memory import MemoryStore
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Store
from soak.order import Order, Outcome
from tests.database import PLACE
from tests.laws.test_damage_laws import lived
from tests.laws.test_past_laws import cuts_of, wrong_after, wrong_points

HISTORIES = 1000


def sweep(order: Order) -> Outcome:
    """Each history in memory, every tenth in a file, every twentieth in a database."""
    points, offences = 0, list[str]()
    count = max(round(HISTORIES * order.share), 1)
    for number in range(count):
        seed, every = order.seed + number, (0, 1, 2, 3, 7, 20)[number % 6]
        events, _ = lived(seed)
        cuts = cuts_of(seed, len(events))
        kinds = ["memory"] + ["file"] * (number % 10 == 0) + ["database"] * (number % 20 == 0)
        for kind in kinds:
            wrong = list[str]()
            for turn in ("whole", "compacted"):  # one after the other: a database has one place at a time
                (folder := order.folder / f"{number}-{kind}-{turn}").mkdir()
                store = _store(kind, folder)
                if turn == "whole":
                    wrong += [f"@{seq}" for seq in asyncio.run(wrong_points(store, events, every))]
                else:
                    wrong += asyncio.run(wrong_after(store, events, every, cuts))
            points += 4 * len(events)
            offences += [f"seed {seed}, every {every}, cuts {cuts}, {kind}: {what}" for what in wrong]
    return Outcome({"histories": count, "points": points}, offences)


def _store(kind: str, folder: Path) -> Store:
    if kind == "memory":
        return MemoryStore()
    return SQLiteStore(folder / "runs.db") if kind == "file" else PostgresStore(PLACE.at(folder))
