"""The file itself: its settings, what is not a store, what cannot be written or was damaged."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.errors import (
    Damaged,
    ForeignLoop,
    NotAStore,
    NotDurable,
    PerdureError,
    StoreClosed,
    StoreNewer,
    StoreUnavailable,
)
from perdure.store import SQLiteStore
from perdure.store.protocol import Batch, Claim, Query, RowChange, Snapshot, Stored
from perdure.store.sqlite.connection import APPLICATION_ID, SCHEMA_VERSION, check_durable
from perdure.testing.contract.trial import event, events, new_run
from tests.unit.store.elsewhere import elsewhere


@contextlib.asynccontextmanager
async def opened(path: Path, **settings: Any) -> AsyncIterator[SQLiteStore]:
    """An open store for the block."""
    store = SQLiteStore(path, **settings)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def make(path: Path, run_id: str = "r") -> None:
    """A store with one run of three events, closed."""
    async with opened(path) as store:
        await store.create(new_run(run_id, events=3))


async def test_settings_are_what_durability_needs(tmp_path: Path) -> None:
    async with opened(tmp_path / "runs.db") as store:
        facts = (await store.stats()).facts
        assert facts["journal_mode"] == "wal"
        assert facts["synchronous"] == "2"
        assert facts["mmap_size"] == "0"
        assert facts["page_size"] == "4096"
        assert facts["wal_autocheckpoint"] == "0"
        assert facts["schema"] == str(SCHEMA_VERSION)
        assert facts["sqlite"].startswith(apsw.sqlite_lib_version())
    head = (tmp_path / "runs.db").read_bytes()[:100]
    assert int.from_bytes(head[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(head[60:64], "big") == SCHEMA_VERSION
    connection = apsw.Connection(str(tmp_path / "runs.db"))
    tables = list(connection.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'"))
    ours = [(name, strict) for name, strict in tables if not str(name).startswith("sqlite_")]
    assert all(str(name).startswith("perdure_") and strict for name, strict in ours)
    assert len(ours) == 8
    connection.close()


def test_a_connection_that_will_not_sync_is_refused(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "runs.db"))
    connection.pragma("synchronous", 2)
    check_durable(connection, "runs.db")
    for setting in ("synchronous", "mmap_size"):
        connection.pragma("synchronous", 2)
        connection.pragma(setting, 1)
        with pytest.raises(NotDurable):
            check_durable(connection, "runs.db")
    connection.close()


async def test_closing_leaves_one_whole_file(tmp_path: Path) -> None:
    await make(tmp_path / "runs.db")
    left = sorted(name for name in os.listdir(tmp_path) if name.endswith(("-wal", "-shm")))
    assert left == []
    connection = apsw.Connection(str(tmp_path / "runs.db"))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


async def test_foreign_files_are_left_as_they_are(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("Not a database. " * 100)
    foreign = tmp_path / "foreign.db"
    connection = apsw.Connection(str(foreign))
    connection.execute("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)")
    connection.close()
    other = tmp_path / "other.db"
    connection = apsw.Connection(str(other))
    connection.execute("PRAGMA application_id = 7")
    connection.close()
    for path in (text, foreign, other):
        before = path.read_bytes()
        with pytest.raises(NotAStore) as caught:
            await SQLiteStore(path).open()
        assert str(path) in caught.value.what
        assert path.read_bytes() == before


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "runs.db").touch()
    await make(tmp_path / "runs.db")


async def test_a_newer_store_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await make(path)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", SCHEMA_VERSION + 1)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreNewer) as caught:
        await SQLiteStore(path).open()
    assert (caught.value.version, caught.value.known) == (SCHEMA_VERSION + 1, SCHEMA_VERSION)
    assert path.read_bytes() == before


async def test_a_failed_opening_leaves_nothing_open_and_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "later" / "runs.db"
    store = SQLiteStore(path)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.open()
        with pytest.raises(StoreClosed):
            await store.row("r")
    path.parent.mkdir()
    await store.open()
    await store.create(new_run())
    await store.close()


async def test_a_store_belongs_to_its_loop(tmp_path: Path) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await store.create(new_run())

        def in_another_loop() -> list[type[BaseException]]:
            async def use() -> list[type[BaseException]]:
                outcomes = await asyncio.gather(
                    store.row("r"), store.open(), store.append(Batch("r", 0, 1)), return_exceptions=True
                )
                return [type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)]

            return asyncio.run(use())

        assert await asyncio.to_thread(in_another_loop) == [ForeignLoop] * 3
        assert (await store.row("r")).seq == 1


def test_a_store_outlives_a_loop_that_ended(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")

    async def first() -> None:
        await store.open()
        await store.create(new_run())

    async def second() -> None:
        await store.open()
        seen = await store.changed(0, 0)
        assert (await store.append(Batch("r", 0, 1, events(2, 2)))).seq == 2
        assert await store.changed(seen, 10) != seen
        await store.close()

    asyncio.run(first())
    asyncio.run(second())


async def test_a_file_that_was_taken_away_takes_no_more_commits(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        await store.create(new_run())
        os.rename(path, tmp_path / "moved.db")
        with pytest.raises(StoreUnavailable) as caught:
            await store.append(Batch("r", 0, 1, events(2, 2)))
        assert "removed or replaced" in caught.value.what
        os.rename(tmp_path / "moved.db", path)
        assert (await store.append(Batch("r", 0, 1, events(2, 2)))).seq == 2


async def test_damage_is_told_and_never_served(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        await store.create(new_run("r"))
        await store.claim(Claim("w", 30))
        for seq in range(1, 200):
            await store.append(Batch("r", 1, seq, (Stored(seq + 1, bytes(2000), b"d" * 16),)))
    pages = bytearray(path.read_bytes())
    for start in range(4096 * 40, len(pages), 4096):  # the first pages hold the table of tables
        pages[start : start + 8] = b"\xff" * 8
    path.write_bytes(pages)
    async with opened(path) as store:
        with pytest.raises(Damaged):
            await store.load("r")
        with pytest.raises(PerdureError):
            await store.stats()


async def test_removed_runs_give_their_room_back_to_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path) as store:
        await store.create(new_run("small"))
        for number in range(3):
            run_id = f"large-{number}"
            await store.create(new_run(run_id))
            (claimed,) = await store.claim(Claim("w", 30, run_id=run_id))
            some = tuple(event(seq, bytes(3000)) for seq in range(2, 502))
            end = RowChange(status="succeeded", terminal=True)
            batch = Batch(run_id, claimed.row.epoch, 1, some, end, snapshot=Snapshot(3, bytes(100_000), b""))
            await store.append(batch)
        await store.close()
        large = path.stat().st_size
        await store.open()
        for number in range(3):
            await store.drop(f"large-{number}")
        await store.close()
        small = path.stat().st_size
        assert (large > 4_500_000, small < 200_000) == (True, True), (large, small)
        await store.open()
        assert [row.run_id for row in await store.list(Query())] == ["small"]


# -- without the right to write

READ_ONLY = """
for name in ("row", "load", "read", "inbox", "snapshots"):
    await getattr(store, name)("r")
stats = await store.stats()
say(len(await store.list(Query())), stats.events, "read only" in stats.facts)
for write in (
    lambda: store.create(NewRun("s", "a", "1", "ready", (event(1),))),
    lambda: store.append(Batch("r", 0, 3, (event(4),))),
    lambda: store.claim(Claim("w", 30)),
    lambda: store.deliver(Message("r", "m", "k", b"")),
    lambda: store.enlist("w"),
    lambda: store.drop("r"),
):
    try:
        await write()
    except StoreReadOnly as error:
        say(error.what)
"""


UNPRIVILEGED = ["-unprivileged"] if os.geteuid() == 0 else []


@contextlib.contextmanager
def no_writing(*paths: Path) -> Iterator[None]:
    """Take away the right to write, for the block."""
    before = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path, mode in zip(paths, before, strict=True):
            path.chmod(mode)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="perdure-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.mark.parametrize("what", ["file", "folder", "both"])
async def test_without_the_right_to_write_reading_works(what: str, shared_folder: Path) -> None:
    path = shared_folder / "runs.db"
    await make(path)
    path.chmod(0o666)
    paths = {"file": [path], "folder": [shared_folder], "both": [path, shared_folder]}[what]
    with no_writing(*paths), elsewhere(path, READ_ONLY, *UNPRIVILEGED) as other:
        assert other.hear() == "1 3 True"
        refusals = other.end().splitlines()
    assert len(refusals) == 6
    place = shared_folder if what == "folder" else path
    assert all("no right to write" in refusal and str(place) in refusal for refusal in refusals)


async def test_without_the_right_to_write_later_commits_are_seen(shared_folder: Path) -> None:
    path = shared_folder / "runs.db"
    await make(path)
    code = """
    for _ in range(2):
        say(len(await store.read("r")))
        hear()
    """
    with no_writing(shared_folder), elsewhere(path, code, *UNPRIVILEGED) as other:
        assert other.hear() == "3"
        os.chmod(shared_folder, 0o777)
        async with opened(path) as store:
            await store.append(Batch("r", 0, 3, events(4, 5)))
        other.say("look again")
        assert other.hear() == "5"
        other.say("good")
        other.end()


async def test_commits_that_lie_in_the_log_are_not_passed_over(shared_folder: Path) -> None:
    """Where the log's index cannot be made on disk, it is made in memory."""
    async with opened(shared_folder / "runs.db") as store:
        await store.create(new_run(events=3))
        for part in ("", "-wal"):
            copy = shared_folder / f"copy.db{part}"
            copy.write_bytes((shared_folder / f"runs.db{part}").read_bytes())
            copy.chmod(0o444)
    look = "say(len(await store.read('r')))"
    with no_writing(shared_folder), elsewhere(shared_folder / "copy.db", look, *UNPRIVILEGED) as other:
        assert other.hear() == "3"
        other.end()


async def test_a_store_that_cannot_be_read_says_so(shared_folder: Path) -> None:
    path = shared_folder / "runs.db"
    await make(path)
    path.chmod(0)
    with elsewhere(path, "say('opened')", *UNPRIVILEGED) as other:
        kind, what, remedy = other.hear().split(" | ")
        other.end()
    assert (kind, str(path) in what, "read permission" in remedy) == ("StoreUnavailable", True, True)
