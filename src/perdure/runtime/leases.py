"""The leases of this process: held, renewed together, given up in time.

A lease is judged by the store's clock; here only the monotonic clock counts, from before the claim, so that
this
process always believes its leases to end earlier than the store does (law 6).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from perdure.clock import Clock
from perdure.errors import StoreError
from perdure.store.protocol import Store

log = logging.getLogger("perdure.leases")

LEASE_SECONDS = 30.0
"""How long a silent worker keeps its runs where its death cannot be noticed otherwise."""

MARGIN_SECONDS = 1.0
"""An act begins only if the lease outlasts it by so much."""


@dataclass
class _Held:
    until: float
    lost: Callable[[], None]


class Leases:
    """Renews what this worker holds and tells a run's driver when its lease is gone."""

    def __init__(self, store: Store, worker: str, clock: Clock, seconds: float = LEASE_SECONDS) -> None:
        self.store = store
        self.worker = worker
        self.seconds = seconds
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._task: asyncio.Task[None] | None = None

    def hold(self, run_id: str, since: float, lost: Callable[[], None]) -> None:
        """Count a lease that was claimed at monotonic moment `since`; `lost` is called when it is gone."""
        self._held[run_id] = _Held(since + self.seconds, lost)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._beat())

    def drop(self, run_id: str) -> None:
        """Stop renewing this run's lease."""
        self._held.pop(run_id, None)

    async def cover(self, run_id: str, seconds: float) -> bool:
        """Make the lease outlast an act of `seconds`. False: it is lost, nothing may be acted."""
        held = self._held.get(run_id)
        if held is None:
            return False
        needed = seconds + MARGIN_SECONDS
        if held.until - self._clock.monotonic() >= needed:
            return True
        await self._renew((run_id,), max(self.seconds, needed + MARGIN_SECONDS))
        held = self._held.get(run_id)
        return held is not None and held.until - self._clock.monotonic() >= needed

    async def _renew(self, run_ids: tuple[str, ...], seconds: float) -> None:
        before = self._clock.monotonic()
        kept = await self.store.renew(self.worker, run_ids, seconds)
        for run_id in run_ids:
            held = self._held.get(run_id)
            if held is None:
                continue
            if run_id in kept:
                held.until = max(held.until, before + seconds)
            else:
                self._held.pop(run_id)
                held.lost()

    async def _beat(self) -> None:
        while self._held:
            await asyncio.sleep(self.seconds / 3)
            self._expire()
            soon = self._clock.monotonic() + self.seconds
            due = tuple(run_id for run_id, held in self._held.items() if held.until < soon)
            if due:
                try:
                    await self._renew(due, self.seconds)
                except StoreError as error:
                    log.warning("leases of %d runs could not be renewed: %s", len(due), error.what)

    def _expire(self) -> None:
        """A lease that could not be renewed in time is given up before the store gives it away."""
        now = self._clock.monotonic()
        for run_id, held in list(self._held.items()):
            if held.until <= now:
                self._held.pop(run_id)
                log.warning("the lease of run %s ran out before it could be renewed", run_id)
                held.lost()

    async def close(self) -> None:
        """End the renewals."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
