"""The law of premises over random histories: no act on a fact that was another one at its last check.

A run looks at facts, pauses, and acts on what it believes, side by side and one after the other; the facts
change at random boundaries of the engine, and the process dies at others. Two judges: the outside, which
compares what an act believed with what the newest reading said, and when and by whom it was read; and the
journal by itself (`perdure.testing.grounds`).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import perdure
from perdure.agent import Agent, Done, NotDone, current_call
from perdure.clock import SECOND
from perdure.errors import PremiseChanged
from perdure.runtime import premises
from perdure.runtime.boundary import set_hook
from perdure.testing.grounds import unfounded
from perdure.testing.oracle import offences
from tests.unit.runtime.stage import LEASE, RUN, AnyAgent, Crash, Stage, World, build

EXAMPLES = round(150 * float(os.environ.get("PERDURE_CRASH_SCALE", "1")))
FACTS = ("price", "stock", "owner")
LIVES = 400
BESIDE = 1000
"""Places from here on are those of acts that are made beside one another."""


@dataclass
class Market:
    """Facts that change, and everybody who looks at them. `crash`, `change`: chances at each boundary."""

    seed: int
    crash: float
    change: float

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.values = dict.fromkeys(FACTS, 0)
        self.fresh = {name: self.chance.choice((1.0, 20.0, 3600.0)) for name in FACTS}
        self.world = World()
        self.stage: Stage = build("memory", Path())
        self.life, self.died = 0, -1
        self.read: dict[str, tuple[int, int, int]] = {}
        """By fact: value, moment and life of its newest reading."""
        self.values_read: dict[str, set[int]] = {name: set() for name in FACTS}
        """By fact: the values that this life has read."""
        self.found: list[str] = []
        self.seen: Counter[str] = Counter()

    def __call__(self, name: str) -> None:
        """What happens at a boundary. A process that has died does nothing more, in none of its branches."""
        if self.died == self.life:
            raise Crash(name)
        if self.chance.random() < self.change:
            self.values[self.chance.choice(FACTS)] += 1
            self.seen["changes"] += 1
        if self.life < LIVES // 2 and self.chance.random() < self.crash:
            self.seen["crashes"] += 1
            self.died = self.life
            raise Crash(name)

    def judge(self, premised: tuple[str, ...], believed: dict[str, Any], *, alone: bool) -> None:
        """An act is made now, by a caller who believes this.

        Beside a sibling, which may read a fact anew when this act is intended already, it may rest on any
        reading of this process; the journal's own judge knows which came first.
        """
        self.seen["acts"] += 1
        for name in premised:
            value, at, life = self.read.get(name, (-1, 0, -1))
            age = (self.stage.clock.now() - at) / SECOND
            if life != self.life:
                self.found.append(f"acted on {name}, which this process had not read")
            if age > self.fresh[name] + 1:
                self.found.append(f"acted on {name} as it was {age} s ago, fresh for {self.fresh[name]}")
            known = {value} if alone else self.values_read[name]
            if name in believed and believed[name] not in known:
                self.found.append(f"acted believing {name} is {believed[name]}, and it was read as {value}")


def _fact(market: Market, name: str) -> Any:
    async def look() -> int:
        if market.read.get(name, (0, 0, -1))[2] != market.life:
            market.values_read[name].clear()
        market.values_read[name].add(market.values[name])
        market.read[name] = (market.values[name], market.stage.clock.now(), market.life)
        return market.values[name]

    look.__name__ = look.__qualname__ = name
    return perdure.fact(fresh_for=timedelta(seconds=market.fresh[name]))(look)


def _deed(market: Market, number: int, effect: Any, facts: dict[str, Any]) -> Any:
    premised = tuple(market.chance.sample(FACTS, market.chance.randint(1, 2)))

    @perdure.tool(name=f"deed_{number}", effect=effect, premises=[facts[name] for name in premised])
    async def deed(believed: dict[str, int], place: int) -> str:
        market.judge(premised, believed, alone=place < BESIDE)
        return str(market.world.act(f"done {place}"))

    if effect == "irreversible":

        @deed.reconcile
        async def done(believed: dict[str, int], place: int) -> Done[str] | NotDone:
            told = market.world.find(current_call().key)
            return Done(told) if told else NotDone()

    return deed


@dataclass
class Clerk:
    """The agent: a plan is data, drawn before it runs."""

    market: Market
    plan: list[list[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = self.market.chance
        self.facts = {name: _fact(self.market, name) for name in FACTS}
        effects = ("irreversible", "idempotent", "irreversible")
        self.deeds = [_deed(self.market, n, effect, self.facts) for n, effect in enumerate(effects)]
        for _ in range(chance.randint(2, 7)):
            self.plan.append(
                chance.choice(
                    (
                        ["look", chance.choice(FACTS)],
                        ["sleep", chance.choice((0, 5, 50))],
                        ["deed", chance.randrange(3)],
                        ["deed", chance.randrange(3)],
                        ["both", chance.randrange(3), chance.randrange(3)],
                        ["commit"],
                    )
                )
            )

    def agent(self) -> Any:
        """As each process declares it."""

        async def deed(run: Any, number: int, place: int) -> str:
            believed = run.state["believed"]  # told once, it is known to every call that is asked for later
            for _ in range(1000):
                try:
                    return str(await self.deeds[number](dict(believed), place))
                except PremiseChanged as changed:
                    self.market.seen["told"] += 1
                    believed[changed.fact] = changed.now
            raise AssertionError("it changes for ever")

        async def step(run: Any) -> None:
            state = run.state
            while state["at"] < len(self.plan):
                at, (what, *how) = state["at"], self.plan[state["at"]]
                state["at"] += 1
                if what == "look":
                    state["believed"][how[0]] = await self.facts[how[0]]()
                elif what == "sleep":
                    await run.sleep(how[0])
                elif what == "deed":
                    state["log"].append(await deed(run, how[0], at))
                elif what == "both":
                    state["log"] += await run.gather(
                        deed(run, how[0], BESIDE + at), deed(run, how[1], 2 * BESIDE + at)
                    )
                else:
                    return
            run.finish(len(state["log"]))

        tools = [*self.facts.values(), *self.deeds]
        begin: Any = lambda goal: {"log": [], "at": 0, "believed": {}}  # noqa: E731
        made: AnyAgent = Agent("clerk", state=dict, goal=object, start=begin, tools=tools)
        made.step(step)
        return made


async def _lived(seed: int, crash: float, change: float) -> Market:
    """A whole history; afterwards `found` says what should not be."""
    market = Market(seed, crash, change)
    clerk, stage = Clerk(market), market.stage
    await stage.store.open()
    outcome: Any = None
    for market.life in range(LIVES):
        set_hook(market)
        try:
            with suppress(Crash):
                outcome = await stage.run(clerk.agent())
        finally:
            set_hook(None)
        if outcome is not None and outcome.status == "held":
            await _help(market, clerk, outcome)
        elif outcome is not None and outcome.status == "succeeded":
            break
        stage.clock.advance(LEASE + 1)
        outcome = None
    else:
        market.found.append(f"it does not end: {outcome}")
    events = await stage.events()
    market.found += [*offences(events, market.world.acts), *unfounded(events)]
    market.found = [f"seed {seed}: {what} (plan {clerk.plan})" for what in market.found]
    await stage.close()
    return market


async def _help(market: Market, clerk: Clerk, held: Any) -> None:
    """A person who says what is true."""
    record = await market.stage.record()
    async with market.stage.runtime(clerk.agent()) as place:
        if held.reason == "unknown-outcome" and record.held is not None:
            call = record.calls[record.held.path]
            told = market.world.find(call.key)
            verdict: dict[str, Any] = {"not_done": True} if told is None else {"done": told}
            await place.resolve(RUN, call.path, by="ana", **verdict)
        else:
            await place.release(RUN, by="ana")


@given(
    seed=st.integers(0, 1 << 32),
    crash=st.sampled_from((0.0, 0.01, 0.05)),
    change=st.sampled_from((0.0, 0.02, 0.1)),
)
@settings(max_examples=EXAMPLES, phases=(Phase.generate,))
async def test_nothing_is_done_on_what_was_no_longer_true(seed: int, crash: float, change: float) -> None:
    """Whatever changes, and wherever it dies."""
    market = await _lived(seed, crash, change)
    assert not market.found, "\n".join(market.found)


async def test_facts_that_change_together_are_told_one_after_the_other() -> None:
    """An agent that heeds the fact which it is told of acts on no other that is out of date."""
    market = await _lived(3295, 0.05, 0.1)
    assert not market.found, "\n".join(market.found)


async def test_the_histories_are_hard_enough() -> None:
    """Facts change under acts, and acts are told so."""
    seen: Counter[str] = Counter()
    for seed in range(25):
        market = await _lived(seed, 0.03, 0.05)
        assert not market.found, "\n".join(market.found)
        seen.update(market.seen)
    assert min(seen[what] for what in ("crashes", "changes", "acts", "told")) > 10, seen


async def _first_offence(words: str) -> str:
    for seed in range(40):
        market = await _lived(seed, 0.03, 0.1)
        for said in market.found:
            if words in said:
                return said
    return ""


async def test_control_premises_that_are_not_asked_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def skip(wanted: Any) -> None:
        return

    monkeypatch.setattr(premises, "rest", skip)
    assert await _first_offence("acted on")
