"""The first page of a long run: its two ends, line for line as the whole timeline has them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from perdure import Agent, Runtime
from perdure.errors import Damaged
from perdure.journal import history, load
from perdure.journal.stretch import stretch
from perdure.store.memory import MemoryStore
from perdure.timeline.page import HEAD, LONG, TAIL, Page, first_page
from perdure.timeline.view import lines

desk: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {"n": 0})


@desk.model("gpt")
async def chat(n: int) -> str:
    """Answer."""
    return f"reply {n}"


@desk.tool(effect="idempotent")
async def act(n: int) -> int:
    """Act."""
    return n


@desk.step
async def step(run: Any) -> None:
    n = run.state["n"] = run.state["n"] + 1
    await chat(n)
    if n % 3 == 0:
        await act(n)
    if n == 500:
        run.finish(n)


async def lived() -> MemoryStore:
    """A store with one long run."""
    store = MemoryStore()
    async with Runtime(store, [desk]) as place:
        await place.run(desk, "r", "goal", check=False)
    return store


async def _page(store: MemoryStore, upto: int | None = None) -> Page:
    record = (await load(store, "r")).record
    return await first_page(store, "r", upto or record.seq, record.step + 1)


def test_both_ends_are_as_the_whole_timeline_has_them() -> None:
    store = asyncio.run(lived())
    whole = lines(asyncio.run(history(store, "r")))
    last = whole[-1].seq
    assert last > LONG
    page = asyncio.run(_page(store))
    assert list(page.first[:-1]) == [line for line in whole if line.seq <= HEAD][:-1]
    assert list(page.last) == [line for line in whole if line.seq > last - TAIL]
    assert page.between == last - TAIL - HEAD
    assert {line.call.model for line in page.last if line.call and line.call.name == "chat"} == {"gpt"}


def test_a_stretch_is_verified_within_itself() -> None:
    store = asyncio.run(lived())
    events = asyncio.run(history(store, "r"))
    assert asyncio.run(stretch(store, "r", 700, 720)) == events[700:720]
    kept = store._runs["r"].events
    good = kept[710]
    kept[710] = replace(good, data=good.data[:-1] + bytes([good.data[-1] ^ 1]))
    with pytest.raises(Damaged, match="event 711"):
        asyncio.run(stretch(store, "r", 700, 720))
    assert len(asyncio.run(stretch(store, "r", 720, 730))) == 10
    kept[710] = good
    with pytest.raises(Damaged, match="is missing"):
        asyncio.run(stretch(store, "r", 5000, 5001))
