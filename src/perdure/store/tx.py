"""The open transaction that a transactional call sees: the user's own tables beside perdure's.

It knows one SQLite connection and guards it: perdure's tables and everything that would end or leave the
transaction are refused by SQLite's authorizer before a statement runs, and a statement beyond the time limit
is interrupted. Whether the whole is kept is not decided here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apsw

from perdure.errors import StatementFailed, StatementRefused, TransactionTooLong
from perdure.store.protocol import Stored, Tx

PREFIX = "perdure_"
"""Every table and index of perdure begins with this word; a user's must not."""

_LEAVING = {
    apsw.SQLITE_TRANSACTION,
    apsw.SQLITE_SAVEPOINT,
    apsw.SQLITE_PRAGMA,
    apsw.SQLITE_ATTACH,
    apsw.SQLITE_DETACH,
}
_STEPS_PER_LOOK = 1000  # virtual machine steps of SQLite between two looks at the clock: about 20 µs


class Guard:
    """Watches one connection while a transactional call uses it; lets everything pass otherwise."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._acting = False
        connection.authorizer = self._judge

    def run(self, act: Callable[[Tx], Sequence[Stored]], seconds: float) -> Sequence[Stored]:
        """Call `act` in a savepoint that is kept only if it returns in time."""
        until = time.monotonic() + seconds
        connection = self._connection
        connection.execute("SAVEPOINT perdure_act")
        self._acting = True
        tx = _OpenTransaction(connection, seconds)
        connection.set_progress_handler(lambda: time.monotonic() >= until, _STEPS_PER_LOOK)
        try:
            events = act(tx)
            if time.monotonic() >= until:
                raise _too_long(seconds)
            return events
        except BaseException:
            self._acting = False
            connection.set_progress_handler(None)
            if connection.in_transaction:
                connection.execute("ROLLBACK TO perdure_act")
            raise
        finally:
            tx.open = False
            self._acting = False
            connection.set_progress_handler(None)
            if connection.in_transaction:
                connection.execute("RELEASE perdure_act")

    def _judge(
        self, code: int, first: str | None, second: str | None, _db: str | None, _by: str | None
    ) -> int:
        if not self._acting:
            return apsw.SQLITE_OK
        if code in _LEAVING or _ours(first) or _ours(second):
            return apsw.SQLITE_DENY
        return apsw.SQLITE_OK


class _OpenTransaction:
    """What `current_call().tx` is."""

    def __init__(self, connection: apsw.Connection, seconds: float) -> None:
        self.open = True
        self._connection = connection
        self._seconds = seconds

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        if not self.open:
            raise StatementRefused("the store's transaction was used after its call had ended", sql=sql)
        try:
            # A statement of ours with the same text may be in the cache, and would escape the authorizer.
            return list(self._connection.execute(sql, parameters, can_cache=False))
        except apsw.AuthError as error:
            raise StatementRefused(f"a transactional call may not run: {sql}", sql=sql) from error
        except apsw.InterruptError as error:
            raise _too_long(self._seconds) from error
        except (apsw.Error, TypeError) as error:
            raise StatementFailed(
                f"{error}: {sql}", sql=sql, constraint=isinstance(error, apsw.ConstraintError)
            ) from error


def _ours(name: str | None) -> bool:
    return name is not None and name.lower().startswith(PREFIX)


def _too_long(seconds: float) -> TransactionTooLong:
    return TransactionTooLong(f"a transactional call took longer than its {seconds:g} s", seconds=seconds)
