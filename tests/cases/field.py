"""A field: a folder with a program, a store, and real processes that run the program and are killed.

The program is `app.py`: PRELUDE and what a test puts behind it. Its processes tell the test what they do by
lines in files beside it, and wait for files that the test makes.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perdure.errors import NoSuchRun
from perdure.journal import history, load, verify
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store import open_store
from perdure.store.protocol import RunRow
from tests.processes import SECONDS, Processes

PRELUDE = '''
import asyncio, os, signal, sys, time
from datetime import timedelta
from pathlib import Path

import perdure
from perdure import *

HERE = Path(__file__).parent
STORE = os.environ.get("FIELD_STORE", str(HERE / "runs.db"))


def book(name, text=""):
    """A line in the file of this name."""
    with open(HERE / name, "a") as file:
        file.write(f"{text or os.getpid()}\\n")


def booked(name):
    """How many lines it has."""
    path = HERE / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def die():
    """By kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


def is_open(name):
    return (HERE / name).exists()


async def opened(name):
    """Wait until the test has made a file of this name."""
    while not is_open(name):
        await asyncio.sleep(0.01)


def run_here(agent, run_id="r", goal="go", lease=3600.0, **more):
    """Carry the run on in this process, without a worker."""
    async def main():
        async with Runtime(STORE, [agent], lease_seconds=lease) as runtime:
            print((await runtime.run(agent, run_id, goal, **more)).status, flush=True)
    asyncio.run(main())
'''


class Field(Processes):
    """What `app.py` says, the store it works on, and its processes."""

    def __init__(self, folder: Path, address: str = "") -> None:
        super().__init__(folder)
        self.store: Path | str = address or folder / "runs.db"

    @property
    def file(self) -> Path:
        """The SQLite file, of a field that has one."""
        assert isinstance(self.store, Path)
        return self.store

    def program(self, text: str) -> None:
        """Write the program."""
        (self.folder / "app.py").write_text(f"{PRELUDE}\n\n{text}")

    def open(self, name: str) -> None:
        """Make the file for which a process may wait."""
        (self.folder / name).touch()

    def lines(self, name: str) -> list[str]:
        """What processes have booked."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def environment(self) -> Mapping[str, str]:
        """Where the program finds its store."""
        return {**super().environment(), "FIELD_STORE": str(self.store)}

    def worker(self, agent: str = "agent", concurrency: int = 100) -> subprocess.Popen[str]:
        """`perdure worker` for an agent of the program."""
        served = ("worker", f"app.py:{agent}", "--store", str(self.store))
        return self.process("-m", "perdure", *served, "--concurrency", str(concurrency))

    def perdure(self, *argv: str) -> tuple[int, str, str]:
        """The program `perdure` itself, to its end: exit code, output, complaints."""
        process = self.process("-m", "perdure", *argv)
        said, complaint = process.communicate(timeout=SECONDS)
        return process.returncode, said, complaint

    def asked(self, *argv: str) -> Any:
        """The document that a command of `perdure` prints."""
        code, said, complaint = self.perdure(*argv, "--json", "--store", str(self.store))
        assert code == 0, complaint
        return json.loads(said)

    # -- what is durable

    async def told(self, run_id: str = "r") -> tuple[RunRow, RunRecord, list[Any]]:
        """The run's row, its fold and its facts, verified."""
        store = open_store(str(self.store))
        await store.open()
        try:
            found = await verify(store, run_id)
            assert found.ok, found
            past = await load(store, run_id)
            return past.row, past.record, [event.body for event in await history(store, run_id)]
        finally:
            await store.close()

    async def facts(self, kind: type[Any], run_id: str = "r") -> list[Any]:
        """Its durable facts of one kind."""
        return [body for body in (await self.told(run_id))[2] if isinstance(body, kind)]

    async def settled(self, run_id: str = "r") -> list[e.CallSettled]:
        """Its durable receipts."""
        return await self.facts(e.CallSettled, run_id)

    async def until(self, run_id: str, holds: Callable[[RunRow, RunRecord, list[Any]], object]) -> None:
        """Wait until something durable holds of the run."""
        deadline = time.monotonic() + SECONDS
        while not await self._holds(run_id, holds):
            assert time.monotonic() < deadline, "it never held"
            await asyncio.sleep(0.02)

    async def _holds(self, run_id: str, holds: Callable[[RunRow, RunRecord, list[Any]], object]) -> bool:
        if isinstance(self.store, Path) and not self.store.exists():
            return False
        try:
            return bool(holds(*await self.told(run_id)))
        except NoSuchRun:
            return False

    async def until_ended(self, *run_ids: str) -> list[str | None]:
        """Wait until these runs have ended; their statuses."""
        for run_id in run_ids:
            await self.until(run_id, lambda row, record, facts: row.terminal)
        return [(await self.told(run_id))[1].ended for run_id in run_ids]
