"""SIGKILL at every exchange of an erasure with the server, and around it: all keys of a family go, or none.

A process erases a run with a child and a fork and kills itself at one place; the database is judged by the
next one. The places are counted where the driver waits for the server, so that none is left out.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.store.postgres import PostgresStore
from perdure.timeline import erasing
from tests.crash.test_erase import family, left
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


def erased_until(folder: Path, place: int, how: str = "whole") -> tuple[int, str]:
    """The exit code of a process that erases and is killed at a place, and the database that it has left."""
    url = PLACE.at(folder / f"{how}-{place}")
    asyncio.run(family(PostgresStore(url)))
    argv = [sys.executable, "-c", PROCESS, url, str(place), how]
    process = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode in (0, -signal.SIGKILL), process.stderr
    return process.returncode, url


def test_a_kill_leaves_all_keys_or_none(tmp_path: Path) -> None:
    outcomes = []
    for place in range(1, MOST):
        code, url = erased_until(tmp_path, place)
        there = asyncio.run(left(PostgresStore(url)))
        assert len(set(there)) == 1, (place, there)
        outcomes.append(there[0])
        asyncio.run(again(url))
        assert asyncio.run(left(PostgresStore(url))) == [False] * 3
        if code == 0:
            break
    assert outcomes[0] is True, "before"
    assert outcomes[-1] is False, "after"
    assert outcomes == sorted(outcomes, reverse=True)
    assert len(outcomes) > 5
    print(f"\n{len(outcomes)} places, {sum(outcomes)} of them before")


async def again(url: str) -> None:
    """Whoever comes next erases it to the end."""
    store = PostgresStore(url)
    await store.open()
    assert (await erasing.erase(store, "r")).done
    await store.close()


def test_a_transaction_for_each_run_is_seen(tmp_path: Path) -> None:
    """Control: an erasure that is not one transaction leaves some keys and not others at some kill."""
    between = False
    for place in range(2, MOST):
        code, url = erased_until(tmp_path, place, "broken")
        between = between or len(set(asyncio.run(left(PostgresStore(url))))) == 2
        if code == 0 or between:
            break
    assert between
