"""SIGKILL at every statement of an erasure, and around it: the keys of a family go together or not at all.

A process erases a run with a child and a fork and kills itself at one place; the file is judged by the next
one. The places are the statements that the writer's connection executes, counted, so that none is left out.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perdure import codec
from perdure.journal import verify
from perdure.state import events as e
from perdure.store.protocol import GENESIS, NewRun, Store, Stored
from perdure.store.sqlite import SQLiteStore
from perdure.timeline import erasing
from tests.unit.timeline.past import STARTED, events

pytestmark = pytest.mark.crash

Erased = Callable[[int, str], tuple[int, str, Callable[[], Store]]]
"""Kills an erasure (`whole`, `broken`) at a place: its exit code, and the address and store that it left."""

FAMILY = ("r", "r.1:0", "f")
MOST = 60
"""More statements than an erasure has."""

PROCESS = """
import asyncio, os, signal, sys
from perdure.store.sqlite import SQLiteStore, transaction
from perdure.timeline import erasing

path, place, broken = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "broken"
count, armed = 0, False

def tick(*_):
    global count
    if armed:
        count += 1
        if count == place:
            os.kill(os.getpid(), signal.SIGKILL)
    return True

def erase_one(tx, run_id):
    tx.connection.execute(transaction._NO_KEY, (run_id, 0))
    tx.forget()

async def main():
    global armed
    store = SQLiteStore(path, reserve_bytes=0)
    await store.open()
    store._writer.connection.exec_trace = tick
    plan = await erasing.planned(store, "r")
    armed = True
    tick()
    if broken:  # a transaction for each run
        for run_id in plan.runs:
            await store._write(lambda tx: erase_one(tx, run_id))
    else:
        await erasing.erase(store, "r")
    tick()
    armed = False
    await store.close()
    print(count)

asyncio.run(main())
"""


def file(path: Path) -> Store:
    """A store in a file."""
    return SQLiteStore(path, reserve_bytes=0)


async def family(store: Store) -> None:
    """A run, its child, and a fork that shares its key, all ended."""
    await store.open()
    for run_id, key in zip(FAMILY, (b"k" * 32, b"c" * 32, b"k" * 32), strict=True):
        await store.key(run_id, key)
        parent = "r" if run_id.startswith("r.") else None
        body = e.RunFinished("succeeded", codec.encode(None))
        stored, digest = list[Stored](), GENESIS
        for event in events((replace(STARTED, parent=parent), body)):
            data = codec.pack(event)
            digest = codec.chain(digest, data)
            stored.append(Stored(event.seq, data, digest))
        made = NewRun(
            run_id, STARTED.agent, STARTED.version, "succeeded", tuple(stored), parent=parent, terminal=True
        )
        await store.create(made)
    await store.close()


async def left(store: Store) -> list[bool]:
    """Which of the family still has its key; everything else is whole."""
    await store.open()
    try:
        found = [bool(await store.key(run_id)) for run_id in FAMILY]
        assert all([(await verify(store, run_id)).ok for run_id in FAMILY])
        return found
    finally:
        await store.close()


def killed_at(process: str, url: str, place: int, how: str) -> int:
    """The exit code of a process that erases what is at this address and is killed at a place."""
    argv = [sys.executable, "-c", process, url, str(place), how]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode


def all_or_none(erased: Erased, again: Callable[[str], Coroutine[Any, Any, None]], *, most: int) -> None:
    """A kill at each place leaves all keys or none, and whoever comes next erases to the end."""
    outcomes = []
    for place in range(1, most):
        code, url, store = erased(place, "whole")
        there = asyncio.run(left(store()))
        assert len(set(there)) == 1, (place, there)
        outcomes.append(there[0])
        asyncio.run(again(url))
        assert asyncio.run(left(store())) == [False] * 3
        if code == 0:
            break
    assert outcomes[0] is True, "before"
    assert outcomes[-1] is False, "after"
    assert outcomes == sorted(outcomes, reverse=True)
    assert len(outcomes) > 5
    print(f"\n{len(outcomes)} places, {sum(outcomes)} of them before")


def some_and_not_others(erased: Erased, *, most: int) -> bool:
    """Whether an erasure that is not one transaction leaves some keys and not others at some kill."""
    for place in range(2, most):
        code, _, store = erased(place, "broken")
        if len(set(asyncio.run(left(store())))) == 2:
            return True
        if code == 0:
            break
    return False


# ------------------------------------------------------------------------------------------------ a file


def in_a_file(folder: Path) -> Erased:
    """An erasure in a file, killed."""

    def erased(place: int, how: str) -> tuple[int, str, Callable[[], Store]]:
        path = folder / f"{how}-{place}.db"
        asyncio.run(family(file(path)))
        return killed_at(PROCESS, str(path), place, how), str(path), lambda: file(path)

    return erased


async def again(url: str) -> None:
    """Whoever comes next erases it to the end."""
    path = Path(url)
    store = SQLiteStore(path, reserve_bytes=0)
    await store.open()
    found = await erasing.erase(store, "r")
    assert found.done
    assert found.scrubbed
    await store.close()
    data = b"".join(one.read_bytes() for one in path.parent.glob(path.name + "*") if one.is_file())
    assert b"k" * 32 not in data
    assert b"c" * 32 not in data


def test_a_kill_leaves_all_keys_or_none(tmp_path: Path) -> None:
    all_or_none(in_a_file(tmp_path), again, most=MOST)


def test_a_transaction_for_each_run_is_seen(tmp_path: Path) -> None:
    """Control."""
    assert some_and_not_others(in_a_file(tmp_path), most=MOST)
