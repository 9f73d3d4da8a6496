"""Every open run against today's code, before anybody deploys it: what would become of each, and why.

Only reads the store, page by page, beside running workers (law 14). User code is executed in a thread apart
and for a bounded time, so that a step that never ends is a finding and not the end of the look.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace as evolve
from typing import Any, Self

from perdure.agent import Agent, families
from perdure.clock import Clock
from perdure.errors import (
    Damaged,
    NewerFormat,
    NoSuchRun,
    NotServed,
    PerdureError,
    RunGone,
    StepHangs,
)
from perdure.journal import Past, restore
from perdure.runtime.aside import Aside, TookTooLong
from perdure.runtime.execution import Execution
from perdure.runtime.forecast import Forecast, Preflight
from perdure.runtime.holds import POISON_CLAIMS, poison_of
from perdure.runtime.rehearsal import rehearse
from perdure.runtime.spectator import STEP_SECONDS, spectator
from perdure.runtime.vaults import entered, vault_of
from perdure.store.pages import every
from perdure.store.protocol import Query, RunRow, Store

AHEAD = 8
"""So many runs are loaded before they are looked at: a store that is far away answers several at once."""

Progress = Callable[[int, int], None]
"""Told how many runs of how many are looked at."""


async def preflight(
    store: Store,
    agents: Sequence[Agent[Any, Any, Any]],
    clock: Clock,
    *,
    seconds: float = STEP_SECONDS,
    progress: Progress = lambda done, total: None,
) -> Preflight:
    """What these agents would do to every open run of the store, newest first.

    Writes and calls nothing. `seconds`: how long the step of one run may take. Raises StoreError.
    """
    began = clock.monotonic()
    known = {agent.name: agent for agent in families(agents)}
    for agent in known.values():
        agent.validate()
    found: list[Forecast] = []
    rows = [row async for row in every(store, Query(open_only=True))]
    with _Look(store, known, clock, seconds) as look:
        done = 0
        async for past in _ahead(look, rows):
            forecast = await look.foreseen(past) if isinstance(past, Past) else past
            if forecast is not None:
                found.append(forecast)
            progress(done := done + 1, len(rows))
    return Preflight(tuple(found), clock.monotonic() - began)


_Found = Past | Forecast | None
"""A run as it was loaded; or what is known of it without that, or that it has ended or gone meanwhile."""


async def _ahead(look: _Look, rows: Sequence[RunRow]) -> AsyncIterator[_Found]:
    """The runs in their order; some are loaded while another one is rehearsed."""
    loading: deque[asyncio.Task[_Found]] = deque()
    try:
        for row in rows:
            loading.append(asyncio.create_task(look.load(row)))
            if len(loading) > AHEAD:
                yield await loading.popleft()
        while loading:
            yield await loading.popleft()
    finally:
        for task in loading:
            task.cancel()
        if loading:
            await asyncio.wait(loading)


class _Look:
    """What one look at many runs shares."""

    def __init__(
        self, store: Store, known: Mapping[str, Agent[Any, Any, Any]], clock: Clock, seconds: float
    ) -> None:
        self.store = store
        self.known = known
        self.seconds = seconds
        self.aside = Aside()
        self.host = spectator(store, clock, known, "preflight")

    def __enter__(self) -> Self:
        self.aside.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.aside.__exit__()
        self.host.threads.shutdown(wait=False)

    async def load(self, row: RunRow) -> _Found:
        """The run, or what is known of one that cannot be read."""
        run_id = row.run_id
        try:
            past = await restore(self.store, await self.store.load(run_id))
        except (NoSuchRun, RunGone):
            return None
        except NewerFormat as error:
            return _said(row, "stranded", "format-newer", error)
        except Damaged as error:
            return _said(row, "held", "damaged", error)
        return None if past.row.terminal else past

    async def foreseen(self, past: Past) -> Forecast:
        """What would become of the run."""
        row, agent = past.row, self.known.get(past.row.agent)
        if agent is None:
            served = ", ".join(sorted(self.known)) or "none"
            what = f"run {row.run_id} needs agent {row.agent}; this code has {served}"
            remedy = f"keep a worker that has agent {row.agent}, or end the run: perdure retire {row.run_id}"
            return _said(row, "stranded", "not-served", NotServed(what, remedy=remedy), past.record.step)
        return await self._rehearsed(agent, past)

    async def _rehearsed(self, agent: Agent[Any, Any, Any], past: Past) -> Forecast:
        last: list[Execution] = []
        try:
            vault = await vault_of(self.store, past.row.run_id)

            async def work() -> Forecast:
                with entered(vault):
                    return await rehearse(self.host, agent, past, last.append)

            return await self.aside.play(work, self.seconds)
        except TookTooLong as late:
            for execution in last:  # whatever it does when it wakes up is no part of any step
                execution.over = True
                execution.drive.stopping = True
            what = f"its step came to no call, wait or end within {self.seconds:g} s"
            error = StepHangs(what + (f" ({late.place})" if late.place else ""))
            return _said(past.row, "hangs", "step-hangs", error, past.record.step)
        except Exception as error:  # noqa: BLE001  (whatever the agent's code raises is the finding)
            held = poison_of(past.row.run_id, POISON_CLAIMS + 1, error)
            about = _said(past.row, "held", held.reason, PerdureError(""), past.record.step)
            return evolve(about, detail=held.detail, remedies=held.remedies)


def _said(row: RunRow, prospect: Any, reason: str, error: PerdureError, step: int = 0) -> Forecast:
    about = Forecast(row.run_id, row.agent, row.status, step, prospect, reason)
    return evolve(about, detail=f"[{error.code}] {error.what}", remedies=(error.remedy,))
