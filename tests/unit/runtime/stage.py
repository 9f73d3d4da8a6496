"""Where engine tests play: a store, a clock that moves itself, processes that die, and a world outside.

A process dies here by a `BaseException` at a named boundary: nothing after it is written, nobody is told, and
the lease stays behind. The next process is another `Runtime` on the same store, once the clock has passed the
lease. Real kills of real processes are in test_kill.py and in tests/crash.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from perdure import codec
from perdure.agent import Agent, Outcome, current_call
from perdure.host import Runtime
from perdure.journal import history, load, verify
from perdure.runtime.boundary import set_hook
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Appended, Batch, Store
from perdure.store.sqlite import SQLiteStore
from perdure.testing.clock import MovableClock
from perdure.testing.oracle import Act, concerning, offences

RUN = "run-1"
LEASE = 30.0

AnyAgent = Agent[Any, Any, Any]


class Crash(BaseException):
    """The process is gone from here on."""


@dataclass
class Stage:
    """A store and a clock. `store` may be wrapped by a test, to lie or to be slow."""

    store: Store
    clock: MovableClock
    kept: Store | None = None

    def wrap(self, store: Any) -> Any:
        """Play on a store that lies about the one below it."""
        self.kept, self.store = self.kept or self.store, store
        return store

    async def close(self) -> None:
        """Close the store below."""
        await (self.kept or self.store).close()

    @asynccontextmanager
    async def runtime(
        self, *agents: AnyAgent, check: bool = False, workers: int = 0
    ) -> AsyncIterator[Runtime]:
        """A process that serves these agents."""
        place = Runtime(
            self.store, agents, check=check, workers=workers, clock=self.clock, lease_seconds=LEASE
        )
        async with place:
            yield place

    async def run(self, agent: AnyAgent, goal: Any = "go", *, check: bool = False, run_id: str = RUN) -> Any:
        """Start the run, or carry it on, in a process of its own."""
        async with self.runtime(agent, check=check) as place:
            return await place.run(agent, run_id, goal)

    async def crash(
        self, agent: AnyAgent, boundary: str, hit: int = 1, *, goal: Any = "go", run_id: str = RUN
    ) -> None:
        """The same in a process that dies at `boundary`, the `hit`-th time; then its lease runs out."""
        with dying(boundary, hit) as death, suppress(Crash):
            await self.run(agent, goal, run_id=run_id)
        self._buried(death)

    async def crash_in(
        self, boundary: str, what: Callable[[Runtime], Awaitable[object]], *agents: AnyAgent
    ) -> None:
        """`what` in a process of these agents that dies at `boundary`; then its lease runs out."""
        with dying(boundary) as death, suppress(Crash):
            async with self.runtime(*agents) as place:
                await what(place)
        self._buried(death)

    def _buried(self, death: Death) -> None:
        assert death.dead, f"{death.boundary} was not reached {death.hit} times: {dict(death.seen)}"
        self.clock.advance(LEASE + 1)

    async def events(self, run_id: str = RUN) -> list[e.Event]:
        """Everything that is durable of the run, verified."""
        found = await verify(self.store, run_id)
        assert found.ok, found
        return await history(self.store, run_id)

    async def bodies(self, kind: type[Any], run_id: str = RUN) -> list[Any]:
        """The durable facts of one kind."""
        return [event.body for event in await self.events(run_id) if isinstance(event.body, kind)]

    async def kinds(self, run_id: str = RUN) -> list[str]:
        """The kinds of all durable facts, in order."""
        return [event.kind for event in await self.events(run_id)]

    async def record(self, run_id: str = RUN) -> RunRecord:
        """The folded run."""
        return (await load(self.store, run_id)).record

    async def state(self, run_id: str = RUN) -> Any:
        """The committed state, plain."""
        return (await self.record(run_id)).state

    async def blameless(self, *worlds: World, run_id: str = RUN, undoable: Sequence[str] = ()) -> None:
        """No law is broken between the journal and what the worlds saw. `undoable`: tools with an undo."""
        events = await self.events(run_id)
        acts = concerning(run_id, events, [act for world in worlds for act in world.acts])
        found = offences(events, acts, undoable)
        assert found == [], found


@dataclass
class Death:
    """Counts boundaries; from the fatal one on every boundary is fatal."""

    boundary: str
    hit: int
    dead: bool = False
    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, name: str) -> None:
        self.seen[name] += 1
        if self.dead or (name == self.boundary and self.seen[name] == self.hit):
            self.dead = True
            raise Crash(name)

    def __enter__(self) -> Self:
        set_hook(self)
        return self

    def __exit__(self, *_: object) -> None:
        set_hook(None)


def dying(boundary: str, hit: int = 1) -> Death:
    """Within the block this process dies at a boundary."""
    return Death(boundary, hit)


@dataclass
class World:
    """What is outside: it remembers every act by its key, and may lose its answers.

    `lose`: how many answers get lost, each by a ConnectionError after the act.
    """

    acts: list[Act] = field(default_factory=list)
    lose: int = 0

    def act(self, reply: Any) -> Any:
        """To be called in a tool's body: it happens."""
        self.acts.append(Act.of(len(self.acts) + 1, current_call(), reply))
        if self.lose:
            self.lose -= 1
            raise ConnectionError("the line broke")
        return reply

    def find(self, key: str) -> Any:
        """What was answered under this key; None if nothing happened."""
        found = [act for act in self.acts if act.key == key]
        return codec.decode(bytes.fromhex(found[0].reply)) if found else None

    def __len__(self) -> int:
        return len(self.acts)

    @property
    def keys(self) -> list[str]:
        """The keys of the acts, in their order."""
        return [act.key for act in self.acts]


class Lagging:
    """A store whose disk is slow: what is appended is written, all at once, when the test says `commit`, or
    after `seconds` of real time. Everything else is the store below.
    """

    def __init__(self, below: Any, seconds: float | None = None) -> None:
        self.below = below
        self.seconds = seconds
        self.commits = 0
        self.queue: list[tuple[Batch, asyncio.Future[Appended]]] = []
        self._task: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """Queue a write."""
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self.queue.append((batch, future))
        if self.seconds is not None and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._write())
        return future

    async def _write(self) -> None:
        while self.queue:
            await asyncio.sleep(self.seconds or 0)
            self.commit()

    def commit(self) -> None:
        """Write what is queued, as one commit."""
        group, self.queue = self.queue, []
        self.commits += bool(group)
        for batch, future in group:
            done = self.below.append(batch)
            assert done.done(), "the store below answers at once"
            if (error := done.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(done.result())

    async def until(self, task: asyncio.Task[Any], *, seen: Callable[[], None] = lambda: None) -> int:
        """Commit whenever nothing goes on any more without it, until the task is done; how often that was."""
        before = self.commits
        while not task.done():
            for _ in range(100):
                await asyncio.sleep(0)
            if not task.done():
                seen()
                self.commit()
        return self.commits - before


def build(kind: str, folder: Path, *, hurried: bool = True) -> Stage:
    """A stage on a `memory` or an `sqlite` store, which is not open yet."""
    clock = MovableClock(hurried=hurried)
    if kind == "memory":
        return Stage(MemoryStore(clock=clock), clock)
    return Stage(SQLiteStore(folder / "perdure.db", clock=clock), clock)


def agent(step: Any, *tools: Any, name: str = "tester", **options: Any) -> AnyAgent:
    """An agent with a dict as its state, {"log": []}."""
    start: Any = lambda goal: {"log": []}  # noqa: E731
    made: AnyAgent = Agent(name, state=dict, goal=object, start=start, tools=list(tools), **options)
    made.step(step)
    return made


def statuses(outcomes: Sequence[Outcome[Any]]) -> list[str]:
    """Their words."""
    return [outcome.status for outcome in outcomes]
