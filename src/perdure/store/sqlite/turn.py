"""Taking turns: a lock on a file, in front of SQLite's own write lock.

SQLite's lock is not fair: a process in a tight loop can keep the others out for seconds. The kernel's file
lock queues whoever waits, and lets go when its holder dies. It is about fairness alone: whoever cannot get it
may still write, for SQLite's lock keeps them apart. It knows no database.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

if sys.platform == "win32":
    import msvcrt

    def lock(fd: int) -> None:
        """Wait for the file's lock."""
        while not try_lock(fd):
            time.sleep(0.005)

    def try_lock(fd: int) -> bool:
        """Take the file's lock if it is free."""
        os.lseek(fd, 0, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Let go of the file's lock."""
        os.lseek(fd, 0, os.SEEK_SET)
        with contextlib.suppress(OSError):
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock(fd: int) -> None:
        """Wait for the file's lock."""
        fcntl.flock(fd, fcntl.LOCK_EX)

    def try_lock(fd: int) -> bool:
        """Take the file's lock if it is free."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Let go of the file's lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)


_FLAGS = os.O_RDWR | os.O_CREAT


class Turn:
    """One writer's place in the queue of a store's processes. Used by one thread at a time: by whoever holds
    `desk`.

    Two locks: whoever waits for the turn itself holds the place of the next one meanwhile. So the one who
    gives the turn cannot snatch it back before the next one has woken up.
    """

    def __init__(self, path: str) -> None:
        self.desk = threading.Lock()
        self._turn = os.open(path, _FLAGS, 0o666)
        try:
            self._next = os.open(path + "-next", _FLAGS, 0o666)
        except BaseException:
            os.close(self._turn)
            raise

    def take(self) -> None:
        """Wait for the turn, however long."""
        lock(self._next)
        lock(self._turn)
        unlock(self._next)

    def try_take(self) -> bool:
        """Take the turn if nobody has it or waits for it."""
        if not try_lock(self._next):
            return False
        taken = try_lock(self._turn)
        unlock(self._next)
        return taken

    def take_within(self, seconds: float) -> bool:
        """Take the turn if it is free within so many seconds; looks again and again, others may win."""
        until = time.monotonic() + seconds
        while not self.try_take():
            if time.monotonic() >= until:
                return False
            time.sleep(0.002)
        return True

    def give(self) -> None:
        """Let the next one go."""
        unlock(self._turn)

    def close(self) -> None:
        """Let go for good. In a child after a fork this frees nothing of its parent's."""
        for fd in (self._turn, self._next):
            if fd >= 0:
                os.close(fd)
        self._turn = self._next = -1
