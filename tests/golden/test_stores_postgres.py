"""Golden dumps: a database as the first release made it is opened, upgraded, read and written to.

`store-v1-postgres.sql` is what pg_dump says of a store of version 1 (made by `python -m
tests.golden.test_stores_postgres`). When the tables change it stays, and a dump of the new version comes
beside it.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import psycopg
import pytest

from perdure.store.postgres import PostgresStore
from perdure.store.postgres.schema import SHAPE
from perdure.store.protocol import Batch, Claim
from perdure.testing.clock import MovableClock
from tests.cluster import program
from tests.database import new_database
from tests.golden.test_stores import everything, fill

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("store-v*-postgres.sql"))


def test_the_first_dump_stays() -> None:
    assert FILES[0].name == "store-v1-postgres.sql"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_a_database_of_an_earlier_release_is_brought_up_to_date_and_carried_on(path: Path) -> None:
    """Field case O-014."""
    url, clock = new_database(), MovableClock()
    fresh = PostgresStore(new_database(), clock=clock)
    await fresh.open()
    await fill(fresh)
    wanted, made = await everything(fresh), _columns(fresh.url)
    await fresh.close()
    _restored(url, path)
    stores = [PostgresStore(url, clock=clock) for _ in range(4)]  # of many starters, one upgrades
    await asyncio.gather(*(store.open() for store in stores))
    store = stores[0]
    assert await everything(store) == wanted
    assert _columns(url) == made, "an upgraded database has the tables of a new one"
    clock.advance(31)
    (claimed,) = await store.claim(Claim("w2", 30, run_id="works"))
    assert (claimed.row.epoch, claimed.previous) == (2, "w1")
    await store.append(Batch("works", 2, 3, (), taken=(2,)))
    assert (await store.load("works")).row.pending == 0
    for each in stores:
        await each.close()


def _restored(url: str, path: Path) -> None:
    with psycopg.connect(url) as sql:
        sql.execute(path.read_bytes())


def _columns(url: str) -> list[tuple[object, ...]]:
    """Tables and indexes: every column's name and type, in the order of names."""
    with psycopg.connect(url) as sql:
        columns = sql.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name"
            " FROM information_schema.columns WHERE table_schema = 'public' AND table_name ~ '^perdure_'"
            " ORDER BY 1, 2"
        ).fetchall()
        indexes = sql.execute(
            "SELECT tablename, regexp_replace(indexdef, 'INDEX .* ON', 'INDEX ON') FROM pg_indexes"
            " WHERE tablename ~ '^perdure_' ORDER BY 1, 2"  # the server names those of the parts as it likes
        ).fetchall()
    return [*columns, *indexes]


async def write() -> None:
    """Make the dump of today's version."""
    url = new_database()
    store = PostgresStore(url, clock=MovableClock())
    await store.open()
    await fill(store)
    await store.close()
    dumped = program("pg_dump", "--no-owner", "--no-privileges", "--inserts", "-d", url).stdout
    kept = [
        line for line in dumped.splitlines() if not re.match(r"SET |--|\\|SELECT pg_catalog.set_config", line)
    ]
    text = re.sub(r"\n{2,}", "\n", "\n".join(kept)).strip()
    (FOLDER / f"store-v{SHAPE.version}-postgres.sql").write_text(text + "\n")


if __name__ == "__main__":
    asyncio.run(write())
