"""Provisional output of bodies that run in this process, for whoever follows their run here.

A chunk is never stored and promises nothing: it says which attempt of which call it comes from, and its
number there. A follower that sees number 1 of a path drops what it had of that path: the body began anew. A
replay runs no body, so it publishes nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from perdure.agent import current_call
from perdure.state import events as e

KEPT = 10_000
"""Chunks that wait for one follower; of more the oldest are dropped, which their numbers show."""


class Chunk(Struct, frozen=True):
    """A piece of output: the `number`-th (1, 2, 3 …) of attempt `attempt` of the call at `path`."""

    run_id: str
    epoch: int
    path: str
    attempt: int
    number: int
    value: object


class _Ear:
    """One follower: what it has not heard yet. Belongs to the loop in which it was made."""

    def __init__(self) -> None:
        self.chunks: deque[Chunk] = deque(maxlen=KEPT)
        self.heard = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def tell(self, chunk: Chunk) -> None:
        """From any thread: plain tools run in some."""
        self._loop.call_soon_threadsafe(self._put, chunk)

    def _put(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.heard.set()


class Chunks:
    """Who listens to which run in this process."""

    def __init__(self) -> None:
        self._ears: defaultdict[str, list[_Ear]] = defaultdict(list)

    def sender(self, run_id: str, epoch: int) -> Callable[[object], None]:
        """What `publish` calls in the bodies of this run, while it is driven here under this epoch."""
        counts: dict[tuple[str, int], int] = {}

        def send(value: object) -> None:
            call = current_call()
            place = call.path, call.attempt
            number = counts[place] = counts.get(place, 0) + 1
            for ear in self._ears.get(run_id, ()):
                ear.tell(Chunk(run_id, epoch, call.path, call.attempt, number, value))

        return send

    @contextmanager
    def _listening(self, run_id: str) -> Iterator[_Ear]:
        ear = _Ear()
        self._ears[run_id].append(ear)
        try:
            yield ear
        finally:
            self._ears[run_id].remove(ear)
            if not self._ears[run_id]:
                del self._ears[run_id]

    async def between(self, events: AsyncIterator[e.Event], run_id: str) -> AsyncIterator[e.Event | Chunk]:
        """The durable events, and between them the chunks that come meanwhile, in the order they come."""
        with self._listening(run_id) as ear:
            following = _next(events)
            try:
                while True:
                    hearing = asyncio.ensure_future(ear.heard.wait())
                    both: list[asyncio.Future[Any]] = [following, hearing]
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                    hearing.cancel()
                    ear.heard.clear()
                    while ear.chunks:
                        yield ear.chunks.popleft()
                    if not following.done():
                        continue
                    if (event := following.result()) is None:
                        return
                    yield event
                    following = _next(events)
            finally:
                following.cancel()


def _next(events: AsyncIterator[e.Event]) -> asyncio.Future[e.Event | None]:
    return asyncio.ensure_future(anext(events, None))
