"""What waits for the disk: commits counted on a store that writes only when nothing goes on without it."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from typing import Any

import pytest

import perdure
from perdure import codec
from perdure.agent import current_call
from perdure.journal import live
from perdure.state import events as e
from tests.unit.runtime.stage import RUN, Lagging, Stage, World, agent


class Office:
    """A read and an act, and a store whose disk answers when asked."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.world = World()
        self.store: Lagging = stage.wrap(Lagging(stage.store))
        self.reads = 0

        @perdure.tool(effect="read")
        async def look(n: int) -> int:
            self.reads += 1
            return n

        @perdure.tool(effect="irreversible")
        async def pay(n: int) -> str:
            await self._check_intent()
            return str(self.world.act(f"paid {n}"))

        self.look, self.pay = look, pay

    async def _check_intent(self) -> None:
        """Law 1: whoever acts finds its own intent in the journal, and every event before it."""
        events = await self.stage.store.below.read(RUN)  # type: ignore[attr-defined]
        intents = [codec.unpack(item.data, e.Event).body for item in events]
        mine = [body for body in intents if isinstance(body, e.CallIntended)]
        assert current_call().key in {body.key for body in mine}

    async def commits(self, step: Any, **options: Any) -> int:
        """How many commits the whole run waits for, beside the one that creates it."""
        made = agent(step, self.look, self.pay, **options)
        async with self.stage.runtime(made) as place:
            await place.start(made, RUN, "go")
            run = asyncio.create_task(place.run(made, RUN, "go"))
            commits = await self.store.until(run)
            assert run.result().status == "succeeded", run.result()
        await self.stage.blameless(self.world)
        return commits


def steps(office: Office, count: int, calls: int, *, acts: bool = False) -> Any:
    """So many steps of so many calls each."""

    async def step(run: Any) -> None:
        for n in range(calls):
            await (office.pay if acts else office.look)(n)
        run.state["log"].append(calls)
        if len(run.state["log"]) == count:
            run.finish()

    return step


async def test_effects_reads_and_steps_wait_for_nothing(memory: Stage) -> None:
    """Eight steps of five reads: one commit, at the end."""
    office = Office(memory)
    assert await office.commits(steps(office, 8, 5)) == 1
    assert office.reads == 40


async def test_step_one_commit_a_step(memory: Stage) -> None:
    """Whatever is in the step; the last one shares its commit with the end."""
    office = Office(memory)
    assert await office.commits(steps(office, 8, 5), durability="step") == 8


async def test_strict_every_event_waits(memory: Stage) -> None:
    """Each receipt and each step's end; the last step's end is the run's."""
    office = Office(memory)
    assert await office.commits(steps(office, 4, 3), durability="strict") == 4 * 3 + 3 + 1


async def test_effects_each_act_waits_for_its_intent(memory: Stage) -> None:
    """The receipt of one and the intent of the next share a commit: n acts in a row, n + 1 commits."""
    office = Office(memory)
    assert await office.commits(steps(office, 1, 6, acts=True)) == 6 + 1
    assert len(office.world) == 6


async def test_effects_the_end_of_a_step_shares_the_next_intents_commit(memory: Stage) -> None:
    """Four steps of one act: no commit for the steps themselves."""
    office = Office(memory)
    assert await office.commits(steps(office, 4, 1, acts=True)) == 4 + 1


async def test_intents_of_parallel_branches_share_one_commit(memory: Stage) -> None:
    """Sixteen payments at once: one commit before them, one after."""
    office = Office(memory)

    async def step(run: Any) -> None:
        run.finish(await run.gather(*(office.pay(n) for n in range(16))))

    assert await office.commits(step) == 2
    assert len(office.world) == 16


async def test_reads_beside_an_act_do_not_wait_for_it(memory: Stage) -> None:
    """Ten reads of another branch are done before the intent's commit is."""
    office = Office(memory)

    async def reading(run: Any) -> int:
        return sum([await office.look(n) for n in range(10)])

    async def step(run: Any) -> None:
        run.finish(await run.gather(office.pay(1), reading(run)))

    made = agent(step, office.look, office.pay)
    async with memory.runtime(made) as place:
        await place.start(made, RUN, "go")
        run = asyncio.create_task(place.run(made, RUN, "go"))
        reads: list[int] = []
        await office.store.until(run, seen=lambda: reads.append(office.reads))
    assert reads[0] == 10
    assert run.result().unwrap() == ("paid 1", 45)


@pytest.mark.parametrize("durability", ["effects", "step", "strict"])
async def test_nothing_leaves_before_it_is_durable(memory: Stage, durability: Any) -> None:
    """The caller has its outcome only when the end is on the disk, and would read the same there (O-005)."""
    office = Office(memory)
    made = agent(steps(office, 2, 2), office.look, office.pay, durability=durability)
    async with memory.runtime(made) as place:
        await place.start(made, RUN, "go")
        run = asyncio.create_task(place.run(made, RUN, "go"))
        await office.store.until(run)
        assert not office.store.queue
        assert (await place.outcome(RUN)) == run.result()


async def test_snapshots_share_the_commit_of_their_step(memory: Stage) -> None:
    """`storage="snapshot"` with `durability="step"`: one commit a step all the same."""
    office = Office(memory)
    assert await office.commits(steps(office, 5, 1), durability="step", storage="snapshot") == 5


async def test_what_is_pending_is_bounded(memory: Stage) -> None:
    """300 steps that each record 100 KB, on a disk that takes 50 ms for a commit: the run waits for it, and
    memory grows by less than 20 MB.
    """
    store: Lagging = memory.wrap(Lagging(_Forgetful(memory.store), 0.05))
    chance = random.Random(1)

    @perdure.tool(effect="read")
    async def fetch() -> bytes:
        return chance.randbytes(100_000)

    async def step(run: Any) -> None:
        data = await fetch()
        run.state["log"] = [*run.state["log"][-3:], len(data)]
        run.state["steps"] = run.state.get("steps", 0) + 1
        if run.state["steps"] == 300:
            run.finish(run.state["steps"])

    made = agent(step, fetch, storage="log")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        async with memory.runtime(made) as place:
            outcome = await place.run(made, RUN, "go")
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert outcome.unwrap() == 300
    assert peak < 20_000_000, f"{peak} bytes"
    assert store.commits >= 30_000_000 // live.UNACKED_BYTES


class _Forgetful:
    """A store below that keeps no event's bytes: so that what grows is the process, not the store."""

    def __init__(self, below: Any) -> None:
        self._below = below

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def append(self, batch: Any) -> Any:
        """Write, and forget the large events."""
        done = self._below.append(batch)
        run = self._below._runs[RUN]
        for at in range(max(len(run.events) - len(batch.events), 0), len(run.events)):
            item = run.events[at]
            if len(item.data) > 50_000:
                run.events[at] = type(item)(item.seq, b"", item.digest)
        return done
