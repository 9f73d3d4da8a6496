"""The open transaction that a transactional call sees: the user's own tables beside perdure's.

It knows one PostgreSQL connection. Each statement has a savepoint, so that one that fails spoils nothing, and
what is left of the call's time as its limit. Statements that would end or leave the transaction, and those
that name perdure's tables, are refused before they are sent; it guards against mistakes, not against malice.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg

from perdure.errors import StatementFailed, StatementRefused, TransactionTooLong
from perdure.store.postgres.connection import Connection, is_lost, translate
from perdure.store.postgres.limit import Limit

PREFIX = "perdure_"
"""Every table and index of perdure begins with this word; a user's must not."""

_LEAVING = frozenset(
    [
        "abort",
        "begin",
        "checkpoint",
        "commit",
        "copy",
        "deallocate",
        "discard",
        "end",
        "listen",
        "load",
        "prepare",
        "release",
        "reset",
        "rollback",
        "savepoint",
        "set",
        "start",
        "unlisten",
    ]
)
_TOKEN = re.compile(
    r"""(?P<text>[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)
      | (?P<note>--[^\n]* | /\*.*?\*/) | (?P<quoted>"(?:[^"]|"")*")
      | (?P<cast>::) | (?P<mark>\?\??) | :(?P<name>[^\W\d]\w*) | (?P<word>[^\W\d][\w$]*) | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


class OpenTransaction:
    """What `current_call().tx` is. Places for values are `?` or `:name`; `??` is the operator `?`."""

    def __init__(self, connection: Connection, seconds: float, shown: str, limit: Limit) -> None:
        self.open = True
        self._connection = connection
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._shown = shown
        self._limit = limit

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """See `perdure.store.protocol.Tx`."""
        if not self.open:
            raise StatementRefused("the store's transaction was used after its call had ended", sql=sql)
        if any(_leaves(token, first=first) for first, token in _meaning(sql)):
            raise StatementRefused(f"a transactional call may not run: {sql}", sql=sql)
        text, values = _placed(sql, parameters)
        self.check_time()
        return self._run(text, values, sql)

    def check_time(self) -> None:
        """Raise TransactionTooLong if the call's time is over."""
        if time.monotonic() >= self._until:
            raise self._too_long()

    def _run(self, text: str, values: Sequence[Any], sql: str) -> list[tuple[Any, ...]]:
        connection = self._connection
        left = max(1, round((self._until - time.monotonic()) * 1000))
        cursor = psycopg.RawCursor(connection)
        try:
            with self._limit.on(connection, left / 1000 + self._limit.seconds), connection.pipeline():
                connection.execute("SAVEPOINT perdure_act")
                connection.execute(f"SET LOCAL statement_timeout = {left}")
                cursor.execute(text, values, prepare=False)
                connection.execute("SET LOCAL statement_timeout = 0")
                connection.execute("RELEASE SAVEPOINT perdure_act")
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as error:
            if is_lost(error):
                raise translate(error, self._shown) from error
            connection.execute("ROLLBACK TO SAVEPOINT perdure_act")
            if error.sqlstate == "57014":
                raise self._too_long() from error
            broken = isinstance(error, psycopg.IntegrityError)
            raise StatementFailed(f"{error}: {sql}", sql=sql, constraint=broken) from error
        except (TypeError, ValueError) as error:
            connection.execute("ROLLBACK TO SAVEPOINT perdure_act")
            raise StatementFailed(f"{error}: {sql}", sql=sql, constraint=False) from error

    def _too_long(self) -> TransactionTooLong:
        what = f"a transactional call took longer than its {self._seconds:g} s"
        return TransactionTooLong(what, seconds=self._seconds)


def _meaning(sql: str) -> Iterator[tuple[bool, str]]:
    """The names in a statement, and whether each is its first word."""
    first = True
    for found in _TOKEN.finditer(sql):
        if found["word"] or found["quoted"]:
            yield first, (found["word"] or found["quoted"][1:-1]).lower()
            first = False
        elif found["other"] == ";":
            first = True


def _leaves(token: str, *, first: bool) -> bool:
    return token.startswith(PREFIX) or (first and token in _LEAVING)


def _placed(sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    """The statement and its values as the server counts them: $1, $2 …"""
    if not parameters:
        return sql, ()
    names: list[str] = []
    values: list[Any] = [] if isinstance(parameters, Mapping) else list(parameters)
    count = 0
    parts: list[str] = []
    for found in _TOKEN.finditer(sql):
        part = found[0]
        if found["mark"] == "??":
            part = "?"
        elif found["mark"] and not isinstance(parameters, Mapping):
            count += 1
            part = f"${count}"
        elif found["name"] and isinstance(parameters, Mapping) and found["name"] in parameters:
            if found["name"] not in names:
                names.append(found["name"])
                values.append(parameters[found["name"]])
            part = f"${names.index(found['name']) + 1}"
        parts.append(part)
    return "".join(parts), values
