"""Who works on what: claims, and when there will be something to claim.

It knows the index that makes a claim cost the same among a hundred waiting runs and a hundred thousand, and
passes by every row that somebody else is writing to. A lease is free when it was given back, has run out, or
its holder is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from msgspec import Struct

from perdure.errors import ConnectionLost
from perdure.store.postgres import signs
from perdure.store.postgres.connection import (
    BY_INDEX,
    NOW,
    Connection,
    Link,
    Row,
    in_doubt,
    is_lost,
    is_text,
    one,
    translate,
)
from perdure.store.postgres.doubt import took_place
from perdure.store.postgres.transaction import COLUMNS, HELD_UP_SECONDS, Proof, absent, new_key, set_runs
from perdure.store.protocol import NEVER, Claim, Claimed
from perdure.store.standing import Standing, served

_KINDS = """
    RECURSIVE kind (agent, version) AS (
        (SELECT r.agent, r.version FROM perdure_run r WHERE NOT r.terminal AND NOT r.held
         ORDER BY r.agent, r.version LIMIT 1)
        UNION ALL
        SELECT n.agent, n.version FROM kind k CROSS JOIN LATERAL (
            SELECT r.agent, r.version FROM perdure_run r
            WHERE NOT r.terminal AND NOT r.held AND (r.agent, r.version) > (k.agent, k.version)
            ORDER BY r.agent, r.version LIMIT 1) n
    ), mine (agent, version) AS MATERIALIZED (
        SELECT k.agent, k.version FROM kind k
        WHERE cardinality(%(agents)s::text[]) = 0 OR EXISTS (
            SELECT 1 FROM unnest(%(agents)s::text[], %(versions)s::text[]) AS s(agent, version)
            WHERE s.agent = k.agent AND (s.version IS NULL OR s.version = k.version))
    )
"""
_AT_ONCE = f"""
    WITH {_KINDS} SELECT f.since, {COLUMNS.replace("r.", "f.")} FROM mine k CROSS JOIN LATERAL (
        SELECT r.updated_at AS since, {COLUMNS} FROM perdure_run r
        WHERE NOT r.terminal AND NOT r.held AND r.agent = k.agent AND r.version = k.version AND r.wake_at = 0
        ORDER BY r.updated_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED) f
"""
_BY_TIMER = f"""
    WITH {_KINDS} SELECT f.since, {COLUMNS.replace("r.", "f.")} FROM mine k CROSS JOIN LATERAL (
        SELECT r.wake_at AS since, {COLUMNS} FROM perdure_run r
        WHERE NOT r.terminal AND NOT r.held AND r.agent = k.agent AND r.version = k.version
              AND r.wake_at > 0 AND r.wake_at <= %(now)s
        ORDER BY r.wake_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED) f
"""
_FIRST_WAKE = f"""
    WITH {_KINDS} SELECT f.wake_at FROM mine k CROSS JOIN LATERAL (
        SELECT r.wake_at FROM perdure_run r
        WHERE NOT r.terminal AND NOT r.held AND r.agent = k.agent AND r.version = k.version
        ORDER BY r.wake_at LIMIT 1) f
"""
_VERSIONS = f"""
    WITH {_KINDS} SELECT agent, version FROM mine UNION
    SELECT r.agent, r.version FROM perdure_run r
    WHERE NOT r.terminal AND r.held AND r.agent = ANY(%(agents)s::text[])
"""
_SWEEP = """
    UPDATE perdure_run SET held = false WHERE run_id IN (
        SELECT r.run_id FROM perdure_run r
        WHERE NOT r.terminal AND r.held AND r.lease_until <= %s
        FOR NO KEY UPDATE SKIP LOCKED)
"""
_LEASES = """
    SELECT r.agent, r.version, r.holder, r.wake_at, r.lease_until FROM perdure_run r
    WHERE NOT r.terminal AND r.held
"""
_ONE = f"SELECT {COLUMNS} FROM perdure_run r WHERE r.run_id = %s FOR NO KEY UPDATE"
_BEGIN = f"""
    SELECT pg_advisory_xact_lock(%s), pg_current_xact_id()::text,
           set_config('idle_in_transaction_session_timeout', %s, true), {BY_INDEX}
"""
_HELD_UP = str(round(HELD_UP_SECONDS * 1000))
_PROOF = "SELECT 1 FROM perdure_run WHERE run_id = %s AND epoch = %s AND holder = %s"


class Claims(Struct):
    """How a store claims: `given` is the clock of one whose time a test moves."""

    link: Link
    given: Callable[[], int] | None
    grace_seconds: float
    synced: bool = False

    def claim(self, connection: Connection, claim: Claim) -> tuple[tuple[Claimed, ...], int]:
        """See `Store.claim`; and the number of the change, 0 if nothing was written."""
        doubts: list[object] = []

        def heard(notice: psycopg.errors.Diagnostic) -> None:
            if in_doubt(notice):
                doubts.append(notice)

        connection.add_notice_handler(heard)
        try:
            with self.link.limit.on(connection):
                return self._claim(connection, claim, doubts)
        finally:
            connection.remove_notice_handler(heard)

    def _claim(
        self, connection: Connection, claim: Claim, doubts: list[object]
    ) -> tuple[tuple[Claimed, ...], int]:
        key = new_key()
        taken = _Taken(connection, claim, self.grace_seconds)
        with connection.pipeline():
            connection.execute("BEGIN")
            head = connection.execute(_BEGIN, (key, _HELD_UP))
            if self.synced:
                connection.execute("SET LOCAL synchronous_commit = on")
            clock = connection.execute(f"SELECT {NOW}")
        _, xid, *_ = one(head)
        taken.now = self.given() if self.given else one(clock)[0]
        claimed = taken.by_id(claim.run_id) if claim.run_id is not None else taken.next_ones()
        if not claimed and not taken.wrote:
            connection.execute("ROLLBACK")
            return (), 0
        proof = Proof(key, xid)
        if claimed:
            first = claimed[0].row
            proof = Proof(key, xid, _PROOF, (first.run_id, first.epoch, claim.worker))
        return claimed, self._commit(connection, taken, proof, doubts)

    def _commit(self, connection: Connection, taken: _Taken, proof: Proof, doubts: list[object]) -> int:
        try:
            with connection.pipeline():
                if taken.leased:
                    set_runs(connection, taken.leased)
                done = connection.execute("COMMIT", prepare=False)
                number = connection.execute("SELECT nextval('perdure_change')")
            if done.statusmessage == "COMMIT" and not doubts:
                return int(one(number)[0])
        except psycopg.Error as error:
            if not is_lost(error):
                raise
            connection.close()
            if took_place(self.link, proof):
                return -1
            raise translate(error, self.link.address.shown) from error
        connection.close()
        if took_place(self.link, proof):
            return -1
        what = f"a claim on {self.link.address.shown} was not committed"
        raise ConnectionLost(what, passing=True, unknown=False)


class _Taken:
    """One claim's transaction."""

    def __init__(self, connection: Connection, claim: Claim, grace_seconds: float) -> None:
        self.now = 0
        self.wrote = False
        self.leased: list[Standing] = []
        self._connection = connection
        self._claim = claim
        self._grace_seconds = grace_seconds

    def by_id(self, run_id: str) -> tuple[Claimed, ...]:
        """Lease this run if it is free. Raises NoSuchRun, RunGone."""
        run = self._one(run_id)
        claim = self._claim
        if not served(claim.agents, run.agent, run.version) or claim.limit < 1:
            return ()
        if run.leased(self.now) and run.holder is not None and self._bury():
            run = self._one(run_id)
        return (self._lease(run),) if run.claimable(self.now) else ()

    def next_ones(self) -> tuple[Claimed, ...]:
        """Lease those that have been free and due for the longest time."""
        if self._claim.limit < 1:
            return ()
        found = self._free(sweep=True)
        if len(found) < self._claim.limit and self._bury():
            found = self._free(sweep=False)
        return tuple(self._lease(run) for run in found)

    def _lease(self, run: Standing) -> Claimed:
        claimed = run.lease(self._claim, self.now)
        self.leased.append(run)
        self.wrote = True
        return claimed

    def _one(self, run_id: str) -> Standing:
        row = self._connection.execute(_ONE, (run_id,), binary=True).fetchone()
        if row is None:
            raise absent(self._connection, run_id)
        return Standing(*row)

    def _free(self, *, sweep: bool) -> list[Standing]:
        values = {**wanted(self._claim.agents), "limit": self._claim.limit, "now": self.now}
        connection = self._connection
        with connection.pipeline():
            swept = connection.execute(_SWEEP, (self.now,)) if sweep else None
            at_once = connection.execute(_AT_ONCE, values, binary=True)
            by_timer = connection.execute(_BY_TIMER, values, binary=True)
        self.wrote = self.wrote or (swept is not None and swept.rowcount > 0)
        found: list[Row] = [*at_once.fetchall(), *by_timer.fetchall()]
        found.sort(key=lambda row: (row[0], row[1]))
        return [Standing(*row[1:]) for row in found[: self._claim.limit]]

    def _bury(self) -> bool:
        dead = signs.look(self._connection, self.now, self._grace_seconds)
        buried = signs.bury(self._connection, dead) if dead else False
        self.wrote = True  # whoever is missed was noted, perhaps
        return buried


def due(
    connection: Connection,
    agents: Mapping[str, frozenset[str]] | None,
    given: Callable[[], int] | None,
    grace_seconds: float,
) -> int:
    """See `Store.due`."""
    with connection.pipeline():
        clock = connection.execute(f"SELECT {NOW}, {BY_INDEX}")
        wakes = connection.execute(_FIRST_WAKE, wanted(agents or {}), binary=True)
        leases = connection.execute(_LEASES, binary=True)
    now = given() if given else one(clock)[0]
    first = min((wake for (wake,) in wakes), default=NEVER)
    if first > now:
        ends = signs.ends(connection, grace_seconds)
        for agent, version, holder, wake, until in leases:
            if served(agents, agent, version):
                free = min(until, ends.get(holder, until))
                first = min(first, max(wake, free))
    return 0 if first <= now else int(first)


def versions(connection: Connection, agents: Sequence[str]) -> dict[str, frozenset[str]]:
    """See `Store.versions`."""
    found: dict[str, set[str]] = {agent: set() for agent in agents}
    names = wanted({agent: frozenset() for agent in agents if is_text(agent)})
    for agent, version in connection.execute(_VERSIONS, names) if names["agents"] else ():
        found[agent].add(version)
    return {agent: frozenset(some) for agent, some in found.items()}


def wanted(agents: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """What a worker serves, as two columns; no version stands for any."""
    pairs = [(agent, version) for agent, versions in agents.items() for version in versions or (None,)]
    return {"agents": [agent for agent, _ in pairs], "versions": [version for _, version in pairs]}
