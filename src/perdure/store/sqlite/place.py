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

from msgspec import Struct

RESERVE_BYTES = 4 << 20
"""How much room is kept for receipts, verdicts and pruning on a full disk."""

_HALVINGS = 5
_LEAST_BYTES = 1 << 14  # a smaller file is none, but tells how much was held

BUSY_SECONDS = 30.0
"""How long a write waits for a program that holds SQLite's write lock."""


class Place(Struct, frozen=True):
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
    """A file that holds room, and is given up when the disk is full.

    Then it is spent: its content is the number of bytes that it held, and only what may use the reserve is
    written until as many could be set aside again. Missing means that there was never any to spare, or that a
    person removed it: then nothing is held back.
    """

    def __init__(self, place: Place) -> None:
        self._path = place.reserve
        self._bytes = place.reserve_bytes

    def make(self) -> bool:
        """Set room aside, what a small disk can spare, or as much as was spent. True if it is there."""
        size = size_of(self._path)
        if size >= _LEAST_BYTES:
            return True
        if size < 0:
            sizes = [self._bytes >> halvings for halvings in range(_HALVINGS)]
            return self._fill_one_of([wanted for wanted in sizes if wanted >= _LEAST_BYTES])
        held = self._held()
        if self._fill_one_of([held]):
            return True
        self._note(held)
        return False

    def spent(self) -> bool:
        """Whether the room was given away and not set aside again."""
        return 0 <= size_of(self._path) < _LEAST_BYTES

    def spend(self) -> bool:
        """Give the room away; False if there is none."""
        size = size_of(self._path)
        return size >= _LEAST_BYTES and self._note(size)

    def state(self) -> str:
        """In words."""
        size = size_of(self._path)
        if size < 0:
            return "none"
        return f"{size} bytes" if size >= _LEAST_BYTES else f"spent, {self._held()} bytes: the disk was full"

    def _held(self) -> int:
        try:
            with open(self._path, "rb") as file:
                return max(int(file.read(_LEAST_BYTES)), _LEAST_BYTES)
        except (OSError, ValueError):
            return max(self._bytes, _LEAST_BYTES)

    def _note(self, size: int) -> bool:
        try:
            with open(self._path, "wb") as file:
                file.write(b"%d" % size)
        except OSError:
            return size_of(self._path) == 0  # no room for the number: the default will do
        return True

    def _fill_one_of(self, sizes: list[int]) -> bool:
        there = os.path.exists(self._path)
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return False
        try:
            filled = any(_fill(fd, size) for size in sizes)
        finally:
            os.close(fd)
        if not filled and not there:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        return filled


def _fill(fd: int, size: int) -> bool:
    """Take up `size` bytes of the disk, or none."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:
            block = os.urandom(1 << 16)  # so that a file system that compresses keeps room for it all
            os.lseek(fd, 0, os.SEEK_SET)
            for start in range(0, size, len(block)):
                os.write(fd, block[: size - start])
            os.fsync(fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
        return False
    return True


def free_bytes(path: str) -> int:
    """What this user may still write to the disk that holds a file."""
    if not hasattr(os, "statvfs"):
        return 1 << 62
    found = os.statvfs(os.path.dirname(path))
    return found.f_bavail * found.f_frsize


def size_of(path: str) -> int:
    """A file's bytes; -1 if it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
