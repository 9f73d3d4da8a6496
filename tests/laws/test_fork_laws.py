"""Law 13 over random histories: a fork never changes its original, and sends nothing that was recorded.

Histories with crashes, lost replies and retries are made from seeds; each is forked at random points, with a
random change and a random way to deal with what came after the point, and the fork is carried on to its end.
What the origin did after the point is counted by the outside, not by perdure. A failure prints its seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from perdure import codec
from perdure.agent import Finished, Held, current_call
from perdure.errors import BadChange, ForkRefused
from perdure.host import Runtime
from perdure.journal import gathered, history, verify
from perdure.runtime.lineage import Told
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.protocol import NewRun
from perdure.testing.clock import MovableClock
from perdure.testing.oracle import Act, offences
from perdure.timeline.change import Change
from perdure.timeline.fork import Fork
from tests.laws.programs import STYLES, Program, draw_program, expected, interpreter
from tests.laws.world import Chances, World

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

EXAMPLES = round(60 * float(os.environ.get("PERDURE_CRASH_SCALE", "1")))
POINTS = 5
"""Forks of each history."""


class Rich(World):
    """Nobody has limits: what a fork comes to is told by its program."""

    budgets = False


class Outside:
    """What the fork's tools meet."""

    def __init__(self) -> None:
        self.acts: list[Act] = []

    async def request(self, reply: object) -> Any:
        """It happens, and is answered."""
        self.acts.append(Act.of(len(self.acts) + 1, current_call(), reply))
        return reply

    def find(self, key: str) -> Any:
        """What was answered under this key."""
        found = [act for act in self.acts if act.key == key]
        return codec.decode(bytes.fromhex(found[0].reply)) if found else None


class Trial:
    """One history, and forks of it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.program: Program = draw_program(random.Random(seed), steps=4)
        world = Rich(seed, Chances(kill=0.02, lose=0.2, cancel=0.0))
        world.run({"r": self.program})
        assert not world.found, "\n".join(world.found)
        self.acts = [act for act in world.acts if act.effect != "read"]
        self.stored = list(world.store._runs["r"].events)
        self.events = [codec.unpack(item.data, e.Event) for item in self.stored]

    async def run(self) -> list[str]:
        """What is wrong with some forks of it."""
        wrong = []
        for number in range(POINTS):
            at = self.chance.randint(1, len(self.events) - 1)
            effects = self.chance.choice(("ask", "simulate", "redo"))
            found = await self._one(at, effects, f"f{number}")
            wrong += [f"seed {self.seed}, fork at {at} with {effects}: {what}" for what in found]
        return wrong

    async def _one(self, at: int, effects: Any, name: str) -> list[str]:
        clock, outside = MovableClock(seed=self.seed, hurried=True), Outside()
        store = MemoryStore(clock=clock)
        await store.open()
        epoch = max(event.epoch for event in self.events)
        new = NewRun("r", "interpreter", "1", "held", tuple(self.stored), epoch=epoch, terminal=True)
        await store.create(new)
        before = (await gathered(store, "r", len(self.stored)), await store.row("r"))
        agent = interpreter(outside.request, outside.find, self.chance.randrange(STYLES))
        async with Runtime(store, [agent], clock=clock) as runtime:
            try:
                made = await self._forked(runtime, at, effects, name)
            except ForkRefused as refused:
                return self._refused(at, refused)
            outcome = await self._ended(runtime, name)
        wrong = [*self._listed(made, at), *self._log(made, outcome, await runtime.state_at(name))]
        if (await gathered(store, "r", len(self.stored)), await store.row("r")) != before:
            wrong.append("its original is another one now")
        if not (await verify(store, name)).ok:
            wrong.append("the fork is not whole")
        return [*wrong, *self._sent(await history(store, name), made, at, outside)]

    async def _forked(self, runtime: Runtime, at: int, effects: Any, name: str) -> Fork:
        """A fork with a change, where there can be one, or with none."""
        record = [
            body for body in (event.body for event in self.events[:at]) if isinstance(body, e.StepCommitted)
        ]
        change = Change()
        if record and self.chance.random() < 0.5:
            change = Change(state={f"log[{self.chance.randrange(len(record))}]": ["changed"]})
        try:
            return await runtime.fork("r", at, change, effects=effects, id=name)
        except BadChange:
            return await runtime.fork("r", at, effects=effects, id=name)

    async def _ended(self, runtime: Runtime, name: str) -> Any:
        """Carry it on; people decide as chance has it."""
        for _ in range(200):
            outcome = await runtime.resume(name)
            if not (isinstance(outcome, Held) and outcome.reason == "origin-acted"):
                return outcome
            may_reuse = any("--reuse" in way for way in outcome.remedies)
            how: Any = "reuse" if may_reuse and self.chance.random() < 0.5 else "act"
            await runtime.decide_effect(name, None, how, by="ada")
        raise AssertionError("it is held for ever")

    # -- what must hold

    def _refused(self, at: int, refused: ForkRefused) -> list[str]:
        """Only for an act that was under way, and of which nothing was known in the end."""
        path = refused.facts.get("path", "")
        later = [event.body for event in self.events[at:]]
        known = any(
            getattr(body, "path", "") == path
            and isinstance(body, e.CallSettled | e.CallReconciled | e.CallLate)
            for body in later
        )
        return [f"it is refused for {path}, which was settled"] if known or not path else []

    def _listed(self, made: Fork, at: int) -> list[str]:
        """The acts that are listed are those that the outside has seen, or may have."""
        intended: dict[str, int] = {}
        for event in self.events:
            body = event.body
            if isinstance(body, e.CallIntended) and body.head.effect != "read":
                intended.setdefault(body.path, event.seq)
        open_ = {path for path, seq in intended.items() if seq <= at and path in dict(made.served)}
        seen = {act.path for act in self.acts if self._seq(act) > at} - open_
        seen |= {getattr(event.body, "path", "") for event in self.events[at:] if _in_the_store(event.body)}
        listed = {act.path for act in made.acts}
        possible = {getattr(event.body, "path", "") for event in self.events[at:]}
        wrong = [f"{path} was made and is not listed" for path in sorted(seen - listed)]
        return wrong + [f"{path} is listed and was not made" for path in sorted(listed - possible)]

    def _seq(self, act: Act) -> int:
        """The event of an act's intent, or of its receipt in the store's transaction."""
        for event in self.events:
            body = event.body
            if isinstance(body, e.CallIntended) and (body.path, body.attempt) == (act.path, act.attempt):
                return event.seq
        return max(event.seq for event in self.events if getattr(event.body, "path", "") == act.path)

    def _log(self, made: Fork, outcome: Any, state: Any) -> list[str]:
        """It ends as the program says, but for what was changed."""
        log = expected(self.program)
        for one in made.changes:
            log[int(one.place[4:-1])] = one.now
        if not isinstance(outcome, Finished):
            return [f"it did not end: {outcome}"] if self._must_end(made) else []
        return [] if state["log"] == log else [f"its log is {state['log']}, not {log}"]

    def _must_end(self, made: Fork) -> bool:
        """A fork of a run whose last step was done asks its program for one more."""
        return made.step < len(self.program)

    def _sent(self, events: list[e.Event], made: Fork, at: int, outside: Outside) -> list[str]:
        """Nothing recorded is sent, no key is the origin's, and what stands in was not made."""
        own = [act for act in outside.acts if act.effect != "read"]
        origins = {event.body.key for event in self.events if isinstance(event.body, e.CallIntended)}
        wrong = [
            f"{act.tool} at {act.path} is sent under its origin's key" for act in own if act.key in origins
        ]
        settled = {path for path, _ in made.served}
        wrong += [f"{act.tool} at {act.path} is sent again" for act in outside.acts if act.path in settled]
        if made.effects == "simulate":
            decided = {
                event.body.path
                for event in events
                if isinstance(event.body, e.EffectDecided) and event.body.how == "act"
            }
            wrong += [f"{act.tool} at {act.path} acted" for act in own if act.path not in decided]
        inherited = {
            (event.body.key, event.body.attempt)
            for event in events[:at]
            if isinstance(event.body, e.CallIntended)
        }
        return wrong + offences(
            events, [*own, *(act for act in self.acts if (act.key, act.attempt) in inherited)]
        )


def _in_the_store(body: e.AnyBody) -> bool:
    """Whether it is the receipt of an act in the store's own transaction, which the outside does not see."""
    return (
        isinstance(body, e.CallSettled)
        and body.head is not None
        and (body.head.effect, body.outcome) == ("transactional", "done")
    )


@given(seed=st.integers(0, 10_000))
@settings(max_examples=EXAMPLES, phases=(Phase.generate,))
def test_forks_of_random_histories(seed: int) -> None:
    assert asyncio.run(Trial(seed).run()) == []


def test_what_a_child_tells_has_its_form() -> None:
    """A result that is given in a child's place is read like one that a child told."""
    told = codec.encode({"status": "succeeded", "value": codec.encode(1), "used": [0] * 5})
    assert codec.decode(Told.of(told).value) == 1
