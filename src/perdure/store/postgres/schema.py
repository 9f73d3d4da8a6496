"""The tables in the database: made, their version read, an older one brought up to date.

One transaction does all of it, and an advisory lock lets one of many starters at a time: whoever comes second
finds it done. A newer version is refused untouched.
"""

from __future__ import annotations

import psycopg

from perdure.errors import NotAStore, StoreNewer, StoreReadOnly, StoreUnavailable
from perdure.store.postgres.connection import LIMITED, NOW, RIGHTS, Connection, one, translate
from perdure.store.upgrade import Shape, schema_text

SHAPE = Shape("postgres", 2)
"""The version of the tables that this perdure reads and writes, and how an older one becomes it."""

_TABLES = tuple(
    f"perdure_{name}"
    for name in ("run", "event", "snapshot", "blob", "inbox", "gone", "tombstone", "key", "worker")
)
_STARTERS = 0x7065726475726501  # the advisory lock of those who make or upgrade tables
_FOUND = """
    SELECT to_regclass('perdure_schema') IS NOT NULL, to_regclass('perdure_run') IS NOT NULL,
           coalesce(current_schema(), '')
"""


def version(connection: Connection, shown: str, shape: Shape = SHAPE) -> int:
    """The version of the tables; 0 if there are none. Raises StoreNewer, NotAStore."""
    marked, there, _ = one(connection.execute(_FOUND))
    if not marked:
        if there:
            raise NotAStore(f"{shown} has a table perdure_run that perdure did not make", url=shown)
        return 0
    found = one(connection.execute("SELECT coalesce(max(version), 0) FROM perdure_schema"))[0]
    if found > shape.version:
        what = f"{shown} has tables of version {found}, this perdure knows {shape.version}"
        raise StoreNewer(what, url=shown, version=found, known=shape.version)
    return int(found)


def make(connection: Connection, shown: str, shape: Shape = SHAPE) -> None:
    """Make the tables, or bring older ones up to date. Raises what `version` does, StoreUnavailable."""
    if version(connection, shown, shape) == shape.version:
        return
    try:
        with connection.transaction():
            connection.execute(f"SELECT {LIMITED}", ("0", "0"))  # who is first may take its time
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_STARTERS,))
            before = version(connection, shown, shape)
            steps = [shape.first] if before == 0 else shape.steps(before)
            for step in steps if before < shape.version else ():
                connection.execute(schema_text(step).encode(), prepare=False)
            for reached in range(max(before + 1, shape.version if before == 0 else 1), shape.version + 1):
                connection.execute(f"INSERT INTO perdure_schema (version, at) VALUES (%s, {NOW})", (reached,))
    except psycopg.errors.InsufficientPrivilege as error:
        what = f"the tables of {shown} cannot be made: {str(error).splitlines()[0]}"
        remedy = "open the store once as a user who may: GRANT CREATE ON SCHEMA …, or as the owner"
        raise StoreUnavailable(what, remedy=remedy, url=shown) from error
    except psycopg.Error as error:
        raise translate(error, shown) from error


def missing_right(connection: Connection, shown: str) -> StoreReadOnly | None:
    """Why this user may only read, if so."""
    held = "SELECT name FROM unnest(%s::text[]) AS t(name) WHERE NOT has_table_privilege(name, %s)"
    for right in ("INSERT", "UPDATE", "DELETE"):
        found = connection.execute(held, (list(_TABLES), right)).fetchone()
        if found is not None:
            what = f"{shown} cannot be written: no right to {right} in {found[0]}"
            return StoreReadOnly(what, remedy=RIGHTS, url=shown)
    return None


def check_readable(connection: Connection, shown: str, shape: Shape = SHAPE) -> None:
    """Refuse tables that are not there, or must be brought up to date first, which a look cannot do."""
    found = version(connection, shown, shape)
    if found == 0:
        raise missing(shown)
    if found < shape.version:
        what = f"{shown} has tables of version {found}, this perdure reads {shape.version}"
        remedy = "start a run or a worker with this store: that brings them up to date"
        raise StoreUnavailable(what, remedy=remedy, url=shown)


def missing(shown: str) -> StoreUnavailable:
    """The refusal to look at a store that nobody has made yet."""
    return StoreUnavailable(
        f"there is no store in {shown} yet",
        remedy="start a run or a worker with this store: that makes it",
        url=shown,
        absent=True,
    )
