"""A clerk whose runs are lived by one agent and replayed by another: what the tests of replays share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from perdure import Agent, Runtime, tool
from perdure.store.memory import MemoryStore
from perdure.timeline.replayed import Difference, Replayed

Drive = Callable[[Runtime], Any]


async def go(place: Runtime) -> None:
    """Nothing more than the first run."""


async def _replayed(was: Agent[Any, Any, Any], now: Agent[Any, Any, Any], drive: Drive) -> Replayed:
    store = MemoryStore()
    async with Runtime(store, [was]) as place:
        await place.run(was, "r", "goal", patience=timedelta(0), check=False)
        await drive(place)
    before = list(store._runs["r"].events)
    async with Runtime(store, [now]) as place:
        found = await place.replay("r", seconds=0.5)
    assert store._runs["r"].events == before
    return found


def replayed(was: Agent[Any, Any, Any], now: Agent[Any, Any, Any], drive: Drive = go) -> Replayed:
    """A run that one agent has made, replayed by another one."""
    return asyncio.run(_replayed(was, now, drive))


def difference(was: Agent[Any, Any, Any], now: Agent[Any, Any, Any], drive: Drive = go) -> Difference:
    """The first difference, which there must be."""
    found = replayed(was, now, drive).difference
    assert found is not None
    assert found.detail
    return found


@tool(effect="read")
async def look(at: int) -> str:
    """Read."""
    return f"page {at}"


@tool(effect="irreversible")
async def pay(cents: int) -> str:
    """Act."""
    return f"paid {cents}"


def clerk(
    step: Callable[[Any], Any],
    *,
    start: Callable[[str], Any] = lambda goal: {"log": []},
    **options: Any,
) -> Agent[Any, Any, Any]:
    """An agent with this step, which may look and pay."""
    given: dict[str, Any] = {"state": dict, "tools": [look, pay]} | options
    agent: Agent[Any, Any, Any] = Agent("clerk", start=start, **given)
    agent.step(step)
    return agent


async def plain(run: Any) -> None:
    """Three steps of a read and an act."""
    log = run.state["log"]
    log.append(await look(len(log)))
    log.append(await pay(len(log)))
    if len(log) == 6:
        run.finish(len(log))
