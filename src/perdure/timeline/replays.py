"""Runs of a store replayed against today's code, one or many, each in a thread apart and in bounded time.

Only reads the store, beside running workers (law 14): a step that never ends is a finding and not the end of
the look.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace as evolve
from datetime import timedelta
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from perdure.agent import Agent, families
from perdure.clock import SECOND, Clock
from perdure.codec.sealed import Vault
from perdure.errors import Damaged, NewerFormat, NoSuchRun, NotServed, PerdureError, RunGone, StepHangs
from perdure.journal import Past, Retold, retold
from perdure.runtime.aside import Aside, TookTooLong
from perdure.runtime.spectator import STEP_SECONDS, spectator
from perdure.runtime.vaults import entered, vault_of
from perdure.state.record import RunRecord
from perdure.store.protocol import Query, RunRow, Store
from perdure.timeline.replay import Rerun
from perdure.timeline.replayed import Difference, Replayed, Replays

PAGE = 500
"""Runs that are listed at a time."""

AHEAD = 4
"""So many runs are read before they are replayed."""

TURN_SECONDS = 0.1
"""So long steps are executed before the caller hears of it."""

Progress = Callable[[int, int], None]
"""Told how many runs of how many are done."""


class Choice(Struct, frozen=True):
    """Which runs of a store: `since` a moment (microseconds, 0: all) at which they were started, of these
    `statuses` and `agents` (empty: any). `most`: no more than so many, the newest (0: all).
    """

    since: int = 0
    statuses: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    most: int = 0


def of_agents(choice: Choice, agents: Sequence[Agent[Any, Any, Any]]) -> Choice:
    """Of the runs that are chosen, those of these agents and of what they spawn."""
    return replace(choice, agents=tuple(agent.name for agent in families(agents)))


def since(clock: Clock, span: timedelta | None) -> int:
    """The moment that lies so long ago; 0 for None."""
    return 0 if span is None else clock.now() - int(span.total_seconds() * SECOND)


async def replay(
    store: Store,
    agents: Sequence[Agent[Any, Any, Any]],
    clock: Clock,
    run_id: str,
    *,
    seconds: float = STEP_SECONDS,
) -> Replayed:
    """What these agents do to one run's whole history. Writes and calls nothing.

    `seconds`: how long one step may take. Raises NotServed if no agent is the run's, Damaged, NewerFormat,
    NoSuchRun, RunGone.
    """
    with Replayer(store, agents, clock, seconds) as replayer:
        return await replayer.one(await store.row(run_id))


async def chosen(store: Store, choice: Choice) -> tuple[list[RunRow], int]:
    """The runs that are chosen, the newest first; and how many are left out only for their agent."""
    found: list[RunRow] = []
    others = 0
    before: tuple[int, str] | None = None
    while page := await store.list(Query(statuses=choice.statuses, limit=PAGE, before=before)):
        for row in page:
            if row.created_at < choice.since or (choice.most and len(found) == choice.most):
                return found, others
            if not choice.agents or row.agent in choice.agents:
                found.append(row)
            else:
                others += 1
        before = (page[-1].created_at, page[-1].run_id)
    return found, others


async def replay_all(
    store: Store,
    agents: Sequence[Agent[Any, Any, Any]],
    clock: Clock,
    choice: Choice,
    *,
    seconds: float = STEP_SECONDS,
    progress: Progress = lambda done, total: None,
) -> Replays:
    """What these agents do to each of their runs that is chosen, the newest first. Raises StoreError."""
    began = clock.monotonic()
    rows, others = await chosen(store, of_agents(choice, agents))
    found = await replay_rows(store, agents, clock, rows, seconds=seconds, progress=progress)
    return Replays(tuple(found), others, clock.monotonic() - began)


async def replay_rows(
    store: Store,
    agents: Sequence[Agent[Any, Any, Any]],
    clock: Clock,
    rows: Sequence[RunRow],
    *,
    seconds: float = STEP_SECONDS,
    progress: Progress = lambda done, total: None,
) -> list[Replayed]:
    """The same for these runs, in their order, without those that have gone meanwhile."""
    found: list[Replayed] = []
    with Replayer(store, agents, clock, seconds) as replayer:
        done = 0
        async for one in replayer.each(rows):
            found += [] if one is None else [one]
            progress(done := done + 1, len(rows))
    return found


class Replayer:
    """What the replays of many runs share. Use it in a `with` block. `known`: the agents, by name."""

    def __init__(
        self, store: Store, agents: Sequence[Agent[Any, Any, Any]], clock: Clock, seconds: float
    ) -> None:
        self.known: Mapping[str, Agent[Any, Any, Any]] = {agent.name: agent for agent in families(agents)}
        for agent in self.known.values():
            agent.validate()
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._aside = Aside()
        self._host = spectator(store, clock, self.known, "replay")

    def __enter__(self) -> Self:
        self._aside.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.__exit__()
        self._host.threads.shutdown(wait=False)

    async def one(self, row: RunRow) -> Replayed:
        """One run. Raises NotServed if no agent is the run's, Damaged, NewerFormat, NoSuchRun, RunGone."""
        if row.agent not in self.known:
            served = ", ".join(sorted(self.known)) or "none"
            raise NotServed(
                f"run {row.run_id} was made by agent {row.agent}; this code has {served}",
                run_id=row.run_id,
                remedy=f"name the code that has agent {row.agent}",
            )
        return await self.replayed(row, await retold(self._store, row.run_id))

    async def each(self, rows: Sequence[RunRow]) -> AsyncIterator[Replayed | None]:
        """The runs in their order, None for one that has gone meanwhile; some are read ahead."""
        reading: deque[asyncio.Task[Retold | Replayed | None]] = deque()
        todo = deque(rows)
        try:
            for row in rows:
                while todo and len(reading) <= AHEAD:
                    reading.append(asyncio.create_task(self._read(todo.popleft())))
                found = await reading.popleft()
                yield await self.replayed(row, found) if isinstance(found, Retold) else found
        finally:
            for task in reading:
                task.cancel()
            if reading:
                await asyncio.wait(reading)

    async def _read(self, row: RunRow) -> Retold | Replayed | None:
        try:
            return await retold(self._store, row.run_id)
        except (NoSuchRun, RunGone):
            return None
        except (Damaged, NewerFormat) as error:
            return _refused(row, error)

    async def replayed(self, row: RunRow, told: Retold) -> Replayed:
        """Today's code over all of a run's events, or over those that compaction has left whole."""
        began, events = self._clock.monotonic(), told.later
        past = Past(row, RunRecord(), b"", ())
        try:
            rerun = Rerun(self._host, self.known[row.agent], past, events, told.base)
            difference = await self._gone_through(rerun, await vault_of(self._store, row.run_id))
        except PerdureError as error:
            return _refused(row, error)
        return Replayed(
            row.run_id,
            row.agent,
            row.status,
            len(events),
            rerun.steps,
            rerun.calls,
            difference,
            notes=tuple(rerun.notes),
            seconds=self._clock.monotonic() - began,
        )

    async def _gone_through(self, rerun: Rerun, vault: Vault | None) -> Difference | None:
        """Execute all steps, some at a time, until one differs or does not end."""
        begun = False

        async def turn() -> tuple[bool, Difference | None]:
            with entered(vault):
                return await inside()

        async def inside() -> tuple[bool, Difference | None]:
            nonlocal begun
            if not begun:
                begun = True
                if (found := await rerun.begin()) is not None:
                    return False, found
            until = self._clock.monotonic() + TURN_SECONDS
            while self._clock.monotonic() < until:
                more, found = await rerun.next()
                if not more or found is not None:
                    return False, found
            return True, None

        more = True
        found: Difference | None = None
        while more:
            try:
                more, found = await self._aside.play(turn, self._seconds)
            except TookTooLong as late:
                return self._hung(rerun, late.place)
        return found

    def _hung(self, rerun: Rerun, place: str) -> Difference:
        if (execution := rerun.execution) is not None:  # whatever it does when it wakes up is no part of it
            execution.over = True
            execution.drive.stopping = True
        what = f"no end within {self._seconds:g} s"
        detail = f"[{StepHangs.code}] step {rerun.number} came to {what}"
        return Difference("hangs", rerun.number, rerun.seq, "", "an end", what, detail, place)


def _refused(row: RunRow, error: PerdureError) -> Replayed:
    about = Replayed(row.run_id, row.agent, row.status)
    return evolve(about, refused=f"[{error.code}] {error.what}")
