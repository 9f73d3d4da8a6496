"""Waiting until something has happened to a store: a commit by this process or another, or a worker's death.

Our own commits wake at once; those of others are seen by asking SQLite for its data version, and the dead by
their signs of life, both by a task that lives only while somebody waits.
"""

from __future__ import annotations

import asyncio

from perdure.clock import Clock
from perdure.store.sqlite.incarnation import Signs
from perdure.store.sqlite.reader import Reader

POLL_SECONDS = 0.05
"""How soon a commit of another process is noticed."""

POLLS_PER_LOOK = 5
"""The dead are looked for every so many polls."""


class Watch:
    """Counts what happened, and wakes whoever waits for the count to rise."""

    def __init__(self, reader: Reader, clock: Clock, signs: Signs) -> None:
        self._reader = reader
        self._clock = clock
        self._signs = signs
        self._mark = 1
        self._version: tuple[int, int] | None = None
        self._event = asyncio.Event()
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Something has happened."""
        self._mark += 1
        self._event.set()
        self._event = asyncio.Event()

    async def changed(self, seen: int, timeout_seconds: float) -> int:
        """See `Store.changed`."""
        await self._poll()
        if self._mark != seen or timeout_seconds <= 0:
            return self._mark
        self._waiting += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())
        waits = [
            asyncio.ensure_future(self._event.wait()),
            asyncio.ensure_future(self._clock.sleep(timeout_seconds)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting -= 1
            for wait in waits:
                wait.cancel()
        return self._mark

    async def close(self) -> None:
        """Wake everyone and stop looking."""
        self.wake()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        polls = 0
        while self._waiting:
            await asyncio.sleep(POLL_SECONDS)
            await self._poll()
            polls += 1
            if polls % POLLS_PER_LOOK == 0 and await asyncio.to_thread(self._anyone_dead):
                self.wake()

    async def _poll(self) -> None:
        version = await self._reader.version()
        if version != self._version:
            first = self._version is None
            self._version = version
            if not first:
                self.wake()

    def _anyone_dead(self) -> bool:
        return any(self._signs.is_dead(worker) for worker in self._signs.all())
