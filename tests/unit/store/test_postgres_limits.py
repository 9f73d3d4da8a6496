"""Servers that hang, and commits that are never answered: each has an end, and none passes for a success."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure.errors import ConnectionLost, StoreError
from perdure.store.postgres import PostgresStore
from perdure.store.postgres import threads as reading
from perdure.store.protocol import Batch, Claim
from perdure.testing.contract.trial import events, new_run, refused
from tests.cluster import servers
from tests.database import PLACE
from tests.unit.store.test_postgres_tables import opened


@contextmanager
def nobody_confirms(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Every commit waits for a standby that is not there."""
    with psycopg.connect(url, autocommit=True) as sql:
        sql.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        sql.execute("SELECT pg_reload_conf()")
        try:
            yield sql
        finally:
            confirmed(sql)


def confirmed(sql: psycopg.Connection[Any]) -> None:
    """The standby is needed no more."""
    sql.execute("ALTER SYSTEM RESET synchronous_standby_names")
    sql.execute("SELECT pg_reload_conf()")


async def test_a_commit_that_is_never_answered_is_unknown_after_a_stated_time(tmp_path: Path) -> None:
    url = PLACE.at(tmp_path)
    async with opened(url, patience_seconds=0.2, answer_seconds=0.3) as store:
        await store.create(new_run())
        with nobody_confirms(url):
            began = time.monotonic()
            with refused(ConnectionLost) as errors:
                await store.append(Batch("r", 0, 1, events(2, 2)))
            assert errors[0].unknown
            assert "looked up" in errors[0].what
            assert time.monotonic() - began < 30, "it ends; how soon is a matter of the machine"
            with refused(StoreError):
                await store.claim(Claim("w", 60, run_id="r"))
        assert (await store.load("r")).row.epoch == 1, "what was left open shows when somebody looks"


async def test_a_commit_whose_standby_comes_back_in_time_is_settled(tmp_path: Path) -> None:
    url = PLACE.at(tmp_path)
    async with opened(url, patience_seconds=60, answer_seconds=0.3) as store:
        await store.create(new_run())
        with nobody_confirms(url) as sql:
            queued = store.append(Batch("r", 0, 1, events(2, 2)))
            await asyncio.sleep(0.9)
            assert not queued.done(), "nobody has confirmed it"
            confirmed(sql)
            assert (await queued).seq == 2
        assert (await store.load("r")).events == events(1, 2), "and it is there once"


async def test_a_server_that_hangs_holds_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes stand still, the machine's kernel answers for them: no keepalive notices that."""
    monkeypatch.setattr(reading.Threads.once, "__defaults__", (0.3,))
    with servers("a") as (server,):
        server.make().start()
        store = PostgresStore(server.url, patience_seconds=0.2, answer_seconds=0.3)
        await store.open()
        await store.create(new_run())
        await store.row("r")
        pids = server.freeze()
        with refused(ConnectionLost) as errors:
            await store.append(Batch("r", 0, 1, events(2, 2)))
        assert not errors[0].unknown, "nothing had been committed"
        with refused(StoreError):
            await store.row("r")
        server.thaw(pids)
        store._link.patience_seconds = 30  # type: ignore[union-attr]
        assert (await store.append(Batch("r", 0, 1, events(2, 2)))).seq == 2
        assert (await store.row("r")).seq == 2
        await store.close()


async def test_what_is_answered_in_time_is_left_alone(tmp_path: Path) -> None:
    """Many exchanges, each well within the limit, together far beyond it."""
    async with opened(PLACE.at(tmp_path), answer_seconds=3.0) as store:
        await store.create(new_run())
        assert store._link is not None
        with psycopg.connect(PLACE.at(tmp_path)) as connection:
            for _ in range(4):
                with store._link.limit.on(connection):
                    connection.execute("SELECT pg_sleep(0.2)")
            late = pytest.raises(psycopg.OperationalError, match=r"no answer within 0\.2 s")
            with late, store._link.limit.on(connection, 0.2):
                connection.execute("SELECT pg_sleep(60)")
            assert connection.broken
        assert store._link.limit._under_way == set()
