"""Keys of personal data: found, made once, destroyed. Each verb is a transaction that may be repeated.

It knows one table and the rows of runs; what a key opens it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import RunOpen
from perdure.store.postgres.connection import NOW, Connection, is_text
from perdure.store.postgres.transaction import absent
from perdure.store.standing import gone

_FIND = "SELECT data FROM perdure_key WHERE run_id = %s"
_GONE = "SELECT 1 FROM perdure_gone WHERE run_id = %s"
_MAKE = f"INSERT INTO perdure_key (run_id, data, at) VALUES (%s, %b, {NOW}) ON CONFLICT DO NOTHING"
_ENDED = """
    SELECT run_id, terminal, status FROM perdure_run WHERE run_id = ANY(%s::text[]) ORDER BY run_id
    FOR NO KEY UPDATE
"""
_ERASE = f"""
    INSERT INTO perdure_key (run_id, data, at) SELECT u, '', {NOW} FROM unnest(%s::text[]) AS u
    ON CONFLICT (run_id) DO UPDATE SET data = '', at = excluded.at WHERE octet_length(perdure_key.data) > 0
"""
_SHARERS = """
    SELECT run_id FROM perdure_key WHERE run_id <> %s AND octet_length(data) > 0
    AND data = (SELECT data FROM perdure_key WHERE run_id = %s) ORDER BY run_id
"""
_CONTENT = ("event", "snapshot", "blob", "inbox", "run", "tombstone", "key")
_SYNCED = "SET LOCAL synchronous_commit = on"


def find(connection: Connection, run_id: str) -> bytes | None:
    """See `Store.key`."""
    if not is_text(run_id):
        return None
    found = connection.execute(_FIND, (run_id,), binary=True).fetchone()
    return None if found is None else bytes(found[0])


def make(connection: Connection, run_id: str, data: bytes, *, synced: bool) -> bytes | None:
    """See `Store.key`: the run's key, this one if it had none."""
    with connection.transaction():
        if synced:
            connection.execute(_SYNCED)
        if connection.execute(_GONE, (run_id,)).fetchone() is not None:
            raise gone(run_id)
        connection.execute(_MAKE.encode(), (run_id, data))
    return find(connection, run_id)


def erase(connection: Connection, run_ids: Sequence[str], *, synced: bool) -> None:
    """See `Store.erase`."""
    with connection.transaction():
        if synced:
            connection.execute(_SYNCED)
        named = dict.fromkeys(run_ids)
        for run_id in run_ids:
            named.update(dict.fromkeys(sharers(connection, run_id)))
        found = {row[0]: row for row in connection.execute(_ENDED, (list(named),))}
        for run_id in named:
            if run_id not in found and run_id in run_ids:
                raise absent(connection, run_id)
            if run_id in found and not found[run_id][1]:
                raise RunOpen(f"run {run_id} is {found[run_id][2]}, it has not ended", run_id=run_id)
        connection.execute(_ERASE.encode(), (list(named),))


def sharers(connection: Connection, run_id: str) -> tuple[str, ...]:
    """See `Store.sharers`."""
    if not is_text(run_id):
        return ()
    return tuple(row[0] for row in connection.execute(_SHARERS, (run_id, run_id)))


def scrub(connection: Connection, *, whole: bool) -> bool:
    """See `Store.scrub`: old versions of rows are removed. The server's log and its backups keep them."""
    for table in _CONTENT if whole else ("key",):
        connection.execute(f"VACUUM {'FULL ' if whole else ''}perdure_{table}".encode(), prepare=False)
    return True
