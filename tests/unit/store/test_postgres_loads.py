"""Loads on PostgreSQL share an exchange, and what becomes of one is no matter of its neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from perdure.errors import NoSuchRun, RunGone, StoreClosed
from perdure.store.postgres import PostgresStore
from perdure.store.postgres.loads import TOGETHER
from perdure.store.protocol import NEVER, Batch, Blob, Claim, Loaded, Message, RowChange, Snapshot, Stored
from perdure.testing.contract.trial import new_run
from tests.database import PLACE
from tests.unit.store.test_postgres_tables import opened


def _counted(store: PostgresStore) -> list[list[str]]:
    """The runs of each exchange, from now on."""
    read, seen = store._loads._read, list[list[str]]()

    async def counting(run_ids: Sequence[str]) -> object:
        seen.append(list(run_ids))
        return await read(run_ids)

    store._loads._read = counting  # type: ignore[assignment]
    return seen


async def test_runs_asked_for_together_are_read_together(tmp_path: Path) -> None:
    async with opened(PLACE.at(tmp_path)) as store:
        names = [f"r-{number}" for number in range(TOGETHER + 5)]
        await asyncio.gather(*(store.create(new_run(name)) for name in names))
        alone = [await store.load(name) for name in names]
        seen = _counted(store)
        assert await asyncio.gather(*map(store.load, names)) == alone
        assert [len(some) for some in seen] == [TOGETHER, 5]


async def test_each_is_told_its_own(tmp_path: Path) -> None:
    """Snapshots, later events and messages reach their run; who is not there is told so."""
    async with opened(PLACE.at(tmp_path)) as store:
        for name in ("plain", "rich", "gone"):
            await store.create(new_run(name))
        await store.claim(Claim("w", 30, run_id="rich"))
        events = tuple(Stored(number, b"e%d" % number, bytes([number]) * 16) for number in range(2, 12))
        for upto in (4, 8):
            part = tuple(event for event in events if upto - 4 < event.seq - 1 <= upto)
            kept = Snapshot(part[-1].seq, b"s%d" % upto, b"d" * 16)
            await store.append(Batch("rich", 1, part[0].seq - 1, part, snapshot=kept, kept=5))
        await store.append(Batch("rich", 1, 9, events[8:], blobs=(Blob(b"b", b"blob"),)))
        for name in ("one", "two"):
            await store.deliver(Message("rich", name, "signal", name.encode()))
        await store.claim(Claim("w", 30, run_id="gone"))
        end = RowChange(status="succeeded", due_at=NEVER, terminal=True)
        await store.append(Batch("gone", 1, 1, row=end, release=True))
        await store.drop("gone")
        asked = ("rich", "nowhere", "plain", "gone", "rich")
        rich, nowhere, plain, gone, again = await asyncio.gather(
            *map(store.load, asked), return_exceptions=True
        )
        assert isinstance(nowhere, NoSuchRun)
        assert isinstance(gone, RunGone)
        assert isinstance(rich, Loaded)
        assert isinstance(plain, Loaded)
        assert rich == again
        assert (rich.older, rich.snapshot) == (5, Snapshot(9, b"s8", b"d" * 16))
        assert [event.seq for event in rich.events] == [10, 11]
        assert [(message.position, message.id) for message in rich.inbox] == [(1, "one"), (2, "two")]
        assert (plain.older, plain.snapshot, plain.inbox, len(plain.events)) == (0, None, (), 1)


async def test_who_gives_up_harms_nobody(tmp_path: Path) -> None:
    async with opened(PLACE.at(tmp_path)) as store:
        await store.create(new_run("a"))
        await store.create(new_run("b"))
        left, stays = (asyncio.ensure_future(store.load(name)) for name in ("a", "b"))
        await asyncio.sleep(0)
        left.cancel()
        assert (await stays).row.run_id == "b"
        await store.close()
        with pytest.raises(StoreClosed):
            await store.load("a")
