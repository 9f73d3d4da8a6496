"""Golden stores: a file as the first release writes it is opened, read, written to, and brought up to date.

`store-v1.sqlite` is an SQLite store of version 1, `store-v2.sqlite` one of version 2, and so on (the newest
is made by `python -m tests.golden.test_stores`). When the tables change, they stay, a file of the new version
comes beside them, and the steps in between are shipped; those after today's version are made up here.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from perdure.errors import Damaged, StoreError, StoreNewer, StoreUnavailable
from perdure.store import SQLiteStore, upgrade
from perdure.store.protocol import (
    NEVER,
    Batch,
    Blob,
    Claim,
    Loaded,
    Query,
    RowChange,
    Snapshot,
    Store,
)
from perdure.store.sqlite import connection as tables
from perdure.store.upgrade import Shape
from perdure.testing.clock import MovableClock
from perdure.testing.contract.trial import events, message, new_run, refused

VERSION = tables.SCHEMA_VERSION
FILE = Path(__file__).parent / f"store-v{VERSION}.sqlite"
FILES = [FILE.with_name(f"store-v{version}.sqlite") for version in range(1, VERSION + 1)]
WAITS = RowChange(status="waiting", due_at=NEVER, info=b"why", asks=True)


async def fill(store: Store) -> None:
    """Runs that wait, work, have ended and are gone, with everything that a store keeps."""
    for run_id in ("waits", "works", "ended", "gone"):
        await store.create(new_run(run_id, events=2))
        await store.claim(Claim("w1", 30, run_id=run_id))
    blob, snapshot = Blob(b"k" * 16, b"large" * 100), Snapshot(3, b"state", b"d" * 16)
    waits = Batch("waits", 1, 2, events(3, 4), WAITS, snapshot, (blob,), outbox=(message("works", "m1"),))
    await store.append(replace(waits, release=True))
    await store.append(Batch("works", 1, 2, events(3, 3), taken=(1,)))
    await store.deliver(message("works", "m2"))
    for run_id in ("ended", "gone"):
        await store.append(Batch(run_id, 1, 2, events(3, 3), RowChange(status="succeeded", terminal=True)))
    await store.drop("gone", (b"key one", b"key two"))


async def everything(store: Store) -> list[object]:
    """All that can be seen of it."""
    loaded: list[Loaded] = [await store.load(run_id) for run_id in ("waits", "works", "ended")]
    listed = await store.list(Query())
    more = (await store.tombstones("gone"), await store.blob("waits", b"k" * 16), await store.due())
    return [*loaded, listed, await store.inbox("works"), await store.read("waits"), *more]


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A copy of the golden file."""
    path = tmp_path / "runs.db"
    shutil.copy(FILE, path)
    return path


async def seen(path: Path, clock: MovableClock) -> list[object]:
    """What a store at this path shows at this moment."""
    store = SQLiteStore(path, clock=clock, reserve_bytes=0)
    await store.open()
    try:
        return await everything(store)
    finally:
        await store.close()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_store_of_every_version_is_read_and_carried_on(file: Path, tmp_path: Path) -> None:
    """Field case O-014."""
    clock, golden = MovableClock(), tmp_path / "runs.db"
    shutil.copy(file, golden)
    fresh = SQLiteStore(tmp_path / "fresh.db", clock=clock, reserve_bytes=0)
    await fresh.open()
    await fill(fresh)
    wanted = await everything(fresh)
    await fresh.close()
    assert await seen(golden, clock) == wanted
    store = SQLiteStore(golden, clock=clock, reserve_bytes=0)
    await store.open()
    clock.advance(31)
    (claimed,) = await store.claim(Claim("w2", 30, run_id="works"))
    assert (claimed.row.epoch, claimed.previous) == (2, "w1")
    await store.append(Batch("works", 2, 3, events(4, 4), taken=(2,)))
    assert (await store.load("works")).row.pending == 0
    await store.close()


STEPS = {
    f"sqlite-to-{VERSION + 1}.sql": "ALTER TABLE perdure_run ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",
    f"sqlite-to-{VERSION + 2}.sql": "CREATE TABLE perdure_extra (n INTEGER); INSERT INTO perdure_extra"
    " VALUES (7)",
}


NEWEST = Shape("sqlite", VERSION + 2)


def _version(path: Path) -> int:
    connection = apsw.Connection(str(path))
    version: int = connection.pragma("user_version")
    connection.close()
    return version


async def test_an_older_file_is_brought_up_to_date_in_one_transaction(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = MovableClock()
    before = await seen(golden, clock)
    monkeypatch.setattr(tables, "schema_text", STEPS.__getitem__)
    monkeypatch.setattr(tables, "make_tables", _to_newest)
    monkeypatch.setattr(tables, "SHAPE", NEWEST)
    monkeypatch.setattr(tables.check_tables, "__defaults__", (NEWEST,))
    monkeypatch.setattr(tables.check_version, "__defaults__", (NEWEST,))
    with refused(StoreUnavailable) as errors:
        await SQLiteStore(golden, look=True).open()
    assert f"version {VERSION}" in errors[0].what
    assert await seen(golden, clock) == before
    assert _version(golden) == VERSION + 2
    assert await seen(golden, clock) == before, "and again it is there already"
    connection = apsw.Connection(str(golden))
    assert connection.execute("SELECT n FROM perdure_extra").fetchall() == [(7,)]
    assert set(connection.execute("SELECT colour FROM perdure_run")) == {("red",)}
    connection.close()


def _to_newest(connection: apsw.Connection, path: str) -> None:
    _make(connection, path, NEWEST)


_make = tables.make_tables


def test_a_step_that_fails_leaves_the_file_as_it_was(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = STEPS | {
        f"sqlite-to-{VERSION + 2}.sql": "CREATE TABLE perdure_extra (n INTEGER); SELECT no_such_function()"
    }
    monkeypatch.setattr(tables, "schema_text", broken.__getitem__)
    before = golden.read_bytes()
    connection = tables.open_writer(str(golden), 5.0)
    with refused(Damaged, StoreError), tables.translated(str(golden)):
        _make(connection, str(golden), NEWEST)
    found = connection.execute("SELECT name FROM sqlite_schema WHERE name = 'perdure_extra'").fetchall()
    assert (found, connection.pragma("user_version")) == ([], VERSION)
    connection.close()
    assert golden.read_bytes() == before


async def test_who_has_an_older_store_open_writes_nothing_to_a_newer_one(golden: Path) -> None:
    """Field case O-084."""
    store = SQLiteStore(golden, reserve_bytes=0)
    await store.open()
    connection = apsw.Connection(str(golden))
    connection.pragma("user_version", VERSION + 1)
    connection.close()
    with refused(StoreNewer):
        await store.deliver(message("works", "m3"))
    with refused(StoreNewer):
        await store.append(Batch("works", 1, 3, events(4, 4)))
    assert len(await store.inbox("works")) == 1
    await store.close()


def test_the_steps_to_a_version_are_named_by_it() -> None:
    assert Shape("sqlite", 4).steps(2) == ["sqlite-to-3.sql", "sqlite-to-4.sql"]
    assert Shape("sqlite", 4).steps(4) == []
    assert "CREATE TABLE perdure_run" in upgrade.schema_text(Shape("postgres", 1).first)


async def write() -> None:
    """Make the golden file anew."""
    FILE.unlink(missing_ok=True)
    store = SQLiteStore(FILE, clock=MovableClock(), reserve_bytes=0)
    await store.open()
    await fill(store)
    await store.close()
    for left in FILE.parent.glob(f"{FILE.name}-*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()


if __name__ == "__main__":
    asyncio.run(write())
