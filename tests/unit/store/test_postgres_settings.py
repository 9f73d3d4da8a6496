"""What an administrator has set for the database or the user: perdure's transactions keep to their own."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from perdure.errors import StoreUnavailable
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Batch, Claim
from perdure.testing.contract.trial import events, new_run, refused
from tests.unit.store.test_postgres_tables import opened

SETTINGS = (
    "default_transaction_isolation = 'repeatable read'",
    "default_transaction_isolation = 'serializable'",
    "statement_timeout = '20ms'",
    "lock_timeout = '1ms'",
)


def set_all(sql: psycopg.Connection[Any], setting: str) -> None:
    """For every connection that is made from now on."""
    name = sql.info.dbname
    sql.execute(f"ALTER DATABASE {name} SET {setting}".encode())


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("verb", ["append", "claim"])
async def test_what_the_database_is_set_to_refuses_no_write(
    url: str, sql: psycopg.Connection[Any], setting: str, verb: str
) -> None:
    """Somebody writes to the run's row for a while, as another worker does: it is waited for."""
    set_all(sql, setting)
    async with opened(url) as store:
        await store.create(new_run())
        sql.execute("BEGIN")
        sql.execute("UPDATE perdure_run SET info = info WHERE run_id = 'r'")
        writing = asyncio.ensure_future(_write(store, verb))
        while not _somebody_waits(sql):
            assert not writing.done(), writing
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        sql.execute("COMMIT")
        await writing


async def _write(store: PostgresStore, verb: str) -> None:
    if verb == "append":
        assert (await store.append(Batch("r", 0, 1, events(2, 2)))).seq == 2
    else:
        assert await store.claim(Claim("w", 60, run_id="r"))


def _somebody_waits(sql: psycopg.Connection[Any]) -> bool:
    waits = """
        SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    sql.execute("SELECT pg_stat_clear_snapshot()")  # inside a transaction it would stay as it was
    return sql.execute(waits).fetchone() is not None


async def test_a_user_whose_statements_are_given_up_is_told_the_setting(
    url: str, sql: psycopg.Connection[Any]
) -> None:
    async with opened(url) as store:
        await store.create(new_run())
    set_all(sql, "statement_timeout = '50ms'")
    async with opened(url, look=True) as store:
        sql.execute("BEGIN")
        sql.execute("LOCK TABLE perdure_run IN ACCESS EXCLUSIVE MODE")
        with refused(StoreUnavailable) as errors:
            await store.row("r")
        assert "statement_timeout" in str(errors[0])
        sql.execute("ROLLBACK")


@pytest.mark.parametrize(("encoding", "kept"), [("LATIN1", False), ("SQL_ASCII", True)])
async def test_a_database_that_cannot_keep_every_text_is_refused_before_anything_is_made(
    sql: psycopg.Connection[Any], url: str, encoding: str, kept: bool
) -> None:
    name = f"{sql.info.dbname}_{encoding.lower()}"
    how = f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    sql.execute(how.encode())
    try:
        store = PostgresStore(url.replace(sql.info.dbname, name))
        if not kept:
            with refused(StoreUnavailable) as errors:
                await store.open()
            assert "UTF8" in str(errors[0])
            return
        await store.open()
        await store.create(new_run("\N{EURO SIGN}"))
        assert (await store.row("\N{EURO SIGN}")).run_id == "\N{EURO SIGN}"
        await store.close()
    finally:
        sql.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


async def test_a_search_path_without_a_schema_is_told(url: str, sql: psycopg.Connection[Any]) -> None:
    set_all(sql, "search_path = 'nowhere'")
    with refused(StoreUnavailable) as errors:
        await PostgresStore(url).open()
    assert "search_path" in str(errors[0])
