"""A thousand bits, one at a time, of every kind of bytes that a store keeps, in files and in databases."""

from __future__ import annotations

import asyncio
from collections import Counter

from soak.order import Order, Outcome
from tests.database import PLACE
from tests.laws.flips import PLACES, trial

TRIALS = 1000


def sweep(order: Order) -> Outcome:
    """One trial after the other; every fourth in a database."""
    tried, offences = Counter[str](), list[str]()
    for number in range(max(round(TRIALS * order.share), len(PLACES))):
        where, seed = PLACES[number % len(PLACES)], order.seed + number
        folder = order.folder / str(number)
        folder.mkdir()
        kind = "database" if number % 4 == 3 else "file"
        place = PLACE.at(folder) if kind == "database" else folder / "runs.db"
        wrong = asyncio.run(trial(place, where, seed))
        tried[f"{kind}: {where}"] += wrong is not None
        offences += [f"{where}, {kind}, seed {seed}: {what}" for what in wrong or ()]
    return Outcome({"trials": sum(tried.values()), "kinds": len(tried)}, offences)
