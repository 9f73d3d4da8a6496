"""The agents that are measured: each step calls a model with the whole conversation and appends the reply.

The model takes no time unless told otherwise, so that what remains is the engine.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from bench.floor import Bare
from perdure import Agent, Run
from perdure.agent import Durability, Storage
from perdure.agent.policy import DEFAULT_STORAGE

REPLY_BYTES = 300
"""The length of a reply's text."""

Kind = Literal["frozen", "dict"]


@dataclass(frozen=True)
class Message:
    """A message that never changes."""

    role: str
    content: str


@dataclass
class Desk:
    """A state of frozen messages."""

    messages: list[Message] = field(default_factory=list)


class Stamp(NamedTuple):
    """A moment in a run: step, wall clock, processor time of the loop's thread and of the process (ns)."""

    step: int
    wall: int
    loop: int
    process: int


def now(step: int) -> Stamp:
    """This moment."""
    return Stamp(step, time.perf_counter_ns(), time.thread_time_ns(), time.process_time_ns())


def words(number: int) -> str:
    """A text of 300 bytes that compresses like random letters, not like a constant."""
    return f"{number:06d}" + random.Random(number).randbytes((REPLY_BYTES - 6) // 2).hex()


class Bound(NamedTuple):
    """Between two steps: when the one before ended, when the one after began (ns)."""

    ended: int
    began: int


BARE_EVERY, BARE_COMMITS = 20, 5
"""Beside a run that waits for the disk so many bare commits are made before every so many steps."""


@dataclass
class Plan:
    """What one run does. `stamps` gets a moment at every `every`-th step; 0: none, for a stamp is dear.

    With a `floor`, `bounds` gets the moments between all steps instead, and `bare` what bare commits take
    meanwhile, in the same process and between the same steps.
    """

    steps: int
    first: int = 0
    every: int = 40
    kind: Kind = "frozen"
    durability: Durability = "effects"
    storage: Storage = DEFAULT_STORAGE
    tool: bool = False
    name: str = "desk"
    pause: float = 0.0
    stamps: list[Stamp] = field(default_factory=list)
    floor: Bare | None = None
    bounds: list[Bound] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)

    def anew(self, floor: Bare | None = None) -> Plan:
        """The same plan for another run, with nothing measured yet."""
        every = 0 if floor is not None else self.every
        return replace(self, every=every, floor=floor, stamps=[], bounds=[], bare=[])

    def bound(self, number: int) -> None:
        """A step begins."""
        ended = time.perf_counter_ns()
        if self.floor is not None and number % BARE_EVERY == 0:
            self.bare += self.floor.commits(BARE_COMMITS)
        self.bounds.append(Bound(ended, time.perf_counter_ns()))


def desk(plan: Plan) -> Agent[Any, Any, Any]:
    """The agent for a plan."""
    frozen = plan.kind == "frozen"
    make: Callable[[str, str], Any] = (
        Message if frozen else lambda role, text: {"role": role, "content": text}
    )
    texts = [words(number) for number in range(max(plan.first, 1000))]

    def start(goal: str) -> Any:
        messages = [make("user", texts[number]) for number in range(plan.first)]
        return Desk(messages) if frozen else {"messages": messages}

    agent: Agent[Any, Any, Any] = Agent(
        plan.name,
        state=Desk if frozen else dict[str, Any],
        start=start,
        durability=plan.durability,
        storage=plan.storage,
    )

    async def answer(messages: list[Any]) -> Any:
        if plan.pause:
            await asyncio.sleep(random.random() * plan.pause)
        return make("assistant", texts[len(messages) % len(texts)])

    answer.__annotations__ = {
        "messages": list[Message] if frozen else list[Any],
        "return": Message if frozen else Any,
    }
    chat = agent.model("model")(answer)

    @agent.tool(effect="idempotent")
    async def note(number: int) -> int:
        return number

    async def step(run: Run[Any]) -> None:
        messages = run.state.messages if frozen else run.state["messages"]
        number = len(messages) - plan.first
        if plan.floor is not None:
            plan.bound(number)
        elif plan.every and number % plan.every == 0:
            plan.stamps.append(now(number))
        messages.append(await chat(messages))
        if plan.tool:
            await note(number)
        if number + 1 >= plan.steps:
            if plan.every:
                plan.stamps.append(now(number + 1))
            run.finish("done")

    agent.step(step)
    return agent


class Pieces(NamedTuple):
    """Microseconds per step between two moments of a run: wall clock, the loop's thread, the process."""

    wall: float
    loop: float
    process: float


def between(one: Stamp, other: Stamp) -> Pieces:
    """What a step took between two moments."""
    steps = (other.step - one.step) * 1000
    return Pieces(
        (other.wall - one.wall) / steps,
        (other.loop - one.loop) / steps,
        (other.process - one.process) / steps,
    )
