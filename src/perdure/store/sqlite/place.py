"""Where a store lies on disk: the database's path, and the files beside it.

    perdure.db                     the database
    perdure.db-wal, -shm           SQLite's own
    perdure.db-turn, -turn-next    the queue of writers
    perdure.db-workers/            signs of life
    perdure.db-reserve             room for receipts on a full disk

It makes and removes the reserve; it knows no tables.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

RESERVE_BYTES = 4 << 20
"""How much room is kept for receipts, verdicts and pruning on a full disk."""

_HALVINGS = 5

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
    """A file that holds room, and is emptied when the disk is full.

    Empty means spent: then only what may use the reserve is written, until room could be set aside again.
    Missing means that there was never any to spare, or that a person removed it: then nothing is held back.
    """

    def __init__(self, place: Place) -> None:
        self._path = place.reserve
        self._bytes = place.reserve_bytes

    def make(self) -> bool:
        """Set room aside: all of it, or what a small disk can spare. True if some is there now."""
        size = size_of(self._path)
        if size > 0 or not self._bytes:
            return size > 0
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return False
        try:
            kept = any(_fill(fd, self._bytes >> halvings) for halvings in range(_HALVINGS))
        finally:
            os.close(fd)
        if not kept and size < 0:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        return kept

    def spent(self) -> bool:
        """Whether the room was given away and not set aside again."""
        return size_of(self._path) == 0

    def spend(self) -> bool:
        """Give the room away; False if there is none."""
        if size_of(self._path) <= 0:
            return False
        try:
            os.truncate(self._path, 0)
        except OSError:
            return False
        return True

    def state(self) -> str:
        """In words."""
        size = size_of(self._path)
        if size < 0:
            return "none"
        return f"{size} bytes" if size else "spent: the disk was full"


def _fill(fd: int, size: int) -> bool:
    """Take up `size` bytes of the disk, or none."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:
            block = os.urandom(1 << 16)  # so that a file system that compresses keeps room for it all
            for start in range(0, size, len(block)):
                os.pwrite(fd, block[: size - start], start)
            os.fsync(fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
        return False
    return True


def size_of(path: str) -> int:
    """A file's bytes; -1 if it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
