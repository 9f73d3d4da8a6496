"""Values as they lie in the tables, read in pages, and others put in their places.

A value that changed meanwhile is left alone. Rows of runs are locked first, in the order of their ids, as in
every write. It knows the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from perdure.store.kept import PAGE_BYTES, PAGE_ROWS, Kept, Part
from perdure.store.postgres import signs
from perdure.store.postgres.connection import Connection
from perdure.store.standing import at_work


class _Table(Struct, frozen=True):
    """Where a part lies: the columns that are its place, and what tells what it is."""

    name: str
    place: tuple[str, ...]
    first: tuple[Any, ...]
    more: str = "''::bytea, 0, '', ''"
    data: str = "data"
    where: str = "true"

    def sizes(self) -> str:
        """The next places, with the sizes of their values."""
        place = ", ".join(self.place)
        return (
            f"SELECT {place}, octet_length({self.data}) FROM perdure_{self.name} WHERE {self._after('>')}"
            f" AND {self.where} ORDER BY {place} LIMIT {PAGE_ROWS}"
        )

    def values(self) -> str:
        """The values from one place to another one."""
        place = ", ".join(self.place)
        return (
            f"SELECT {place}, run_id, {self.data}, {self.more} FROM perdure_{self.name}"
            f" WHERE {self._after('>')} AND {self._after('<=')} AND {self.where} ORDER BY {place}"
        )

    def _after(self, sign: str) -> str:
        return f"({', '.join(self.place)}) {sign} ({', '.join(['%s'] * len(self.place))})"

    def here(self) -> str:
        """One place."""
        return " AND ".join(f"{column} = %s" for column in self.place)


_TABLES: dict[Part, _Table] = {
    "event": _Table("event", ("run_id", "seq"), ("", 0), "digest, seq, '', ''"),
    "snapshot": _Table("snapshot", ("run_id", "seq"), ("", 0), "digest, seq, '', ''"),
    "blob": _Table("blob", ("run_id", "digest"), ("", b""), "digest, 0, '', ''"),
    "inbox": _Table("inbox", ("run_id", "position"), ("", 0), "''::bytea, 0, id, kind", where="NOT taken"),
    "info": _Table("run", ("run_id",), ("",), data="info", where="octet_length(info) > 0"),
    "left": _Table("tombstone", ("run_id", "position"), ("", 0)),
    "key": _Table("key", ("run_id",), ("",), where="octet_length(data) > 0"),
}
_LOCK = "SELECT 1 FROM perdure_run WHERE run_id = ANY(%s::text[]) ORDER BY run_id FOR NO KEY UPDATE"
_RENAME = """
    WITH old AS (DELETE FROM perdure_blob WHERE run_id = %s AND digest = %s AND data = %b RETURNING run_id),
    new AS (INSERT INTO perdure_blob (run_id, digest, data) SELECT run_id, %b, %b FROM old
            ON CONFLICT DO NOTHING)
    SELECT 1 FROM old
"""


def read(connection: Connection, part: Part, after: Kept | None) -> tuple[Kept, ...]:
    """See `Store.kept`. First the places and sizes, so that large values come one by one."""
    table = _TABLES[part]
    start, width = after.place if after is not None else table.first, len(table.place)
    size, end = 0, None
    for row in connection.execute(table.sizes().encode(), start, binary=True):
        if end is not None and size + row[width] > PAGE_BYTES:
            break
        size, end = size + row[width], row[:width]
    if end is None:
        return ()
    found = connection.execute(table.values().encode(), (*start, *end), binary=True)
    return tuple([Kept(part, row[:width], *row[width:]) for row in found])


def swap(connection: Connection, pairs: Sequence[tuple[Kept, Kept]], *, alone: bool, synced: bool) -> int:
    """See `Store.swap`."""
    with connection.transaction():
        if synced:
            connection.execute("SET LOCAL synchronous_commit = on")
        if alone:
            check_alone(connection)
        connection.execute(_LOCK, (sorted({old.run_id for old, _ in pairs}),))
        with connection.pipeline():
            done = [connection.execute(*_written(old, new)) for old, new in pairs]
    return sum(cursor.rowcount for cursor in done)


def check_alone(connection: Connection) -> None:
    """Raises WorkerTaken while a worker is alive."""
    alive = connection.execute(signs.ALIVE).fetchone()
    if alive is not None:
        raise at_work(str(alive[0]))


def _written(old: Kept, new: Kept) -> tuple[bytes, tuple[Any, ...]]:
    table = _TABLES[old.part]
    if old.part == "blob" and new.digest != old.digest:
        return _RENAME.encode(), (*old.place, old.data, new.digest, new.data)
    digest = ", digest = %b" if old.digest else ""
    there = f"{table.here()} AND {table.data} = %b"
    sql = f"UPDATE perdure_{table.name} SET {table.data} = %b{digest} WHERE {there}"
    values = (new.data, *((new.digest,) if old.digest else ()), *old.place, old.data)
    return sql.encode(), values
