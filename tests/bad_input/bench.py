"""What every test of bad input uses: the real program, a small agent, and what may not change."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from perdure.errors import PerdureError
from perdure.journal import Verification, verify
from perdure.store import open_store
from perdure.store.protocol import Query
from tests.unit.cli.conftest import Answer

E = TypeVar("E", bound=PerdureError)

AGENT = """
from datetime import timedelta

from perdure import Agent, Run, tool

ACTS = "acts.txt"


@tool(effect="irreversible")
async def pay(order: str) -> str:
    with open(ACTS, "a") as file:
        file.write(order + "\\n")
    if order == "lost":
        raise ConnectionError("the line broke")
    return "paid " + order


desk = Agent("desk", state=dict, tools=[pay])


@desk.step
async def step(run: Run) -> None:
    if "paid" not in run.state:
        run.state["paid"] = await pay(run.goal)
        if run.goal == "nap":
            await run.sleep(timedelta(days=3))
        return
    run.finish(run.state["paid"])
"""

SHORT = 0.05
"""Seconds; how long a test waits for a lock that nobody gives up."""


def _like_others() -> None:
    """In a child that is about to become another program: root no more passes over the rights of files."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if libc.prctl(24, capability, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
            os._exit(99)


def perdure(*arguments: str | Path, cwd: Path, bound: bool = False, **env: str) -> Answer:
    """The real program in a process of its own; `bound`: by the rights of files, even if it is root's."""
    before: dict[str, Any] = {"preexec_fn": _like_others} if bound and os.geteuid() == 0 else {}
    place = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE")}
    place |= {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200", "HOME": str(cwd)} | env
    command = [sys.executable, "-m", "perdure", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=place, capture_output=True, timeout=60, check=False, **before)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def told(answer: Answer, code: str, exit_code: int, *names: str) -> None:
    """The command ended with this error, which names these things, says what is safe and gives a remedy."""
    assert answer.code == exit_code, answer
    assert "Traceback" not in answer.err, answer.err
    assert f"error[{code}]" in answer.err, answer
    for name in names:
        assert name in answer.err, (name, answer.err)
    labels = [line.split()[0] for line in answer.err.splitlines() if line.startswith("  ") and line.strip()]
    assert "safe" in labels, answer.err
    assert "remedy" in labels, answer.err


def speaks(error: PerdureError, code: str, *names: str) -> None:
    """The error has this code, names these things, says what is safe and gives a remedy."""
    assert error.code == code, error
    for name in names:
        assert name in error.what, (name, error.what)
    assert error.safe
    assert error.remedy, f"{type(error).__name__} gives no remedy: {error}"


@contextmanager
def refused(kind: type[E], *names: str) -> Iterator[Callable[[], E]]:
    """Within the block this error is raised, and `speaks` of these things."""
    with pytest.raises(kind) as caught:
        yield lambda: caught.value
    speaks(caught.value, kind.code, *names)


def checked(store: Path, run_id: str) -> Verification:
    """What `verify` says of one run."""

    async def look() -> Verification:
        opened = open_store(str(store))
        await opened.open()
        try:
            return await verify(opened, run_id)
        finally:
            await opened.close()

    return asyncio.run(look())


def all_whole(store: Path) -> None:
    """Every run of the store passes `verify`, and SQLite finds its file whole."""

    async def look() -> list[Verification]:
        opened = open_store(str(store))
        await opened.open()
        try:
            return [await verify(opened, row.run_id) for row in await opened.list(Query(limit=1000))]
        finally:
            await opened.close()

    with ThreadPoolExecutor(1) as thread:  # the caller may have a loop of its own
        found = thread.submit(asyncio.run, look()).result()
    assert all(one.ok for one in found), found
    connection = apsw.Connection(str(store))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


def rows(store: Path) -> list[tuple[str, str, int]]:
    """Id, stored status and number of events of every run."""
    connection = apsw.Connection(str(store))
    counted = "(SELECT count(*) FROM perdure_event WHERE key >> 32 = run_no)"
    found = list(connection.execute(f"SELECT run_id, status, {counted} FROM perdure_run ORDER BY run_id"))
    connection.close()
    return [(str(run_id), str(status), int(str(events))) for run_id, status, events in found]


def journal_digest(store: Path) -> str:
    """A digest of every event, snapshot and large value that the store holds."""
    connection = apsw.Connection(
        f"file:{store}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    made = hashlib.blake2b()
    for table in ("event", "snapshot", "blob"):
        for row in connection.execute(f"SELECT * FROM perdure_{table} ORDER BY 1, 2"):
            made.update(repr(row).encode())
    connection.close()
    return made.hexdigest()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def acts(folder: Path) -> list[str]:
    """What the agent's tool has done outside."""
    path = folder / "acts.txt"
    return path.read_text().split() if path.exists() else []
