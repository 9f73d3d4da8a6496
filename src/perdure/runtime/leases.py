"""The leases of this process: held, renewed together, given up in time.

A lease is judged by the store's clock; here only the monotonic clock counts, from before the claim, so that
this process always believes its leases to end earlier than the store does (law 6). A store that does not
answer cannot keep a lease from being given up in time. Code that blocks the event loop does not stop the
beats: they are made from a thread meanwhile, for `BLOCKED_SECONDS`; who blocks for longer loses its runs. A
forked child holds nothing of its parent's and has a name of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct

from perdure.clock import Clock
from perdure.errors import StoreError
from perdure.runtime.standstill import STANDSTILL_SECONDS, Standstill
from perdure.store import forks
from perdure.store.protocol import Store

log = logging.getLogger("perdure.leases")

LEASE_SECONDS = 30.0
"""How long a silent worker keeps its runs where its death cannot be noticed otherwise."""

MARGIN_SECONDS = 1.0
"""An act begins only if the lease outlasts it by so much."""

BEATS = 3
"""How often a lease is renewed in its time."""

BLOCKED_SECONDS = 120.0
"""So long leases are kept for an event loop that does not turn; then they run out, for somebody else."""

FENCE = 0.1
"""A lease is given up when only this part of its time is left."""


class _Held(Struct, eq=False):
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
        self._renewal: asyncio.Task[None] | None = None
        # Told before a lease is lost, and looked at often enough to keep it meanwhile.
        self._standstill = Standstill(min(STANDSTILL_SECONDS, seconds / 2), self.relieve)
        self._lost = 0
        forks.watch(self)

    def watch(self) -> None:
        """Watch the running event loop, also while no lease is held."""
        self._standstill.begin()

    def hold(self, run_id: str, since: float, lost: Callable[[], None]) -> None:
        """Count a lease that was claimed at monotonic moment `since`; `lost` is called when it is gone."""
        self._held[run_id] = _Held(since + self.seconds, lost)
        self._standstill.begin()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._beat())

    @property
    def held(self) -> int:
        """How many leases are held."""
        return len(self._held)

    @property
    def lost(self) -> int:
        """How many were lost since this process began."""
        return self._lost

    @property
    def stands(self) -> float:
        """For how many seconds the event loop has not turned, as far as is known."""
        return self._standstill.stands

    def oldest_beat(self) -> float:
        """How many seconds ago the lease was renewed that has gone longest without; 0.0 without leases."""
        ends = [held.until for held in list(self._held.values())]
        return max(0.0, self._clock.monotonic() - (min(ends) - self.seconds)) if ends else 0.0

    def drop(self, run_id: str, lost: Callable[[], None]) -> None:
        """Stop renewing the lease that is held with `lost`; one that was claimed since then is left alone."""
        held = self._held.get(run_id)
        if held is not None and held.lost == lost:
            del self._held[run_id]

    async def cover(self, run_id: str, seconds: float) -> bool:
        """Make the lease outlast an act of `seconds`. False: it is lost, nothing may be acted."""
        held = self._held.get(run_id)
        if held is None:
            return False
        needed = seconds + MARGIN_SECONDS
        if held.until - self._clock.monotonic() >= needed:
            return True
        await self._renew((run_id,), max(self.seconds, needed + MARGIN_SECONDS))
        return self._held.get(run_id) is held and held.until - self._clock.monotonic() >= needed

    def tick(self) -> None:
        """Give up what is running out, and begin to renew what is due."""
        now = self._clock.monotonic()
        for run_id, held in list(self._held.items()):
            if held.until - self.seconds * FENCE <= now:
                self._lose(run_id, held, "ran out before it could be renewed")
        due = tuple(run_id for run_id, held in self._held.items() if held.until < now + self.seconds)
        if due and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.get_running_loop().create_task(self._try_renewal(due))

    async def _beat(self) -> None:
        while self._held:
            soonest = min(held.until for held in self._held.values()) - self.seconds * FENCE
            left = soonest - self._clock.monotonic()
            await asyncio.sleep(min(self.seconds / BEATS, max(left, 0.01)))
            self.tick()

    async def _try_renewal(self, run_ids: tuple[str, ...]) -> None:
        try:
            await self._renew(run_ids, self.seconds)
        except StoreError as error:
            log.warning("leases of %d runs could not be renewed: %s", len(run_ids), error.what)

    async def _renew(self, run_ids: tuple[str, ...], seconds: float) -> None:
        asked = {run_id: held for run_id in run_ids if (held := self._held.get(run_id)) is not None}
        before = self._clock.monotonic()
        kept = await self.store.renew(self.worker, tuple(asked), seconds)
        for run_id, held in asked.items():
            if self._held.get(run_id) is not held:
                continue  # dropped meanwhile, perhaps claimed anew
            if run_id in kept:
                held.until = max(held.until, before + seconds)
            else:
                self._lose(run_id, held, "is another worker's")

    def relieve(self, stood: float) -> None:
        """Beat from another thread while the loop has not turned for `stood` seconds."""
        if not self.seconds / (2 * BEATS) < stood < BLOCKED_SECONDS:
            return
        now = self._clock.monotonic()
        ends = [held.until for held in list(self._held.values())]
        if ends and min(ends) < now + self.seconds * (1 - 1 / BEATS):
            try:
                asyncio.run(self._renew_elsewhere())
            except Exception as error:  # noqa: BLE001 - the watch goes on
                log.warning("leases could not be renewed while the event loop is blocked: %s", error)

    async def _renew_elsewhere(self) -> None:
        store = self.store.twin()
        if store is None:  # it has no other process to lose a lease to
            return
        asked = dict(self._held)
        await store.open()
        try:
            before = self._clock.monotonic()
            kept = await store.renew(self.worker, tuple(asked), self.seconds)
        finally:
            await store.close()
        for run_id, held in asked.items():
            # The loop's own thread gives up what is lost, and before it acts for anything.
            held.until = max(held.until, before + self.seconds) if run_id in kept else min(held.until, before)

    # -- forks

    def before_fork(self, seconds: float) -> None:
        """See `forks.Forkable`: nothing here needs to be quiet."""

    def after_in_parent(self) -> None:
        """See `forks.Forkable`."""

    def after_in_child(self) -> None:
        """See `forks.Forkable`: the child is another incarnation, and what it inherited is its parent's."""
        self.worker = f"w-{self._clock.new_id()}"
        self._held, self._task, self._renewal = {}, None, None
        self._standstill.forget()

    def _lose(self, run_id: str, held: _Held, why: str) -> None:
        self._held.pop(run_id)
        self._lost += 1
        log.warning("run %s: its lease %s", run_id, why)
        held.lost()

    async def close(self) -> None:
        """End the renewals."""
        forks.unwatch(self)
        self._standstill.end()
        ending = [task for task in (self._task, self._renewal) if task is not None]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)
