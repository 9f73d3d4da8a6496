"""Threads with a connection each: for reading, claiming, and transactional calls.

A thread connects when it is first needed, so that idle ones cost the server nothing, and gives its connection
up when it broke. It knows nothing of what is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg

from perdure.store.postgres.connection import READ_SECONDS, Connection, Link, is_lost, translate

T = TypeVar("T")


class Threads:
    """At most `count` threads that do one piece of work after the other, each on its own connection."""

    def __init__(self, link: Link, count: int, name: str) -> None:
        self._link = link
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._own = threading.local()
        self._mutex = threading.Lock()
        self._connections: set[Connection] = set()

    def submit(self, work: Callable[..., object], *args: object) -> None:
        """Do it in one of the threads; whoever is to know of its end is told by itself."""
        self._pool.submit(work, *args)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Do it, and again on a new connection if one broke: for work that changes nothing by itself."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._link.patiently, lambda: self.once(work))

    def close(self) -> None:
        """Finish what was begun and close; blocks."""
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def once(self, work: Callable[[Connection], T], seconds: float = READ_SECONDS) -> T:
        """Do it within so many seconds, in one of the threads, on its connection; a broken one is told."""
        connection = self._connected()
        try:
            with self._link.limit.on(connection, seconds):
                return work(connection)
        except psycopg.Error as error:
            if is_lost(error):
                connection.close()
            raise translate(error, self._link.address.shown) from error
        finally:
            self._tidy(connection)

    def _connected(self) -> Connection:
        connection: Connection | None = getattr(self._own, "connection", None)
        if connection is None or connection.closed or connection.broken:
            connection = self._link.open()
            self._own.connection = connection
            with self._mutex:
                self._connections = {known for known in self._connections if not known.closed}
                self._connections.add(connection)
        return connection

    def _tidy(self, connection: Connection) -> None:
        """Leave no transaction open behind work that failed."""
        if connection.closed or _idle(connection):
            return
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
        if not _idle(connection):
            connection.close()


def _idle(connection: Connection) -> bool:
    return bool(connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE)
