"""What the calls under way in one process have been promised of their run's budget, before it is written.

Between the moment in which a call is found to fit and the one in which its intent is part of the record,
only this keeps two branches from reserving the same rest. A promise is counted until the record shows the
attempt that it was made for; it never outlives the process, and need not: nothing was sent yet, or the record
says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from perdure.state.amount import NOTHING, Amount
from perdure.state.record import RunRecord


class Pledge(Struct, frozen=True):
    """What one attempt of a call may use at worst."""

    amount: Amount
    attempt: int


class Purse:
    """The pledges of one run's branches, and who waits until another one has settled."""

    def __init__(self) -> None:
        self._pledges: dict[str, Pledge] = {}
        self._active: set[str] = set()
        self._waiting: set[str] = set()
        self._wakers: list[asyncio.Future[None]] = []

    @contextmanager
    def active(self, path: str) -> Iterator[None]:
        """While inside, the call at `path` is on its way: what it holds comes free by itself."""
        self._active.add(path)
        try:
            yield
        finally:
            self._active.discard(path)
            self._waiting.discard(path)
            self.drop(path)

    def pledge(self, path: str, amount: Amount, attempt: int) -> None:
        """Promise `amount` to this attempt."""
        self._waiting.discard(path)
        self._pledges[path] = Pledge(amount, attempt)

    def drop(self, path: str) -> None:
        """The attempt is over: what it held stands in the record, or is free."""
        self._pledges.pop(path, None)
        self._wake()

    def pledged(self, record: RunRecord, but: str) -> Amount:
        """What is promised to others than `but`, and not in the record yet."""
        return sum(
            [
                pledge.amount
                for path, pledge in self._pledges.items()
                if path != but and not _recorded(record, path, pledge)
            ],
            NOTHING,
        )

    def coming_free(self, record: RunRecord, but: str) -> Amount:
        """What others, which are on their way and do not wait themselves, hold now."""
        reserved = {} if record.ledger is None else record.ledger.reserved
        held = NOTHING
        for path in self._active:
            if path == but or path in self._waiting:
                continue
            held = held + reserved.get(path, NOTHING)
            pledge = self._pledges.get(path)
            if pledge is not None and not _recorded(record, path, pledge):
                held = held + pledge.amount
        return held

    async def change(self, path: str) -> None:
        """Wait, on behalf of the call at `path`, until something may have come free."""
        if path not in self._waiting:
            self._waiting.add(path)
            self._wake()  # who waits for this one must not
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wakers.append(waker)
        await waker

    def _wake(self) -> None:
        wakers, self._wakers = self._wakers, []
        for waker in wakers:
            if not waker.done():
                waker.set_result(None)


def _recorded(record: RunRecord, path: str, pledge: Pledge) -> bool:
    call = record.calls.get(path)
    return call is not None and call.attempt >= pledge.attempt
