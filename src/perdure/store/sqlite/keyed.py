"""The places of a key: how many are taken, and whose turn it is when one becomes free.

A run whose key was found full is parked: claims pass it by without looking at it, however many there are.
Whatever gives a place back lets the next ones in, of every lane that waits, since nobody may be there who
serves the first. It knows the index of keys.
"""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from perdure.store.protocol import Claim
from perdure.store.turns import Lane, wants

_OF_KEY = (
    "FROM perdure_run INDEXED BY perdure_run_key WHERE terminal = 0 AND limit_key <> '' AND limit_key = ?"
)
_TAKEN = f"SELECT count(*) {_OF_KEY} AND held = 1 AND lease_until > ?"
_FREE = f"{_OF_KEY} AND held = 0"
_NEXT = {
    "agent": f"SELECT agent {_FREE} AND agent > ? ORDER BY agent LIMIT 1",
    "version": f"SELECT version {_FREE} AND agent = ? AND version > ? ORDER BY version LIMIT 1",
    "queue": f"SELECT queue {_FREE} AND agent = ? AND version = ? AND queue > ? ORDER BY queue LIMIT 1",
    "tags": (
        f"SELECT tags {_FREE} AND agent = ? AND version = ? AND queue = ? AND tags > ? ORDER BY tags LIMIT 1"
    ),
}
_PARKED = (
    f"SELECT run_no, key_limit {_OF_KEY} AND held = 0"
    " AND agent = ? AND version = ? AND queue = ? AND tags = ? AND parked_at > 0 ORDER BY parked_at LIMIT ?"
)

LOOKED_AT = 100
"""So many runs of a lane are looked at for one whose own limit lets it in."""


def taken(connection: apsw.Connection, key: str, now: int) -> int:
    """How many runs of the key are leased."""
    count: int = connection.execute(_TAKEN, (key, now)).get
    return count


def next_ones(connection: apsw.Connection, key: str, now: int) -> list[int]:
    """The parked runs of a key that may be claimed now: in each lane as many as there are free places."""
    found: list[int] = []
    held: int | None = None
    for lane in _lanes(connection, key):
        parked = list(connection.execute(_PARKED, (key, *lane, LOOKED_AT)))
        if parked and held is None:
            held = taken(connection, key, now)
        let_in = held or 0
        for run_no, key_limit in parked:
            if let_in < key_limit:
                let_in += 1
                found.append(run_no)
    return found


def awaited(connection: apsw.Connection, key: str, claim: Claim) -> bool:
    """Whether a run that this claim would take is parked for a place of the key."""
    for lane in _lanes(connection, key):
        if wants(claim, Lane(*lane, priority=0)) and connection.execute(_PARKED, (key, *lane, 1)).get:
            return True
    return False


def _lanes(connection: apsw.Connection, key: str) -> Iterator[tuple[str, str, str, str]]:
    """Agent, version, queue and tags of the key's free runs, found by leaps through the index."""
    for agent in leap(connection, _NEXT["agent"], key):
        for version in leap(connection, _NEXT["version"], key, agent):
            for queue in leap(connection, _NEXT["queue"], key, agent, version):
                for tags in leap(connection, _NEXT["tags"], key, agent, version, queue):
                    yield agent, version, queue, tags


def leap(connection: apsw.Connection, sql: str, *fixed: str) -> Iterator[str]:
    """Every text in an index's next column, each found by one search for what is above the last."""
    # It may be the empty text, which no text is below: begin at or above it, go on above.
    found = connection.execute(sql.replace("> ? ORDER", ">= ? ORDER"), (*fixed, "")).get
    while found is not None:
        yield found
        found = connection.execute(sql, (*fixed, found)).get
