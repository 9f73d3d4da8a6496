"""Two workers, stale epochs: thousands of small worlds in which processes freeze longer than their lease.

A worker that wakes up finds another one in its place. Whatever it still believes, it writes nothing and acts
under nothing but the unchanged key (law 6). The seeds are the report: each replays its world to the last
event. `PERDURE_CRASH_SCALE=10` tries ten times as many.
"""

from __future__ import annotations

import os
import random

import pytest

from perdure.errors import StoreError
from perdure.store.memory import MemoryStore
from perdure.store.protocol import NEVER, Batch
from perdure.store.standing import Standing
from perdure.worker import worker
from tests.laws.programs import Program
from tests.laws.world import Chances, World

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

SEEDS = round(500 * float(os.environ.get("PERDURE_CRASH_SCALE", "1")))

HARD = Chances(kill=0.03, freeze=0.04, cancel=0.0, frozen=(7.0, 12.0))
"""Frozen for longer than a lease of 6 seconds."""


def small(seed: int) -> World:
    """A world with one small run."""
    chance = random.Random(seed)
    calls = [["call", chance.choice(("book", "pay", "look", "move")), n] for n in range(chance.randint(1, 4))]
    program: Program = [calls[:2], calls[2:]]
    if chance.random() < 0.5:
        program = [[["gather", [[call] for call in calls]]]]
    world = World(seed, HARD, workers=2)
    world.run({"r": [step for step in program if step]})
    return world


def test_a_stale_worker_changes_nothing() -> None:
    """All seeds; the figures are printed."""
    kills = freezes = acts = 0
    for seed in range(SEEDS):
        world = small(seed)
        assert not world.found, "\n".join(world.found)
        kills, freezes, acts = kills + world.kills, freezes + world.freezes, acts + len(world.acts)
    print(f"{SEEDS} seeds: {kills} kills, {freezes} freezes longer than the lease, {acts} acts")
    assert freezes > SEEDS
    assert kills > SEEDS / 4


def test_a_lost_lease_is_taken_over_within_a_second_of_its_end() -> None:
    """Every world judges it; here it is seen that there is something to judge."""
    worlds = [small(seed) for seed in range(60)]
    assert [what for world in worlds for what in world.found] == []
    takeovers = [waited for world in worlds for waited in world.takeovers]
    print(f"{len(takeovers)} takeovers, the slowest {max(takeovers):.3f} s after the end of the lease")
    assert len(takeovers) > len(worlds)


def test_control_a_worker_that_looks_too_seldom_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not told when a lease ends, and looks by itself twice a minute."""

    async def never(*_: object, **__: object) -> int:
        return NEVER

    monkeypatch.setattr(MemoryStore, "due", never)
    monkeypatch.setattr(worker, "SCAN_SECONDS", 30.0)
    for seed in range(60):
        if any("after its lease had ended" in what for what in small(seed).found):
            print(f"noticed at seed {seed}")
            return
    pytest.fail("nobody noticed that leases are taken over late")


def test_control_a_removed_fence_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fences of an append, some seed soon shows a stale worker's write."""
    refusal = Standing.refusal

    def unfenced(self: Standing, batch: Batch, now: int) -> StoreError | None:
        found = refusal(self, batch, now)
        return None if found is not None and found.code in ("S109", "S110") else found

    monkeypatch.setattr(Standing, "refusal", unfenced)
    for seed in range(60):
        try:
            offends = bool(small(seed).found)
        except Exception as error:  # noqa: BLE001  (a torn history shows in many ways)
            offends = True
            print(f"seed {seed}: {type(error).__name__}: {error}"[:200])
        if offends:
            print(f"noticed at seed {seed}")
            return
    pytest.fail("nobody noticed that the fences were gone")
