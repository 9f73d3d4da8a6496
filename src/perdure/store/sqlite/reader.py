"""One thread of a process that reads, on a connection of its own, so that reading never waits for writing.

What is asked for while it reads is read together next: one transaction, and one call into the event loop, for
all of it. It knows when a connection must be given up; what is read is its caller's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import apsw
from msgspec import Struct

from perdure.errors import StoreError
from perdure.store.sqlite.connection import leave_to_parent, open_quietly, open_reader, translate
from perdure.store.sqlite.place import Place, size_of

T = TypeVar("T")

TOGETHER = 50
"""So many readings at most share a transaction."""


class _Asked(Struct, eq=False):
    """One reading, and what came of it."""

    reading: Callable[[apsw.Connection], Any]
    future: asyncio.Future[Any]
    value: Any = None
    error: BaseException | None = None

    def settle(self) -> None:
        """Tell whoever waits; in the loop's thread."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)


class Reader:
    """Runs readings one after the other, each in a transaction that sees one moment.

    With `quietly` it leaves no trace on the disk: where nobody writes it makes no file and changes none.
    """

    def __init__(self, place: Place, *, quietly: bool = False) -> None:
        self.quiet = threading.Lock()  # held while SQLite is at work: a fork waits for it
        self.still = False  # whether it could be had, at the last fork
        self.connection: apsw.Connection | None = None
        self._place = place
        self._quietly = quietly
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="perdure-reader")
        self._reopened = 0
        self._alone: tuple[int, ...] | None = None
        self._asked: deque[_Asked] = deque()
        self._called = False

    async def run(self, reading: Callable[[apsw.Connection], T]) -> T:
        """Do one reading in the reader's thread."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(reading, future))
        if not self._called:
            self._called = True
            self._pool.submit(self._read)
        return await future

    async def version(self) -> tuple[int, int]:
        """A pair that differs once any other connection has committed."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._version)

    def ask(self, reading: Callable[[apsw.Connection], T]) -> T:
        """Open now, by a first reading; blocks."""
        return self._pool.submit(self._in_transaction, reading).result()

    def close(self) -> None:
        """Finish what is being read and close; blocks."""
        self._pool.submit(self._disconnect).result()
        self._pool.shutdown()

    def leave_to_parent(self) -> None:
        """In a child, after a fork: close what was inherited, unless SQLite was at work in it."""
        leave_to_parent(self.connection, self._place.path, still=self.still)
        self.connection = None

    # -- the reader's side

    def _read(self) -> None:
        """Read what was asked for, until nothing is."""
        self._called = False
        while self._asked:
            asked = [self._asked.popleft() for _ in range(min(len(self._asked), TOGETHER))]
            if len(asked) == 1 or not self._together(asked):
                for one in asked:
                    self._apart(one)
            for loop in {one.future.get_loop() for one in asked}:
                with contextlib.suppress(RuntimeError):  # it was closed: nobody waits any more
                    loop.call_soon_threadsafe(
                        _settle, [one for one in asked if one.future.get_loop() is loop]
                    )

    def _together(self, asked: Sequence[_Asked]) -> bool:
        """Read all of it in one transaction; False: something is amiss, whose matter shows one by one."""

        def reading(connection: apsw.Connection) -> None:
            for one in asked:
                one.value = one.reading(connection)

        with self.quiet:
            try:
                self._one_moment(reading)
            except Exception:  # noqa: BLE001 - each is done again, and told its own error
                return False
            return not self._was_written()

    def _apart(self, one: _Asked) -> None:
        try:
            one.value = self._in_transaction(one.reading)
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            one.error = error

    def _in_transaction(self, reading: Callable[[apsw.Connection], T]) -> T:
        with self.quiet:
            while True:
                try:
                    found = self._one_moment(reading)
                except (apsw.Error, StoreError) as error:
                    if self._was_written():
                        continue
                    if not isinstance(error, apsw.Error):
                        raise
                    failure = translate(error, self._place.path)
                    self._disconnect()
                    raise failure from error
                if not self._was_written():
                    return found

    def _one_moment(self, reading: Callable[[apsw.Connection], T]) -> T:
        connection = self._connected()
        connection.execute("BEGIN")
        try:
            return reading(connection)
        finally:
            connection.execute("COMMIT")

    def _was_written(self) -> bool:
        """Whether the files changed under a connection that sees them alone; it is given up then."""
        if self._alone is None or self._alone == self._stamp():
            return False
        self._disconnect()
        return True

    def _version(self) -> tuple[int, int]:
        with self.quiet:
            try:
                return self._reopened, self._connected().pragma("data_version")
            except (apsw.Error, StoreError):
                # Whoever waits looks for itself, and meets the error there.
                self._disconnect()
                return self._reopened, -1

    def _stamp(self) -> tuple[int, ...]:
        """What differs once somebody has written to the file or its log."""
        try:
            found = os.stat(self._place.path)
        except OSError:
            return ()
        return (found.st_ino, found.st_mtime_ns, found.st_size, size_of(self._place.path + "-wal"))

    def _connected(self) -> apsw.Connection:
        self._was_written()
        if self.connection is None:
            stamp, alone = self._stamp(), False
            path, busy_seconds = self._place.path, self._place.busy_seconds
            if self._quietly:
                self.connection, alone = open_quietly(path, busy_seconds)
            else:
                self.connection = open_reader(path, busy_seconds)
            self._alone = stamp if alone else None
            self._reopened += 1
        return self.connection

    def _disconnect(self) -> None:
        connection, self.connection, self._alone = self.connection, None, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                connection.close(True)


def _settle(asked: Sequence[_Asked]) -> None:
    for one in asked:
        one.settle()
