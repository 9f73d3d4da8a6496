"""The order in which a step's recorded outcomes are served again.

Branches of a step interleave by the order in which their results came. A replay must hand the results out in
that same
order, and all of them before anything runs live. `Replay` keeps the queue; a branch whose turn has not come
waits. If
every branch waits and the next recorded outcome was not asked for, the code no longer matches the record.
"""

from __future__ import annotations

import asyncio
from collections import deque

from perdure.recovery.verdicts import first_seq, records
from perdure.state.record import CallRecord, RunRecord, WaitRecord


class Replay:
    """Recorded outcomes of the open step, in the order of their events."""

    def __init__(self, record: RunRecord) -> None:
        recorded = records(record) if record.calls or record.waits else ()
        served = [(_outcome_seq(item), item.path) for item in recorded if _outcome_seq(item)]
        self._queue = deque([path for _, path in sorted(served)])
        self._unasked = {item.path: first_seq(item) for item in recorded}
        self._turns: dict[str, asyncio.Future[None]] = {}
        self._live: list[asyncio.Future[None]] = []
        self._active = 1
        self.mismatch: int | None = None

    @property
    def replaying(self) -> bool:
        """Whether recorded outcomes are still to be served."""
        return bool(self._queue)

    @property
    def over(self) -> bool:
        """Whether everything recorded was served, as it was recorded."""
        return not self._queue and self.mismatch is None

    def asked(self, path: str) -> None:
        """The code asked for this recorded call or wait."""
        self._unasked.pop(path, None)

    def never_asked(self) -> int | None:
        """The first event whose call or wait the code has not asked for, if there is one."""
        return min(self._unasked.values(), default=None)

    async def turn(self, path: str) -> bool:
        """Wait until this recorded outcome is the next one to be served. False: the code has diverged."""
        if self._queue and self._queue[0] == path:
            self._queue.popleft()
        else:
            future = self._turns[path] = asyncio.get_running_loop().create_future()
            await self._blocked(future)
            del self._turns[path]
            if self.mismatch is not None:
                return False
            self._queue.popleft()
        self._wake()
        return True

    def passed(self, path: str) -> None:
        """An outcome that is served without waiting (now, random, new_id).

        It leaves the queue wherever it is.
        """
        if self._queue and self._queue[0] == path:
            self._queue.popleft()
        else:
            self._queue.remove(path)
        self._wake()

    async def live(self) -> bool:
        """Wait until everything recorded has been served. False: the code has diverged."""
        if self._queue:
            future = asyncio.get_running_loop().create_future()
            self._live.append(future)
            await self._blocked(future)
        return self.mismatch is None

    def branches(self, more: int) -> None:
        """The number of branches that can make progress changes (a gather begins or ends)."""
        self._active += more
        self._stalled()

    async def _blocked(self, future: asyncio.Future[None]) -> None:
        self._active -= 1
        self._stalled()
        try:
            await future
        finally:
            self._active += 1

    def _wake(self) -> None:
        if not self._queue:
            for future in self._live:
                _release(future)
            self._live.clear()
        elif (next_turn := self._turns.get(self._queue[0])) is not None:
            _release(next_turn)

    def _stalled(self) -> None:
        """Every branch waits for its turn and the next outcome was never asked for: give up, all at once."""
        if self._active > 0 or not self._queue:
            return
        head = self._turns.get(self._queue[0])
        if head is not None:
            _release(head)
        elif self._turns or self._live:
            self.mismatch = self._unasked.get(self._queue[0], 0)
            for future in (*self._turns.values(), *self._live):
                _release(future)


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _outcome_seq(item: CallRecord | WaitRecord) -> int:
    if isinstance(item, WaitRecord):
        return item.closed
    return item.seq if item.settled else 0
