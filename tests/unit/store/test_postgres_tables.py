"""The tables in a database: made once by many, spread by run, upgraded or refused, and what a role may do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from perdure.agent import Agent
from perdure.errors import (
    NotAStore,
    NotDurable,
    StoreNewer,
    StoreReadOnly,
    StoreUnavailable,
)
from perdure.host import Runtime
from perdure.store.postgres import PostgresStore, schema
from perdure.store.postgres.schema import SHAPE
from perdure.store.protocol import Batch, Query
from perdure.store.upgrade import Shape
from perdure.testing.contract.trial import events, new_run, refused
from tests.unit.store.cut import Cutter


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[PostgresStore]:
    """An open store for the block."""
    store = PostgresStore(url, **settings)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def as_user(url: str, user: str) -> str:
    """The same database as another user."""
    whole = urlsplit(url)
    return urlunsplit(whole._replace(netloc=f"{user}:@{whole.netloc.rpartition('@')[2]}"))


async def test_every_key_begins_with_the_run_and_tables_are_spread_by_it(
    url: str, sql: psycopg.Connection[Any]
) -> None:
    async with opened(url):
        pass
    keys = sql.execute(
        """
        SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE i.indisunique AND c.relname ~ '^perdure_'
        """
    ).fetchall()
    assert len(keys) >= 8 * 9
    assert [key for key in keys if key[1] != "run_id"] == []
    spread = dict(
        sql.execute(
            """
            SELECT c.relname, pg_get_partkeydef(c.oid) FROM pg_class c
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname ~ '^perdure_'
            """
        ).fetchall()
    )
    alone = {"perdure_schema": None, "perdure_worker": None}  # a row per version, and per living worker
    names = ("run", "event", "snapshot", "blob", "inbox", "gone", "tombstone", "key")
    assert spread == {**{f"perdure_{name}": "HASH (run_id)" for name in names}, **alone}


async def test_of_many_starters_one_makes_the_tables(url: str, sql: psycopg.Connection[Any]) -> None:
    """Field case O-083."""
    stores = [PostgresStore(url) for _ in range(12)]
    await asyncio.gather(*(store.open() for store in stores))
    made = [await store.create(new_run(f"r{number}")) for number, store in enumerate(stores)]
    assert all(new for _, new in made)
    for store in stores:
        await store.close()
    assert sql.execute("SELECT version FROM perdure_schema").fetchall() == [(SHAPE.version,)]


async def test_tables_of_a_schema_of_ones_own(url: str, sql: psycopg.Connection[Any]) -> None:
    """Field case O-082."""
    sql.execute("CREATE SCHEMA mine")
    async with opened(url + "&options=-csearch_path%3Dmine") as store:
        await store.create(new_run())
    async with opened(url + "&options=-csearch_path%3Dmine") as store:
        assert (await store.row("r")).seq == 1
    assert sql.execute("SELECT count(*) FROM mine.perdure_run").fetchone() == (1,)
    assert sql.execute("SELECT to_regclass('public.perdure_run')").fetchone() == (None,)


async def test_a_newer_store_is_refused_untouched_by_who_opens_it_and_by_who_has_it_open(
    url: str, sql: psycopg.Connection[Any]
) -> None:
    """Field case O-084."""
    async with opened(url) as store:
        await store.create(new_run())
        sql.execute("INSERT INTO perdure_schema VALUES (7, 0)")
        with refused(StoreNewer):
            await store.append(Batch("r", 0, 1, events(2, 2)))
    for settings in ({}, {"look": True}):
        with refused(StoreNewer) as errors:
            await PostgresStore(url, **settings).open()  # type: ignore[arg-type]
        assert "version 7" in errors[0].what
    assert sql.execute("SELECT count(*) FROM perdure_event").fetchone() == (1,)


async def test_an_older_store_is_brought_up_to_date_in_one_transaction_or_not_at_all(
    url: str, sql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With steps that are made up here: a store of today's tables is what the next version will find."""
    async with opened(url) as store:
        await store.create(new_run(events=3))
    today = schema.SHAPE.version
    first, second, newest = (f"postgres-to-{today + n}.sql" for n in (1, 2, 2))
    texts = {
        first: "ALTER TABLE perdure_run ADD COLUMN colour text NOT NULL DEFAULT 'red'",
        second: "ALTER TABLE perdure_run ADD COLUMN size bigint; SELECT 1 / 0",
    }
    monkeypatch.setattr(schema, "schema_text", texts.__getitem__)
    with refused(Exception):  # type: ignore[arg-type]
        schema.make(sql, "here", Shape("postgres", today + 2))
    assert schema.version(sql, "here") == today
    assert _columns(sql).isdisjoint({"colour", "size"})
    texts[newest] = "ALTER TABLE perdure_run ADD COLUMN size bigint"
    for _ in range(2):
        schema.make(sql, "here", Shape("postgres", today + 2))
    versions = sql.execute("SELECT version FROM perdure_schema ORDER BY 1").fetchall()
    assert versions == [(today,), (today + 1,), (today + 2,)]
    assert _columns(sql) >= {"colour", "size"}
    assert sql.execute("SELECT seq, colour FROM perdure_run").fetchall() == [(3, "red")]
    assert sql.execute("SELECT count(*) FROM perdure_event").fetchone() == (3,)


def _columns(sql: psycopg.Connection[Any]) -> set[str]:
    found = sql.execute("SELECT attname FROM pg_attribute WHERE attrelid = 'perdure_run'::regclass")
    return {name for (name,) in found}


async def test_a_table_of_someone_elses_is_left_alone(url: str, sql: psycopg.Connection[Any]) -> None:
    sql.execute("CREATE TABLE perdure_run (mine text)")
    with refused(NotAStore):
        await PostgresStore(url).open()
    assert sql.execute("SELECT to_regclass('perdure_event')").fetchone() == (None,)


async def test_a_look_makes_nothing(url: str, sql: psycopg.Connection[Any]) -> None:
    with refused(StoreUnavailable) as errors:
        await PostgresStore(url, look=True).open()
    assert "there is no store" in errors[0].what
    assert sql.execute("SELECT count(*) FROM pg_class WHERE relname ~ '^perdure'").fetchone() == (0,)
    async with opened(url) as store:
        await store.create(new_run())
        async with opened(url, look=True) as looking:
            assert [row.run_id for row in await looking.list(Query())] == ["r"]
            with refused(StoreReadOnly):
                await looking.create(new_run("s"))


async def test_a_role_without_a_right_is_told_which(url: str, sql: psycopg.Connection[Any]) -> None:
    """Field case O-081."""
    sql.execute("DROP ROLE IF EXISTS perdure_reader")
    sql.execute("CREATE ROLE perdure_reader LOGIN")
    reader = as_user(url, "perdure_reader")
    with refused(StoreUnavailable) as errors:
        await PostgresStore(reader).open()
    assert "permission denied" in errors[0].what
    assert "GRANT" in errors[0].remedy
    async with opened(url) as store:
        await store.create(new_run())
        sql.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO perdure_reader")
        sql.execute("GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO perdure_reader")
        async with opened(reader) as reading:
            assert (await reading.load("r")).row.seq == 1
            with refused(StoreReadOnly) as errors:
                await reading.append(Batch("r", 0, 1, events(2, 2)))
            assert "INSERT" in errors[0].what
        sql.execute("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO perdure_reader")
        sql.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO perdure_reader")
        async with opened(reader) as writing:
            await writing.enlist("w")
            await writing.append(Batch("r", 0, 1, events(2, 2)))
    sql.execute("DROP OWNED BY perdure_reader")
    sql.execute("DROP ROLE perdure_reader")


async def test_a_role_that_can_make_nothing_runs_workers(
    url: str, sql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are an administrator's; the rights are those of docs/scale.md, and no more."""
    async with opened(url) as store:
        await store.create(new_run("before"))
    sql.execute("DROP ROLE IF EXISTS perdure_worker")
    sql.execute(_grants())
    role = as_user(url, "perdure_worker")
    try:
        await _work_and_lose_an_answer(role)
        with psycopg.connect(role, autocommit=True) as own:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                own.execute("CREATE TABLE mine (n integer)")
            monkeypatch.setattr(schema, "schema_text", lambda _: "ALTER TABLE perdure_run ADD COLUMN n int")
            with refused(StoreUnavailable) as errors:
                schema.make(own, "here", Shape("postgres", SHAPE.version + 1))
            assert "GRANT" in errors[0].remedy
    finally:
        sql.execute("DROP OWNED BY perdure_worker")
        sql.execute("DROP ROLE perdure_worker")


def _grants() -> bytes:
    """The statements of docs/scale.md."""
    page = Path("docs/scale.md").read_text(encoding="utf-8")
    found = re.search(r"```sql\n(CREATE ROLE perdure_worker.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1].encode()


async def _work_and_lose_an_answer(url: str) -> None:
    """A whole run, then a commit whose answer is lost, which is looked up with the same rights."""
    agent: Agent[Any, Any, Any] = Agent("desk", state=dict, goal=str, start=lambda goal: {"goal": goal})

    @agent.tool(effect="idempotent")
    async def book(what: str) -> str:
        return f"booked {what}"

    @agent.step
    async def step(run: Any) -> None:
        run.finish(await book(run.goal))

    async with Runtime(url, [agent], workers=2) as runtime:
        assert (await runtime.run(agent, "r", "a room")).unwrap() == "booked a room"
    cutter = Cutter(url)
    try:
        async with opened(cutter.url) as store:
            await store.create(new_run("s"))
            for seq, when in ((2, "before"), (3, "after")):
                cutter.cut = when  # type: ignore[assignment]
                assert (await store.append(Batch("s", 0, seq - 1, events(seq, seq)))).seq == seq
    finally:
        cutter.close()


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (lambda url: re.sub("/perdure_test[^?]*", "/no_such_database", url), "createdb"),
        (lambda url: as_user(url, "no_such_user"), "PGPASSWORD"),
        (lambda _url: "postgresql://127.0.0.1:1/x?connect_timeout=3", "host and port"),
    ],
    ids=["database", "user", "server"],
)
async def test_a_place_that_cannot_be_used_is_an_error_with_a_way_out(
    url: str, change: Any, remedy: str
) -> None:
    with refused(StoreUnavailable) as errors:
        await PostgresStore(change(url)).open()
    assert remedy in errors[0].remedy, errors[0]


async def test_a_role_that_does_not_sync_its_commits_is_overruled(
    url: str, sql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url + "&options=-csynchronous_commit%3Doff") as store:
        assert store._synced
        await store.create(new_run())
    monkeypatch.setattr("perdure.store.postgres.connection.one", lambda _cursor: ("off", "on"))
    with pytest.raises(NotDurable):
        schema_check(sql)


def schema_check(sql: psycopg.Connection[Any]) -> None:
    """Ask a server that says that it never syncs."""
    from perdure.store.postgres.connection import check_durable

    check_durable(sql, "here")
