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
from msgspec.structs import replace as evolve

from perdure.clock import SECOND
from perdure.errors import ConnectionLost
from perdure.store.postgres import keyed, signs
from perdure.store.postgres.anew import check_alone
from perdure.store.postgres.connection import (
    BEGIN,
    BY_INDEX,
    LIMITED,
    NOW,
    Connection,
    Link,
    Row,
    in_doubt,
    is_lost,
    is_text,
    limits,
    one,
    translate,
)
from perdure.store.postgres.doubt import took_place
from perdure.store.postgres.proof import Proof, new_key
from perdure.store.postgres.transaction import COLUMNS, absent, set_runs
from perdure.store.protocol import NEVER, RESTORER, Claim, Claimed
from perdure.store.standing import SEIZED_SECONDS, Standing, served
from perdure.store.turns import Candidate, Lane, Turns, wants

PARKED_AT_ONCE, PARKED_TOGETHER = 1000, 250
"""One claim sets aside at most so many runs whose key is full, and looks at so many of a lane together."""

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
_LANE = "r.queue, r.tags, r.priority"
_LANES = f"""
    WITH {_KINDS} SELECT k.agent, k.version, l.queue, l.tags, l.priority FROM mine k CROSS JOIN LATERAL (
        WITH RECURSIVE lane (queue, tags, priority) AS (
            (SELECT {_LANE} FROM perdure_run r
             WHERE NOT r.terminal AND NOT r.held AND r.agent = k.agent AND r.version = k.version
                   AND r.parked_at = 0
             ORDER BY {_LANE} LIMIT 1)
            UNION ALL
            SELECT n.* FROM lane p CROSS JOIN LATERAL (
                SELECT {_LANE} FROM perdure_run r
                WHERE NOT r.terminal AND NOT r.held AND r.agent = k.agent AND r.version = k.version
                      AND r.parked_at = 0 AND ({_LANE}) > (p.queue, p.tags, p.priority)
                ORDER BY {_LANE} LIMIT 1) n)
        SELECT * FROM lane) l
"""
_OF_LANE = """
    FROM perdure_run r
    WHERE NOT r.terminal AND NOT r.held AND r.agent = k.agent AND r.version = k.version AND r.parked_at = 0
          AND r.queue = k.queue AND r.tags = k.tags AND r.priority = k.priority
"""
_GIVEN = """
    unnest(%(agent)s::text[], %(version)s::text[], %(queue)s::text[], %(tags)s::text[],
           %(priority)s::bigint[])
    AS k(agent, version, queue, tags, priority)
"""
_AT_ONCE = f"""
    SELECT f.since, {COLUMNS.replace("r.", "f.")} FROM {_GIVEN} CROSS JOIN LATERAL (
        SELECT r.updated_at AS since, {COLUMNS} {_OF_LANE} AND r.wake_at = 0
        ORDER BY r.updated_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED) f
"""
_BY_TIMER = f"""
    SELECT f.since, {COLUMNS.replace("r.", "f.")} FROM {_GIVEN} CROSS JOIN LATERAL (
        SELECT r.wake_at AS since, {COLUMNS} {_OF_LANE} AND r.wake_at > 0 AND r.wake_at <= %(now)s
        ORDER BY r.wake_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED) f
"""
_FIRST_WAKES = f"""
    SELECT k.agent, f.wake_at FROM {_GIVEN} CROSS JOIN LATERAL (
        SELECT r.wake_at {_OF_LANE} ORDER BY r.wake_at LIMIT 1) f
"""
_VERSIONS = f"""
    WITH {_KINDS} SELECT agent, version FROM mine UNION
    SELECT r.agent, r.version FROM perdure_run r
    WHERE NOT r.terminal AND r.held AND r.agent = ANY(%(agents)s::text[])
"""
_SWEEP = """
    UPDATE perdure_run SET held = false
    WHERE NOT terminal AND held AND lease_until <= %(now)s AND run_id = ANY(ARRAY(
        SELECT r.run_id FROM perdure_run r
        WHERE NOT r.terminal AND r.held AND r.lease_until <= %(now)s
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING limit_key
"""
_LEASES = """
    SELECT r.agent, r.version, r.queue, r.tags, r.priority, r.limit_key, r.holder, r.wake_at, r.lease_until
    FROM perdure_run r WHERE NOT r.terminal AND r.held
"""
_ONE = f"SELECT {COLUMNS} FROM perdure_run r WHERE r.run_id = %s FOR NO KEY UPDATE"
_BEGIN = f"""
    SELECT pg_advisory_xact_lock(%s), pg_current_xact_id()::text,
           {LIMITED}, {BY_INDEX}
"""
_PROOF = "SELECT 1 FROM perdure_run WHERE run_id = %s AND epoch = %s AND holder = %s"


_SEIZE = """
    UPDATE perdure_run SET epoch = epoch + 1,
           claims = claims + CASE WHEN held AND holder IS NOT DISTINCT FROM %s THEN 0 ELSE 1 END,
           holder = %s, held = true, died = false, parked_at = 0, lease_until = %s, updated_at = %s
    WHERE NOT terminal
"""


class Claims(Struct):
    """How a store claims: `given` is the clock of one whose time a test moves."""

    link: Link
    given: Callable[[], int] | None
    grace_seconds: float
    scan: keyed.Scan
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

    def restore(self, connection: Connection) -> tuple[int, int]:
        """See `Store.restore`; and the number of the change. After a lost answer it may be done again."""
        doubts: list[object] = []

        def heard(notice: psycopg.errors.Diagnostic) -> None:
            if in_doubt(notice):
                doubts.append(notice)

        connection.add_notice_handler(heard)
        try:
            with connection.transaction():
                connection.execute(_BEGIN, (new_key(), *limits()))
                if self.synced:
                    connection.execute("SET LOCAL synchronous_commit = on")
                (clock,) = one(connection.execute(f"SELECT {NOW}"))
                seized = _seized(connection, self.given() if self.given else clock)
            (number,) = one(connection.execute("SELECT nextval('perdure_change')"))
        finally:
            connection.remove_notice_handler(heard)
        if doubts:
            what = f"no standby of {self.link.address.shown} confirms"
            raise ConnectionLost(what, passing=True, unknown=True)
        return seized, number

    def _claim(
        self, connection: Connection, claim: Claim, doubts: list[object]
    ) -> tuple[tuple[Claimed, ...], int]:
        key = new_key()
        taken = _Taken(connection, claim, self.grace_seconds, self.scan)
        with connection.pipeline():
            connection.execute(BEGIN)
            head = connection.execute(_BEGIN, (key, *limits()))
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
                taken.write()
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


def _seized(connection: Connection, now: int) -> int:
    """Lease every open run to the one who restores, inside a transaction. Raises WorkerTaken."""
    check_alone(connection)
    connection.execute(signs.FORGET_ALL)
    until = now + round(SEIZED_SECONDS * SECOND)
    return connection.execute(_SEIZE, (RESTORER, RESTORER, until, now)).rowcount


class _Taken:
    """One claim's transaction."""

    def __init__(self, connection: Connection, claim: Claim, grace_seconds: float, scan: keyed.Scan) -> None:
        self.now = 0
        self.wrote = False
        self.leased: list[Standing] = []
        self._connection = connection
        self._claim = claim
        self._grace_seconds = grace_seconds
        self._scan = scan
        self._keys: dict[str, int] = {}  # those that only we claim now, and their leases
        self._parked = 0
        self._written = 0

    def by_id(self, run_id: str) -> tuple[Claimed, ...]:
        """Lease this run if it is free. Raises NoSuchRun, RunGone."""
        run = self._one(run_id)
        claim = self._claim
        if not served(claim.agents, run.agent, run.version) or claim.limit < 1:
            return ()
        if run.leased(self.now) and run.holder is not None and self._bury():
            run = self._one(run_id)
        if not run.claimable(self.now):
            return ()
        claimed = self._choose(self._turns([run.agent]), [(run.updated_at, run)], parks=False)
        if not claimed and claim.drives and self._bury():  # the dead take no place
            claimed = self._choose(self._turns([run.agent]), [(run.updated_at, run)], parks=False)
        return tuple(claimed)

    def next_ones(self) -> tuple[Claimed, ...]:
        """Lease those whose turn it is."""
        if self._claim.limit < 1:
            return ()
        claimed = self._free(self._claim.limit, self._swept())
        if len(claimed) < self._claim.limit and self._bury():
            self.write()
            claimed += self._free(self._claim.limit - len(claimed), self._lanes())
        if len(claimed) < self._claim.limit and self._scan.heal(self._connection, self.now):
            self.wrote = True
        return tuple(claimed)

    def _swept(self) -> list[Row]:
        """Free what ran out, and find the lanes, in one exchange unless that frees places of keys."""
        with self._connection.pipeline():
            swept = self._connection.execute(_SWEEP, {"now": self.now})
            lanes = self._connection.execute(_LANES, wanted(self._claim.agents))
        freed = [key for (key,) in swept]
        self.wrote = self.wrote or bool(freed)
        let_in = keyed.let_in(self._connection, freed, self.now)
        return lanes.fetchall() if let_in is None else self._lanes()

    def _lanes(self) -> list[Row]:
        return self._connection.execute(_LANES, wanted(self._claim.agents)).fetchall()

    def _free(self, limit: int, found: Sequence[Row]) -> list[Claimed]:
        """Lease what is free in these lanes; runs whose key is full are parked on the way."""
        claim = self._claim
        lanes = [lane for lane in (Lane(*row) for row in found) if wants(claim, lane)]
        turns = self._turns(sorted({lane.agent for lane in lanes}), limit)
        claimed: list[Claimed] = []
        passed, look = 0, turns.left
        while lanes and turns.left and passed < PARKED_AT_ONCE:
            lanes = [lane for lane in lanes if turns.room(lane.agent)]
            parked = self._parked
            claimed += self._choose(turns, self._candidates(lanes, look))
            if self._parked == parked:
                break
            passed, look = passed + self._parked - parked, max(turns.left, PARKED_TOGETHER)
        return claimed

    def write(self) -> None:
        """Write the leases that are not written yet, so that they are counted."""
        if leased := self.leased[self._written :]:
            self._written = len(self.leased)
            set_runs(self._connection, leased, self.now)

    def _candidates(self, lanes: Sequence[Lane], limit: int) -> list[tuple[int, Standing]]:
        values: dict[str, Any] = {
            name: [getattr(lane, name) for lane in lanes] for name in Lane.__struct_fields__
        }
        values |= {"limit": limit, "now": self.now}
        with self._connection.pipeline():
            at_once = self._connection.execute(_AT_ONCE, values, binary=True)
            by_timer = self._connection.execute(_BY_TIMER, values, binary=True)
        found = [(since, Standing(*row)) for since, *row in (*at_once.fetchall(), *by_timer.fetchall())]
        return sorted(found, key=lambda one: (one[0], one[1].run_id))

    def _turns(self, agents: Sequence[str], limit: int | None = None) -> Turns[Standing]:
        """The choice among runs of these agents. One with a limit that another claim looks at has no room."""
        claim = self._claim if limit is None else evolve(self._claim, limit=limit)
        limited = [agent for agent in agents if agent in claim.limits and claim.drives]
        ours = keyed.try_locks(self._connection, "agent", limited) if limited else set()
        held = keyed.of_agents(self._connection, limited, self.now) if limited else {}
        busy = {agent: claim.limits[agent] for agent in limited if agent not in ours}
        return Turns(claim, lambda agent: busy.get(agent, held.get(agent, 0)), self._keys.__getitem__)

    def _choose(
        self, turns: Turns[Standing], found: Sequence[tuple[int, Standing]], *, parks: bool = True
    ) -> list[Claimed]:
        """Lease those whose turn it is, and park those whose key is full."""
        keys = sorted({run.limit_key for _, run in found} - {"", *self._keys}) if self._claim.drives else []
        if keys:
            ours = keyed.try_locks(self._connection, "key", keys)
            counted = keyed.taken(self._connection, keys, self.now)
            self._keys |= {key: counted.get(key, 0) for key in ours}
        drives = self._claim.drives
        taken, full = turns.take(
            Candidate(
                Lane(run.agent, run.version, run.queue, run.tags, run.priority),
                since, run, run.limit_key, run.key_limit,
            )
            for since, run in found
            if not run.limit_key or not drives or run.limit_key in self._keys
        )  # fmt: skip
        claimed = [self._lease(one.name) for one in taken]
        if full and parks:
            rows = [(one.name.run_id, one.rank, one.limit_key, one.key_limit) for one in full]
            self.write()
            self._parked += keyed.park(self._connection, rows, self.now)
            self.wrote = True
        return claimed

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

    def _bury(self) -> bool:
        dead, noted = signs.look(self._connection, self.now, self._grace_seconds)
        buried = signs.bury(self._connection, dead, self.now) if dead else False
        self.wrote = self.wrote or noted or buried  # a claim that wrote nothing wakes nobody, itself least
        return buried


def due(connection: Connection, claim: Claim, given: Callable[[], int] | None, grace_seconds: float) -> int:
    """See `Store.due`."""
    with connection.pipeline():
        clock = connection.execute(f"SELECT {NOW}, {BY_INDEX}")
        found = connection.execute(_LANES, wanted(claim.agents))
        leases = connection.execute(_LEASES, binary=True)
    now = given() if given else int(one(clock)[0])
    lanes = [lane for lane in (Lane(*row) for row in found) if wants(claim, lane)]
    limited = sorted({lane.agent for lane in lanes} & set(claim.limits))
    held = keyed.of_agents(connection, limited, now) if limited else {}
    full = {agent for agent in limited if held.get(agent, 0) >= claim.limits[agent]}
    open_lanes = [lane for lane in lanes if lane.agent not in full]
    values = {name: [getattr(lane, name) for lane in open_lanes] for name in Lane.__struct_fields__}
    first = min((wake for _, wake in connection.execute(_FIRST_WAKES, values, binary=True)), default=NEVER)
    if first > now:
        ends = signs.ends(connection, grace_seconds)
        waits = {key for key, lane in keyed.awaited(connection) if wants(claim, lane)}
        for *lane_of, limit_key, holder, wake, until in leases:
            lane = Lane(*lane_of)
            free = min(until, ends.get(holder, until))
            if wants(claim, lane):
                first = min(first, max(wake, free))
            if lane.agent in full or limit_key in waits:  # its end lets others in
                first = min(first, free)
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
