"""Who works on what: claims, renewals, and noticing the dead, inside one transaction.

It knows the two indexes that make a claim cost the same among a hundred waiting runs and a hundred thousand.
A lease is free when it was given back, has run out, or its holder's sign of life is that of a dead process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apsw
from msgspec.structs import replace

from perdure.clock import SECOND
from perdure.errors import NoSuchRun, RunGone
from perdure.store.protocol import NEVER, PRIORITIES, RESTORER, Claim, Claimed
from perdure.store.sqlite.incarnation import Signs
from perdure.store.sqlite.keyed import awaited, leap, taken
from perdure.store.sqlite.transaction import Entry, Transaction
from perdure.store.standing import SEIZED_SECONDS, at_work, served
from perdure.store.turns import Candidate, Lane, Turns, wants

_FREE = "FROM perdure_run INDEXED BY perdure_run_free WHERE terminal = 0 AND held = 0"
_NEXT_AGENT = f"SELECT agent {_FREE} AND agent > ? ORDER BY agent LIMIT 1"
_NEXT_VERSION = f"SELECT version {_FREE} AND agent = ? AND version > ? ORDER BY version LIMIT 1"
_OPEN = f"{_FREE} AND agent = ? AND version = ? AND parked_at = 0"
_NEXT_QUEUE = f"SELECT queue {_OPEN} AND queue > ? ORDER BY queue LIMIT 1"
_NEXT_TAGS = f"SELECT tags {_OPEN} AND queue = ? AND tags > ? ORDER BY tags LIMIT 1"
_NEXT_PRIORITY = (
    f"SELECT priority {_OPEN} AND queue = ? AND tags = ? AND priority > ? ORDER BY priority LIMIT 1"
)
_OF_LANE = f"{_OPEN} AND queue = ? AND tags = ? AND priority = ?"
_AT_ONCE = (
    f"SELECT updated_at, run_no, limit_key, key_limit {_OF_LANE} AND wake_at = 0 ORDER BY updated_at LIMIT ?"
)
_BY_TIMER = (
    f"SELECT wake_at, run_no, limit_key, key_limit {_OF_LANE} AND wake_at > 0 AND wake_at <= ?"
    " ORDER BY wake_at LIMIT ?"
)
_FIRST_WAKE = f"SELECT wake_at {_OF_LANE} ORDER BY wake_at LIMIT 1"
_LEASED = "FROM perdure_run INDEXED BY perdure_run_lease WHERE terminal = 0 AND held = 1"
_LEASE = "agent, version, queue, tags, priority, limit_key, holder, wake_at, lease_until"
_SWEEP = "UPDATE perdure_run SET held = 0 WHERE terminal = 0 AND held = 1 AND lease_until <= ?"
_RAN_OUT = f"SELECT DISTINCT limit_key {_LEASED} AND lease_until <= ?"
_OF_AGENT = f"SELECT count(*) {_LEASED} AND agent = ? AND lease_until > ?"
_NEXT_HOLDER = (
    "SELECT holder FROM perdure_run INDEXED BY perdure_run_holder"
    " WHERE terminal = 0 AND held = 1 AND holder > ? ORDER BY holder LIMIT 1"
)
_KEYS_OF = (
    "SELECT DISTINCT limit_key FROM perdure_run INDEXED BY perdure_run_holder"
    " WHERE terminal = 0 AND held = 1 AND holder = ? AND limit_key <> ''"
)
_SEIZE = """
    UPDATE perdure_run SET epoch = epoch + 1, claims = claims + (held = 0 OR holder IS NOT ?), holder = ?,
           held = 1, died = 0, parked_at = 0, lease_until = ?, updated_at = ?
    WHERE terminal = 0
"""
_BURY = "UPDATE perdure_run SET held = 0, died = 1 WHERE terminal = 0 AND held = 1 AND holder = ?"

PARKED_AT_ONCE, PARKED_TOGETHER = 1000, 250
"""One claim sets aside at most so many runs whose key is full, so that the next process's turn comes soon; it
looks at so many of a lane together.
"""


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
        turns = self._turns(claim)
        claimed = self._free(claim, turns)
        if turns.left and self._bury(list(holders(self._tx.connection))):
            claimed += self._free(claim, self._turns(replace(claim, limit=turns.left)))
        return tuple(claimed)

    def _turns(self, claim: Claim) -> Turns[int]:
        connection, now = self._tx.connection, self._tx.now
        return Turns(
            claim,
            lambda agent: int(connection.execute(_OF_AGENT, (agent, now)).get),
            lambda key: taken(connection, key, now),
        )

    def _claim_one(self, claim: Claim, run_id: str) -> tuple[Claimed, ...]:
        entry = self._tx.find(run_id)
        run = entry.standing
        if not served(claim.agents, run.agent, run.version) or claim.limit < 1:
            return ()
        if claim.drives and (run.limit_key or claim.limits):
            self._tx.flush()
            self._bury(list(holders(self._tx.connection)))  # the dead take no place
            entry = self._tx.find(run_id)
        elif run.leased(self._tx.now) and run.holder is not None:
            self._tx.flush()
            if self._bury((run.holder,)):
                entry = self._tx.find(run_id)
        if not entry.standing.claimable(self._tx.now):
            return ()
        chosen, _ = self._turns(claim).take([_candidate(entry)])
        return tuple(self._take(claim, entry) for _ in chosen)

    def _take(self, claim: Claim, entry: Entry) -> Claimed:
        claimed = entry.standing.lease(claim, self._tx.now)
        self._tx.changed(entry)
        return claimed

    def _free(self, claim: Claim, turns: Turns[int]) -> list[Claimed]:
        """Claim what is free; runs whose key is full are parked on the way."""
        claimed: list[Claimed] = []
        parked, look = 0, turns.left
        while turns.left and parked < PARKED_AT_ONCE:
            chosen, full = turns.take(self._candidates(claim, turns, look))
            claimed += [self._take(claim, self._tx.find_no(one.name)) for one in chosen]
            for one in full:
                entry = self._tx.find_no(one.name)
                entry.standing.parked_at = one.rank
                self._tx.changed(entry)
            if not full:
                break
            parked, look = parked + len(full), max(turns.left, PARKED_TOGETHER)
            self._tx.flush()
        return claimed

    def _candidates(self, claim: Claim, turns: Turns[int], limit: int) -> list[Candidate[int]]:
        connection, now = self._tx.connection, self._tx.now
        found: list[Candidate[int]] = []
        for lane in lanes(connection, claim):
            if not turns.room(lane.agent):
                continue
            key = (lane.agent, lane.version, lane.queue, lane.tags, lane.priority)
            for rows in (
                connection.execute(_AT_ONCE, (*key, limit)),
                connection.execute(_BY_TIMER, (*key, now, limit)),
            ):
                found += [Candidate(lane, *row) for row in rows]
        return found

    # -- the silent and the dead

    def _sweep(self) -> None:
        connection, now = self._tx.connection, self._tx.now
        keys = [key for (key,) in connection.execute(_RAN_OUT, (now,))]
        if keys:
            connection.execute(_SWEEP, (now,))
            self._tx.forget()
            self._tx.let_in(filter(None, keys))

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
        keys = [key for (key,) in self._tx.connection.execute(_KEYS_OF, (worker,))]
        self._tx.connection.execute(_BURY, (worker,))
        self._tx.forget()
        self._tx.let_in(keys)

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


def check_alone(signs: Signs) -> None:
    """Raises WorkerTaken while a worker is alive."""
    for worker in signs.all():
        if not signs.is_dead(worker):
            raise at_work(worker)


def restore(tx: Transaction, signs: Signs) -> int:
    """See `Store.restore`."""
    check_alone(signs)
    tx.flush()
    until = tx.now + round(SEIZED_SECONDS * SECOND)
    tx.connection.execute(_SEIZE, (RESTORER, RESTORER, until, tx.now))
    tx.forget()
    return tx.connection.changes()


def due(connection: apsw.Connection, claim: Claim, now: int, signs: Signs) -> int:
    """See `Store.due`."""
    turns: Turns[int] = Turns(
        claim,
        lambda agent: int(connection.execute(_OF_AGENT, (agent, now)).get),
        lambda key: taken(connection, key, now),
    )
    first, limited = NEVER, set[str]()
    for lane in lanes(connection, claim):
        if not turns.room(lane.agent):
            limited.add(lane.agent)
            continue
        key = (lane.agent, lane.version, lane.queue, lane.tags, lane.priority)
        wake = connection.execute(_FIRST_WAKE, key).get
        first = min(first, NEVER if wake is None else wake)
    if first > now:
        dead = {holder for holder in holders(connection) if signs.is_dead(holder)}
        leases = connection.execute(f"SELECT {_LEASE} {_LEASED}")
        for *lane_of, limit_key, holder, wake, until in leases:
            lane = Lane(*lane_of)
            free = 0 if holder in dead else until
            if wants(claim, lane):
                first = min(first, max(wake, free))
            if lane.agent in limited or (limit_key and awaited(connection, limit_key, claim)):
                first = min(first, free)  # its end lets others in
    return 0 if first <= now else first


def lanes(connection: apsw.Connection, claim: Claim) -> Iterator[Lane]:
    """Each lane with free runs that a claim takes; found by leaps through the index."""
    for agent in claim.agents or leap(connection, _NEXT_AGENT):
        versions = claim.agents.get(agent) or leap(connection, _NEXT_VERSION, agent)
        for version in versions:
            for queue in leap(connection, _NEXT_QUEUE, agent, version):
                if claim.queues and queue not in claim.queues:
                    continue
                for tags in leap(connection, _NEXT_TAGS, agent, version, queue):
                    for priority in _priorities(connection, agent, version, queue, tags):
                        lane = Lane(agent, version, queue, tags, priority)
                        if wants(claim, lane):
                            yield lane


def _priorities(connection: apsw.Connection, *fixed: str) -> Iterator[int]:
    found: int | None = -PRIORITIES - 1
    while (found := connection.execute(_NEXT_PRIORITY, (*fixed, found)).get) is not None:
        yield found


def _candidate(entry: Entry) -> Candidate[int]:
    run = entry.standing
    lane = Lane(run.agent, run.version, run.queue, run.tags, run.priority)
    return Candidate(lane, run.updated_at, entry.run_no, run.limit_key, run.key_limit)


def versions(connection: apsw.Connection, agents: Sequence[str]) -> dict[str, frozenset[str]]:
    """See `Store.versions`."""
    found: dict[str, set[str]] = {agent: set() for agent in agents}
    for agent in agents:
        found[agent].update(leap(connection, _NEXT_VERSION, agent))
    for agent, version in connection.execute(f"SELECT DISTINCT agent, version {_LEASED}"):
        if agent in found:
            found[agent].add(version)
    return {agent: frozenset(some) for agent, some in found.items()}


def holders(connection: apsw.Connection) -> Iterator[str]:
    """Each worker that has leases."""
    return leap(connection, _NEXT_HOLDER)
