"""A journal that is listened to: what is durable is told once and in order, what was refused never."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

import perdure
from perdure.errors import InboxMoved
from perdure.runtime.listening import Driven, listen
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store.protocol import Appended, Batch
from tests.unit.runtime.stage import RUN, Lagging, Stage, World, agent

SEEDS = range(12)


class Listener:
    """Keeps what it hears, and compares it with the journal at the end."""

    def __init__(self) -> None:
        self.told: list[e.Event] = []
        self.commits = 0

    def begun(self, driven: Driven) -> Listener:
        """It hears every run."""
        return self

    def noted(self, event: e.Event) -> None:
        """Not yet."""

    def happened(self, events: Sequence[e.Event], record: RunRecord) -> None:
        """Keep it."""
        self.told += events

    def committed(self, seconds: float, refused: bool) -> None:
        """Count it."""
        assert seconds >= 0
        self.commits += 1

    def stepping(self, number: int) -> None:
        """Nothing."""

    def acting(self, *_: Any) -> None:
        """Nothing."""

    def left(self, *, lost: bool) -> None:
        """Nothing."""


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_is_durable_is_told_once_and_in_order(seed: int, stage: Stage) -> None:
    """Random steps with branches, transactions and kills on both stores: what was told, is in the journal."""
    chance = random.Random(seed)
    print("seed", seed)
    world, listener = World(), Listener()
    end = listen(listener)

    @perdure.tool(effect="idempotent")
    async def send(number: int) -> str:
        return str(world.act(str(number)))

    @perdure.tool(effect="read")
    async def look(number: int) -> int:
        return number

    plan = [[chance.choice((send, look)) for _ in range(chance.randrange(1, 5))] for _ in range(3)]

    async def step(run: Any) -> None:
        tools = plan[len(run.state["log"])]
        run.state["log"].append(await run.gather(*(tool(at) for at, tool in enumerate(tools))))
        if len(run.state["log"]) == len(plan):
            run.finish("done")

    made = agent(step, send, look)
    try:
        await stage.crash(made, chance.choice(("intent.durable", "receipt.queued", "step.queued")))
        first = len(listener.told)
        await stage.run(made)
    finally:
        end()
    events = await stage.events()
    numbers = [event.seq for event in listener.told]
    assert len(numbers) == len(set(numbers))
    assert numbers[:first] == sorted(numbers[:first])
    assert numbers[first:] == sorted(numbers[first:])
    by_seq = {event.seq: event for event in events}
    for event in listener.told:
        assert by_seq[event.seq] == event
    assert {event.seq for event in events if event.epoch == 2} <= set(numbers)
    assert listener.commits


class Noting:
    """A store that notes up to which event each run is durable, and refuses the first `moved` fenced writes
    as if a message had come.
    """

    def __init__(self, below: Any, moved: int = 0) -> None:
        self.below = below
        self.moved = moved
        self.durable: dict[str, int] = {}

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """Write, or refuse."""
        if batch.inbox_seen is not None and self.moved:
            self.moved -= 1
            refused: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
            refused.set_exception(InboxMoved("a message has come", run_id=batch.run_id))
            return refused
        future: asyncio.Future[Appended] = self.below.append(batch)
        if future.done():
            self._note(batch, future)
        else:
            future.add_done_callback(lambda done: self._note(batch, done))
        return future

    def _note(self, batch: Batch, done: asyncio.Future[Appended]) -> None:
        self.durable[batch.run_id] = done.result().seq

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


class Early(Listener):
    """Hears only what the store has said is durable."""

    def __init__(self, store: Noting) -> None:
        super().__init__()
        self.store = store

    def happened(self, events: Sequence[e.Event], record: RunRecord) -> None:
        """Compare."""
        assert events[-1].seq <= self.store.durable[RUN]
        super().happened(events, record)


@pytest.mark.parametrize("moved", [0, 1, 3])
async def test_nothing_is_told_before_it_is_durable(moved: int, memory: Stage) -> None:
    """On a store whose disk is slow, and that refuses intents: what was refused is never told."""
    store = memory.wrap(Noting(Lagging(memory.store, 0.01), moved))
    listener, world = Early(store), World()
    end = listen(listener)

    @perdure.tool(effect="read")
    async def look(number: int) -> int:
        return number

    @perdure.tool()
    async def pay(number: int) -> int:
        return int(world.act(number))

    async def step(run: Any) -> None:
        seen = [await look(number) for number in range(5)]
        await run.gather(pay(1), pay(2))
        run.finish(seen)

    try:
        assert (await memory.run(agent(step, look, pay))).status == "succeeded"
    finally:
        end()
    assert not store.moved
    assert [event.seq for event in listener.told] == list(range(2, 2 + len(listener.told)))
    assert listener.told == (await memory.events())[1:]
