"""Who works on what: claims, renewals, and noticing the dead, inside one transaction.

It knows the two indexes that make a claim cost the same among a hundred waiting runs and a hundred thousand.
A lease is free when it was given back, has run out, or its holder's sign of life is that of a dead process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import apsw

from perdure.errors import NoSuchRun, RunGone
from perdure.store.protocol import NEVER, Claim, Claimed
from perdure.store.sqlite.incarnation import Signs
from perdure.store.sqlite.transaction import Entry, Transaction
from perdure.store.standing import served

_FREE = "FROM perdure_run INDEXED BY perdure_run_free WHERE terminal = 0 AND held = 0"
_NEXT_AGENT = f"SELECT agent {_FREE} AND agent > ? ORDER BY agent LIMIT 1"
_NEXT_VERSION = f"SELECT version {_FREE} AND agent = ? AND version > ? ORDER BY version LIMIT 1"
_AT_ONCE = (
    f"SELECT updated_at, run_no {_FREE} AND agent = ? AND version = ? AND wake_at = 0"
    " ORDER BY updated_at LIMIT ?"
)
_BY_TIMER = (
    f"SELECT wake_at, run_no {_FREE} AND agent = ? AND version = ? AND wake_at > 0 AND wake_at <= ?"
    " ORDER BY wake_at LIMIT ?"
)
_FIRST_WAKE = f"SELECT wake_at {_FREE} AND agent = ? AND version = ? ORDER BY wake_at LIMIT 1"
_LEASED = "FROM perdure_run INDEXED BY perdure_run_lease WHERE terminal = 0 AND held = 1"
_SWEEP = "UPDATE perdure_run SET held = 0 WHERE terminal = 0 AND held = 1 AND lease_until <= ?"
_RAN_OUT = f"SELECT 1 {_LEASED} AND lease_until <= ? LIMIT 1"
_NEXT_HOLDER = (
    "SELECT holder FROM perdure_run INDEXED BY perdure_run_holder"
    " WHERE terminal = 0 AND held = 1 AND holder > ? ORDER BY holder LIMIT 1"
)
_BURY = "UPDATE perdure_run SET held = 0, died = 1 WHERE terminal = 0 AND held = 1 AND holder = ?"


class Claims:
    """The leases of one transaction, and the workers' signs of life."""

    def __init__(self, tx: Transaction, signs: Signs) -> None:
        self._tx = tx
        self._signs = signs

    def claim(self, claim: Claim) -> tuple[Claimed, ...]:
        """See `Store.claim`."""
        if claim.run_id is not None:
            return self._claim_one(claim, claim.run_id)
        self._tx.flush()
        self._sweep()
        found = self._free(claim)
        if len(found) < claim.limit and self._bury(list(holders(self._tx.connection))):
            found = self._free(claim)
        return tuple(self._take(claim, self._tx.find_no(run_no)) for _, run_no in found)

    def _claim_one(self, claim: Claim, run_id: str) -> tuple[Claimed, ...]:
        entry = self._tx.find(run_id)
        run = entry.standing
        if not served(claim.agents, run.agent, run.version) or claim.limit < 1:
            return ()
        if run.leased(self._tx.now) and run.holder is not None:
            self._tx.flush()
            if self._bury((run.holder,)):
                entry = self._tx.find(run_id)
                run = entry.standing
        return (self._take(claim, entry),) if run.claimable(self._tx.now) else ()

    def _take(self, claim: Claim, entry: Entry) -> Claimed:
        claimed = entry.standing.lease(claim, self._tx.now)
        self._tx.changed(entry)
        return claimed

    def _free(self, claim: Claim) -> list[tuple[int, int]]:
        connection, now, limit = self._tx.connection, self._tx.now, claim.limit
        found: list[tuple[int, int]] = []
        for agent, version in kinds(connection, claim.agents):
            found.extend(connection.execute(_AT_ONCE, (agent, version, limit)))
            found.extend(connection.execute(_BY_TIMER, (agent, version, now, limit)))
        found.sort()
        return found[:limit]

    # -- the silent and the dead

    def _sweep(self) -> None:
        connection, now = self._tx.connection, self._tx.now
        if connection.execute(_RAN_OUT, (now,)).get is not None:
            connection.execute(_SWEEP, (now,))
            self._tx.forget()

    def _bury(self, workers: Iterable[str]) -> bool:
        """Free what the dead among these hold; their signs go once that is committed."""
        found = False
        for worker in workers:
            if (sign := self._signs.take_dead(worker)) is None:
                continue
            found = True
            self._tx.committed.append(sign.remove)
            self._tx.rolled_back.append(sign.let_go)
            self._end(worker)
        return found

    def _end(self, worker: str) -> None:
        self._tx.flush()
        self._tx.connection.execute(_BURY, (worker,))
        self._tx.forget()

    def enlist(self, worker: str) -> None:
        """See `Store.enlist`. Also takes away the signs of the dead, whether they hold anything or not."""
        if worker in self._signs.own:
            return
        self._bury(name for name in self._signs.all() if name != worker)
        sign = self._signs.begin(worker)
        self._tx.committed.append(lambda: self._signs.own.update({worker: sign}))
        self._tx.rolled_back.append(sign.let_go)
        self._end(worker)


def renew(tx: Transaction, worker: str, run_ids: Sequence[str], lease_seconds: float) -> frozenset[str]:
    """See `Store.renew`."""
    kept = set()
    for run_id in run_ids:
        try:
            entry = tx.find(run_id)
        except (NoSuchRun, RunGone):
            continue
        if entry.standing.renew(worker, lease_seconds, tx.now):
            tx.changed(entry)
            kept.add(run_id)
    return frozenset(kept)


def release(tx: Transaction, run_id: str, epoch: int) -> None:
    """See `Store.release`."""
    try:
        entry = tx.find(run_id)
    except (NoSuchRun, RunGone):
        return
    if entry.standing.release(epoch, tx.now):
        tx.changed(entry)


def due(
    connection: apsw.Connection, agents: Mapping[str, frozenset[str]] | None, now: int, signs: Signs
) -> int:
    """See `Store.due`."""
    first = NEVER
    for kind in kinds(connection, agents):
        wake = connection.execute(_FIRST_WAKE, kind).get
        first = min(first, NEVER if wake is None else wake)
    if first > now:
        dead = {holder for holder in holders(connection) if signs.is_dead(holder)}
        leases = connection.execute(f"SELECT agent, version, holder, wake_at, lease_until {_LEASED}")
        for agent, version, holder, wake, until in leases:
            if served(agents, agent, version):
                first = min(first, wake if holder in dead else max(wake, until))
    return 0 if first <= now else first


def kinds(
    connection: apsw.Connection, agents: Mapping[str, frozenset[str]] | None
) -> Iterator[tuple[str, str]]:
    """Each agent and version that a worker may take free runs of; found by leaps through the index."""
    for agent in agents or _leap(connection, _NEXT_AGENT):
        versions = (agents or {}).get(agent)
        for version in versions or _leap(connection, _NEXT_VERSION, agent):
            yield agent, version


def versions(connection: apsw.Connection, agents: Sequence[str]) -> dict[str, frozenset[str]]:
    """See `Store.versions`."""
    found: dict[str, set[str]] = {agent: set() for agent in agents}
    for agent in agents:
        found[agent].update(_leap(connection, _NEXT_VERSION, agent))
    for agent, version in connection.execute(f"SELECT DISTINCT agent, version {_LEASED}"):
        if agent in found:
            found[agent].add(version)
    return {agent: frozenset(some) for agent, some in found.items()}


def holders(connection: apsw.Connection) -> Iterator[str]:
    """Each worker that has leases."""
    return _leap(connection, _NEXT_HOLDER)


def _leap(connection: apsw.Connection, sql: str, *fixed: str) -> Iterator[str]:
    # An agent or version may be the empty text, which no text is below: begin at or above it, go on above.
    found = connection.execute(sql.replace("> ?", ">= ?"), (*fixed, "")).get
    while found is not None:
        yield found
        found = connection.execute(sql, (*fixed, found)).get
