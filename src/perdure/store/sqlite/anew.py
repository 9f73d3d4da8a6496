"""Values as they lie in the file, read in pages, and others put in their places.

A value that changed meanwhile is left alone. What was there is overwritten with zeros. It knows the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import apsw

from perdure.errors import StoreError
from perdure.store.kept import MARK, Kept, Part, page
from perdure.store.sqlite.transaction import MASK, SHIFT, Proof, Transaction

_RUN = f"CROSS JOIN perdure_run r ON r.run_no = v.key >> {SHIFT}"
_READ: dict[Part, str] = {
    "event": f"SELECT v.key, r.run_id, data, digest, v.key & {MASK}, '', '' FROM perdure_event v {_RUN}"
    " WHERE v.key > ? ORDER BY v.key",
    "snapshot": f"SELECT v.key, r.run_id, data, digest, v.key & {MASK}, '', '' FROM perdure_snapshot v {_RUN}"
    " WHERE v.key > ? ORDER BY v.key",
    "blob": "SELECT v.rowid, r.run_id, data, digest, 0, '', '' FROM perdure_blob v"
    " CROSS JOIN perdure_run r USING (run_no) WHERE v.rowid > ? ORDER BY v.rowid",
    "inbox": f"SELECT v.key, r.run_id, data, x'', 0, v.id, v.kind FROM perdure_inbox v {_RUN}"
    " WHERE v.key > ? AND taken = 0 ORDER BY v.key",
    "info": "SELECT run_no, run_id, info, x'', 0, '', '' FROM perdure_run"
    " WHERE run_no > ? AND info != x'' ORDER BY run_no",
    "left": "SELECT rowid, run_id, data, x'', 0, '', '' FROM perdure_tombstone"
    " WHERE rowid > ? ORDER BY rowid",
    "key": f"SELECT run_id, run_id, data, x'', 0, '', '' FROM perdure_key"
    f" WHERE run_id > ? AND run_id != '{MARK}' AND data != x'' ORDER BY run_id",
}
_TABLE: dict[Part, tuple[str, str]] = {
    "event": ("perdure_event", "key"),
    "snapshot": ("perdure_snapshot", "key"),
    "blob": ("perdure_blob", "rowid"),
    "inbox": ("perdure_inbox", "key"),
    "left": ("perdure_tombstone", "rowid"),
    "key": ("perdure_key", "run_id"),
}


def read(connection: apsw.Connection, part: Part, after: Kept | None) -> tuple[Kept, ...]:
    """See `Store.kept`."""
    start = after.place if after is not None else (("" if part == "key" else 0),)
    return page(_values(connection, part, start))


def _values(connection: apsw.Connection, part: Part, start: tuple[int | str, ...]) -> Iterator[Kept]:
    for place, run_id, data, digest, seq, name, kind in connection.execute(_READ[part], start):
        yield Kept(part, (place,), run_id, data, digest, seq, name, kind)


def swap(tx: Transaction, pairs: Sequence[tuple[Kept, Kept]]) -> int:
    """See `Store.swap`."""
    tx.overwriting()
    tx.flush()
    done = 0
    for old, new in pairs:
        done += _note(tx, old, new) if old.part == "info" else _value(tx, old, new)
    return done


def _note(tx: Transaction, old: Kept, new: Kept) -> bool:
    """The row is known to the writer, and changed where it knows it."""
    try:
        entry = tx.find(old.run_id)
    except StoreError:
        return False
    if entry.standing.info != old.data:
        return False
    entry.standing.info = new.data
    tx.changed(entry)
    return True


def _value(tx: Transaction, old: Kept, new: Kept) -> bool:
    table, key = _TABLE[old.part]
    digest = ", digest = ?" if old.digest else ""
    # A blob that lies under its new name already is the same one.
    sql = f"UPDATE OR REPLACE {table} SET data = ?{digest} WHERE {key} = ? AND data = ?"
    values = (new.data, *((new.digest,) if old.digest else ()), *old.place, old.data)
    tx.connection.execute(sql, values)
    if not tx.connection.changes():
        return False
    tx.wrote = True
    tx.proof = Proof(f"SELECT 1 FROM {table} WHERE {key} = ? AND data = ?", (*old.place, new.data))
    return True
