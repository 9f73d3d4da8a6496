"""Loads of many runs in one exchange: those that are asked for at the same time are read together.

A worker claims as many runs at once as it has places, and loads each: what the server spends on a statement
and this process on an exchange is spent once for all of them. It knows neither tables nor connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from perdure.errors import StoreError
from perdure.store.protocol import Loaded
from perdure.store.standing import told

TOGETHER = 50
"""So many runs at most are read in one exchange, so that the first of them need not wait for long."""

Found: TypeAlias = Mapping[str, Loaded | StoreError]
"""What became of each run that was asked for."""


class Loads:
    """Gathers the runs that are asked for in one turn of the event loop; `read` reads some of them."""

    def __init__(self, read: Callable[[Sequence[str]], Awaitable[Found]]) -> None:
        self._read = read
        self._asked: list[tuple[str, asyncio.Future[Loaded]]] = []
        self._reading: set[asyncio.Task[None]] = set()

    async def load(self, run_id: str) -> Loaded:
        """See `Store.load`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Loaded] = loop.create_future()
        self._asked.append((run_id, future))
        if len(self._asked) == 1:
            loop.call_soon(self._send)
        return await future

    def _send(self) -> None:
        asked, self._asked = self._asked, []
        for first in range(0, len(asked), TOGETHER):
            task = asyncio.create_task(self._some(asked[first : first + TOGETHER]))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _some(self, asked: Sequence[tuple[str, asyncio.Future[Loaded]]]) -> None:
        found: Found = {}
        failure: BaseException | None = None
        try:
            found = await self._read(list(dict.fromkeys(run_id for run_id, _ in asked)))
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            failure = error
        for run_id, future in asked:
            if future.done():
                continue
            loaded = found[run_id] if failure is None else failure
            if isinstance(loaded, Loaded):
                future.set_result(loaded)
            elif isinstance(loaded, asyncio.CancelledError):
                future.cancel()
            else:
                future.set_exception(told(loaded))
