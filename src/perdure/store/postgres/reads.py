"""The reading verbs, each one exchange with the server; what belongs together is of one moment.

Nothing here writes or waits for a writer. It knows the tables; threads and errors are its caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from perdure.errors import Damaged, StoreError
from perdure.store import listing
from perdure.store.postgres import signs
from perdure.store.postgres.connection import BY_INDEX, PLANNED_ONCE, Connection, Row, is_text, one
from perdure.store.postgres.transaction import COLUMNS, absent, nowhere
from perdure.store.protocol import Inbound, Loaded, Query, RunRow, Snapshot, Stored
from perdure.store.standing import Standing

_ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_AGAIN = f"SELECT {BY_INDEX}, {PLANNED_ONCE}"
_FIND = f"SELECT {COLUMNS} FROM perdure_run r WHERE r.run_id = %s"
_EVENTS = "SELECT seq, data, digest FROM perdure_event WHERE run_id = %s AND seq > %s ORDER BY seq LIMIT %s"
_SNAPSHOTS = "SELECT seq, data, digest FROM perdure_snapshot WHERE run_id = %s ORDER BY seq"
_FIND_ALL = f"SELECT {COLUMNS} FROM unnest(%s::text[]) AS u(run_id) JOIN perdure_run r USING (run_id)"
_NEWEST = """
    SELECT u.run_id, s.seq, s.data, s.digest,
           (SELECT o.seq FROM perdure_snapshot o WHERE o.run_id = u.run_id AND o.seq < s.seq
            ORDER BY o.seq DESC LIMIT 1)
    FROM unnest(%s::text[]) AS u(run_id) CROSS JOIN LATERAL (
        SELECT p.seq, p.data, p.digest FROM perdure_snapshot p WHERE p.run_id = u.run_id
        ORDER BY p.seq DESC LIMIT 1) s
"""
_UPTO = """
    SELECT seq, data, digest FROM perdure_snapshot WHERE run_id = %s AND seq <= %s ORDER BY seq DESC LIMIT 1
"""
_LATER = """
    SELECT u.run_id, v.seq, v.data, v.digest FROM unnest(%s::text[]) AS u(run_id) CROSS JOIN LATERAL (
        SELECT e.seq, e.data, e.digest FROM perdure_event e WHERE e.run_id = u.run_id
        AND e.seq > coalesce((SELECT max(s.seq) FROM perdure_snapshot s WHERE s.run_id = u.run_id), 0)
        ORDER BY e.seq) v
"""
_WAITING = """
    SELECT u.run_id, v.position, v.id, v.kind, v.data, v.at
    FROM unnest(%s::text[]) AS u(run_id) CROSS JOIN LATERAL (
        SELECT i.position, i.id, i.kind, i.data, i.at FROM perdure_inbox i
        WHERE i.run_id = u.run_id AND NOT i.taken ORDER BY i.position) v
"""
_INBOX = """
    SELECT position, id, kind, data, at FROM perdure_inbox
    WHERE run_id = %s AND position > %s AND NOT taken ORDER BY position
"""
_BLOB = "SELECT data FROM perdure_blob WHERE run_id = %s AND digest = %s"
_TOMBSTONES = "SELECT data FROM perdure_tombstone WHERE run_id = %s ORDER BY position"
_SIZE_OF = """
    SELECT r.run_id,
           (SELECT coalesce(sum(octet_length(data)), 0) FROM perdure_event WHERE run_id = r.run_id)
           + (SELECT coalesce(sum(octet_length(data)), 0) FROM perdure_snapshot WHERE run_id = r.run_id)
           + (SELECT coalesce(sum(octet_length(data)), 0) FROM perdure_blob WHERE run_id = r.run_id)
    FROM perdure_run r WHERE r.run_id = ANY(%s::text[])
"""
_RUNS = "SELECT status, count(*) FROM perdure_run GROUP BY status"
_SIZES = {
    "events": "SELECT count(*) FROM perdure_event",
    "event_bytes": "SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM perdure_event",
    "snapshot_bytes": "SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM perdure_snapshot",
    "blob_bytes": "SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM perdure_blob",
    "snapshots": "SELECT count(*) FROM perdure_snapshot",
    "inbox_bytes": "SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM perdure_inbox",
    "left_bytes": "SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM perdure_tombstone",
    "file_bytes": """
        SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
        WHERE c.relkind = 'r' AND c.relname ~ '^perdure_' AND pg_table_is_visible(c.oid)""",
}
_DEAD = """
    SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint
    FROM pg_stat_all_tables WHERE relname ~ '^perdure_' AND pg_table_is_visible(relid)
"""


class Sight:
    """How rows look at one moment: the lease of a worker without its sign of life is seen to be lost.

    `own` are this process's workers, whose leases need no second look.
    """

    def __init__(self, now: int, own: Iterable[str]) -> None:
        self._now = now
        self._own = frozenset(own)

    def rows(self, connection: Connection, runs: list[Standing]) -> tuple[RunRow, ...]:
        """The rows as others see them."""
        doubtful = [run for run in runs if run.leased(self._now) and run.holder not in self._own]
        if doubtful:
            silent = signs.silent(connection)
            for run in doubtful:
                run.died = run.holder in silent
        return tuple(run.row(self._now) for run in runs)

    def row(self, connection: Connection, run: Standing) -> RunRow:
        """The row as others see it."""
        return self.rows(connection, [run])[0]


def load(connection: Connection, run_ids: Sequence[str], sight: Sight) -> dict[str, Loaded | StoreError]:
    """See `Store.load`: these runs, all of one moment, or why one is not told."""
    ids = (list(run_ids),)
    with connection.pipeline():
        connection.execute(_ONE_MOMENT)
        connection.execute(_AGAIN)
        found = connection.execute(_FIND_ALL, ids, binary=True)
        newest = connection.execute(_NEWEST, ids, binary=True)
        later = connection.execute(_LATER, ids, binary=True)
        waiting = connection.execute(_WAITING, ids, binary=True)
        connection.execute("COMMIT")
    standings = [Standing(*row) for row in found]
    rows = {row.run_id: row for row in sight.rows(connection, standings)}
    kept = {run_id: (Snapshot(*snapshot), older or 0) for run_id, *snapshot, older in newest}
    events = _by_run(later)
    inbox = _by_run(waiting)
    loaded: dict[str, Loaded | StoreError] = {}
    for run_id in run_ids:
        if (row := rows.get(run_id)) is None:
            loaded[run_id] = absent(connection, run_id)
            continue
        snapshot, older = kept.get(run_id, (None, 0))
        stored = tuple([Stored(*event) for event in events.get(run_id, ())])
        messages = tuple([Inbound(*item) for item in inbox.get(run_id, ())])
        loaded[run_id] = Loaded(row, snapshot, stored, messages, older)
    return loaded


def _by_run(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows that begin with a run and a number: those of each run, without it, in their order."""
    found: dict[str, list[Row]] = {}
    for run_id, *rest in rows:
        found.setdefault(run_id, []).append(tuple(rest))
    for some in found.values():
        some.sort(key=_number)
    return found


def _number(row: Row) -> int:
    return int(row[0])


def row(connection: Connection, run_id: str, sight: Sight) -> RunRow:
    """See `Store.row`."""
    return sight.row(connection, find(connection, run_id)[1])


def read(connection: Connection, run_id: str, after: int, limit: int) -> tuple[Stored, ...]:
    """See `Store.read`."""
    return tuple([Stored(*event) for event in _of_run(connection, run_id, _EVENTS, run_id, after, limit)])


def snapshots(connection: Connection, run_id: str) -> tuple[Snapshot, ...]:
    """See `Store.snapshots`."""
    return tuple(Snapshot(*kept) for kept in _of_run(connection, run_id, _SNAPSHOTS, run_id))


def snapshot(connection: Connection, run_id: str, upto: int) -> Snapshot | None:
    """See `Store.snapshot`."""
    found = _of_run(connection, run_id, _UPTO, run_id, upto)
    return Snapshot(*found[0]) if found else None


def blob(connection: Connection, run_id: str, digest: bytes) -> bytes:
    """See `Store.blob`."""
    found = _of_run(connection, run_id, _BLOB, run_id, digest)
    if not found:
        what = f"a large value of run {run_id} is missing: {digest.hex()}"
        raise Damaged(what, run_id=run_id, digest=digest)
    return bytes(found[0][0])


def inbox(connection: Connection, run_id: str, after: int) -> tuple[Inbound, ...]:
    """See `Store.inbox`."""
    return tuple([Inbound(*item) for item in _of_run(connection, run_id, _INBOX, run_id, after)])


def tombstones(connection: Connection, run_id: str) -> tuple[bytes, ...]:
    """See `Store.tombstones`."""
    if not is_text(run_id):
        return ()
    return tuple(bytes(data) for (data,) in connection.execute(_TOMBSTONES, (run_id,), binary=True))


def list_runs(connection: Connection, query: Query, sight: Sight) -> tuple[RunRow, ...]:
    """See `Store.list`."""
    if not all(map(is_text, listing.words(query))):
        return ()
    asked: list[tuple[str, Sequence[Any]]] = list(listing.conditions(query))
    if query.open_only or query.asks:
        asked.append(("NOT r.terminal", ()))
    if query.asks:
        asked.append(("r.asks", ()))
    if query.tags:
        asked.append(("string_to_array(r.tags, ' ') @> ?::text[]", (list(query.tags),)))
    order = "ORDER BY r.created_at DESC, r.run_id DESC LIMIT ?"
    parts, values = list[str](), list[Any]()
    for part in listing.parts(query, ended="r.terminal", going="NOT r.terminal"):
        where = " AND ".join(condition for condition, _ in (*asked, part))
        parts.append(f"(SELECT {COLUMNS} FROM perdure_run r WHERE {where} {order})")
        values.extend(value for _, some in (*asked, part) for value in some)
        values.append(query.limit)
    sql = f"SELECT * FROM ({' UNION ALL '.join(parts)}) r {order}".replace("?", "%s")
    found = connection.execute(sql.encode(), (*values, query.limit), binary=True)
    return sight.rows(connection, [Standing(*one_row) for one_row in found])


def sizes(connection: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """See `Store.sizes`."""
    ids = [run_id for run_id in run_ids if is_text(run_id)]
    return {run_id: int(size) for run_id, size in connection.execute(_SIZE_OF, (ids,))}


def counts(connection: Connection) -> tuple[dict[str, int], dict[str, int], str]:
    """Runs by status; events, event_bytes, snapshot_bytes, blob_bytes, file_bytes; and in words the rows that
    take up room until they are vacuumed, as the server's own counters have them, which lag a little.
    """
    with connection.pipeline():
        connection.execute(_ONE_MOMENT)
        runs = connection.execute(_RUNS)
        sizes = {name: connection.execute(sql.encode()) for name, sql in _SIZES.items()}
        rows = connection.execute(_DEAD)
        connection.execute("COMMIT")
    dead, live = one(rows)
    words = f"{dead:,}, beside {live:,} live ones; VACUUM makes their room usable again"
    return dict(runs.fetchall()), {name: int(one(found)[0]) for name, found in sizes.items()}, words


def change(connection: Connection) -> int:
    """The number of the newest change."""
    return int(one(connection.execute("SELECT last_value FROM perdure_change", binary=True))[0])


def check_id(run_id: str) -> None:
    """Raises NoSuchRun for what no run's id can be."""
    if not is_text(run_id):
        raise nowhere(run_id)


def find(connection: Connection, run_id: str) -> tuple[str, Standing]:
    """A run's key and row. Raises NoSuchRun, RunGone."""
    check_id(run_id)
    found = connection.execute(_FIND, (run_id,), binary=True).fetchone()
    return run_id, _standing(connection, run_id, found)


def _standing(connection: Connection, run_id: str, found: Row | None) -> Standing:
    if found is None:
        raise absent(connection, run_id)
    return Standing(*found)


def _of_run(connection: Connection, run_id: str, sql: str, *values: Any) -> list[Row]:
    """Rows of a run that is there. Raises NoSuchRun, RunGone."""
    check_id(run_id)
    with connection.pipeline():
        there = connection.execute("SELECT 1 FROM perdure_run WHERE run_id = %s", (run_id,))
        found = connection.execute(sql.encode(), values, binary=True)
    if there.fetchone() is None:
        raise absent(connection, run_id)
    return found.fetchall()
