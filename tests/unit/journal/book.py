"""A run's journal on a disk that answers when the test says so."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from perdure import codec
from perdure.journal import Fences, Journal, SnapshotPolicy, load
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.protocol import GENESIS, Claim, NewRun, Stored
from perdure.testing.clock import MovableClock
from tests.unit.runtime.stage import Lagging

RUN = "r"
NO_SNAPSHOTS = SnapshotPolicy(None, None)
LEASE = 30.0


def head(name: str, effect: e.Effect = "read") -> e.CallHead:
    """Which call it is."""
    return e.CallHead(name, effect, (), codec.digest(name.encode()))


def receipt(n: int, value: Any = None) -> e.CallSettled:
    """The receipt of a read."""
    return e.CallSettled(f"1:{n}", "done", codec.encode(n if value is None else value), head("look"))


def intent(n: int, attempt: int = 1) -> e.CallIntended:
    """An act is about to be made."""
    return e.CallIntended(f"1:{n}", head("pay", "irreversible"), f"k-{n}", attempt, 0)


def large(seed: int, size: int = 1 << 20) -> bytes:
    """A value that no compression makes smaller."""
    return random.Random(seed).randbytes(size)


@dataclass
class Book:
    """A claimed run's journal, its slow disk, and the store below."""

    journal: Journal
    disk: Lagging
    store: MemoryStore
    clock: MovableClock

    async def durable(self) -> int:
        """The last durable event."""
        return (await self.store.row(RUN)).seq

    async def flushed(self) -> None:
        """Make durable what was appended. Raises what the store refused it with."""
        barrier = asyncio.create_task(self.journal.barrier())
        await turn()
        self.disk.commit()
        await barrier

    async def intended(self, *bodies: e.AnyBody, inbox: int = 0) -> None:
        """Intend these facts, each in a branch of its own. Raises what the first was refused with."""
        tasks = [asyncio.create_task(self.journal.intend([body], Fences(inbox))) for body in bodies]
        await turn()
        self.disk.commit()
        await asyncio.gather(*tasks)


async def opened(store: MemoryStore | None = None, **options: Any) -> Book:
    """The journal of a new run."""
    clock = MovableClock()
    store = MemoryStore(clock=clock) if store is None else store
    await store.open()
    body = e.RunStarted("a", "1", 1, codec.encode("go"), codec.encode({}), codec.encode({}))
    data = codec.pack(e.Event(1, clock.now(), 0, body))
    await store.create(NewRun(RUN, "a", "1", "ready", (Stored(1, data, codec.chain(GENESIS, data)),)))
    return await claimed(store, clock, **options)


async def claimed(store: MemoryStore, clock: MovableClock, worker: str = "w", **options: Any) -> Book:
    """The journal of whoever claims the run now."""
    assert await store.claim(Claim(worker, LEASE, run_id=RUN))
    disk: Any = Lagging(store)
    settings: dict[str, Any] = {"policy": NO_SNAPSHOTS, "durability": "effects", "clock": clock} | options
    return Book(Journal(disk, await load(store, RUN), **settings), disk, store, clock)


async def turn() -> None:
    """Let everything that can go on go on."""
    for _ in range(20):
        await asyncio.sleep(0)
