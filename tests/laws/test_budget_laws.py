"""Law 7 under contention: a thousand rounds of eight calls at once against one budget, watched from outside.

The outside keeps its own counts while calls are under way: what finished calls used and what those under way
may use at worst never exceeds what the run was given so far. Afterwards the journal is judged by the oracle.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest

from perdure import Budget, Finished, Held, Price, Retry, Runtime, Usage
from perdure.agent import Agent
from perdure.journal import history, load
from perdure.runtime.purse import Purse
from perdure.state.amount import DOLLAR, NOTHING
from perdure.store.memory import MemoryStore
from perdure.testing.account import misread
from perdure.testing.oracle import offences

ROUNDS, AT_ONCE = round(1000 * min(float(os.environ.get("PERDURE_CRASH_SCALE", "1")), 1.0)), 8
SEED = 77
WORST = Usage(60, 40)
PRICE = Price(1000.0, 1000.0)
COST = PRICE.cost(WORST)


class Till:
    """What the outside knows of the money: given to the run, used by calls that ended, at stake in others."""

    def __init__(self, given: int) -> None:
        self.given = given
        self.used = 0
        self.at_stake = 0
        self.crossed: list[int] = []
        self.most = 0
        self.under_way = 0

    def open(self) -> None:
        """A call is sent."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.at_stake += COST
        if self.used + self.at_stake > self.given:
            self.crossed.append(self.used + self.at_stake - self.given)

    def close(self, used: int) -> None:
        """It has ended."""
        self.under_way -= 1
        self.at_stake -= COST
        self.used += used


def crowd(till: Till, chance: random.Random, rounds: int) -> Agent[Any, Any, Any]:
    """Each step asks a model eight times at once; a reply costs up to what was reserved, or fails."""
    agent: Agent[Any, Any, Any] = Agent(
        "crowd", state=dict, start=lambda goal: {"n": 0}, budget=Budget(usd=till.given / DOLLAR)
    )

    @agent.model("small-1", price=PRICE, reserve=WORST, retry=Retry(attempts=20, backoff=0))
    async def chat(n: int) -> dict[str, Any]:
        till.open()
        used = Usage(chance.randint(0, 60), chance.randint(0, 40))
        failed = chance.random() < 0.05
        await asyncio.sleep(0)
        till.close(0 if failed else PRICE.cost(used))
        if failed:
            raise ValueError("refused")
        return {"usage": {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}}

    @agent.step
    async def step(run: Any) -> None:
        await run.map(chat, range(AT_ONCE), limit=AT_ONCE)
        run.state["n"] += 1
        if run.state["n"] == rounds:
            run.finish(rounds)

    return agent


async def contend(rounds: int) -> tuple[Till, list[str], int]:
    """Live through the rounds, with more given whenever the run is held; what offends, and how often held."""
    chance, store = random.Random(SEED), MemoryStore()
    till = Till(3 * COST)
    agent = crowd(till, chance, rounds)
    holds = 0
    async with Runtime(store, [agent]) as runtime:
        while True:
            outcome = await runtime.run(agent, "r", "go")
            if isinstance(outcome, Finished):
                break
            assert isinstance(outcome, Held)
            assert outcome.reason == "over-budget"
            holds += 1
            more = chance.randint(1, 60) * COST
            till.given += more
            await runtime.raise_budget("r", by="ada", usd=more / DOLLAR)
        events = await history(store, "r")
        record = (await load(store, "r")).record
    found = offences(events, []) + misread(events, record)
    if record.spent.usd != till.used:
        found.append(f"it says that it spent {record.spent.usd}, and {till.used} was used")
    return till, found, holds


async def test_a_thousand_rounds_never_cross_the_limit() -> None:
    """At no moment is more at stake than was given, and what is spent is what was used, to the billionth."""
    print(f"seed {SEED}, {ROUNDS} rounds of {AT_ONCE}")
    till, found, holds = await contend(ROUNDS)
    assert found == []
    assert till.crossed == []
    assert till.most == AT_ONCE, "they were at once"
    assert holds > ROUNDS // 40, "the limit was in danger often"
    assert till.at_stake == till.under_way == 0


async def test_control_a_budget_that_is_not_shared_is_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If what others have reserved is not seen, the outside sees the limit crossed."""
    monkeypatch.setattr(Purse, "pledged", lambda purse, record, but: NOTHING)
    monkeypatch.setattr("perdure.runtime.budgets.reserved_of", lambda record: NOTHING)
    till, found, _ = await contend(20)
    assert till.crossed
    assert any("crosses the budget" in what for what in found)
