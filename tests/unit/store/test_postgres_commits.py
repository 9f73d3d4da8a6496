"""Commits whose answer is lost, and connections that break: each is settled by looking, none by guessing.

A link on loopback is cut before a COMMIT reaches the server or after the server has answered it. The store
must find out which, at every verb, and tell of nothing that it could settle itself.
`PERDURE_CRASH_SCALE=10` cuts ten times as often.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure.errors import ConnectionLost, StaleEpoch, StoreError
from perdure.store.postgres import PostgresStore, doubt, writer
from perdure.store.postgres.proof import Proof
from perdure.store.protocol import Batch, Claim, Message, RowChange, Stored, Tx
from perdure.testing.contract.trial import event, events, message, new_run, refused
from tests.database import PLACE
from tests.unit.store.cut import Cutter, When
from tests.unit.store.test_postgres_tables import opened

ROUNDS = 2 * round(20 * float(os.environ.get("PERDURE_CRASH_SCALE", "1")))


@pytest.fixture
def cutter(tmp_path: Path) -> Iterator[Cutter]:
    """A link to an empty place."""
    between = Cutter(PLACE.at(tmp_path))
    yield between
    between.close()


@asynccontextmanager
async def leased(cutter: Cutter, **settings: Any) -> AsyncIterator[PostgresStore]:
    """An open store behind the link, with run r leased to w1."""
    async with opened(cutter.url, **settings) as store:
        await store.create(new_run())
        await store.claim(Claim("w1", 600, run_id="r"))
        yield store


def committed(store: PostgresStore, sql: str) -> Any:
    """What a person sees in the database, on a link of their own."""
    del store
    with psycopg.connect(PLACE.at(PLACE.folder)) as connection:
        return connection.execute(sql.encode()).fetchall()


async def test_a_lost_answer_is_looked_up_and_half_of_them_were_committed(
    cutter: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever became of it, the event is there once and is acknowledged (O-075)."""
    found: list[bool] = []

    def took_place(*args: Any) -> bool:
        found.append(doubt.took_place(*args))
        return found[-1]

    monkeypatch.setattr(writer, "took_place", took_place)
    chance = random.Random(7)
    whens: list[When] = ["before", "after"] * (ROUNDS // 2)
    chance.shuffle(whens)
    async with leased(cutter) as store:
        for seq, when in enumerate(whens, 2):
            cutter.cut = when
            sent = Message("r", f"m{seq}", "note", b"")
            appended = await store.append(Batch("r", 1, seq - 1, events(seq, seq), outbox=(sent,)))
            assert (appended.seq, appended.undelivered) == (seq, ())
        assert cutter.cuts == whens
        assert found == [when == "after" for when in whens]
        assert await store.read("r") == events(1, ROUNDS + 1)
        assert (await store.row("r")).inbox == ROUNDS


@pytest.mark.parametrize("when", ["before", "after"])
async def test_every_verb_survives_a_lost_answer(cutter: Cutter, when: When) -> None:
    """Field case O-075."""
    async with leased(cutter) as store:
        cutter.cut = when
        row, _ = await store.create(new_run("s"))
        assert row.seq == 1
        cutter.cut = when
        assert (await store.deliver(message("s", "m"))).position == 1
        cutter.cut = when
        (claimed,) = await store.claim(Claim("w1", 600, run_id="s"))
        assert (claimed.row.epoch, claimed.row.claims, claimed.previous) == (1, 1, None)
        cutter.cut = when
        assert await store.renew("w1", ["r", "s"], 900) == {"r", "s"}
        cutter.cut = when
        last = Batch("s", 1, 1, events(2, 2), RowChange(status="waiting"), taken=(1,), release=True)
        assert (await store.append(last)).seq == 2
        cutter.cut = when
        await store.release("r", 1)
        assert (await store.row("r")).worker is None
        cutter.cut = when
        await store.append(Batch("s", 1, 2, row=RowChange(status="done", terminal=True)))
        cutter.cut = when
        await store.drop("s", (b"left",))
        assert await store.tombstones("s") == (b"left",)
        assert cutter.cuts == [when] * 8


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_release_that_another_worker_answered_at_once_is_no_lost_lease(
    cutter: Cutter, when: When, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the answer is being looked up, someone else claims the run: the row is not what it was.

    Field case O-076.
    """
    url = PLACE.at(PLACE.folder)
    taken: list[Any] = []

    def took_place(link: Any, proof: Proof) -> bool:
        answer = doubt.took_place(link, proof)
        if answer:
            asyncio.run(_claim(url, taken))
        return answer

    monkeypatch.setattr(writer, "took_place", took_place)
    async with leased(cutter) as store:
        cutter.cut = when
        appended = await store.append(Batch("r", 1, 1, row=RowChange(status="waiting"), release=True))
        assert appended.seq == 1
        assert len(taken) == (when == "after")


async def _claim(url: str, taken: list[Any]) -> None:
    async with opened(url) as other:
        taken.extend(await other.claim(Claim("w2", 600, run_id="r")))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_transactional_call_is_never_called_twice(cutter: Cutter, when: When) -> None:
    called: list[str] = []

    def act(tx: Tx) -> Sequence[Stored]:
        called.append("act")
        tx.execute("CREATE TABLE mine (n integer)")
        tx.execute("INSERT INTO mine VALUES (?)", (1,))
        return (event(2),)

    async with leased(cutter) as store:
        cutter.cut = when
        batch = Batch("r", 1, 1, act=act, act_seconds=5)
        if when == "after":
            assert (await store.append(batch)).seq == 2
        else:
            with refused(ConnectionLost) as errors:
                await store.append(batch)
            assert not errors[0].unknown
        assert called == ["act"]
        assert (await store.row("r")).seq == (2 if when == "after" else 1)
        there = committed(store, "SELECT to_regclass('mine') IS NOT NULL")
        assert there == [(when == "after",)]


async def test_links_that_were_idle_and_ended_are_replaced(cutter: Cutter) -> None:
    """As after a long model call: the server, or something in between, has closed every session (O-077)."""
    async with leased(cutter) as store:
        await store.append(Batch("r", 1, 1, act=lambda _tx: (event(2),)))
        for seq in (3, 5, 7):
            cutter.cut_all()
            await store.append(Batch("r", 1, seq - 1, events(seq, seq)))
            cutter.cut_all()
            await store.append(Batch("r", 1, seq, act=_adds(seq + 1)))
            cutter.cut_all()
            assert (await store.load("r")).row.seq == seq + 1
            cutter.cut_all()
            assert await store.claim(Claim("w2", 30)) == ()


def _adds(seq: int) -> Callable[[Tx], Sequence[Stored]]:
    return lambda _tx: (event(seq),)


async def test_neighbours_of_a_lost_answer_are_settled_with_it(cutter: Cutter) -> None:
    async with leased(cutter) as store:
        for number in range(20):
            await store.create(new_run(f"s{number}"))
            await store.claim(Claim("w1", 600, run_id=f"s{number}"))
        for seq, when in ((2, "before"), (3, "after")):
            cutter.cut = when  # type: ignore[assignment]
            futures = [
                store.append(Batch(f"s{number}", 1 if number else 7, seq - 1, events(seq, seq)))
                for number in range(20)
            ]
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
            assert isinstance(outcomes[0], StaleEpoch)
            assert [getattr(outcome, "seq", outcome) for outcome in outcomes[1:]] == [seq] * 19
        assert len(cutter.cuts) == 2


async def test_a_server_that_stays_away_is_told_and_leaves_the_write_in_doubt(tmp_path: Path) -> None:
    cutter = Cutter(PLACE.at(tmp_path))
    try:
        async with leased(cutter, patience_seconds=0.3) as store:
            queued = store.append(Batch("r", 1, 1, events(2, 2)))
            await queued
            await asyncio.to_thread(cutter.close)
            with refused(StoreError) as errors:
                await store.append(Batch("r", 1, 2, events(3, 3)))
            assert errors[0].code in ("S102", "S124"), errors[0]
            began = time.monotonic()
            with refused(StoreError):
                await store.row("r")
            assert time.monotonic() - began < 30
    finally:
        if cutter.open:
            cutter.close()


async def test_a_cancelled_wait_for_a_standby_is_no_success(tmp_path: Path) -> None:
    """The server says COMMIT, and warns that its standby has not confirmed: that counts as not known yet."""
    url = PLACE.at(tmp_path)
    async with opened(url, patience_seconds=0.5) as store:
        await store.create(new_run())
        with psycopg.connect(url, autocommit=True) as sql:
            sql.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            sql.execute("SELECT pg_reload_conf()")
            try:
                queued = store.append(Batch("r", 0, 1, events(2, 2)))
                assert not queued.done()
                await _cancel_waits(sql, queued)
                with refused(ConnectionLost) as errors:
                    await queued
                assert errors[0].unknown
            finally:
                sql.execute("ALTER SYSTEM RESET synchronous_standby_names")
                sql.execute("SELECT pg_reload_conf()")
        loaded = await store.load("r")
        assert loaded.events == events(1, 2), "it is on this server, which nobody could promise"


async def _cancel_waits(sql: psycopg.Connection[Any], queued: asyncio.Future[Any]) -> None:
    """An administrator cancels whatever waits for the standby, until the store gives up."""
    for _ in range(3000):
        if queued.done():
            return
        sql.execute(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            " AND pid <> pg_backend_pid()"
        )
        await asyncio.sleep(0.01)


async def test_processes_that_write_to_the_same_runs_wait_for_each_other_and_never_in_a_ring(
    tmp_path: Path,
) -> None:
    """Each commit locks the rows of many runs, its own and those it sends to, in whatever order they come."""
    url, chance = PLACE.at(tmp_path), random.Random(5)
    async with opened(url) as one, opened(url) as two, opened(url) as three:
        runs = [f"r{number}" for number in range(12)]
        claimed = ["c0", "c1"]
        for run_id in (*runs, *claimed):
            await one.create(new_run(run_id))
        sent: list[Awaitable[object]] = []
        for number in range(300):
            store = (one, two, three)[number % 3]
            sent.append(store.deliver(message(chance.choice((*runs, *claimed)), f"m{number}")))
            targets = tuple(message(to, f"o{number}") for to in chance.sample(runs, 3))
            if number % 5 == 0:
                sent.append(store.claim(Claim(f"w{number}", 0.001, run_id=chance.choice(claimed))))
            if number < len(runs):
                sent.append(store.append(Batch(runs[number], 0, 1, events(2, 2), outbox=targets)))
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        assert [outcome for outcome in outcomes if isinstance(outcome, BaseException)] == []
        rows = [await two.load(run_id) for run_id in (*runs, *claimed)]
        assert sum(loaded.row.inbox for loaded in rows) == 300 + 3 * len(runs)
        assert [[item.position for item in loaded.inbox] for loaded in rows] == [
            list(range(1, loaded.row.inbox + 1)) for loaded in rows
        ]
