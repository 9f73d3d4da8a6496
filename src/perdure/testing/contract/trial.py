"""What a promise is tried with: an open store, a clock that stands still, and short words for runs and
events.

It uses the verbs of `perdure.store.protocol` and nothing below them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.store.protocol import Blob, Claim, Claimed, Message, NewRun, Snapshot, Store, Stored
from perdure.testing.clock import MovableClock


class Promises:
    """A class of promises, and how to make the store that they are tried on."""

    shared = True
    """Whether two store objects can be open on one place, and the bytes survive closing."""

    transactional = True
    """Whether the store runs transactional calls."""

    def new_store(self, folder: Path, clock: Clock) -> Store:
        """A store in this folder, not open yet. For the same folder it must be the same place again."""
        raise NotImplementedError

    def size(self, data: bytes, digest: bytes | None = None) -> int:
        """The bytes that the store counts for a value, and its digest if it has one: more if it adds some."""
        return len(data)

    def size_of(self, *items: Stored | Snapshot | Blob) -> int:
        """The bytes that the store counts for these."""
        return sum(self.size(item.data, item.digest) for item in items)


S = TypeVar("S", bound=Promises)


@dataclass
class Trial:
    """One promise's surroundings: an open store, its clock, and more stores on the same place."""

    store: Store
    clock: MovableClock
    make: Callable[[], Store]
    others: list[Store] = field(default_factory=list)

    async def another(self) -> Store:
        """One more store object on the same place, open."""
        store = self.make()
        await store.open()
        self.others.append(store)
        return store

    async def new_run(self, run_id: str = "r", *, events: int = 1, due_at: int = 0) -> None:
        """A run with so many events."""
        await self.store.create(new_run(run_id, events=events, due_at=due_at))

    async def lease(self, run_id: str = "r", *, worker: str = "w1", seconds: float = 30) -> Claimed:
        """A new run, claimed."""
        await self.new_run(run_id)
        return await self.claim(run_id, worker=worker, seconds=seconds)

    async def claim(self, run_id: str, *, worker: str = "w1", seconds: float = 30) -> Claimed:
        """A lease of this run, which must be free."""
        (claimed,) = await self.store.claim(Claim(worker, seconds, run_id=run_id))
        return claimed

    async def next_ids(self, worker: str = "w2", **more: Any) -> list[str]:
        """The ids of what a worker gets now."""
        return [c.row.run_id for c in await self.store.claim(Claim(worker, 30, **more))]


def promise(test: Callable[[S, Trial], Awaitable[None]]) -> Callable[[S, Path], None]:
    """Make a coroutine over a `Trial` an ordinary test."""

    def run(self: S, tmp_path: Path) -> None:
        asyncio.run(_try(self, test, tmp_path))

    run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
    return run


async def _try(contract: S, test: Callable[[S, Trial], Awaitable[None]], folder: Path) -> None:
    clock = MovableClock()
    trial = Trial(contract.new_store(folder, clock), clock, lambda: contract.new_store(folder, clock))
    await trial.store.open()
    try:
        await test(contract, trial)
    finally:
        for store in (*trial.others, trial.store):
            await store.close()


@contextmanager
def refused(*kinds: type[PerdureError]) -> Iterator[list[PerdureError]]:
    """The block must raise one of these errors; the list holds it afterwards."""
    caught: list[PerdureError] = []
    try:
        yield caught
    except kinds as error:
        caught.append(error)
    assert caught, f"expected {' or '.join(kind.__name__ for kind in kinds)}, nothing was refused"


def event(seq: int, data: bytes = b"") -> Stored:
    """An event whose bytes tell its number."""
    data = data or b"event %d" % seq
    return Stored(seq, data, data.ljust(16, b".")[-16:])


def events(first: int, last: int) -> tuple[Stored, ...]:
    """Events numbered from first to last."""
    return tuple(event(seq) for seq in range(first, last + 1))


def new_run(
    run_id: str = "r", *, events: int = 1, due_at: int = 0, agent: str = "a", version: str = "1"
) -> NewRun:
    """A run as `create` takes it."""
    first = tuple(event(seq) for seq in range(1, events + 1))
    return NewRun(run_id, agent, version, "ready", first, due_at)


def message(run_id: str, message_id: str, data: bytes = b"data") -> Message:
    """A message of kind `signal`."""
    return Message(run_id, message_id, "signal", data)
