"""A million stored runs of which ten thousand are open: what do a claim, a wake-up and a page of a list cost?

The same verbs on one of a million, and on a store of ten thousand open runs and as many failed ones as the
larger has, so that answers are as long in both; turn by turn on both, on SQLite and PostgreSQL. The runs are
put there by SQL, in the form that the stores give them.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import apsw

from bench.room import Room
from bench.table import Line
from perdure.clock import SECOND, SYSTEM
from perdure.lab.server import postgres
from perdure.store import open_store
from perdure.store.protocol import Claim, Message, Query, Store

GROUP = "Many stored runs"
OPEN = 10_000
STORED = 1_000_000
AGENTS = 4
READY, ASKING, FAILED = 5, 50, 1000
"""One of so many open runs is ready (others wait for a day), or asks people; one of so many has failed."""

_COLUMNS = "run_id, agent, version, created_at, status, due_at, info, updated_at, terminal, asks"
_ROW = """
    'run-' || {id}, 'agent-' || ((n / {every}) % {agents}), '1', {now} - ({stored} - n) * 1000,
    CASE WHEN {opened} THEN CASE WHEN (n / {every}) % {ready} = 0 THEN 'ready' ELSE 'waiting' END
         WHEN {failed} THEN 'failed' ELSE 'succeeded' END,
    CASE WHEN {opened} AND (n / {every}) % {ready} <> 0 THEN {now} + 86400000000 + n ELSE 0 END,
    {info}, {now} - ({stored} - n) * 1000, {closed}, {asks}
"""


def few_of(stored: int) -> int:
    """How many runs the smaller store holds."""
    return OPEN + stored // FAILED


def _row(stored: int, *, sqlite: bool) -> str:
    every = stored // OPEN
    opened = f"(n % {every} = 0 AND n <= {every * OPEN})"
    failed = f"n % {FAILED} = 1" if every > 1 else "true"
    closed, asks = f"NOT {opened}", f"{opened} AND n % {every * ASKING} = 0"
    return _ROW.format(
        id="printf('%07d', n)" if sqlite else "lpad(n::text, 7, '0')",
        agents=AGENTS,
        now=SYSTEM.now(),
        stored=stored,
        every=every,
        ready=READY,
        opened=opened,
        failed=failed,
        info="zeroblob(60)" if sqlite else r"decode(repeat('00', 60), 'hex')",
        closed=closed,
        asks=asks,
    )


def fill_sqlite(path: Path, stored: int) -> None:
    """Put the runs there, each with one event."""
    connection = apsw.Connection(str(path))
    series = f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {stored})"
    connection.execute("PRAGMA synchronous = OFF")
    with connection:
        connection.execute(
            f"{series} INSERT INTO perdure_run (run_no, {_COLUMNS}, seq_floor)"
            f" SELECT n, {_row(stored, sqlite=True)}, 1 FROM s"
        )
        event = "SELECT (n << 32) | 1, zeroblob(16), zeroblob(120) FROM s"
        connection.execute(f"{series} INSERT INTO perdure_event (key, digest, data) {event}")
    connection.close()


def fill_postgres(url: str, stored: int) -> None:
    """The same, and the server's own statistics."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        rows = f"SELECT {_row(stored, sqlite=False)}, 1 FROM generate_series(1, {stored}) n"
        connection.execute(f"INSERT INTO perdure_run ({_COLUMNS}, seq) {rows}".encode())
        event = "decode(repeat('00', 16), 'hex'), decode(repeat('00', 120), 'hex')"
        events = f"SELECT 'run-' || lpad(n::text, 7, '0'), 1, {event} FROM generate_series(1, {stored}) n"
        connection.execute(f"INSERT INTO perdure_event (run_id, seq, digest, data) {events}".encode())
        connection.execute("VACUUM (ANALYZE)")


Verb = Callable[[Store, int], Awaitable[object]]


async def _claim(store: Store, number: int) -> object:
    (claimed,) = await store.claim(Claim("w", 30, {f"agent-{number % AGENTS}": frozenset()}))
    return claimed.row


async def _wake(store: Store, number: int) -> object:
    """A message comes for a run that waits, and a worker takes it up."""
    rows = await store.list(Query(statuses=("waiting",), open_only=True, limit=1))
    run_id = rows[0].run_id
    begun = time.perf_counter()
    await store.deliver(Message(run_id, f"m{number}-{begun}", "signal", b""))
    (claimed,) = await store.claim(Claim("w", 30, run_id=run_id))
    took = time.perf_counter() - begun
    await store.release(run_id, claimed.row.epoch)
    return took


VERBS: dict[str, Verb] = {
    "claim the next run": _claim,
    "wake a run by a message": _wake,
    "when is the next one due": lambda store, _: store.due(),
    "a page of open runs": lambda store, _: store.list(Query(open_only=True, limit=50)),
    "a page of all runs": lambda store, _: store.list(Query(limit=50)),
    "a page of runs that ask": lambda store, _: store.list(Query(asks=True, limit=50)),
    "a page of failed runs": lambda store, _: store.list(Query(statuses=("failed",), limit=50)),
}


async def measure(room: Room) -> None:
    """Both stores, as far as they are there."""
    stored = 100_000 if room.quick else STORED
    async with sqlite_pair(room, stored) as pair:
        await _compare(room, "SQLite", pair, stored)
    async with contextlib.AsyncExitStack() as stack:
        found = stack.enter_context(postgres())
        if found is not None:
            stores = []
            for count in (few_of(stored), stored):
                database = await asyncio.to_thread(stack.enter_context, found.database())
                await asyncio.to_thread(fill_postgres, database.url, count)
                stores.append(await _opened(stack, database.url))
            await _compare(room, "PostgreSQL", stores, stored)


@asynccontextmanager
async def sqlite_pair(room: Room, stored: int) -> AsyncIterator[list[Store]]:
    """Two files, filled."""
    async with contextlib.AsyncExitStack() as stack:
        stores = []
        for count in (few_of(stored), stored):
            path = room.path()
            async with contextlib.AsyncExitStack() as once:
                await _opened(once, str(path))
            fill_sqlite(path, count)
            stores.append(await _opened(stack, str(path)))
        yield stores


async def _opened(stack: contextlib.AsyncExitStack, url: str) -> Store:
    store = open_store(url)
    await store.open()
    stack.push_async_callback(store.close)
    return store


async def _compare(room: Room, kind: str, stores: list[Store], stored: int) -> None:
    for name, verb in VERBS.items():
        took: list[list[float]] = [[], []]
        for number in range(10 * room.rounds):
            for place, store in enumerate(stores):
                begun = time.perf_counter()
                answer = await verb(store, number)
                seconds = time.perf_counter() - begun
                took[place].append(answer if isinstance(answer, float) else seconds)
        few, many = (statistics.median(times) for times in took)
        what = f"{kind}: {name}, among {stored:,} runs"
        room.lines.append(Line(GROUP, what, "µs", many * 1e6, floor=few * 1e6))
        room.lines.append(Line(GROUP, f"{what}, over {OPEN:,}", "x", many / few, most=2.0))


assert SECOND == 1_000_000, "the statements count in microseconds"
