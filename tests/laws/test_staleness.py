"""The staleness law: how often a pause makes an act rest on what is no longer true, with and without a check.

A fact that changes with 2 % chance in each hour is another one after a pause of h hours with 1 - 0.98**h; a
part of an hour counts as one. Each run looks, pauses, and acts, over the real engine and a clock that a test
moves. Seeded: the shares are the same each time; they are within 5 points of the law for 400 runs.
"""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure.agent import Agent
from perdure.errors import PremiseChanged
from tests.unit.runtime.desk import Desk, in_memory

RUNS = 400
RATE = 0.02
TOLERANCE = 0.05
SEED = 38


class World:
    """Orders that are cancelled at the end of some hour, if they live so long."""

    def __init__(self, place: Desk) -> None:
        chance = random.Random(SEED)
        self.place, self.began = place, place.clock.now()
        self.ends = [1 + int(math.log(1 - chance.random()) / math.log(1 - RATE)) for _ in range(RUNS)]
        self.reads = self.told = self.false = self.acts = 0

    def status(self, number: int) -> str:
        """What is true of an order now."""
        hours = math.ceil((self.place.clock.now() - self.began) / 3_600_000_000)
        return "cancelled" if self.ends[number] <= hours else "paid"

    def agent(self, *, checked: bool, hours: float) -> Agent[Any, Any, Any]:
        """Looks, sleeps, acts."""

        @perdure.fact(fresh_for=timedelta(days=365))
        async def order(number: int) -> str:
            self.reads += 1
            return self.status(number)

        @perdure.tool(effect="irreversible", premises=[order] if checked else [])
        async def ship(number: int) -> None:
            self.acts += 1
            self.false += self.status(number) != "paid"

        made: Agent[Any, Any, Any] = Agent(
            "shop", state=dict, goal=int, start=lambda goal: {}, tools=[order, ship]
        )

        @made.step
        async def step(run: Any) -> None:
            if await order(run.goal) != "paid":
                run.finish("not paid")
                return
            await run.sleep(timedelta(hours=hours))
            try:
                await ship(run.goal)
            except PremiseChanged:
                self.told += 1
            run.finish("ended")

        return made


@pytest.mark.parametrize("hours", [0.5, 24, 72])
@pytest.mark.parametrize("checked", [False, True])
async def test_the_staleness_law(hours: float, checked: bool) -> None:
    """38 % of the acts after a day and 77 % after three are false without the check, and none with it, at one
    read for each resume.
    """
    place = in_memory()
    world = World(place)
    made = world.agent(checked=checked, hours=hours)
    async with place.runtime(made) as runtime:
        for number in range(RUNS):
            await runtime.run(made, f"r-{number}", number, patience=timedelta(0))
        assert world.reads == RUNS
        place.clock.advance(hours * 3600)
        for number in range(RUNS):
            outcome = await runtime.run(made, f"r-{number}", number, patience=timedelta(0))
            assert outcome.status == "succeeded"
    due = 1 - (1 - RATE) ** math.ceil(hours)
    stale = (world.told if checked else world.false) / RUNS
    print(f"seed {SEED}: after {hours} h {stale:.3f} of {RUNS} premises are false, due {due:.3f}")
    assert stale == pytest.approx(due, abs=TOLERANCE)
    assert world.reads == (2 if checked else 1) * RUNS
    if checked:
        assert world.false == 0
        assert world.acts == RUNS - world.told
    else:
        assert world.acts == RUNS
