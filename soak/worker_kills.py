"""A thousand times a worker process on SQLite that drives two dozen runs is killed at a random moment."""

from __future__ import annotations

from perdure.testing.crash.pool import run_all
from soak.order import WORKERS, Order, Outcome
from tests.crash import scenarios

KILLS = 1000


def sweep(order: Order) -> Outcome:
    """Storms side by side, each with a seed of its own."""
    kills = max(10, order.of(KILLS) // WORKERS)
    fit = [one for one in scenarios.ALL if not one.kin and one.name != "deployed"]
    items = [f"tests.crash.scenarios:{one.name}" for one in fit]
    each = ["--kills", str(kills), "--longest", "0.25"]
    seeds = range(order.seed, order.seed + WORKERS)
    storms = run_all(
        [
            ["storm", *items, *each, "--seed", str(seed), "--folder", str(order.folder / str(seed))]
            for seed in seeds
        ]
    )
    names = ("kills", "unknowns", "acknowledged")
    figures: dict[str, object] = {name: sum(storm[name] for storm in storms) for name in names}
    found = [f"storm of seed {storm['seed']}: {what}" for storm in storms for what in storm["offences"]]
    return Outcome(figures, found)
