"""The reading verbs, on a connection that sees one moment: their caller has opened a transaction.

Nothing here writes or waits for a writer. It knows the tables; threads and errors are its caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from perdure.errors import Damaged
from perdure.store import listing
from perdure.store.protocol import Inbound, Loaded, Query, RunRow, Snapshot, Stored
from perdure.store.sqlite.incarnation import Signs
from perdure.store.sqlite.transaction import (
    COLUMNS,
    MASK,
    SHIFT,
    is_text,
    missing,
    nowhere,
    sharing,
    standing_of,
)
from perdure.store.standing import Standing

_FIND = f"SELECT {COLUMNS} FROM perdure_run WHERE run_id = ?"
_EVENTS = "SELECT key, data, digest FROM perdure_event WHERE key > ? AND key <= ? ORDER BY key LIMIT ?"
_SNAPSHOTS = "SELECT key, data, digest FROM perdure_snapshot WHERE key > ? AND key <= ? ORDER BY key"
_NEWEST_SNAPSHOT = _SNAPSHOTS + " DESC LIMIT 1"
_OLDER_SNAPSHOT = "SELECT key FROM perdure_snapshot WHERE key > ? AND key < ? ORDER BY key DESC LIMIT 1"
_INBOX = (
    "SELECT key, id, kind, data, at FROM perdure_inbox INDEXED BY perdure_inbox_waiting"
    " WHERE taken = 0 AND key > ? AND key <= ? ORDER BY key"
)

_RANGE = "SELECT coalesce(sum(length(data)), 0) FROM perdure_{} WHERE key > ? AND key <= ?"
_SIZE = (
    f"SELECT ({_RANGE.format('event')}) + ({_RANGE.format('snapshot')})"
    " + (SELECT coalesce(sum(length(data)), 0) FROM perdure_blob WHERE run_no = ?)"
)


class Sight:
    """How a row looks at one moment: the lease of a worker whose process is dead is seen to be lost."""

    def __init__(self, now: int, signs: Signs) -> None:
        self.now = now
        self._signs = signs
        self._dead: dict[str, bool] = {}

    def row(self, run: Standing) -> RunRow:
        """The row as others see it."""
        if run.holder is not None and run.leased(self.now):
            if run.holder not in self._dead:
                self._dead[run.holder] = self._signs.is_dead(run.holder)
            run.died = self._dead[run.holder]
        return run.row(self.now)


def load(connection: apsw.Connection, run_id: str, sight: Sight) -> Loaded:
    """See `Store.load`."""
    run_no, standing = find(connection, run_id)
    start, end = _keys(run_no)
    newest = connection.execute(_NEWEST_SNAPSHOT, (start, end)).fetchone()
    snapshot = None if newest is None else Snapshot(newest[0] & MASK, newest[1], newest[2])
    older = None if newest is None else connection.execute(_OLDER_SNAPSHOT, (start, newest[0])).get
    events = _events(connection, run_no, snapshot.seq if snapshot else 0, -1)
    return Loaded(
        sight.row(standing),
        snapshot,
        events,
        _inbox(connection, run_no, 0),
        0 if older is None else older & MASK,
    )


def row(connection: apsw.Connection, run_id: str, sight: Sight) -> RunRow:
    """See `Store.row`."""
    return sight.row(find(connection, run_id)[1])


def read(connection: apsw.Connection, run_id: str, after: int, limit: int) -> tuple[Stored, ...]:
    """See `Store.read`."""
    return _events(connection, find(connection, run_id)[0], after, limit)


def snapshots(connection: apsw.Connection, run_id: str) -> tuple[Snapshot, ...]:
    """See `Store.snapshots`."""
    rows = connection.execute(_SNAPSHOTS, _keys(find(connection, run_id)[0]))
    return tuple(Snapshot(key & MASK, data, digest) for key, data, digest in rows)


def snapshot(connection: apsw.Connection, run_id: str, upto: int) -> Snapshot | None:
    """See `Store.snapshot`."""
    start, end = _keys(find(connection, run_id)[0])
    found = connection.execute(_NEWEST_SNAPSHOT, (start, min(start + max(upto, 0), end))).fetchone()
    return None if found is None else Snapshot(found[0] & MASK, found[1], found[2])


def blob(connection: apsw.Connection, run_id: str, digest: bytes) -> bytes:
    """See `Store.blob`."""
    run_no = find(connection, run_id)[0]
    found = connection.execute(
        "SELECT data FROM perdure_blob WHERE run_no = ? AND digest = ?", (run_no, digest)
    ).get
    if found is None:
        raise Damaged(
            f"a large value of run {run_id} is missing: {digest.hex()}", run_id=run_id, digest=digest
        )
    return bytes(found)


def inbox(connection: apsw.Connection, run_id: str, after: int) -> tuple[Inbound, ...]:
    """See `Store.inbox`."""
    return _inbox(connection, find(connection, run_id)[0], after)


def key(connection: apsw.Connection, run_id: str) -> bytes | None:
    """See `Store.key`."""
    if not is_text(run_id):
        return None
    found = connection.execute("SELECT data FROM perdure_key WHERE run_id = ?", (run_id,)).get
    return None if found is None else bytes(found)


def sharers(connection: apsw.Connection, run_id: str) -> tuple[str, ...]:
    """See `Store.sharers`."""
    return sharing(connection, run_id) if is_text(run_id) else ()


def tombstones(connection: apsw.Connection, run_id: str) -> tuple[bytes, ...]:
    """See `Store.tombstones`."""
    rows = connection.execute("SELECT data FROM perdure_tombstone WHERE run_id = ? ORDER BY rowid", (run_id,))
    return tuple(bytes(data) for (data,) in rows)


def list_runs(connection: apsw.Connection, query: Query, sight: Sight) -> tuple[RunRow, ...]:
    """See `Store.list`."""
    if not all(map(is_text, listing.words(query))):
        return ()
    asked: list[tuple[str, Sequence[str | int]]] = list(listing.conditions(query))
    if query.open_only or query.asks:
        asked.append(("r.terminal = 0", ()))
    if query.asks:
        asked.append(("r.asks = 1", ()))
    asked.extend(("instr(' ' || r.tags || ' ', ?) > 0", (f" {tag} ",)) for tag in query.tags)
    # In a part the table's own columns, of which there is an index.
    inner = "ORDER BY r.created_at DESC, r.run_id DESC LIMIT ?"
    parts, values = list[str](), list[str | int]()
    for part in listing.parts(query, ended="r.terminal = 1", going="r.terminal = 0"):
        where = " AND ".join(condition for condition, _ in (*asked, part))
        parts.append(f"SELECT * FROM (SELECT {COLUMNS} FROM perdure_run r WHERE {where} {inner})")
        values.extend(value for _, some in (*asked, part) for value in some)
        values.append(query.limit)
    merged = "ORDER BY 6 DESC, 2 DESC LIMIT ?"  # created_at and run_id in COLUMNS, where texts have no name
    rows = list(connection.execute(f"{' UNION ALL '.join(parts)} {merged}", (*values, query.limit)))
    return tuple(sight.row(standing_of(found)) for found in rows)


def sizes(connection: apsw.Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """See `Store.sizes`."""
    found = {}
    for run_id in filter(is_text, run_ids):
        run_no = connection.execute("SELECT run_no FROM perdure_run WHERE run_id = ?", (run_id,)).get
        if run_no is not None:
            found[run_id] = connection.execute(_SIZE, (*_keys(run_no), *_keys(run_no), run_no)).get
    return found


def counts(connection: apsw.Connection) -> tuple[dict[str, int], dict[str, int]]:
    """Runs by status; and the counts and sizes of `StoreStats`, by their names there."""
    runs = dict(connection.execute("SELECT status, count(*) FROM perdure_run GROUP BY status"))
    events, size = connection.execute(
        "SELECT count(*), coalesce(sum(length(data)), 0) FROM perdure_event"
    ).get
    sizes = {"events": events, "event_bytes": size}
    tables = {"snapshot": "snapshot", "blob": "blob", "inbox": "inbox", "left": "tombstone"}
    for name, table in tables.items():
        sizes[f"{name}_bytes"] = connection.execute(
            f"SELECT coalesce(sum(length(data)), 0) FROM perdure_{table}"
        ).get
    sizes["snapshots"] = connection.execute("SELECT count(*) FROM perdure_snapshot").get
    sizes["free_bytes"] = connection.pragma("freelist_count") * connection.pragma("page_size")
    return runs, sizes


def find(connection: apsw.Connection, run_id: str) -> tuple[int, Standing]:
    """A run's number and row. Raises NoSuchRun, RunGone."""
    if not is_text(run_id):
        raise nowhere(run_id)
    found: Any = connection.execute(_FIND, (run_id,)).fetchone()
    if found is None:
        raise missing(connection, run_id)
    return found[0], standing_of(found)


def _keys(run_no: int) -> tuple[int, int]:
    start = run_no << SHIFT
    return start, start | MASK


def _events(connection: apsw.Connection, run_no: int, after: int, limit: int) -> tuple[Stored, ...]:
    start, end = _keys(run_no)
    rows = connection.execute(_EVENTS, (start + after, end, limit))
    return tuple([Stored(key & MASK, data, digest) for key, data, digest in rows])


def _inbox(connection: apsw.Connection, run_no: int, after: int) -> tuple[Inbound, ...]:
    start, end = _keys(run_no)
    rows = connection.execute(_INBOX, (start + after, end))
    return tuple(Inbound(key & MASK, *rest) for key, *rest in rows)
