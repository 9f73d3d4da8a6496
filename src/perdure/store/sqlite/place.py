"""Where a store lies on disk: the database's path, and the files beside it.

    perdure.db            the database            perdure.db-wal, -shm   SQLite's own
    perdure.db-turn       the queue of writers    perdure.db-workers/    signs of life
    perdure.db-reserve    room for receipts on a full disk

It makes and removes the reserve; it knows no tables.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

RESERVE_BYTES = 4 << 20
"""How much room is kept for receipts, verdicts and pruning on a full disk."""

BUSY_SECONDS = 30.0
"""How long a write waits for a program that holds SQLite's write lock."""


@dataclass(frozen=True, slots=True)
class Place:
    """The paths of one store and its limits."""

    path: str
    busy_seconds: float = BUSY_SECONDS
    reserve_bytes: int = RESERVE_BYTES

    @property
    def folder(self) -> str:
        """The folder that everything lies in."""
        return os.path.dirname(self.path)

    @property
    def turn(self) -> str:
        """The file whose lock is the writers' turn."""
        return self.path + "-turn"

    @property
    def workers(self) -> str:
        """The folder of the workers' signs of life."""
        return self.path + "-workers"

    @property
    def reserve(self) -> str:
        """The file that keeps room."""
        return self.path + "-reserve"

    def writable(self) -> bool:
        """Whether this user may write here at all."""
        there = os.path.exists(self.path)
        return os.access(self.folder, os.W_OK) and (not there or os.access(self.path, os.W_OK))


class Reserve:
    """A file of a fixed size that is emptied when the disk is full.

    Empty means spent: then only what may use the reserve is written, until the room could be taken back.
    Missing means that there never was one, or that a person removed it: then nothing is held back.
    """

    def __init__(self, place: Place) -> None:
        self._path = place.reserve
        self._bytes = place.reserve_bytes

    def make(self) -> bool:
        """Set the room aside, if there is any; True if it is there now."""
        if not self._bytes:
            return False
        if size_of(self._path) >= self._bytes:
            return True
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return False
        try:
            _fill(fd, self._bytes)
            return True
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
            return False
        finally:
            os.close(fd)

    def there(self) -> bool:
        """Whether there is such a file, spent or not."""
        return size_of(self._path) >= 0

    def spent(self) -> bool:
        """Whether the room was given away and not taken back."""
        return self._bytes > 0 and 0 <= size_of(self._path) < self._bytes

    def spend(self) -> bool:
        """Give the room away; False if there was none."""
        if size_of(self._path) <= 0:
            return False
        with contextlib.suppress(OSError):
            os.truncate(self._path, 0)
            return True
        return False


def _fill(fd: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    block = os.urandom(1 << 16)  # so that a file system that compresses keeps room for it all
    for start in range(0, size, len(block)):
        os.pwrite(fd, block[: size - start], start)


def size_of(path: str) -> int:
    """A file's bytes; -1 if it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
