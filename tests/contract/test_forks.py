"""A fork on each kind of store: alike, whole without its origin, and the same once it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Change
from perdure.clock import Clock
from perdure.host import Runtime
from perdure.journal import history, verify
from perdure.state import events as e
from perdure.store import MemoryStore, SQLiteStore, Store
from perdure.store.postgres import PostgresStore
from perdure.testing.clock import MovableClock
from perdure.timeline.pruning import named, prune
from tests.database import PLACE

LARGE = "x" * 400_000


def desk() -> Agent[Any, Any, Any]:
    """Fetches something large, pays, and ends."""
    made: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {"cents": 7})

    @made.tool(effect="read")
    async def fetch() -> str:
        return LARGE

    @made.tool(effect="irreversible")
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    @made.step
    async def step(run: Any) -> None:
        if "text" not in run.state:
            run.state["text"] = await fetch()
        else:
            run.finish([await pay(run.state["cents"]), len(run.state["text"])])

    return made


def store_of(kind: str, folder: Path, clock: Clock) -> Store:
    """An empty store of this kind."""
    if kind == "memory":
        return MemoryStore(clock=clock)
    if kind == "sqlite":
        return SQLiteStore(folder / "runs.db", clock=clock)
    return PostgresStore(PLACE.at(folder / "forks"), clock=clock)


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_fork_is_the_same_on_each_store(kind: str, compacted: bool, tmp_path: Path) -> None:
    store, agent = store_of(kind, tmp_path, MovableClock(hurried=True)), desk()
    await store.open()
    try:
        async with Runtime(store, [agent]) as runtime:
            await runtime.run(agent, "r", "go")
            origin = await history(store, "r")
            at = next(event.seq for event in origin if isinstance(event.body, e.StepCommitted))
            if compacted:
                await runtime.compact("r", upto=at)
            row = await store.row("r")
            made = await runtime.fork("r", at, Change(state={"cents": 5}), id="f")
            again = await runtime.fork("r", at, Change(state={"cents": 5}), id="f")
            assert (made.fresh, again.fresh) == (True, False)
            assert [(act.name, act.value) for act in made.acts] == [("pay", "paid 7")]
            assert await store.row("r") == row
            await prune(store, (await named(store, ["r"])).rows)
            assert (await verify(store, "f")).ok
            assert (await runtime.resume("f")).status == "held"
            await runtime.decide_effect("f", None, "act", by="ada")
            assert (await runtime.resume("f")).unwrap() == ["paid 5", len(LARGE)]
            forked = await store.read("f", after=at, limit=1)
            assert [item.seq for item in forked] == [at + 1]
            assert (await verify(store, "f")).ok
    finally:
        await store.close()
