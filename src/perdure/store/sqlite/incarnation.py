"""The sign of life of a worker: a lock on a file of its own, which its death releases.

Beside the database lies a folder with one file per living incarnation; its name is a digest of the
incarnation's name, its content that name and the process id, for people. Whoever can lock such a file knows
that its owner is dead. It knows no runs: what a death means for leases is decided elsewhere, and the file is
removed only after that was written.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time

from msgspec import Struct

from perdure.errors import DiskFull, StoreUnavailable, WorkerTaken
from perdure.store.sqlite.turn import try_lock

_TRIES, _PAUSE_SECONDS = 25, 0.002  # whoever looks at a sign holds its lock for some microseconds


class Sign(Struct):
    """A locked file: this process's own sign of life, or a dead one's that it holds for the moment."""

    worker: str
    path: str
    fd: int

    def remove(self) -> None:
        """Take it away. The file goes before the lock, so that nobody takes an orderly end for a death."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        self.let_go()

    def let_go(self) -> None:
        """Close our end only. After a fork the parent keeps its lock."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Signs:
    """The signs of life in one folder: this process's `own`, by worker, and a look at the others'."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.own: dict[str, Sign] = {}

    def begin(self, worker: str) -> Sign:
        """Lock the worker's file while this process lives. Raises WorkerTaken if someone alive has it."""
        path = _path(self.folder, worker)
        try:
            os.makedirs(self.folder, exist_ok=True)
            return self._begin(worker, path)
        except OSError as error:
            what = f"no sign of life of worker {worker!r} can be made in {self.folder}: {error.strerror}"
            if error.errno == errno.ENOSPC:
                raise DiskFull(what, path=path) from error
            raise StoreUnavailable(what, remedy=f"check the rights of {self.folder}", path=path) from error

    def _begin(self, worker: str, path: str) -> Sign:
        for _ in range(_TRIES):
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            if try_lock(fd) and _is_still(path, fd):
                os.ftruncate(fd, 0)
                os.write(fd, f"{worker}\n{os.getpid()}\n".encode())
                return Sign(worker, path, fd)
            os.close(fd)
            time.sleep(_PAUSE_SECONDS)
        raise WorkerTaken(f"a worker named {worker!r} is alive{_owner(path)}", worker=worker)

    def take_dead(self, worker: str) -> Sign | None:
        """The sign of a worker whose process is dead, locked by us now; None if it lives or has no sign."""
        if worker in self.own:
            return None
        path = _path(self.folder, worker)
        try:
            fd = os.open(path, os.O_RDWR)
        except OSError:
            return None
        if try_lock(fd) and _is_still(path, fd):
            return Sign(worker, path, fd)
        os.close(fd)
        return None

    def is_dead(self, worker: str) -> bool:
        """Whether the worker's process is known to be dead."""
        sign = self.take_dead(worker)
        if sign is None:
            return False
        sign.let_go()
        return True

    def all(self) -> list[str]:
        """Every worker that has a sign of life, dead or alive."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        return [worker for name in names if (worker := _read(os.path.join(self.folder, name)))]

    def remove_own(self) -> None:
        """This process's workers end in an orderly way."""
        for sign in self.own.values():
            sign.remove()
        self.own.clear()

    def let_go_own(self) -> None:
        """In a child, after a fork: they are the parent's."""
        for sign in self.own.values():
            sign.let_go()
        self.own.clear()


def _path(folder: str, worker: str) -> str:
    return os.path.join(folder, hashlib.blake2b(worker.encode(), digest_size=12).hexdigest())


def _is_still(path: str, fd: int) -> bool:
    """Whether the path still names the file that we locked: someone may have removed it in between."""
    try:
        there, here = os.stat(path), os.fstat(fd)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().rstrip("\n")
    except OSError:
        return ""


def _owner(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    return f" in process {lines[1]}" if len(lines) > 1 else ""
