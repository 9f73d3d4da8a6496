"""The floors that every figure is judged against: a plain Python loop, and a bare SQLite loop.

The Python loop tells how fast the processor is at this moment: other load on the machine slows it and what is
measured beside it alike. The SQLite loop tells what one durable commit costs on this disk at this moment; and
the same commit made by a thread while an event loop waits, what handing it over and back adds before any
writer has done anything of its own.
"""

from __future__ import annotations

import asyncio
import os
import queue
import statistics
import threading
import time
from pathlib import Path

import apsw

ROUNDS = 20_000
"""Iterations of the Python loop: about a millisecond."""

ROW_BYTES = 400
"""What the bare loop writes in each transaction."""

LOG_BYTES = 1100 * 4096
"""A write-ahead log of more than 1,000 pages is brought home and used again from its beginning."""


class Pace:
    """How fast plain Python runs, in processor time of this thread. `quiet` is the fastest seen so far."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        for _ in range(20):
            self.look()

    def look(self) -> float:
        """Microseconds of processor time that the fixed loop takes now: the middle of three."""
        took = statistics.median(self._once() for _ in range(3))
        self.seen.append(took)
        return took

    @staticmethod
    def _once() -> float:
        table: dict[int, int] = {}
        begun = time.thread_time_ns()
        for number in range(ROUNDS):
            table[number & 255] = number * 3
        return (time.thread_time_ns() - begun) / 1000

    @property
    def quiet(self) -> float:
        """The loop's time when nothing else disturbed it: the fastest twentieth of all looks."""
        ordered = sorted(self.seen)
        return ordered[len(ordered) // 20]


class Bare:
    """One INSERT of 400 bytes per transaction, on a file of its own with the store's settings: WAL, FULL.

    `used`: its log has its full length. A commit that makes the log's file grow costs up to twice as much as
    one that writes over what is there, so only files in the same condition can be compared.
    """

    def __init__(self, path: Path, *, used: bool = True) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA page_size=4096")
        self._connection.pragma("journal_mode", "wal")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("PRAGMA journal_size_limit=8388608")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS bare (key INTEGER PRIMARY KEY, data BLOB NOT NULL)"
        )
        assert self._connection.pragma("synchronous") == 2
        if used:
            self._connection.execute("INSERT INTO bare (data) VALUES (zeroblob(?))", (LOG_BYTES,))
        self._row = os.urandom(ROW_BYTES)

    def once(self) -> float:
        """One commit; microseconds."""
        execute, clock = self._connection.execute, time.perf_counter_ns
        begun = clock()
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO bare (data) VALUES (?)", (self._row,))
        execute("COMMIT")
        return (clock() - begun) / 1000

    def commits(self, count: int = 100) -> list[float]:
        """So many commits, one after the other; microseconds each."""
        return [self.once() for _ in range(count)]

    def middle(self, count: int = 100) -> float:
        """The median of so many commits."""
        return statistics.median(self.commits(count))

    async def handed(self, count: int = 100) -> list[float]:
        """So many commits, each made by another thread and awaited here; microseconds each."""
        loop = asyncio.get_running_loop()
        asked: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()

        def write() -> None:
            while (future := asked.get()) is not None:
                self.once()
                loop.call_soon_threadsafe(future.set_result, None)

        thread = threading.Thread(target=write)
        thread.start()
        took = []
        for _ in range(count):
            begun = time.perf_counter_ns()
            future: asyncio.Future[None] = loop.create_future()
            asked.put(future)
            await future
            took.append((time.perf_counter_ns() - begun) / 1000)
        asked.put(None)
        thread.join()
        return took

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
