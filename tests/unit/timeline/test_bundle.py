"""A run in a file: carried whole, changed bytes noticed, and nothing acts twice."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure import Agent, Finished, Held, Run
from perdure.errors import Damaged, ImportConflict, NewerFormat, NoSuchRun, NotABundle, RunGone
from perdure.journal import history, load, verify
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Message
from perdure.store.sqlite import SQLiteStore
from perdure.timeline.bundle import MAGIC, Bundle, adopt, bundled, packed, shelf, unpacked
from tests.unit.runtime.desk import Desk, Outside, agent_of, in_memory

LARGE = random.Random(5).randbytes(300_000)
"""Kept out of line."""


def payer(outside: Outside) -> Agent[Any, Any, Any]:
    """Pays once, sleeps for an hour, pays again, ends."""
    agent: Agent[Any, Any, Any] = Agent("payer", state=dict[str, Any], goal=str, start=lambda goal: {"n": 0})

    @agent.tool(effect="irreversible")
    async def pay(n: int) -> bytes:
        outside.act(n)
        return LARGE

    @agent.step
    async def step(run: Run[Any, Any, Any]) -> None:
        run.state["note"] = await pay(run.state["n"])
        run.state["n"] += 1
        if run.state["n"] == 2:
            run.finish(len(run.state["note"]))
        else:
            await run.sleep(timedelta(hours=1))

    return agent


async def exported(outside: Outside) -> Bundle:
    """A run that waits after its first payment."""
    desk = in_memory()
    await desk.run(payer(outside))
    return await bundled(desk.store, "r")


async def test_what_is_read_is_what_was_written_and_it_can_be_looked_at() -> None:
    bundle = unpacked(packed(await exported(Outside())))
    assert len(bundle.blobs) == 1
    store = await shelf(bundle, "r.perdure")
    assert (await verify(store, "r")).ok
    assert (await store.row("r")).status == "waiting"
    assert store.url == "r.perdure"


@cache
def small() -> bytes:
    """A bundle without large values."""

    async def made() -> bytes:
        desk = in_memory()
        await desk.run(payer(Outside()))
        bundle = await bundled(desk.store, "r")
        return packed(replace(bundle, blobs=(), events=bundle.events[:3]))

    return asyncio.run(made())


@given(st.data())
@settings(max_examples=300)
def test_no_changed_bit_is_served(data: st.DataObject) -> None:
    """Law 21, for a file that anybody may have had in their hands."""
    whole = bytearray(small())
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises((Damaged, NotABundle, NewerFormat)):
        unpacked(bytes(whole))


@pytest.mark.parametrize("length", [0, 5, len(MAGIC), len(MAGIC) + 20, -1])
def test_a_file_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises((Damaged, NotABundle)):
        unpacked(small()[:length])


async def test_events_that_were_exchanged_are_found_by_their_chain() -> None:
    """Who makes the outer digest anew must also make every event's: the head that was told then differs."""
    bundle = await exported(Outside())
    events = [*bundle.events]
    events[1], events[2] = replace(events[2], seq=2), replace(events[1], seq=3)
    forged = unpacked(packed(replace(bundle, events=tuple(events))))
    with pytest.raises(Damaged):
        await adopt(await opened(MemoryStore()), forged)


async def opened(store: Any) -> Any:
    await store.open()
    return store


async def test_a_run_that_was_carried_acts_nothing_until_a_person_lets_it_and_then_goes_on(
    tmp_path: Path,
) -> None:
    outside = Outside()
    bundle = await exported(outside)
    desk = Desk(await opened(SQLiteStore(tmp_path / "b.db")), in_memory().clock)
    row, fresh = await adopt(desk.store, bundle)
    assert fresh
    assert (row.status, row.asks, row.epoch) == ("held", True, bundle.epoch)
    desk.clock.advance(7200)
    held = await desk.run(payer(outside))
    assert isinstance(held, Held)
    assert held.reason == "imported"
    assert outside.done == [0]
    async with desk.runtime(payer(outside)) as runtime:
        await runtime.release("r", by="ada", sure=True)
        ended = await runtime.run(payer(outside), "r", "go", patience=timedelta(0))
    assert isinstance(ended, Finished)
    assert outside.done == [0, 1]
    assert (await verify(desk.store, "r")).ok
    epochs = [event.epoch for event in await history(desk.store, "r")]
    assert epochs == sorted(epochs), "law 6 holds over both lives"
    await desk.store.close()


async def test_carrying_it_twice_is_once_and_another_past_is_refused() -> None:
    bundle, store = await exported(Outside()), await opened(MemoryStore())
    assert (await adopt(store, bundle))[1] is True
    events = await history(store, "r")
    assert (await adopt(store, bundle))[1] is False
    assert await history(store, "r") == events
    desk = in_memory()
    await desk.run(payer(Outside()), "another goal")
    with pytest.raises(ImportConflict):
        await adopt(desk.store, bundle)
    older = replace(bundle, events=bundle.events[:2])
    behind = await opened(MemoryStore())
    await adopt(behind, older)
    with pytest.raises(ImportConflict):
        await adopt(behind, bundle)


async def test_a_run_that_has_ended_is_carried_as_it_ended() -> None:
    desk, outside = in_memory(), Outside()
    agent = payer(outside)
    await desk.run(agent)
    desk.clock.advance(3601)
    assert isinstance(await desk.run(agent), Finished)
    store = await opened(MemoryStore())
    row, _ = await adopt(store, await bundled(desk.store, "r"))
    assert row.terminal
    assert (await load(store, "r")).record == (await load(desk.store, "r")).record
    await store.drop("r")
    with pytest.raises(RunGone):
        await adopt(store, await bundled(desk.store, "r"))


async def test_messages_are_carried_along_but_not_what_would_let_it_go_on() -> None:
    desk = in_memory()
    await desk.run(payer(Outside()))
    for kind in ("signal", "release"):
        await desk.store.deliver(Message("r", f"a {kind}", kind, b"\x80"))
    store = await opened(MemoryStore())
    await adopt(store, await bundled(desk.store, "r"))
    assert [message.kind for message in await store.inbox("r")] == ["signal"]


async def test_a_run_that_was_held_keeps_its_own_reason() -> None:
    desk = in_memory()
    agent: Agent[Any, Any, Any] = Agent("odd", state=dict[str, Any], goal=str, start=lambda goal: {})

    @agent.step
    async def step(run: Run[Any, Any, Any]) -> None:
        raise KeyError("total")

    await desk.run(agent)
    store = await opened(MemoryStore())
    bundle = await bundled(desk.store, "r")
    row, _ = await adopt(store, bundle)
    assert (row.status, row.seq) == ("held", len(bundle.events))
    assert not [event for event in await history(store, "r") if isinstance(event.body, e.RunFinished)]


async def test_a_run_that_waits_for_a_child_is_carried_after_its_child() -> None:
    """Whoever drives it where the child is not would start the child, and its acts, anew."""
    outside = Outside()
    child = payer(outside)

    async def step(run: Run[Any, Any, Any]) -> None:
        run.finish(await run.spawn(child, "go"))

    parent = agent_of(step, name="parent", spawns=[child])
    desk = in_memory()
    async with desk.runtime(parent, child) as runtime:
        await runtime.run(parent, "r", "go", patience=timedelta(0))
    assert outside.done == [0]
    store = await opened(MemoryStore(clock=desk.clock))
    bundle = await bundled(desk.store, "r")
    with pytest.raises(ImportConflict, match=r"waits for r\.1:0"):
        await adopt(store, bundle)
    with pytest.raises(NoSuchRun):
        await store.row("r")
    await adopt(store, await bundled(desk.store, "r.1:0"))
    row, fresh = await adopt(store, bundle)
    assert (row.status, fresh) == ("held", True)


async def test_a_damaged_run_is_not_exported() -> None:
    desk = in_memory()
    await desk.run(payer(Outside()))
    assert isinstance(desk.store, MemoryStore)
    run = desk.store._runs["r"]
    run.events[1] = replace(run.events[1], data=run.events[1].data[:-1] + b"\0")
    with pytest.raises(Damaged):
        await bundled(desk.store, "r")
