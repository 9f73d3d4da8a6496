"""The places of a key: how many are taken, and whose turn it is when one becomes free.

A run whose key was found full is parked: claims pass it by without looking at it, however many there are.
Whatever gives a place back lets the next ones in, of every lane that waits, since nobody may be there who
serves the first. It knows the index of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from perdure.store.protocol import Claim
from perdure.store.turns import Lane, wants

_OF_KEY = (
    "FROM perdure_run INDEXED BY perdure_run_key WHERE terminal = 0 AND limit_key <> '' AND limit_key = ?"
)
_TAKEN = f"SELECT count(*) {_OF_KEY} AND held = 1 AND lease_until > ?"
_LANE = "agent, version, queue, tags"
_FIRST_LANE = f"SELECT {_LANE} {_OF_KEY} AND held = 0 ORDER BY {_LANE} LIMIT 1"
_NEXT_LANE = f"SELECT {_LANE} {_OF_KEY} AND held = 0 AND ({_LANE}) > (?, ?, ?, ?) ORDER BY {_LANE} LIMIT 1"
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
    lane: Any = connection.execute(_FIRST_LANE, (key,)).fetchone()
    while lane is not None:
        yield lane
        lane = connection.execute(_NEXT_LANE, (key, *lane)).fetchone()
