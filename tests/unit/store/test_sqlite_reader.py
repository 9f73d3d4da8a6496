"""Readings of an SQLite file share a transaction, and what becomes of one is no matter of its neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.errors import NoSuchRun, StoreUnavailable
from perdure.store import SQLiteStore
from perdure.store.sqlite.reader import TOGETHER
from perdure.testing.contract.trial import new_run


async def _store(path: Path, *names: str) -> SQLiteStore:
    store = SQLiteStore(path / "runs.db")
    await store.open()
    for name in names:
        await store.create(new_run(name))
    return store


def _counted(store: SQLiteStore) -> list[int]:
    """One entry for each transaction of the reader from now on."""
    reader, seen = store._reader, list[int]()
    assert reader is not None
    moment = reader._one_moment

    def counting(reading: Callable[[apsw.Connection], Any]) -> Any:
        seen.append(1)
        return moment(reading)

    reader._one_moment = counting  # type: ignore[method-assign]
    return seen


async def test_what_is_asked_for_together_is_read_together(tmp_path: Path) -> None:
    names = [f"r-{number}" for number in range(2 * TOGETHER)]
    store = await _store(tmp_path, *names)
    alone = [await store.load(name) for name in names]
    seen = _counted(store)
    assert await asyncio.gather(*map(store.load, names)) == alone
    assert len(seen) <= 4, "the first may have begun alone, and the last be what that left"
    await store.close()


async def test_a_run_that_is_not_there_harms_no_neighbour(tmp_path: Path) -> None:
    store = await _store(tmp_path, "a", "b")
    asked = ("a", "nowhere", "b", "a")
    one, none, other, again = await asyncio.gather(*map(store.load, asked), return_exceptions=True)
    assert isinstance(none, NoSuchRun)
    assert (await store.load("a"), await store.load("b")) == (one, other)
    assert one == again
    await store.close()


async def test_a_reading_that_fails_is_told_alone(tmp_path: Path) -> None:
    store = await _store(tmp_path, "a")

    def broken(connection: apsw.Connection) -> Any:
        return connection.execute("SELECT * FROM missing").get

    tasks = [store.row("a"), store._read(broken), store.row("a")]
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(second, StoreUnavailable)
    assert first == third == await store.row("a")
    await store.close()


async def test_who_gives_up_harms_nobody(tmp_path: Path) -> None:
    store = await _store(tmp_path, "a", "b")
    left, stays = (asyncio.ensure_future(store.row(name)) for name in ("a", "b"))
    await asyncio.sleep(0)
    left.cancel()
    assert (await stays).run_id == "b"
    with pytest.raises(asyncio.CancelledError):
        await left
    await store.close()
