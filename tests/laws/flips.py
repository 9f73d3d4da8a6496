"""One bit of a stored run is changed, of any kind of bytes that a store keeps: who notices?

`trial` writes two runs alike, changes one bit of one of them behind the store's back, and looks through every
reader. What is served must be what was written, or be refused; `verify` must name the run; the other run, the
list, and a worker's claim must be as if nothing had been. The runs have large values out of line, kept
snapshots, and, by turns, a compacted past.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import apsw
import psycopg
from msgspec import Struct

from perdure import Agent, Run, Runtime
from perdure.errors import Damaged, EventsPruned, NewerFormat
from perdure.journal import load, pack_snapshot, record_at, retold, verify
from perdure.state.record import RunRecord
from perdure.store import SQLiteStore
from perdure.store.memory import MemoryStore
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Batch, Blob, Claim, NewRun, Query, RowChange, Store, Stored
from perdure.timeline.compaction import compacted

PLACES = (
    *("event data", "event digest", "snapshot data", "snapshot digest", "blob data", "blob digest"),
    *("tombstone data", "run agent", "run status", "run terminal", "run floor"),
)
"""Table and column."""

LARGE = random.Random(1).randbytes(400_000).hex()
CUT = 14


class Life(Struct, frozen=True):
    """A run that has ended: its events, its fold after each of them, its large values."""

    events: tuple[Stored, ...]
    records: tuple[RunRecord, ...]
    blobs: tuple[Blob, ...]


@cache
def lived() -> Life:
    """Eight steps with a thought and an act each, and a large value."""
    agent: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {"n": 0, "log": []})

    @agent.tool(effect="irreversible")
    async def pay(n: int) -> str:
        return LARGE if n == 6 else f"paid {n}"

    @agent.model("m")
    async def think(n: int) -> str:
        return f"thought {n} " * 20

    @agent.step
    async def step(run: Run[Any]) -> None:
        n = run.state["n"]
        run.state["log"] = [*run.state["log"], await think(n)]
        await pay(n)
        run.state["n"] = n + 1
        if n == 7:
            run.finish("done")

    async def live() -> Life:
        store = MemoryStore()
        async with Runtime(store) as runtime:
            await runtime.run(agent, "r", "go", check=False)
            run = store._runs["r"]
            records = [await record_at(store, "r", event.seq) for event in run.events]
            blobs = tuple(Blob(key, data) for key, data in run.blobs.items())
            return Life(tuple(run.events), tuple(records), blobs)

    return asyncio.run(live())


async def fill(store: Store, run_id: str, life: Life, *, compact: bool) -> None:
    """The run, in a store that is open, with a snapshot at every fifth event."""
    events = life.events
    await store.create(NewRun(run_id, "desk", "1", "running", events[:1], blobs=life.blobs))
    [claimed] = await store.claim(Claim("w", 60.0, run_id=run_id))
    for at in range(1, len(events), 5):
        part = events[at : at + 5]
        snapshot = pack_snapshot(life.records[part[-1].seq - 1], part[-1].digest)
        end = RowChange(status="succeeded", terminal=True) if at + 5 >= len(events) else None
        await store.append(Batch(run_id, claimed.row.epoch, at, part, end, snapshot, kept=1 << 40))
    if compact:
        await compacted(store, run_id, upto=CUT)


def flipped(value: Any, chance: random.Random) -> Any:
    """The value with one bit changed; texts stay texts where a database would refuse another."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value ^ (1 << chance.randrange(5))
    data = bytearray(value.encode() if isinstance(value, str) else value)
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data.decode(errors="surrogateescape") if isinstance(value, str) else bytes(data)


def hurt_file(path: Path, place: str, chance: random.Random) -> bool:
    """Change one bit of run `hurt`; False if there is nothing of this kind."""
    table, column = place.split()
    key = {"event": "key >> 32", "snapshot": "key >> 32", "blob": "run_no", "run": "run_no"}.get(table)
    owner = "run_id = 'hurt'"
    if key is not None and table != "run":
        owner = f"{key} = (SELECT run_no FROM perdure_run WHERE run_id = 'hurt')"
    cast = f"CAST({column} AS BLOB)" if column in ("agent", "status") else column
    connection = apsw.Connection(str(path))
    try:
        rows = list(connection.execute(f"SELECT rowid, {cast} FROM perdure_{table} WHERE {owner}"))
        if not rows:
            return False
        rowid, value = chance.choice(rows)
        new = "CAST(? AS TEXT)" if cast != column else "?"
        changed = 1 - value if column == "terminal" else flipped(value, chance)
        connection.execute(f"UPDATE perdure_{table} SET {column} = {new} WHERE rowid = ?", (changed, rowid))
        return True
    finally:
        connection.close()


def hurt_database(url: str, place: str, chance: random.Random) -> bool:
    """The same in PostgreSQL, which keeps no text that is none."""
    table, column = place.split()
    with psycopg.connect(url, autocommit=True) as connection:
        named = f"SELECT tableoid, ctid, {column} FROM perdure_{table} WHERE run_id = 'hurt'"
        rows = connection.execute(named.encode()).fetchall()
        if not rows:
            return False
        part, ctid, value = chance.choice(rows)
        changed = flipped(value, chance)
        while isinstance(changed, str) and (not changed.isprintable() or not changed.isascii()):
            changed = flipped(value, chance)
        sql = f"UPDATE perdure_{table} SET {column} = %s WHERE tableoid = %s AND ctid = %s"
        connection.execute(sql.encode(), (changed, part, ctid))
        return True


Look = Callable[[], Awaitable[Any]]


async def served(store: Store, life: Life, *, compact: bool) -> list[str]:
    """What is wrong with what is served of both runs."""
    wrong, last = list[str](), life.records[-1]

    async def look(name: str, wanted: Any, reading: Look) -> None:
        try:
            found = await reading()
        except (Damaged, NewerFormat, EventsPruned):
            return
        if found != wanted:
            wrong.append(f"{name} served something else")

    async def present() -> Any:
        return (await load(store, "hurt")).record

    async def acts() -> Any:
        return [(one.seq, one.body) for one in (await retold(store, "hurt")).events]

    whole = [(one.seq, one.body) for one in (await retold(store, "well")).events]
    await look("load", last, present)
    await look("retold", whole, acts)
    for seq in (CUT, 20, len(life.events)):
        await look(f"@{seq}", life.records[seq - 1], partial(record_at, store, "hurt", seq))
    if (await verify(store, "hurt")).ok:
        wrong.append("verify found it whole")
    if (await load(store, "well")).record != last or not (await verify(store, "well")).ok:
        wrong.append("its neighbour suffers")
    if "well" not in [row.run_id for row in await store.list(Query())]:
        wrong.append("the list suffers")
    await store.create(NewRun("open", "desk", "1", "ready", life.events[:1]))
    if "open" not in [one.row.run_id for one in await store.claim(Claim("x", 1.0, limit=9))]:
        wrong.append("a claim suffers")
    return wrong


async def trial(place: Path | str, where: str, seed: int) -> list[str] | None:
    """One bit, on a file or in a database that are empty; None if there was nothing to change."""
    chance, life = random.Random(seed), await asyncio.to_thread(lived)
    compact = where in ("tombstone data", "run floor") or chance.random() < 0.5
    store: Store = SQLiteStore(place) if isinstance(place, Path) else PostgresStore(place)
    await store.open()
    try:
        for run_id in ("hurt", "well"):
            await fill(store, run_id, life, compact=compact)
        hurt = (
            hurt_file(place, where, chance)
            if isinstance(place, Path)
            else hurt_database(place, where, chance)
        )
        return await served(store, life, compact=compact) if hurt else None
    finally:
        await store.close()
