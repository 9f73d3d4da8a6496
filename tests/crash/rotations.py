"""Rotations that kill themselves, at the statements of a file's writer or at the exchanges with a server, in
processes forked for it; their judge.

`python -m tests.crash.rotations WHERE AIM HOW STEP` prints a line for each place: what was left, and what
was wrong with it. WHERE is a folder for files, or the address of a database to be emptied. The judge opens
what is left with the keys that its mark names and no other.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg

from perdure import codec
from perdure.errors import PerdureError
from perdure.journal import verify
from perdure.state import events as e
from perdure.store import SQLiteStore, open_store
from perdure.store.kept import MARK, PARTS, Kept, kids_of
from perdure.store.master import Master, kid_of
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import GENESIS, Blob, Message, NewRun, Query, Snapshot, Store, Stored
from perdure.store.sealed import PLAIN, mark_of
from perdure.timeline import rotation
from tests.crash.database import emptied
from tests.unit.timeline.past import CRASHED, RECONCILED, events

KEYS = {Master(bytes([n]) * 32).kid: base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2)}
OLD, NEW = KEYS.values()
LARGE = b"large" * 20
NAME = codec.digest(LARGE)
MOST = 400
"""More statements than a rotation has."""


def run(run_id: str, bodies: tuple[e.AnyBody, ...], **more: Any) -> NewRun:
    """A run with these facts."""
    stored, digest = list[Stored](), GENESIS
    for event in events(bodies):
        data = codec.pack(event)
        digest = codec.chain(digest, data)
        stored.append(Stored(event.seq, data, digest))
    status = "succeeded" if more.get("terminal") else "ready"
    return NewRun(run_id, "refund-desk", "7", status, tuple(stored), info=b"\xa3why", **more)


async def filled(url: str) -> None:
    """Something of each part."""
    store = open_store(url)
    await store.open()
    await store.key("one", b"k" * 32)
    await store.create(run("one", CRASHED, blobs=(Blob(NAME, LARGE),)))
    await store.create(run("two", RECONCILED, terminal=True))
    await store.create(run("gone", RECONCILED, terminal=True))
    await store.deliver(Message("one", "m-1", "signal", b"said"))
    await store.drop("gone", (b"tombstone",))
    later = run("late", CRASHED)
    base = Snapshot(3, b"base", later.events[2].digest)
    await store.create(NewRun("late", "a", "1", "ready", later.events[3:], base=base, left=(b"left",)))
    await store.close()


async def told(store: Store) -> list[Any]:
    """Everything that a store tells to whoever may open it."""
    found: list[Any] = []
    for row in sorted(await store.list(Query()), key=lambda row: row.run_id):
        name = row.run_id
        found += [name, row.info, await store.read(name), await store.inbox(name)]
        found += [await store.snapshots(name), await store.tombstones(name)]
    found += [await store.tombstones("gone"), await store.blob("one", NAME)]
    for name in ("one", "two"):
        checked = await verify(store, name)
        assert checked.ok, checked
    return found


async def below(url: str) -> SQLiteStore | PostgresStore:
    """The store as it lies there."""
    store = PostgresStore(url) if "://" in url else SQLiteStore(Path(url), reserve_bytes=0)
    store.sealed = True
    await store.open()
    return store


async def rotate(url: str, aim: rotation.Aim, place: int, how: str) -> None:
    """Rotate, and die at a place. `broken`: the mark is set to the new key alone before the rest is."""
    store = await below(url)
    count = 0

    def tick(*_: Any) -> bool:
        nonlocal count
        count += 1
        if count == place:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    if how == "broken":
        patch.object(rotation, "mark_of", lambda keys: mark_of(keys[:1])).start()
    armed = listening(store, tick)
    await rotation.rotate(store, aim)
    tick()
    armed()
    await store.close()


def listening(store: SQLiteStore | PostgresStore, tick: Callable[..., bool]) -> Callable[[], object]:
    """Tell of each statement or exchange of a store, until what is given back is called."""
    if isinstance(store, PostgresStore):
        wait = psycopg.Connection.wait
        told = patch.object(psycopg.Connection, "wait", lambda *args, **more: tick() and wait(*args, **more))
        told.start()
        return told.stop
    assert store._writer is not None
    connection = store._writer.connection
    assert connection is not None
    connection.exec_trace = tick
    return lambda: setattr(connection, "exec_trace", None)


async def judged(url: str, expected: list[Any]) -> tuple[str, list[str]]:
    """What the mark says, and what is wrong: with the keys that it names alone, all is as it was."""
    store = await below(url)
    kids = kids_of(await store.key(MARK) or b"\0")
    await store.close()
    state = "+".join("clear" if kid == PLAIN else KEYS[kid][:4] for kid in kids) or "clear"
    if kids[:1] == (PLAIN,) and len(kids) > 1:
        return state, []  # half in the clear: it opens to nobody until it is finished
    os.environ["PERDURE_KEY"] = ",".join(KEYS[kid] for kid in kids if kid != PLAIN)
    sealed = bool(kids) and kids[0] != PLAIN
    try:
        found = await as_told(f"{url}?encrypt=on" if sealed else url)
    except (PerdureError, AssertionError) as error:
        return state, [f"{type(error).__name__}: {error}"]
    return state, [] if found == expected else ["something is another"]


async def as_told(url: str) -> list[Any]:
    """What whoever opens an address is told."""
    store = open_store(url)
    await store.open()
    try:
        return await told(store)
    finally:
        await store.close()


async def finished(url: str, aim: rotation.Aim) -> list[str]:
    """Whoever comes next ends it; then nothing lies under another key."""
    os.environ["PERDURE_KEY"] = f"{NEW},{OLD}"
    store = await below(url)
    found = await rotation.rotate(store, aim)
    left = set()
    for part in PARTS:
        last: Kept | None = None
        while page := await store.kept(part, last):
            left |= {kid_of(value.data) for value in page if value.part != "key"}
            last = page[-1]
    await store.close()
    new = b"" if aim == "plain" else Master(bytes([2]) * 32).kid
    return [] if found.done and left == {new} else [f"not finished: {found}, {left}"]


def main(where: str, aim: rotation.Aim, how: str, step: int) -> None:
    """Every `step`-th place, until a rotation comes to its end."""
    for place in range(1, MOST, step):
        url = emptied(where) if "://" in where else f"{where}/{place}.db"
        os.environ["PERDURE_KEY"] = OLD
        opened = url if aim == "encrypted" else f"{url}?encrypt=on"
        asyncio.run(filled(opened))
        expected = asyncio.run(as_told(opened))
        os.environ["PERDURE_KEY"] = f"{NEW},{OLD}"
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            asyncio.run(rotate(url, aim, place, how))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        state, wrong = asyncio.run(judged(url, expected))
        if how == "whole":
            wrong += asyncio.run(finished(url, aim))
            wrong += asyncio.run(judged(url, expected))[1]
        print(json.dumps({"place": place, "state": state, "wrong": wrong}), flush=True)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, "the rotation failed"
            return
    raise AssertionError("it never came to its end")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))  # type: ignore[arg-type]
