"""The children that one process carries on beside the run which waits for them.

For whoever starts a run and stays until it has ended, without a worker: a family then moves in one process.
A child whose agent this process does not know is left to a worker that serves it; while one drives it, it
moves, and whoever waits for the family goes on waiting, as for a run that another process drives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeAlias

from perdure.agent import Agent
from perdure.journal import load
from perdure.runtime.drive import Host
from perdure.runtime.lineage import Begun, open_children
from perdure.state.record import RunRecord
from perdure.store.protocol import RunRow

Carry: TypeAlias = Callable[[Agent[Any, Any, Any], str], Coroutine[Any, Any, object]]
"""Carries on the run of this id, of this agent."""


class Brood:
    """The children of one run; whatever still goes on at the end is left to be carried on later."""

    def __init__(self, host: Host, carry: Carry) -> None:
        self._host = host
        self._carry = carry
        self._agents: dict[str, Agent[Any, Any, Any]] = {}
        self._tasks: dict[str, asyncio.Task[object]] = {}
        self._others: set[str] = set()
        self._looked = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        going = [task for task in self._tasks.values() if not task.done()]
        for task in going:
            task.cancel()
        if going:
            await asyncio.wait(going)

    async def carry(self, row: RunRow, record: RunRecord | None) -> bool:
        """Carry on what the waiting run of this row has spawned. False: nothing of it can go on here now.

        `record`: the run as it is, if the caller has it. Raises what ended the drive of a child.
        """
        if row.seq != self._looked:
            if record is None or record.seq != row.seq:
                record = (await load(self._host.store, row.run_id)).record
            self._looked = row.seq
            for wait in open_children(record):
                agent = self._host.known.get(Begun.of(wait).started.agent)
                if agent is None:
                    self._others.add(wait.name)
                elif wait.name not in self._agents:
                    self._agents[wait.name] = agent
                    self._set_out(wait.name)
        for name, task in self._tasks.items():
            if task.done():
                task.result()
                if await self._can_go_on(name):
                    self._set_out(name)
        return any(not task.done() for task in self._tasks.values()) or await self._driven_elsewhere()

    async def _driven_elsewhere(self) -> bool:
        """Whether a live worker drives a child that cannot be carried on here."""
        store = self._host.store
        for name in self._others:
            row = await store.row(name)
            if not row.terminal and row.worker is not None and row.lease_until > store.now():
                return True
        return False

    def _set_out(self, name: str) -> None:
        carried = self._carry(self._agents[name], name)
        self._tasks[name] = asyncio.create_task(carried, name=f"child {name}")

    async def _can_go_on(self, name: str) -> bool:
        """Whether something has come for a child that waited, or its time has."""
        store = self._host.store
        row = await store.row(name)
        return not row.terminal and (row.pending > 0 or row.due_at <= store.now())
