"""Who is alive: rows of workers, and the session locks that their deaths release.

A worker's row names an advisory lock that its process holds on a connection of its own. A lock that nobody
holds is missed from that moment on; a process that comes back in time takes it again, one that stays away for
longer than the grace is dead. Without a row, or behind a pooler that gives sessions to anyone, only the lease
counts.
"""

from __future__ import annotations

import hashlib

from perdure.clock import SECOND
from perdure.store.postgres import keyed
from perdure.store.postgres.connection import Connection, one

GRACE_SECONDS = 1.0
"""So long a worker may be without its connection before it counts as dead."""

_LOCKED = """
    EXISTS (SELECT 1 FROM pg_locks l
            WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
                  AND (l.classid::bigint << 32) | l.objid::bigint = w.key
                  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
ALIVE = f"SELECT w.worker FROM perdure_worker w WHERE {_LOCKED} LIMIT 1"
"""A worker whose lock somebody holds."""

FORGET_ALL = "DELETE FROM perdure_worker"
"""For a store that was brought back: whoever worked in it is elsewhere, or dead."""

_UNLOCKED = f"SELECT w.worker, w.key, w.missed_at FROM perdure_worker w WHERE NOT {_LOCKED}"
_MISS = "UPDATE perdure_worker SET missed_at = %s WHERE worker = %s AND missed_at IS NULL"
_BACK = "UPDATE perdure_worker SET missed_at = NULL WHERE worker = %s RETURNING 1"
_TAKE = "SELECT pg_try_advisory_lock(%s)"
_TAKE_HERE = "SELECT pg_try_advisory_xact_lock(%s)"
_END = """
    UPDATE perdure_run SET held = false, died = true
    WHERE NOT terminal AND held AND holder = %(worker)s AND run_id = ANY(ARRAY(
        SELECT run_id FROM perdure_run WHERE NOT terminal AND held AND holder = %(worker)s
        FOR UPDATE SKIP LOCKED))
    RETURNING limit_key
"""
_LEFT = "SELECT 1 FROM perdure_run WHERE NOT terminal AND held AND holder = %s LIMIT 1"
_FORGET = "DELETE FROM perdure_worker WHERE worker = %s"
_ENTER = "INSERT INTO perdure_worker (worker, key, began_at) VALUES (%s, %s, %s)"


def key_of(worker: str, schema: str) -> int:
    """The lock of a worker in one schema of the database, as a signed 64-bit number."""
    digest = hashlib.blake2b(f"{schema}\0{worker}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def silent(connection: Connection) -> frozenset[str]:
    """Every worker whose lock nobody holds at this moment."""
    return frozenset(row[0] for row in connection.execute(_UNLOCKED))


def look(connection: Connection, now: int, grace_seconds: float) -> tuple[dict[str, int], bool]:
    """The dead, with their locks; and whether something was noted.

    Who is missed for the first time is noted, and may still come back.
    """
    dead: dict[str, int] = {}
    noted = False
    for worker, key, missed_at in connection.execute(_UNLOCKED).fetchall():
        if missed_at is None:
            connection.execute(_MISS, (now, worker))
            noted = True
        elif now - missed_at >= grace_seconds * SECOND:
            dead[worker] = key
    return dead, noted


def ends(connection: Connection, grace_seconds: float) -> dict[str, int]:
    """When each worker that is missed will count as dead."""
    return {
        worker: missed_at + round(grace_seconds * SECOND)
        for worker, _, missed_at in connection.execute(_UNLOCKED)
        if missed_at is not None
    }


def bury(connection: Connection, dead: dict[str, int], now: int) -> bool:
    """Inside a transaction: free what these hold. True if there was anyone to bury.

    Their locks are taken meanwhile, so that none of them comes back half-way; rows that somebody else is
    writing to are left for the next time.
    """
    found = False
    for worker, key in dead.items():
        if not one(connection.execute(_TAKE_HERE, (key,)))[0]:
            continue
        found = True
        end(connection, worker, now)
        if connection.execute(_LEFT, (worker,)).fetchone() is None:
            connection.execute(_FORGET, (worker,))
    return found


def end(connection: Connection, worker: str, now: int) -> None:
    """Free what a worker holds, whose incarnation of that name is dead."""
    keyed.let_in(connection, [key for (key,) in connection.execute(_END, {"worker": worker})], now)


def take(connection: Connection, key: int) -> bool:
    """Take a worker's lock for this session; False if another one holds it."""
    return bool(one(connection.execute(_TAKE, (key,)))[0])


def enter(connection: Connection, worker: str, key: int, now: int) -> None:
    """Note a worker whose lock this session holds; leases of an earlier one of its name are free."""
    with connection.transaction():
        connection.execute(_FORGET, (worker,))
        end(connection, worker, now)
        connection.execute(_ENTER, (worker, key, now))


def back(connection: Connection, worker: str, key: int, now: int) -> bool:
    """Note that a worker holds its lock again. False: it was taken for dead meanwhile, and is noted anew."""
    if connection.execute(_BACK, (worker,)).fetchone() is not None:
        return True
    connection.execute(_ENTER, (worker, key, now))
    return False


def leave(connection: Connection, worker: str) -> None:
    """An orderly end: the row goes, and leases end by the clock."""
    connection.execute(_FORGET, (worker,))
