"""What may wait a little before it is handed to the store: one timer for all runs of an event loop.

A run that waits for each of its steps has something that may linger in each of them, and a timer is as dear
as the write. It knows nothing of what is written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

LINGER_SECONDS = 0.005
"""So long an event waits at most for others, unless something waits for it."""


class Lingers(Protocol):
    """Whose facts wait."""

    def lingered(self, since: float) -> None:
        """What began to wait at the moment `since`, which it gave itself, has waited long enough."""
        ...


class Lingering:
    """Those who have something that waits, the longest first."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Lingers, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, who: Lingers, since: float) -> None:
        """Call its `lingered` after `LINGER_SECONDS`, in the event loop that is running now."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # a timer of another one never comes
            self._loop, self._timer = loop, None
            self._waiting.clear()
        due = loop.time() + LINGER_SECONDS
        self._waiting.append((due, who, since))
        if self._timer is None:
            self._timer = loop.call_at(due, self._turn)

    def _turn(self) -> None:
        assert self._loop is not None
        self._timer = None
        now = self._loop.time()
        while self._waiting and self._waiting[0][0] <= now:
            _, who, since = self._waiting.popleft()
            who.lingered(since)
        if self._waiting and self._timer is None:
            self._timer = self._loop.call_at(self._waiting[0][0], self._turn)
