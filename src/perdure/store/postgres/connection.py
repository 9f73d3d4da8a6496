"""One connection to the database: made, checked, its errors translated.

It knows the driver's errors, what differs behind a pooler, and that a replica is never asked. What is written
is not its business, nor whether a commit whose answer was lost took place.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.errors import Diagnostic

from perdure.errors import (
    ConnectionLost,
    Damaged,
    DiskFull,
    NotDurable,
    StoreError,
    StoreIO,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
    TooLarge,
)
from perdure.store.postgres.address import Address
from perdure.store.postgres.columns import teach
from perdure.store.postgres.limit import Limit

log = logging.getLogger("perdure.store")

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
"""A row of an answer."""

Connection: TypeAlias = "psycopg.Connection[Row]"
"""The driver's connection, in autocommit: transactions are begun and ended in so many words."""

PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
"""Between two tries to connect: the first pause, doubled each time up to the longest."""

ANSWER_SECONDS = 20.0
"""So long at most a commit, a claim or a look-up waits for the server's answer."""

READ_SECONDS = 300.0
"""So long at most a read waits: counting a large store takes its time."""

OLDEST_SERVER = 140000
"""PostgreSQL 14, as the driver counts."""

NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""The database's clock in microseconds, at the moment when it is read."""


BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
"""Begins a transaction that writes: what is the default of this database or user may be another level."""

HELD_UP_SECONDS = 5.0
"""A process that stops inside a transaction is cut off by the server after so long, and frees its rows."""

LOCK_SECONDS = 10.0
"""How long a transaction waits for rows that another one has locked."""

LIMITED = """
    set_config('idle_in_transaction_session_timeout', %s, true), set_config('lock_timeout', %s, true),
    set_config('statement_timeout', '0', true)
"""
"""For one transaction: its own limits, in milliseconds, in the place of what this database or user is set to.
An answer is waited for by `Limit`, on this side.
"""

BY_INDEX = "set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"
"""For one transaction: every row is found by an index, also before the server knows how large a table is."""

PLANNED_ONCE = "set_config('plan_cache_mode', 'force_generic_plan', true)"
"""For one transaction whose rows are all found by their whole key: the way to them is planned once by each
connection, not for each statement. With partitions that takes longer than what it is for.
"""


class Link:
    """Opens connections to one place. `patience_seconds`: how long a broken one is replaced at most.

    `look`: the server may be one that this user can only read, though never a replica. `answer_seconds`: what
    takes longer to be answered counts as a connection that broke.
    """

    def __init__(
        self,
        address: Address,
        *,
        look: bool,
        patience_seconds: float,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.address = address
        self.patience_seconds = patience_seconds
        self.limit = Limit(answer_seconds)
        self.closing = threading.Event()
        self.pooled = False
        self._session = "primary" if look else "read-write"

    def open(self, *, direct: bool = False) -> Connection:
        """A new connection. Raises StoreUnavailable."""
        try:
            connection = psycopg.connect(
                self.address.conninfo(self._session, direct=direct), autocommit=True, prepare_threshold=None
            )
        except (psycopg.Error, OSError) as error:
            raise _unreachable(error, self.address.shown) from error
        try:
            version = connection.info.server_version
            if version < OLDEST_SERVER:
                what = f"{self.address.shown} is PostgreSQL {version // 10000}"
                raise StoreUnavailable(what, remedy="use PostgreSQL 14 or newer", url=self.address.shown)
            encoding = connection.info.parameter_status("server_encoding")
            if encoding not in _ENCODINGS:
                what = f"{self.address.shown} keeps text as {encoding}, which has no place for every sign"
                raise StoreUnavailable(what, remedy=_UTF8, url=self.address.shown)
            with self.limit.on(connection):
                self.pooled = not direct and _is_pooled(connection)
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            teach(connection)
            if not self.pooled:
                connection.prepare_threshold = 0  # each statement of ours is used again and again
        except psycopg.Error as error:
            connection.close()
            raise translate(error, self.address.shown) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def close_within(self, seconds: float) -> None:
        """From then on nothing is tried again or waited for; what can be written until then is."""

        def end() -> None:
            self.closing.set()
            self.limit.hurry()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()

    def patiently(self, attempt: Callable[[], T]) -> T:
        """Do it, and again while the connection breaks before anything can have been committed."""
        until = time.monotonic() + self.patience_seconds
        pause, level = PAUSE_SECONDS, logging.WARNING
        while True:
            try:
                return attempt()
            except (ConnectionLost, StoreUnavailable) as error:
                facts = error.facts
                if not facts.get("passing") or time.monotonic() >= until or self.closing.is_set():
                    raise
                log.log(level, "%s: %s; trying again", self.address.shown, error.what)
                level = logging.DEBUG  # once is enough to know
            self.closing.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def limits(held_up_seconds: float = HELD_UP_SECONDS) -> tuple[str, str]:
    """What `LIMITED` is told: how long a transaction may stand still, and wait for a row."""
    return str(round(held_up_seconds * 1000)), str(round(LOCK_SECONDS * 1000))


def _is_pooled(connection: Connection) -> bool:
    """Whether a pooler stands in between: then the process that answers is not the one that greeted."""
    (pid,) = one(connection.execute("SELECT pg_backend_pid()"))
    return bool(pid != connection.info.backend_pid)


def one(cursor: psycopg.Cursor[Row]) -> Row:
    """The row that must be there."""
    row = cursor.fetchone()
    assert row is not None
    return row


def check_durable(connection: Connection, shown: str) -> bool:
    """Whether a commit must ask to be synced itself. Raises NotDurable for a server that never syncs."""
    fsync, commit = one(
        connection.execute("SELECT current_setting('fsync'), current_setting('synchronous_commit')")
    )
    if fsync != "on":
        remedy = "set fsync = on in postgresql.conf and restart the server"
        raise NotDurable(f"{shown}: fsync is {fsync}", remedy=remedy, url=shown)
    return bool(commit == "off")


def settings(connection: Connection) -> dict[str, str]:
    """What the server says it is set to, for people."""
    names = ("server_version", "synchronous_commit", "fsync", "full_page_writes", "synchronous_standby_names")
    row = one(connection.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in names)))
    return {name: str(value) or "none" for name, value in zip(names, row, strict=True)}


def in_doubt(notice: Diagnostic) -> bool:
    """Whether a notice tells that a commit stopped waiting for its standby: it may be on this server only."""
    return notice.source_function == "SyncRepWaitForLSN"


def is_text(text: str) -> bool:
    """Whether PostgreSQL can hold the text: what it cannot is in no id."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def translate(error: Exception, shown: str) -> StoreError:
    """The driver's error as one of ours. `passing`: the same on a new connection may well succeed."""
    if isinstance(error, StoreError):
        return error
    state = getattr(error, "sqlstate", None) or ""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    facts: dict[str, Any] = {"url": shown, "sqlstate": state}
    if is_lost(error):
        what = f"the connection to {shown} broke: {text}"
        return ConnectionLost(what, passing=True, unknown=False, **facts)
    match state:
        case "42501":
            return StoreReadOnly(f"a right is missing on {shown}: {text}", remedy=RIGHTS, **facts)
        case "55P03":
            remedy = "end the transaction that holds the lock: see pg_stat_activity and pg_locks"
            return StoreLocked(f"a row in {shown} stayed locked: {text}", remedy=remedy, **facts)
        case "57014":
            return StoreUnavailable(f"{shown} gave a statement up: {text}", remedy=_LONGER, **facts)
        case "3F000":
            return StoreUnavailable(f"{shown} has no schema for its tables: {text}", remedy=_SCHEMA, **facts)
        case "53100":
            return DiskFull(f"the database's disk is full: {text}", **facts)
        case "53000" | "53200" | "53300" | "53400":
            what = f"{shown} has no room for more work: {text}"
            return StoreUnavailable(what, remedy=_MORE, passing=True, **facts)
        case "54000" | "22001":
            return TooLarge(f"a value is above PostgreSQL's limit: {text}", **facts)
        case "XX001" | "XX002":
            safe = "Nothing was written. What reads well is served, damage never is."
            return Damaged(f"{shown} is damaged: {text}", safe=safe, **facts)
        case "42P01" | "42703" | "42P10" | "42883":  # of every run, so that none is set aside for it
            return StoreUnavailable(f"{shown} lacks tables of perdure's: {text}", remedy=_TABLES, **facts)
        case "23505" | "23502" | "23514":
            return Damaged(f"the tables of {shown} are not as perdure made them: {text}", **facts)
        case _:
            what = f"PostgreSQL failed on {shown}: {type(error).__name__}: {text}"
            return StoreIO(what, remedy="see the server's log, then resume", **facts)


_TABLES = "bring the tables back, or correct the search_path of this role; then the runs go on"

RIGHTS = "let the owner grant them: see docs/stores.md, the least rights"
"""The remedy for a right that is missing."""

_ENCODINGS = ("UTF8", "SQL_ASCII", None)
"""Those of a database that keeps any text; None where a pooler does not tell."""

_UTF8 = "make a database for it: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"

_LONGER = "give perdure's user more time: ALTER ROLE ... SET statement_timeout = 0"

_SCHEMA = "create the first schema of the user's search_path, or correct it: ALTER ROLE ... SET search_path"

_MORE = "raise max_connections, or put a pooler in front"


def is_lost(error: Exception) -> bool:
    """Whether the connection is of no use any more."""
    state = getattr(error, "sqlstate", None) or ""
    if state[:2] == "08" or state in ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04"):
        return True
    if state == "25006":  # a replica by now, which is no place to ask: the next connection finds the primary
        return True
    return isinstance(error, OSError) or (isinstance(error, psycopg.OperationalError) and not state)


def _unreachable(error: Exception, shown: str) -> StoreUnavailable:
    text = str(error).strip().splitlines()
    what = f"{shown} cannot be opened: {text[0] if text else type(error).__name__}"
    final = (
        "does not exist",
        "authentication",
        "password",
        "pg_hba",
        "permission denied",
        "not permitted to log in",
        "SSL",
        "certificate",
    )
    remedy = "start the server, or correct host and port"
    if "too many clients" in what or "connection slots" in what or "too many connections" in what:
        remedy = "end sessions that nobody needs, raise max_connections, or put a pooler in front"
    elif "database" in what and "does not exist" in what:
        remedy = "createdb that database, or name another one"
    elif any(word in what for word in final):
        remedy = "correct the user and the password (PGPASSWORD, ~/.pgpass), or the server's pg_hba.conf"
    elif "read-only" in what or "standby" in what:
        remedy = "name the primary, or all hosts of the cluster: perdure never decides by what a replica says"
    passing = not any(word in what for word in final)
    return StoreUnavailable(what, remedy=remedy, url=shown, passing=passing)
