"""The places of a key: how many are taken, and whose turn it is when one becomes free.

A run whose key was found full is parked: claims pass it by without looking at it, however many there are.
Whatever gives a place back lets the next ones in, of every lane that waits, since nobody may be there who
serves the first. Nobody waits for a lock here, so that nobody can wait in a circle: a claim that cannot have
a key's lock leaves its runs for the next one; a run is parked only while the leases that keep it out cannot
end, so that their end finds it; and what was missed all the same is found by a standing scan (`heal`). It
knows the index of keys.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from psycopg import Cursor

from perdure.store.postgres.connection import Connection, Row
from perdure.store.turns import Lane

LOOKED_AT = 100
"""So many runs of a lane are looked at for one whose own limit lets it in."""

HEALED_AT_ONCE = 100
"""The standing scan looks at so many keys each time."""

HEAL_SECONDS = 5.0
"""And not more often than this."""

_OF_KEY = "FROM perdure_run r WHERE NOT r.terminal AND r.limit_key <> '' AND r.limit_key = q.key"
_LANE = "r.agent, r.version, r.queue, r.tags"
_LANES = f"""
    WITH RECURSIVE lane (agent, version, queue, tags) AS (
        (SELECT {_LANE} {_OF_KEY} AND NOT r.held ORDER BY {_LANE} LIMIT 1)
        UNION ALL
        SELECT n.* FROM lane p CROSS JOIN LATERAL (
            SELECT {_LANE} {_OF_KEY} AND NOT r.held
                   AND ({_LANE}) > (p.agent, p.version, p.queue, p.tags)
            ORDER BY {_LANE} LIMIT 1) n)
    SELECT * FROM lane
"""
_OF_LANE = f"""
    {_OF_KEY} AND NOT r.held AND r.agent = l.agent AND r.version = l.version AND r.queue = l.queue
    AND r.tags = l.tags AND r.parked_at > 0
"""
_LOCK = "hashtextextended(coalesce(current_schema(), '') || chr(1) || %s || chr(1) || u.name, 0)"
_TRY = f"SELECT u.name, pg_try_advisory_xact_lock({_LOCK}) FROM unnest(%s::text[]) AS u(name)"
_TAKEN = """
    SELECT r.limit_key, count(*) FROM perdure_run r
    WHERE NOT r.terminal AND r.held AND r.limit_key <> '' AND r.limit_key = ANY(%s::text[])
          AND r.lease_until > %s
    GROUP BY r.limit_key
"""
_OF_AGENTS = """
    SELECT r.agent, count(*) FROM perdure_run r
    WHERE NOT r.terminal AND r.held AND r.agent = ANY(%s::text[]) AND r.lease_until > %s GROUP BY r.agent
"""
_KEEPING = f"""
    SELECT q.key, h.run_id FROM unnest(%s::text[]) AS q(key) CROSS JOIN LATERAL (
        SELECT r.run_id {_OF_KEY} AND r.held AND r.lease_until > %s FOR SHARE SKIP LOCKED) h
"""
_PARK = """
    UPDATE perdure_run r SET parked_at = u.rank FROM unnest(%s::text[], %s::bigint[]) AS u(run_id, rank)
    WHERE r.run_id = u.run_id
"""
_LET_IN = f"""
    UPDATE perdure_run p SET parked_at = 0 FROM (
        SELECT w.run_id FROM unnest(%(keys)s::text[]) AS q(key)
        CROSS JOIN LATERAL (SELECT count(*) AS n {_OF_KEY} AND r.held AND r.lease_until > %(now)s) t
        CROSS JOIN LATERAL ({_LANES}) l
        CROSS JOIN LATERAL (
            SELECT o.run_id, o.key_limit, row_number() OVER (ORDER BY o.parked_at) AS nth FROM (
                SELECT r.run_id, r.key_limit, r.parked_at {_OF_LANE}
                ORDER BY r.parked_at LIMIT {LOOKED_AT} FOR NO KEY UPDATE SKIP LOCKED) o) w
        WHERE t.n + w.nth <= w.key_limit) i
    WHERE p.run_id = i.run_id
"""
_AWAITED = f"""
    SELECT q.key, l.agent, l.version, l.queue, l.tags
    FROM (SELECT DISTINCT r.limit_key AS key FROM perdure_run r
          WHERE NOT r.terminal AND r.held AND r.limit_key <> '') q
    CROSS JOIN LATERAL ({_LANES}) l WHERE EXISTS (SELECT 1 {_OF_LANE})
"""
_NEXT_KEYS = """
    WITH RECURSIVE key (name, n) AS (
        (SELECT r.limit_key, 1 FROM perdure_run r
         WHERE NOT r.terminal AND r.limit_key <> '' AND r.limit_key > %(after)s
         ORDER BY r.limit_key LIMIT 1)
        UNION ALL
        SELECT f.limit_key, k.n + 1 FROM key k CROSS JOIN LATERAL (
            SELECT r.limit_key FROM perdure_run r
            WHERE NOT r.terminal AND r.limit_key <> '' AND r.limit_key > k.name
            ORDER BY r.limit_key LIMIT 1) f WHERE k.n < %(most)s)
    SELECT name FROM key
"""


def try_locks(connection: Connection, kind: str, names: Sequence[str]) -> set[str]:
    """Those of these agents or keys whose claims are ours alone until the transaction ends."""
    return {name for name, ours in connection.execute(_TRY, (kind, list(names))) if ours}


def taken(connection: Connection, keys: Sequence[str], now: int) -> dict[str, int]:
    """How many runs of each key are leased; none for a key without."""
    return {key: int(count) for key, count in connection.execute(_TAKEN, (list(keys), now))}


def of_agents(connection: Connection, agents: Sequence[str], now: int) -> dict[str, int]:
    """How many runs of each agent are leased; none for an agent without."""
    return {agent: int(count) for agent, count in connection.execute(_OF_AGENTS, (list(agents), now))}


def park(connection: Connection, runs: Iterable[tuple[str, int, str, int]], now: int) -> int:
    """Set runs aside whose key is full: their ids, ranks, keys and limits. Tells how many were."""
    waiting = list(runs)
    kept: dict[str, int] = {}
    for key, _ in connection.execute(_KEEPING, (sorted({key for _, _, key, _ in waiting}), now)):
        kept[key] = kept.get(key, 0) + 1
    sure = [(run_id, rank) for run_id, rank, key, key_limit in waiting if kept.get(key, 0) >= key_limit]
    if sure:
        connection.execute(_PARK, ([run_id for run_id, _ in sure], [rank for _, rank in sure]))
    return len(sure)


def let_in(connection: Connection, keys: Iterable[str], now: int) -> Cursor[Row] | None:
    """Let those of the keys' parked runs be claimed for which there is a place. None: there is no key."""
    if names := sorted(set(keys) - {""}):
        return connection.execute(_LET_IN, {"keys": names, "now": now})
    return None


class Scan(Struct):
    """Goes round the keys, some at a time, and lets in what is parked though its key has a place."""

    after: str = ""
    _due: float = 0.0

    def heal(self, connection: Connection, now: int) -> bool:
        """Look at the next keys, if it is time. True if a run was let in."""
        if time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + HEAL_SECONDS
        values = {"after": self.after, "most": HEALED_AT_ONCE}
        keys = [key for (key,) in connection.execute(_NEXT_KEYS, values)]
        self.after = keys[-1] if len(keys) == HEALED_AT_ONCE else ""
        healed = let_in(connection, keys, now)
        return healed is not None and healed.rowcount > 0


def awaited(connection: Connection) -> list[tuple[str, Lane]]:
    """The keys with leases for which runs are parked, and in which lanes."""
    found: list[Any] = connection.execute(_AWAITED).fetchall()
    return [(key, Lane(agent, version, queue, tags, 0)) for key, agent, version, queue, tags in found]
