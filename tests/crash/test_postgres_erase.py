"""SIGKILL at every exchange of an erasure with the server, and around it: all keys of a family go, or none.

A process erases a run with a child and a fork and kills itself at one place; the database is judged by the
next one. The places are counted where the driver waits for the server, so that none is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Store
from perdure.timeline import erasing
from tests.crash.test_erase import Erased, all_or_none, family, killed_at, some_and_not_others
from tests.database import PLACE

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.postgres]

MOST = 60
"""More exchanges than an erasure has."""

PROCESS = """
import asyncio, os, signal, sys
import psycopg
from perdure.store.postgres import PostgresStore, keys
from perdure.timeline import erasing

url, place, broken = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "broken"
count, armed = 0, False
wait = psycopg.Connection.wait

def tick():
    global count
    if armed:
        count += 1
        if count == place:
            os.kill(os.getpid(), signal.SIGKILL)

def waited(self, *arguments, **more):
    tick()
    return wait(self, *arguments, **more)

async def main():
    global armed
    store = PostgresStore(url)
    await store.open()
    plan = await erasing.planned(store, "r")
    psycopg.Connection.wait = waited
    armed = True
    if broken:  # a transaction for each run
        for run_id in plan.runs:
            await store._apart(lambda connection: connection.execute(keys._ERASE.encode(), ([run_id],)))
    else:
        await erasing.erase(store, "r")
    tick()
    armed = False
    await store.close()

asyncio.run(main())
"""


def in_a_database(folder: Path) -> Erased:
    """An erasure in a database, killed."""

    def erased(place: int, how: str) -> tuple[int, str, Callable[[], Store]]:
        url = PLACE.at(folder / f"{how}-{place}")
        asyncio.run(family(PostgresStore(url)))
        return killed_at(PROCESS, url, place, how), url, lambda: PostgresStore(url)

    return erased


async def again(url: str) -> None:
    """Whoever comes next erases it to the end."""
    store = PostgresStore(url)
    await store.open()
    assert (await erasing.erase(store, "r")).done
    await store.close()


def test_a_kill_leaves_all_keys_or_none(tmp_path: Path) -> None:
    all_or_none(in_a_database(tmp_path), again, most=MOST)


def test_a_transaction_for_each_run_is_seen(tmp_path: Path) -> None:
    """Control."""
    assert some_and_not_others(in_a_database(tmp_path), most=MOST)
