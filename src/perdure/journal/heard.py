"""A journal that somebody listens to: each fact when it is numbered, and again once it is durable.

A subclass, so that a journal nobody listens to pays nothing, not even for the question whether anybody does.
What the store refused is never told as durable; what is told so is told once, in its order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Protocol

from perdure.clock import Clock
from perdure.journal.fences import Fences
from perdure.journal.live import Durability, Journal
from perdure.journal.past import Past
from perdure.journal.snapshots import SnapshotPolicy
from perdure.journal.wall import behind_wall
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store.protocol import Appended, Batch, Store, Stored, Tx


class Hearer(Protocol):
    """Who listens to one run's journal. Must not raise."""

    def noted(self, event: e.Event) -> None:
        """A fact has its number. It may never become durable. Called in whatever thread made the fact."""
        ...

    def happened(self, events: Sequence[e.Event], record: RunRecord) -> None:
        """These are durable now. `record` is the run as it stands, which may be ahead of them."""
        ...

    def committed(self, seconds: float, refused: bool) -> None:
        """A write was answered so long after it had been handed to the store."""
        ...


class Heard(Journal):
    """A Journal with a `Hearer`."""

    def __init__(
        self,
        store: Store,
        past: Past,
        *,
        policy: SnapshotPolicy,
        durability: Durability,
        clock: Clock,
        hearer: Hearer,
    ) -> None:
        super().__init__(store, past, policy=policy, durability=durability, clock=clock)
        self._hearer = hearer
        self._unheard: deque[e.Event] = deque()
        self._hearing = Lock()  # a transactional call's facts get their numbers in a thread of the store's

    def _encode(self, body: e.AnyBody, *, whole: bool = False) -> Stored:
        stored = super()._encode(body, whole=whole)
        event = e.Event(stored.seq, self.record.updated_at, self.epoch, behind_wall(body))
        with self._hearing:
            while self._unheard and self._unheard[-1].seq >= event.seq:  # it was refused: the number is free
                self._unheard.pop()
            self._unheard.append(event)
        self._hearer.noted(event)
        return stored

    def _tell(self) -> None:
        """Hand on what is durable by now."""
        if self.failure is not None:
            return
        told = []
        with self._hearing:
            while self._unheard and self._unheard[0].seq <= self._sent - self._unacked:
                told.append(self._unheard.popleft())
        if told:
            self._hearer.happened(told, self.record)

    def _send(self, batch: Batch) -> asyncio.Future[Appended]:
        began = self.clock.monotonic()
        future = super()._send(batch)
        if future.done():
            self._took(future, began)
        else:
            future.add_done_callback(lambda done: self._took(done, began))
        return future

    def _took(self, done: asyncio.Future[Appended], began: float) -> None:
        refused = done.cancelled() or done.exception() is not None
        self._hearer.committed(self.clock.monotonic() - began, refused)

    def _acknowledged(self, *told: Any) -> None:
        super()._acknowledged(*told)
        self._tell()

    async def _try(self, batch: Batch) -> tuple[BaseException | None, asyncio.CancelledError | None]:
        began = self.clock.monotonic()
        error, cancelled = await super()._try(batch)
        self._hearer.committed(self.clock.monotonic() - began, error is not None)
        if error is None:
            self._tell()
        return error, cancelled

    async def transact(
        self, act: Callable[[Tx], Sequence[e.AnyBody]], *, seconds: float, fences: Fences
    ) -> tuple[e.AnyBody, ...]:
        """As in `Journal`."""
        began, refused = self.clock.monotonic(), True
        try:
            bodies = await super().transact(act, seconds=seconds, fences=fences)
            refused = False
        finally:
            self._hearer.committed(self.clock.monotonic() - began, refused)
            self._tell()
        return bodies
