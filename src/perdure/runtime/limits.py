"""How many calls of one tool may run at once, and how many in a period, in this process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from perdure.agent import Tool
from perdure.clock import Clock


class Limits:
    """Gates by tool: `limit=` (at once) and `rate=` (in a sliding period)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_once: dict[object, asyncio.Semaphore] = {}
        self._recent: dict[object, deque[float]] = {}

    @asynccontextmanager
    async def admit(self, tool: Tool[..., Any]) -> AsyncIterator[None]:
        """Wait for a place and for the rate, then hold the place."""
        limit = tool.options.limit
        if limit is None:
            await self._pace(tool)
            yield
            return
        gate = self._at_once.setdefault(tool.identity, asyncio.Semaphore(limit))
        async with gate:
            await self._pace(tool)
            yield

    async def _pace(self, tool: Tool[..., Any]) -> None:
        rate = tool.options.rate
        if rate is None:
            return
        period = rate.per.total_seconds()
        recent = self._recent.setdefault(tool.identity, deque())
        while True:
            now = self._clock.monotonic()
            while recent and recent[0] <= now - period:
                recent.popleft()
            if len(recent) < rate.n:
                recent.append(now)
                return
            await self._clock.sleep(recent[0] + period - now)
