"""What a compaction takes away, what it keeps, and that the run goes on as if nothing had been."""

from __future__ import annotations

import random
from typing import Any

import pytest

from perdure import Agent, Run, Runtime
from perdure.errors import BadPoint, Damaged, EventsPruned, RunOpen
from perdure.journal import follow, history, load, record_at, retold, verify
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Compaction
from perdure.timeline.bundle import adopt, bundled, packed, unpacked
from perdure.timeline.compaction import compacted, long_runs
from perdure.timeline.moment import origins
from perdure.timeline.place import parsed
from perdure.timeline.pruning import epitaph_of, named, prune

LARGE = random.Random(1).randbytes(400_000).hex()


def desk(undone: list[tuple[int, str]], *, steps: int = 6) -> Agent[Any, Any, Any]:
    """Each step thinks at length, pays once, and waits in the last step for a word."""
    agent: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {"n": 0, "notes": []})

    @agent.model("m")
    async def think(n: int) -> str:
        return f"thought {n} " + "long " * 200

    @agent.tool(effect="irreversible")
    async def pay(n: int, about: str) -> str:
        return LARGE if n == 1 else f"paid {n}"

    @pay.undo
    async def unpay(n: int, about: str, result: str) -> None:
        undone.append((n, result[:6]))

    @agent.step
    async def step(run: Run[Any]) -> None:
        n = run.state["n"]
        thought = await think(n)
        run.state["notes"] = [*run.state["notes"], thought]
        await pay(n, thought)
        run.state["n"] = n + 1
        if n == steps - 1:
            run.finish(await run.wait("word", str))

    return agent


@pytest.fixture
def runtime() -> Runtime:
    """A store in memory; runs wait for a word in their sixth step."""
    return Runtime(MemoryStore())


async def waiting(runtime: Runtime, agent: Agent[Any, Any, Any]) -> MemoryStore:
    await runtime.run(agent, "r", "go", check=False)
    assert isinstance(runtime.store, MemoryStore)
    return runtime.store


async def test_an_open_run_goes_on_as_if_nothing_had_been(runtime: Runtime) -> None:
    async with runtime:
        agent = desk([])
        store = await waiting(runtime, agent)
        before, size = await load(store, "r"), (await store.sizes(["r"]))["r"]
        found = await runtime.compact("r")
        assert found.floor == before.record.begun
        assert found.removed == 5, "what models said"
        assert (await store.sizes(["r"]))["r"] == size - found.freed
        assert (await load(store, "r")).record == before.record
        assert (await verify(store, "r")).ok
        assert await compacted(store, "r") == type(found)("r", found.floor, 0, 0), "twice is once"
        await runtime.signal("r", "word", "bye")
        assert (await runtime.run(agent, "r", "go", check=False)).unwrap() == "bye"
        assert (await runtime.state_at("r"))["n"] == 6


async def test_what_it_did_is_undone_though_its_events_are_gone(runtime: Runtime) -> None:
    """Arguments that referred to what is gone, and results out of line, are what they were."""
    async with runtime:
        undone: list[tuple[int, str]] = []
        agent = desk(undone)
        await waiting(runtime, agent)
        await runtime.compact("r")
        await runtime.cancel("r", by="ana", compensate=True)
        await runtime.run(agent, "r", "go", check=False)
        assert undone == [
            (5, "paid 5"),
            (4, "paid 4"),
            (3, "paid 3"),
            (2, "paid 2"),
            (1, LARGE[:6]),
            (0, "paid 0"),
        ]


async def test_the_past_before_it_is_refused_and_nothing_else(runtime: Runtime) -> None:
    async with runtime:
        store = await waiting(runtime, desk([]))
        records = [await record_at(store, "r", seq) for seq in range(1, (await store.row("r")).seq + 1)]
        floor = (await runtime.compact("r", upto=9)).floor
        assert floor == 9
        for record in records:
            if record.seq >= floor:
                assert await record_at(store, "r", record.seq) == record
                continue
            with pytest.raises(EventsPruned):
                await runtime.state_at("r", record.seq)
        with pytest.raises(EventsPruned):
            await history(store, "r")
        assert [event.seq for event in await history(store, "r", floor)] == [r.seq for r in records[floor:]]
        with pytest.raises(EventsPruned):
            await anext(follow(store, "r", 4))
        assert (await anext(follow(store, "r"))).seq == floor + 1
        assert (await anext(follow(store, "r", floor))).seq == floor + 1
        for wrong in (0, 999):
            with pytest.raises(BadPoint):
                await runtime.compact("r", upto=wrong)


async def test_acts_and_answers_are_told_of_what_is_gone(runtime: Runtime) -> None:
    async with runtime:
        store = await waiting(runtime, desk([]))
        whole = await history(store, "r")
        await runtime.compact("r")
        told = await retold(store, "r")
        kinds = [type(event.body) for event in told.events if event.seq <= told.base.seq]
        assert kinds.count(e.CallSettled) == 5, "the acts; what models said is gone"
        assert kinds.count(e.StepCommitted) == 5
        settled = {event.seq: event.body.value for event in whole if isinstance(event.body, e.CallSettled)}
        kept = {event.seq: event.body.value for event in told.events if isinstance(event.body, e.CallSettled)}
        assert kept.items() <= settled.items()
        assert next(one.seq for one in origins(told.later, parsed("n"), told.base)) == told.base.seq


async def test_only_the_keys_of_an_ended_run_may_be_kept(runtime: Runtime) -> None:
    async with runtime:
        agent = desk([])
        store = await waiting(runtime, agent)
        with pytest.raises(RunOpen):
            await runtime.compact("r", keep="keys")
        await runtime.signal("r", "word", "bye")
        await runtime.run(agent, "r", "go", check=False)
        keys = {
            event.body.key for event in await history(store, "r") if isinstance(event.body, e.CallIntended)
        }
        await runtime.compact("r")
        assert store._runs["r"].blobs
        await runtime.compact("r", keep="keys")
        assert (await load(store, "r")).record.ended is not None
        assert store._runs["r"].blobs == {}
        await prune(store, (await named(store, ["r"])).rows)
        epitaph = epitaph_of(await store.tombstones("r"))
        assert epitaph is not None
        assert set(epitaph.keys) == keys


async def test_a_run_that_goes_on_meanwhile_is_looked_at_again(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with runtime:
        agent = desk([])
        store = await waiting(runtime, agent)
        compact, tries = store.compact, list[Compaction]()

        async def late(compaction: Compaction) -> None:
            tries.append(compaction)
            if len(tries) == 1:
                await runtime.signal("r", "word", "bye")
                await runtime.run(agent, "r", "go", check=False)
            await compact(compaction)

        monkeypatch.setattr(store, "compact", late)
        found = await compacted(store, "r")
        assert (len(tries), found.floor) == (2, (await store.row("r")).seq)
        assert (await verify(store, "r")).ok


async def test_damage_is_not_compacted_away(runtime: Runtime) -> None:
    async with runtime:
        store = await waiting(runtime, desk([]))
        store._runs["r"].events[3] = store._runs["r"].events[4]
        with pytest.raises(Damaged):
            await compacted(store, "r")
        assert (await store.row("r")).floor == 0


@pytest.mark.parametrize("part", ["base", "left", "floor"])
async def test_damage_to_what_is_left_is_found(runtime: Runtime, part: str) -> None:
    async with runtime:
        store = await waiting(runtime, desk([]))
        await runtime.compact("r")
        run = store._runs["r"]
        if part == "base":
            run.snapshots[0] = type(run.snapshots[0])(
                run.snapshots[0].seq, b"x" * 40, run.snapshots[0].digest
            )
        elif part == "left":
            run.left[0] = run.left[0][:-1] + bytes((run.left[0][-1] ^ 1,))
        else:
            run.standing.floor = 0
        assert not (await verify(store, "r")).ok
        with pytest.raises(Damaged):
            await retold(store, "r")


async def test_a_compacted_run_is_carried_to_another_store(runtime: Runtime) -> None:
    async with runtime:
        store = await waiting(runtime, desk([]))
        await runtime.compact("r")
        bundle = unpacked(packed(await bundled(store, "r")))
        other = MemoryStore()
        await other.open()
        for fresh in (True, False):
            assert (await adopt(other, bundle))[1] is fresh
        assert (await verify(other, "r")).ok
        assert (await retold(other, "r")).events[:20] == (await retold(store, "r")).events[:20]


async def test_long_runs_are_those_with_many_events_left(runtime: Runtime) -> None:
    async with runtime:
        store = await waiting(runtime, desk([]))
        assert [row.run_id async for row in long_runs(store, 20)] == ["r"]
        await runtime.compact("r")
        assert [row.run_id async for row in long_runs(store, 20)] == []
