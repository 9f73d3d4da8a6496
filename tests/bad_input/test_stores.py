"""A store that is not there, is none, is another's, is newer, is locked, or may not be written."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from perdure import Agent, Run, Runtime
from perdure.errors import (
    BadStoreURL,
    NewerFormat,
    NotAStore,
    StoreLocked,
    StoreNewer,
    StoreUnavailable,
)
from perdure.store.sqlite import SQLiteStore
from perdure.worker import worker
from tests.bad_input.bench import (
    SHORT,
    acts,
    all_whole,
    contents,
    journal_digest,
    perdure,
    refused,
    told,
)

desk: Agent[dict[str, object], str, str] = Agent(
    "desk", state=dict[str, object], start=lambda goal: {}, result=str
)


@desk.step
async def step(run: Run[dict[str, object], str, str]) -> None:
    """Ends at once."""
    run.finish("done")


# ---------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "url", ["redis://localhost", "sqlite://x.db", "http://a/b", "", "a\0b", "c++:x", "  "]
)
async def test_a_wrong_address_is_named(url: str) -> None:
    with refused(BadStoreURL, repr(url)[1:-1]):
        Runtime(url, [desk])


def test_a_password_in_an_address_is_not_shown(place: Path) -> None:
    nobody_there = "postgresql://desk:hunter2@127.0.0.1:9/runs"
    unknown = "redis://desk:hunter2@db.example/0"
    with refused(BadStoreURL) as caught:
        Runtime(unknown, [desk])
    assert "hunter2" not in str(caught()) + repr(caught().facts)
    for wrong, code, leaves in ((nobody_there, "S102", 1), (unknown, "S115", 2)):
        answer = perdure("run", "agent.py", "o-1", "--store", wrong, cwd=place)
        told(answer, code, leaves)
        assert "hunter2" not in answer.out + answer.err
    assert acts(place) == []


def test_an_address_in_the_environment_is_named_too(place: Path) -> None:
    told(perdure("run", "agent.py", "o-1", cwd=place, PERDURE_STORE="redis://x"), "S115", 2, "redis://x")
    assert acts(place) == []


# ------------------------------------------------------------------------------------------- no store there


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with refused(StoreUnavailable, str(tmp_path / "no" / "such")):
        await desk.run("r", "go", store=str(tmp_path / "no" / "such" / "runs.db"))
    assert contents(tmp_path) == {}


def test_a_missing_folder_on_the_command_line(place: Path) -> None:
    told(perdure("run", "agent.py", "o-1", "--store", "no/runs.db", cwd=place), "S102", 1, str(place / "no"))
    for command in (["runs"], ["show", "r"], ["why", "r"], ["verify"], ["stats"], ["cancel", "r"]):
        told(perdure(*command, "--store", "no/runs.db", cwd=place), "U705", 3, str(place / "no/runs.db"))
    assert (acts(place), (place / "no").exists()) == ([], False)


@pytest.mark.parametrize(
    "command", ["runs", "stats", "verify", "show r", "why r", "release r", "resolve r --not-done"]
)
def test_an_empty_file_is_no_store_to_look_into(place: Path, command: str) -> None:
    (place / "perdure.db").touch()
    told(perdure(*command.split(), cwd=place), "U705", 3, "perdure.db")
    assert (place / "perdure.db").read_bytes() == b""


# ---------------------------------------------------------------------------------------------- not a store


def _text(path: Path) -> None:
    path.write_text("Minutes of the meeting. " * 40)


def _short(path: Path) -> None:
    path.write_text("x")


def _database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id TEXT)")
        connection.execute("INSERT INTO orders VALUES ('o-77')")
    connection.close()


def _cut(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + bytes(84))


@pytest.mark.parametrize("make", [_text, _short, _database, _cut])
async def test_a_file_that_is_no_store_is_left_as_it_is(place: Path, make: Callable[[Path], None]) -> None:
    path = place / "theirs.db"
    make(path)
    before = contents(place)
    with refused(NotAStore, str(path)):
        await desk.run("r", "go", store=str(path))
    for command in (["run", "agent.py", "o-1"], ["runs"], ["why", "r"], ["verify"], ["cancel", "r"]):
        told(perdure(*command, "--store", "theirs.db", cwd=place), "S106", 5, "theirs.db")
    doctor = perdure("doctor", "--store", "theirs.db", cwd=place)
    assert (doctor.code, "S106" in doctor.out) == (1, True), doctor
    after = {name: data for name, data in contents(place).items() if "-turn" not in name}
    assert after == before


async def test_a_folder_is_no_store(place: Path) -> None:
    (place / "theirs.db").mkdir()
    with refused(StoreUnavailable, str(place / "theirs.db")):
        await desk.run("r", "go", store=str(place / "theirs.db"))
    for command in (["run", "agent.py", "o-1"], ["runs"], ["verify"]):
        told(perdure(*command, "--store", "theirs.db", cwd=place), "S102", 1, "theirs.db", "is a folder")
    assert list((place / "theirs.db").iterdir()) == []


# ---------------------------------------------------------------------------------------------- newer


async def test_a_newer_store_is_refused_whole(store: Path) -> None:
    """Field case O-084."""
    place = store.parent
    connection = apsw.Connection(str(store))
    connection.pragma("user_version", 99)
    connection.close()
    before, done = contents(place)["perdure.db"], acts(place)
    with refused(StoreNewer, str(store), "99"):
        await desk.run("r", "go", store=str(store))
    commands = (
        "run agent.py o-2 --id new",
        "run agent.py --id nap-1",
        "runs",
        "show paid-1",
        "verify",
        "cancel nap-1",
    )
    for command in commands:
        told(perdure(*command.split(), cwd=place), "S105", 5, "99", "pip install -U perdure")
    assert (contents(place)["perdure.db"], acts(place)) == (before, done)


def _newer_event(store: Path, run_id: str) -> None:
    """Give the run's events a format of the future, with digests that fit, as a newer perdure would."""
    from perdure import codec

    connection = apsw.Connection(str(store))
    rows = list(
        connection.execute(
            "SELECT key, data, digest FROM perdure_event WHERE key >> 32 ="
            " (SELECT run_no FROM perdure_run WHERE run_id = ?) ORDER BY key",
            (run_id,),
        )
    )
    digest = rows[0][2]
    for key, data, _ in rows[1:]:
        changed = b"\x63" + data[1:]
        digest = codec.chain(digest, changed)
        connection.execute(
            "UPDATE perdure_event SET data = ?, digest = ? WHERE key = ?", (changed, digest, key)
        )
    connection.close()


async def test_events_of_a_newer_format_are_not_read_and_nothing_is_overwritten(store: Path) -> None:
    place = store.parent
    _newer_event(store, "nap-1")
    before, done = journal_digest(store), acts(place)
    with refused(NewerFormat, "99"):
        async with Runtime(str(store), [desk]) as runtime:
            await runtime.outcome("nap-1")
    for command in ("run agent.py --id nap-1", "run agent.py nap --id nap-1", "show nap-1"):
        told(perdure(*command.split(), cwd=place), "M304", 5, "99", "pip install -U perdure")
    assert perdure("show", "paid-1", cwd=place).code == 0
    assert perdure("run", "agent.py", "o-2", "--id", "paid-2", cwd=place).code == 0
    assert acts(place) == [*done, "o-2"]
    connection = apsw.Connection(str(store))
    connection.execute("DELETE FROM perdure_event WHERE key >> 32 = (SELECT max(run_no) FROM perdure_run)")
    connection.execute("DELETE FROM perdure_snapshot WHERE key >> 32 = (SELECT max(run_no) FROM perdure_run)")
    connection.close()
    assert journal_digest(store) == before


async def test_verify_tells_a_newer_run_from_a_damaged_one(store: Path) -> None:
    _newer_event(store, "nap-1")
    verified = perdure("verify", cwd=store.parent)
    assert verified.code == 1
    assert "newer    nap-1" in verified.out
    assert "newer runs are not damaged: a newer perdure reads them" in verified.out
    assert "damaged  " not in verified.out
    document = json.loads(perdure("verify", "nap-1", "--json", cwd=store.parent).out)
    [found] = document["runs"]
    assert (document["ok"], found["ok"], found["newer"], found["damage"]) == (False, False, True, None)


async def test_why_tells_of_a_newer_format_and_a_worker_does_not_try_without_pause(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _newer_event(store, "nap-1")
    why = perdure("why", "nap-1", cwd=store.parent)
    assert why.code == 0, why
    assert "newer perdure" in why.out
    assert "pip install -U perdure" in why.out
    connection = apsw.Connection(str(store))
    connection.execute("UPDATE perdure_run SET due_at = 0 WHERE run_id = 'nap-1'")
    connection.close()
    monkeypatch.setattr(worker, "RETRY_SECONDS", 3600.0)
    monkeypatch.setattr(worker, "SCAN_SECONDS", 3600.0)
    async with Runtime(str(store), [desk], workers=2, lease_seconds=36_000.0) as runtime:
        first = (await runtime.store.row("nap-1")).epoch
        seen = 0
        while (row := await runtime.store.row("nap-1")).epoch < first + 2:  # tried once, then it rests
            seen = await runtime.store.changed(seen, 1.0)
        await runtime.start(desk, "next-1", "go")
        while not (await runtime.store.row("next-1")).terminal:
            seen = await runtime.store.changed(seen, 1.0)
        assert (await runtime.store.row("nap-1")).epoch == row.epoch == first + 2
    opened = SQLiteStore(store)
    await opened.open()
    assert (await opened.row("nap-1")).worker is None, "the lease was not given back"
    await opened.close()


# ---------------------------------------------------------------------------------------------- locked

HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(store: Path) -> Iterator[None]:
    """A foreign program has a transaction open on the store, for the block."""
    foreign = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert foreign.stdout is not None
    assert foreign.stdin is not None
    assert foreign.stdout.readline() == "held\n"
    try:
        yield
    finally:
        foreign.stdin.close()
        foreign.wait()
        foreign.stdout.close()


async def test_a_foreign_lock_is_named_and_nothing_of_the_write_is_kept(store: Path) -> None:
    before = journal_digest(store)
    with holding(store):
        mine = SQLiteStore(store, busy_seconds=SHORT)
        with refused(StoreLocked, str(store)):
            async with Runtime(mine, [desk]) as runtime:
                await runtime.run(desk, "late-1", "go")
        await mine.close()
        assert perdure("runs", cwd=store.parent).code == 0
    assert journal_digest(store) == before
    assert (await desk.run("late-1", "go", store=str(store))).unwrap() == "done"


# ----------------------------------------------------------------------------------------- no right to write


@pytest.mark.parametrize("what", ["file", "folder", "both"])
def test_without_the_right_to_write_looking_works_and_a_run_stops_before_any_step(
    place: Path, what: str
) -> None:
    """Field case O-080."""
    assert perdure("run", "agent.py", "nap", "--id", "nap-1", cwd=place).code == 6
    done, path = acts(place), place / "perdure.db"
    for file in place.iterdir():
        file.chmod(0o777 if file.is_dir() else 0o666)
    if what in ("file", "both"):
        path.chmod(0o444)
    if what in ("folder", "both"):
        place.chmod(0o555)
    before = path.read_bytes()
    for command in ("runs", "show nap-1", "why nap-1", "verify"):
        answer = perdure(*command.split(), cwd=place, bound=True)
        assert answer.code == 0, (command, answer)
    for command in ("run agent.py --id nap-1", "run agent.py o-2 --id new-1", "cancel nap-1"):
        named = str(place if what == "folder" else path)
        told(perdure(*command.split(), cwd=place, bound=True), "S104", 5, named, "no right to write")
    assert (path.read_bytes(), acts(place)) == (before, done)
    place.chmod(0o777)
    path.chmod(0o666)
    all_whole(path)


def test_a_folder_in_which_no_store_may_be_made(place: Path) -> None:
    place.chmod(0o555)
    told(perdure("run", "agent.py", "o-1", cwd=place, bound=True), "S102", 1, "perdure.db", "not writable")
    place.chmod(0o777)
    assert sorted(path.name for path in place.iterdir()) == ["agent.py"]
