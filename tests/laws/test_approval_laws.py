"""Laws 8 and 17 where people race: a thousand requests, each decided by several at once; one of them wins.

The seed is printed; `PERDURE_RACES` sets how many requests there are.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from perdure.agent import Agent, Approval, Principal, current_call
from perdure.errors import ApprovalError, RunEnded
from perdure.host import Runtime
from perdure.journal import history
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Query
from perdure.testing.clock import MovableClock
from perdure.testing.permits import Permits

SEED = 8
RACES = int(os.environ.get("PERDURE_RACES", "1000"))
TOGETHER = 50
HOUR = 3600.0


@dataclass(frozen=True)
class Word:
    """What one person was told: their verb, and the error that came back, if any."""

    verb: str
    error: str


def payer(acted: list[tuple[str, int]]) -> Agent[Any, Any, Any]:
    """An agent that pays once, if it may."""
    made: Agent[Any, Any, Any] = Agent("payer", state=dict, start=lambda goal: {})

    @made.tool(effect="irreversible", approval=Approval(expires=timedelta(seconds=HOUR)))
    async def pay(cents: int) -> int:
        acted.append((current_call().run_id, cents))
        return cents

    @made.step
    async def step(run: Any) -> None:
        try:
            run.finish(await pay(1200))
        except ApprovalError as error:
            run.finish(type(error).__name__)

    return made


async def race(place: Runtime, run_id: str, asked: str, chance: random.Random) -> list[Word]:
    """Several people at once: some permit (one with other arguments), some forbid, one ends the run."""
    told: list[Word] = []

    async def say(verb: str, who: str, **more: Any) -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        try:
            if verb == "cancel":
                await place.cancel(run_id, by=who)
            else:
                await getattr(place, verb)(asked, by=Principal(who), **more)
            told.append(Word(verb, ""))
        except (ApprovalError, RunEnded) as error:
            told.append(Word(verb, type(error).__name__))

    words: list[tuple[str, str, dict[str, Any]]] = [
        ("approve", "ana", {}),
        ("approve", "bob", {"edit": {"cents": 7}}),
        *[("deny", "eve", {})] * chance.randrange(2),
        *[("deny", "dan", {})] * chance.randrange(2),
        *[("cancel", "cy", {})] * (chance.randrange(4) == 0),
    ]
    chance.shuffle(words)
    await asyncio.gather(*(say(verb, who, **more) for verb, who, more in words))
    return told


def judged(events: list[e.Event], told: list[Word], acts: list[int]) -> Counter[str]:
    """Hold what people were told against the journal and the acts; the winner, counted."""
    permits = Permits()
    wrong = [what for event in events for what in permits.see(event)]
    assert not wrong, wrong
    kinds = Counter(event.kind for event in events)
    granted = [event.body for event in events if isinstance(event.body, e.ApprovalGranted)]
    yes = [word for word in told if word.verb == "approve" and not word.error]
    no = [word for word in told if word.verb == "deny" and not word.error]
    assert len(granted) == len(yes) <= 1, (told, kinds)
    assert kinds["approval.denied"] == len(no) <= 1, (told, kinds)
    assert kinds["approval.used"] <= 1
    assert not (kinds["approval.granted"] and kinds["approval.expired"])
    assert len(acts) == kinds["approval.used"] == kinds["call.intended"]
    ends = {
        "used": kinds["approval.used"],
        "denied": kinds["approval.denied"],
        "expired": kinds["approval.expired"],
    }
    if not sum(ends.values()):
        ends["cancelled"] = kinds["cancel.requested"]
    assert sum(map(bool, ends.values())) == 1, (told, kinds)
    if acts:
        assert acts == [7 if granted[0].edit else 1200], "what was permitted is what runs"
    return Counter(name for name, count in ends.items() if count)


@pytest.mark.parametrize("late", [False, True], ids=["in time", "around the end"])
async def test_a_thousand_races_have_one_winner_each(late: bool) -> None:
    print(f"seed {SEED}, {RACES // 2} races")
    chance = random.Random(SEED + late)
    clock, acted = MovableClock(), list[tuple[str, int]]()
    store, made = MemoryStore(clock=clock), payer(acted)
    winners: Counter[str] = Counter()
    left = RACES // 2
    async with Runtime(store, [made], clock=clock) as place:
        while left > 0:
            ids = [f"run-{left - n}" for n in range(min(TOGETHER, left))]
            left -= len(ids)
            requests = {}
            for run_id in ids:
                outcome: Any = await place.run(made, run_id, "go", patience=timedelta(0))
                requests[run_id] = outcome.approvals[0].id
            if late:
                clock.advance(HOUR - 0.000_001 * chance.randrange(1, 200))

            async def drive(run_id: str) -> None:
                """A worker that looks at the run again and again while people race, and the clock runs."""
                for _ in range(4):
                    for _ in range(chance.randrange(4)):
                        await asyncio.sleep(0)
                    if late:
                        clock.advance(0.000_001)
                    await place.run(made, run_id, "go", patience=timedelta(0))

            words = await asyncio.gather(
                *(race(place, run_id, requests[run_id], chance) for run_id in ids),
                *(drive(run_id) for run_id in ids),
            )
            clock.advance(1.0)
            for run_id, told in zip(ids, words, strict=False):
                await place.run(made, run_id, "go", patience=timedelta(0))
                assert told is not None
                events = await history(store, run_id)
                winners += judged(events, told, [cents for name, cents in acted if name == run_id])
        assert not await store.list(Query(open_only=True))
    print(dict(winners))
    assert sum(winners.values()) == RACES // 2
    assert winners["used"] > RACES // 50
    assert winners["denied"] > RACES // 50
    assert winners["expired" if late else "cancelled"] > RACES // 100
