"""A desk on which calls are tried: a store, a clock that never makes anybody wait, and processes that die.

`Desk.crash` ends a process by a `BaseException` at a named boundary: nothing after it is written and nobody
is told, so its lease stays behind. `Desk.run` is the next process, on the same store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure import Agent, Runtime, current_call
from perdure.journal import history, load, verify
from perdure.runtime.boundary import set_hook
from perdure.state.record import RunRecord
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Store
from perdure.store.sqlite import SQLiteStore
from perdure.testing.clock import MovableClock

LEASE = 3600.0
"""Seconds; longer than anything that a test lets pass within one process."""


class Crash(BaseException):
    """This process is gone."""


class QuickClock(MovableClock):
    """Whoever sleeps by it moves it, and goes on at once."""

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass for everybody."""
        self.advance(max(seconds, 0.0))
        await asyncio.sleep(0)


@dataclass
class Outside:
    """The other side: what it was sent, as (key, what), and what it remembers of it."""

    acts: list[tuple[str, Any]] = field(default_factory=list)

    def act(self, what: Any) -> Any:
        """Something happens there, under the key of the running call."""
        self.acts.append((current_call().key, what))
        return what

    @property
    def keys(self) -> list[str]:
        """The keys of what happened, in order."""
        return [key for key, _ in self.acts]

    @property
    def done(self) -> list[Any]:
        """What happened, in order."""
        return [what for _, what in self.acts]

    def find(self, key: str) -> Any:
        """What happened under this key, or None."""
        return next((what for known, what in self.acts if known == key), None)


class Desk:
    """A store, its clock, and the run `r` on it."""

    def __init__(self, store: Store, clock: MovableClock) -> None:
        self.store = store
        self.clock = clock

    def runtime(self, *agents: Agent[Any, Any, Any], check: bool = False) -> Runtime:
        """A process that serves these agents; to be entered."""
        return Runtime(self.store, agents, clock=self.clock, lease_seconds=LEASE, check=check)

    async def run(
        self, agent: Agent[Any, Any, Any], goal: Any = "go", *, run_id: str = "r", check: bool = False
    ) -> Any:
        """Start or carry on the run in a process of its own; no time passes for waits."""
        async with self.runtime(agent, check=check) as runtime:
            return await runtime.run(agent, run_id, goal, patience=timedelta(0))

    async def crash(
        self, agent: Agent[Any, Any, Any], boundary: str, hit: int = 1, *, goal: Any = "go", run_id: str = "r"
    ) -> None:
        """The same, in a process that dies at the boundary's `hit`-th time; then its lease runs out."""
        with dying(boundary, hit) as died, suppress(Crash):
            await self.run(agent, goal, run_id=run_id)
        assert died(), f"boundary {boundary} was not reached {hit} times"
        self.clock.advance(LEASE + 1)

    async def record(self, run_id: str = "r") -> RunRecord:
        """The run, folded."""
        return (await load(self.store, run_id)).record

    async def events(self, run_id: str = "r") -> list[Any]:
        """Its durable events, verified."""
        found = await verify(self.store, run_id)
        assert found.ok, found
        return await history(self.store, run_id)

    async def facts(self, kind: type[Any], run_id: str = "r") -> list[Any]:
        """Its durable facts of one kind."""
        return [event.body for event in await self.events(run_id) if isinstance(event.body, kind)]


@contextmanager
def dying(boundary: str, hit: int = 1) -> Iterator[Callable[[], bool]]:
    """Within the block everything stops at the boundary's `hit`-th time, and at every boundary after it."""
    count, dead = 0, False

    def hook(name: str) -> None:
        nonlocal count, dead
        count += name == boundary
        if dead or (name == boundary and count == hit):
            dead = True
            raise Crash(name)

    set_hook(hook)
    try:
        yield lambda: dead
    finally:
        set_hook(None)


def in_memory() -> Desk:
    """A desk on a store in memory, to be used in one event loop."""
    clock = QuickClock()
    return Desk(_Opened(clock=clock), clock)


class _Opened(MemoryStore):
    """Open from the start and never closed: it outlives the processes of a test."""

    def __init__(self, *, clock: MovableClock) -> None:
        super().__init__(clock=clock)
        self._opened = True


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Desk]:
    """A desk on an SQLite file. The caller opens and closes `desk.store`."""
    clock = QuickClock()
    yield Desk(SQLiteStore(folder / "perdure.db", clock=clock), clock)


def agent_of(step: Any, *tools: Any, name: str = "clerk", **options: Any) -> Agent[Any, Any, Any]:
    """An agent with this step, whose state is a dict with one list, `log`."""
    made: Agent[Any, Any, Any] = Agent(
        name, state=dict[str, Any], start=lambda goal: {"log": []}, tools=tools, **options
    )
    made.step(step)
    return made
