"""A look leaves no trace (law 14): not beside a store, a copy of one, or another program's file."""

from __future__ import annotations

import shutil
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


def copies(store: Path, folder: Path, *parts: str) -> Path:
    """A copy of these parts of a store's files, in another folder."""
    for part in parts:
        shutil.copy(f"{store}{part}", folder)
    return folder / store.name


@pytest.fixture(
    scope="module", params=["whole", "file", "file and log", "everything that a killed worker left"]
)
def looked_at(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, four_runs: Path
) -> Path:
    """A store as it may lie there: at rest; copied alone; copied with its log; after a kill. One for all the
    looks: each shows that it leaves it as it was.
    """
    store = tmp_path_factory.mktemp("whole") / "perdure.db"
    shutil.copytree(four_runs, store.parent, dirs_exist_ok=True)
    if "log" in request.param or "killed" in request.param:
        kill_worker_of(store, "fresh-1")
    if request.param.startswith("file"):
        return copies(store, tmp_path_factory.mktemp("copies"), "", *["-wal"] * ("log" in request.param))
    return store


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_a_look_leaves_no_trace(
    perdure: Command, place: Path, looked_at: Path, look: tuple[str, ...]
) -> None:
    before = traces(looked_at.parent)
    answer = perdure(*look, "--store", looked_at)
    assert (answer.code, answer.err) == (0, "")
    assert traces(looked_at.parent) == before


def test_commits_in_a_copied_log_are_seen(
    perdure: Command, store: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kill_worker_of(store, "fresh-1")
    copied = copies(store, tmp_path_factory.mktemp("copies"), "", "-wal")
    rows = perdure("runs", "--json", "--store", copied).document["runs"]
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
