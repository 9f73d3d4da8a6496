"""A thousand kills of whole runs on PostgreSQL, at points drawn from the seed, each resumed and judged."""

from __future__ import annotations

import json

from soak.order import Order, Outcome, module
from tests.crash import database
from tests.database import new_database

KILLS = 1000


def sweep(order: Order) -> Outcome:
    """Some scenarios, so many trials each; where a scenario has fewer points, each point again."""
    figures: dict[str, object] = {}
    kills, unknowns, found, number = 0, 0, list[str](), 0
    while kills < order.of(KILLS):
        folder = order.folder / str(number)
        folder.mkdir()
        each = min(100, order.of(KILLS) // len(database.NAMES) + 1)
        said = module("tests.crash.database", new_database(), folder, each, order.seed + number)
        for one in map(json.loads, said.splitlines()):
            kills, unknowns = kills + one["killed"], unknowns + one["unknowns"]
            found += [f"seed {order.seed + number}, {one['scenario']}: {what}" for what in one["offences"]]
        number += 1
    figures |= {"kills": kills, "unknowns": unknowns}
    return Outcome(figures, found)
