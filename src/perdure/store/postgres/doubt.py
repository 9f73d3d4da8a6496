"""A commit whose answer was lost: did it take place?

Asked on a new connection, never by doing it again. First the old transaction must have ended: each one holds
an advisory lock of its own, whoever still holds that is cut off, and the lock is waited for. Then what it
wrote is looked for: an event by its run, number and digest, or another row that no other transaction can have
written; where it wrote none such, the server is asked for the transaction's own fate.
"""

from __future__ import annotations

import logging

import psycopg
from psycopg.errors import Diagnostic

from perdure.errors import ConnectionLost, StoreError
from perdure.store.postgres.connection import Connection, Link, in_doubt, one, translate
from perdure.store.postgres.proof import Proof

log = logging.getLogger("perdure.store")

_CUT_OFF = """
    SELECT pg_terminate_backend(l.pid) FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid <> pg_backend_pid()
          AND (l.classid::bigint << 32) | l.objid::bigint = %s
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_ENDED = "SELECT pg_advisory_xact_lock(%s)"
_STATUS = "SELECT pg_xact_status(%s::xid8)"
_MAKE_FIRM = "SELECT pg_logical_emit_message(true, 'perdure', '')"


def took_place(link: Link, proof: Proof) -> bool:
    """Whether the transaction was committed, for good. ConnectionLost (`unknown`) if nobody can tell."""
    shown = link.address.shown
    log.warning("%s: the answer to a commit was lost; looking it up", shown)
    try:
        return link.patiently(lambda: _look(link, proof))
    except (StoreError, psycopg.Error) as error:
        what = f"the answer to a commit on {shown} was lost, and it could not be looked up: {error}"
        safe = "Whether this write is there shows when the database answers again. Earlier ones are."
        raise ConnectionLost(what, safe=safe, url=shown, unknown=True) from error


def _look(link: Link, proof: Proof) -> bool:
    shown = link.address.shown
    doubts: list[Diagnostic] = []
    connection = link.open()
    connection.add_notice_handler(lambda notice: doubts.append(notice) if in_doubt(notice) else None)
    try:
        with link.limit.on(connection):
            connection.execute(_CUT_OFF, (proof.key,))
            with connection.transaction():
                connection.execute(_ENDED, (proof.key,))
                found = _found(connection, proof)
                if found:  # this commit waits for the standby too, and all before it are there with it
                    connection.execute(_MAKE_FIRM)
    except psycopg.Error as error:
        raise translate(error, shown) from error
    finally:
        connection.close()
    if doubts:
        raise ConnectionLost(f"no standby of {shown} confirms", url=shown, passing=True, unknown=True)
    return found


def _found(connection: Connection, proof: Proof) -> bool:
    if proof.sql:
        return connection.execute(proof.sql, proof.values).fetchone() is not None
    try:
        with connection.transaction():
            (status,) = one(connection.execute(_STATUS, (proof.xid,)))
    except psycopg.errors.InvalidParameterValue:  # a number that this server has not given out yet
        return False
    return bool(status == "committed")
