"""Runs under load on a database while something happens to it, and the judgement of what became of them.

One process starts runs, a worker drives them, and every answer of the store is remembered: what was
acknowledged must be there at the end, byte for byte by its chain digest, whatever was killed in between. The
outside records each act; journal and outside are held against each other as in every other sweep. Time is
real here.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import psycopg
from msgspec import Struct

from perdure import codec
from perdure.agent import Agent, current_call
from perdure.errors import NoSuchRun, StoreError
from perdure.host import Runtime
from perdure.journal import history, load, verify
from perdure.state import events as e
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Batch, NewRun, Query, Store, Stored
from perdure.testing.oracle import Act, offences
from tests.laws.programs import STYLES, Program, expected, interpreter

CALM_SECONDS = 90.0
"""So long at most until everything has ended, once nothing happens any more."""


class Watched:
    """A store that remembers what it acknowledged, and when."""

    def __init__(self, store: PostgresStore) -> None:
        self.inner = store
        self.acknowledged: list[tuple[str, int, bytes]] = []
        self.last = 0.0
        self.errors: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, batch: Batch) -> asyncio.Future[Any]:
        """As the store does."""
        future = self.inner.append(batch)
        future.add_done_callback(lambda done: self._told(batch.run_id, batch.events, done))
        return future

    async def create(self, run: NewRun) -> Any:
        """As the store does."""
        made = await self.inner.create(run)
        self._keep(run.run_id, run.events)
        return made

    def _told(self, run_id: str, events: tuple[Stored, ...], done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._keep(run_id, events)
        elif isinstance(error, StoreError):
            self.errors[error.code] += 1

    def _keep(self, run_id: str, events: tuple[Stored, ...]) -> None:
        self.last = time.monotonic()
        self.acknowledged += [(run_id, event.seq, event.digest) for event in events]


class Found(Struct):
    """What a load came to. `offences` in words; `errors`: what the store told of appends, by code."""

    runs: int
    acknowledged: int
    acts: int
    errors: dict[str, int]
    offences: list[str]


class Load:
    """Keeps `width` runs open on the database at `url`, until `finish` lets them end and judges all."""

    def __init__(self, url: str, seed: int, *, width: int = 24, **settings: Any) -> None:
        self.chance = random.Random(seed)
        self.store = Watched(PostgresStore(url, **settings))
        self.acts: list[Act] = []
        self.programs: dict[str, Program] = {}
        self._width = width
        self._over = False
        self._agent = interpreter(self._request, self._find, self.chance.randrange(STYLES))

    # -- the outside

    async def _request(self, reply: object) -> Any:
        call = current_call()
        await asyncio.sleep(self.chance.choice((0.0, 0.001, 0.005, 0.02)))
        self.acts.append(Act.of(len(self.acts) + 1, call, reply))
        await asyncio.sleep(self.chance.choice((0.0, 0.001, 0.005, 0.02)))
        return reply

    def _find(self, key: str) -> Any:
        found = next((act for act in self.acts if act.key == key), None)
        return None if found is None else codec.decode(bytes.fromhex(found.reply))

    # -- the runs

    def _program(self) -> Program:
        chance = self.chance
        names = ("look", "book", "pay", "move", "send", "book")
        calls: list[Any] = [["call", chance.choice(names), n] for n in range(chance.randint(2, 6))]
        steps: Program = [calls[:2], [["gather", [[call] for call in calls[2:]]]]]
        return [step for step in steps if step != [["gather", []]]]

    async def during(self, happens: Callable[[Load], Awaitable[None]]) -> Found:
        """Keep the load up while `happens` runs, then let all end, and judge."""
        await self.store.inner.open()
        runtime = Runtime(cast(Store, self.store), [self._agent], workers=self._width, lease_seconds=10.0)
        try:
            async with runtime:
                feeding = asyncio.create_task(self._feed(runtime))
                try:
                    await happens(self)
                finally:
                    self._over = True
                    await feeding
                await self._ended(runtime)
            return await self._judged()
        finally:
            await self.store.inner.close()

    async def _feed(self, runtime: Runtime) -> None:
        agent: Agent[Any, Any, Any] = self._agent
        while not self._over:
            waiting = len(await self.store.list(Query(open_only=True, limit=2 * self._width)))
            for _ in range(2 * self._width - waiting):
                run_id = f"r{len(self.programs)}"
                program = self.programs[run_id] = self._program()
                await runtime.start(agent, run_id, program)
            await asyncio.sleep(0.02)

    async def _ended(self, runtime: Runtime) -> None:
        until = time.monotonic() + CALM_SECONDS
        while rows := await self.store.list(Query(open_only=True)):
            for row in rows:
                if row.status == "held" and not row.pending:
                    await self._help(runtime, row.run_id)
            assert time.monotonic() < until, f"these have not ended: {[(r.run_id, r.status) for r in rows]}"
            await asyncio.sleep(0.05)

    async def _help(self, runtime: Runtime, run_id: str) -> None:
        """A person looks and says what is true; only a `send` whose reply was lost may ask for one."""
        held = (await load(cast(Store, self.store), run_id)).record
        assert held.held is not None
        assert held.held.reason == "unknown-outcome", held.held
        call = held.calls[held.held.path]
        found = self._find(call.key)
        if found is None:
            await runtime.resolve(run_id, call.path, by="ada", not_done=True)
        else:
            await runtime.resolve(run_id, call.path, by="ada", done=found)

    # -- the judgement

    async def _judged(self) -> Found:
        store = cast(Store, self.store)
        found: list[str] = []
        moved: set[tuple[str, str]] = set()
        kept: dict[str, tuple[Stored, ...]] = {}
        for run_id, program in self.programs.items():
            try:
                events = await history(store, run_id)
            except NoSuchRun:
                continue  # `_lost` tells of it
            record = (await load(store, run_id)).record
            said = offences(events, [act for act in self.acts if act.run_id == run_id])
            checked = await verify(store, run_id)
            if not checked.ok:
                said.append(checked.what)
            if record.ended != "succeeded" or record.state["log"] != expected(program):
                said.append(f"it ended as {record.ended} with {record.state}")
            found += [f"{run_id}: {what}" for what in said]
            kept[run_id] = await store.read(run_id, 0, 1 << 20)
            moved |= {
                (run_id, event.body.path)
                for event in events
                if isinstance(event.body, e.CallSettled)
                and event.body.outcome == "done"
                and event.body.head is not None
                and event.body.head.effect == "transactional"
            }
        found += self._lost(kept)
        found += await asyncio.to_thread(self._rows, moved)
        watched = self.store
        return Found(
            len(self.programs), len(watched.acknowledged), len(self.acts), dict(watched.errors), found
        )

    def _lost(self, kept: dict[str, tuple[Stored, ...]]) -> list[str]:
        there = {(run_id, event.seq, event.digest) for run_id, events in kept.items() for event in events}
        return [
            f"{run_id}: event {seq} was acknowledged and is not there"
            for run_id, seq, digest in self.store.acknowledged
            if (run_id, seq, digest) not in there
        ]

    def _rows(self, moved: set[tuple[str, str]]) -> list[str]:
        """Transactional calls: a row each, and none without its receipt."""
        with psycopg.connect(self.store.inner._address.conninfo("read-write")) as sql:
            if sql.execute("SELECT to_regclass('moved')").fetchone() == (None,):
                return []
            rows = Counter(sql.execute("SELECT run, path FROM moved").fetchall())
        found = [f"{count} rows of {place}" for place, count in rows.items() if count != 1]
        return found + [f"{place} has a row or a receipt, not both" for place in moved ^ rows.keys()]


MOVED = "CREATE TABLE moved (run TEXT, path TEXT, value INTEGER)"
"""The user's own table of the transactional tool; made beforehand, for many would make it at once."""
