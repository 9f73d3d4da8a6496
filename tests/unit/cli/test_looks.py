"""A look leaves no trace (law 14): not beside a store, a copy of one, or another program's file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.unit.cli.conftest import Command
from tests.unit.cli.stores import kill_worker_of

LOOKS = (
    ("runs",),
    ("show", "order-1043"),
    ("why", "order-1043"),
    ("stats",),
    ("inbox",),
    ("audit", "order-1043"),
    ("budget", "order-1043"),
    ("verify",),
    ("doctor",),
)


def traces(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder: when it was written, and its bytes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def copies(store: Path, *parts: str) -> Path:
    """A copy of these parts of a store's files, in a folder of its own."""
    folder = store.parent / "copies"
    folder.mkdir()
    for part in parts:
        shutil.copy(f"{store}{part}", folder)
    return folder / store.name


@pytest.fixture(params=["whole", "file", "file and log", "everything that a killed worker left"])
def looked_at(request: pytest.FixtureRequest, store: Path) -> Iterator[Path]:
    """A store as it may lie there: at rest; copied alone; copied with its log; after a kill."""
    if request.param in ("whole", "file"):
        yield store if request.param == "whole" else copies(store, "")
        return
    kill_worker_of(store, "fresh-1")
    yield store if request.param.startswith("everything") else copies(store, "", "-wal")


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_a_look_leaves_no_trace(perdure: Command, looked_at: Path, look: tuple[str, ...]) -> None:
    before = traces(looked_at.parent)
    answer = perdure(*look, "--store", looked_at)
    assert (answer.code, answer.err) == (0, "")
    assert traces(looked_at.parent) == before


def test_commits_in_a_copied_log_are_seen(perdure: Command, store: Path) -> None:
    kill_worker_of(store, "fresh-1")
    rows = perdure("runs", "--json", "--store", copies(store, "", "-wal")).document["runs"]
    assert {row["run_id"]: row["worker"] for row in rows}["fresh-1"] == "w-mortal"


@pytest.mark.parametrize("command", [*LOOKS, ("cancel", "x"), ("worker", "agent.py")], ids=" ".join)
@pytest.mark.parametrize("log", [True, False])
def test_another_programs_database_is_left_as_it_is(
    perdure: Command, place: Path, command: tuple[str, ...], log: bool
) -> None:
    other = place / "other.db"
    connection = apsw.Connection(str(other))
    connection.pragma("journal_mode", "wal" if log else "delete")
    connection.execute("CREATE TABLE theirs(x); INSERT INTO theirs VALUES (1)")
    if not log:
        connection.close()
    if command[0] == "worker":
        assert perdure("init").code == 0
    before = traces(place)
    answer = perdure(*command, "--store", other)
    assert answer.code != 0
    assert "S106" in answer.out + answer.err
    after = {name: held for name, held in traces(place).items() if "__pycache__" not in name}
    assert set(after) == set(before)
    after.pop(f"{other}-shm", None)  # shared with the connection above, which is in this very process
    assert after.items() <= before.items()
    connection.close()
