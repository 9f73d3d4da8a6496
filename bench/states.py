"""A long conversation by the kind of its messages: what finding a step's changes costs, and no more."""

from __future__ import annotations

import statistics

from bench.room import Room
from bench.state import CASES, Trial
from bench.table import Line

GROUP = "State of 5,000 messages: argument, patch, commit"
LENGTH = 5000
ROUNDS = 30


async def measure(room: Room) -> None:
    """Every kind of state in `bench.state`, interleaved."""
    trials = [Trial(case, LENGTH) for case in CASES]
    paces: list[float] = []
    for _ in range(3 + ROUNDS):
        paces.append(room.pace.look())
        for trial in trials:
            trial.step()
    for trial in trials:
        parts = (trial.times[name][3:] for name in ("argument", "patch", "commit"))
        took = [sum(step) for step in zip(*parts, strict=True)]
        quiet = room.scaled(took, paces[3:])
        room.lines.append(Line(GROUP, trial.case.name, "µs", statistics.median(took), quiet))
