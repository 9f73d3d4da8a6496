"""What is written in one transaction: many runs' batches, new runs, messages, ends, each judged for its run.

Two exchanges with the server, each one pipeline: the rows of all runs that are named are locked, in the order
of their ids, and read; what each verb says is applied to them here, where a refusal leaves nothing; then
everything goes out in a few wide statements, with the commit. It knows the tables, and neither threads nor
what becomes of a connection that breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeAlias

import psycopg
from msgspec import Struct

from perdure.errors import (
    InboxMoved,
    NoSuchRun,
    RunEnded,
    RunGone,
    SeqConflict,
    StoreError,
    StoreNewer,
)
from perdure.store.postgres import keyed
from perdure.store.postgres.columns import Column, binaries, numbers, texts, truths, turned
from perdure.store.postgres.connection import (
    BEGIN,
    BY_INDEX,
    HELD_UP_SECONDS,
    LIMITED,
    NOW,
    PLANNED_ONCE,
    Connection,
    Row,
    limits,
    one,
)
from perdure.store.postgres.proof import Proof
from perdure.store.postgres.schema import SHAPE
from perdure.store.protocol import (
    Appended,
    Batch,
    Blob,
    Compaction,
    Delivered,
    Message,
    NewRun,
    RunRow,
    Snapshot,
    Stored,
)
from perdure.store.standing import Standing, ended, follows, gone, refuses, still_open

COLUMNS = ", ".join(f"r.{name}" for name in Standing.__struct_fields__)
"""What is read of a run: the fields of `Standing`, in their order."""

_BEGIN = f"""
    SELECT pg_advisory_xact_lock(%s), pg_current_xact_id()::text,
           (SELECT max(version) FROM perdure_schema),
           {LIMITED}, {BY_INDEX}, {PLANNED_ONCE}
"""
_SYNCED = "SET LOCAL synchronous_commit = on"
_CREATE = f"""
    INSERT INTO perdure_run
        (run_id, agent, version, parent, created_at, status, due_at, info, updated_at, seq, epoch, terminal,
         asks, queue, tags, priority, limit_key, key_limit, floor)
    SELECT u.run_id, u.agent, u.version, u.parent, n.now, u.status, u.due_at, u.info, n.now, u.seq,
           u.epoch, u.terminal, u.asks, u.queue, u.tags, u.priority, u.limit_key, u.key_limit, u.floor
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %b::bytea[],
                %s::bigint[], %s::bigint[], %s::boolean[], %s::boolean[], %s::text[], %s::text[],
                %s::bigint[], %s::text[], %s::bigint[], %s::bigint[])
         AS u(run_id, agent, version, parent, status, due_at, info, seq, epoch, terminal, asks, queue, tags,
              priority, limit_key, key_limit, floor),
         (SELECT coalesce(%s::bigint, {NOW}) AS now OFFSET 0) n
    ORDER BY u.run_id
    ON CONFLICT (run_id) DO NOTHING RETURNING run_id
"""
_LOOK = f"SELECT {COLUMNS} FROM unnest(%s::text[]) AS u(run_id) JOIN perdure_run r USING (run_id)"
_LOCK = f"""
    SELECT {COLUMNS} FROM unnest(%s::text[]) AS u(run_id) CROSS JOIN LATERAL (
        SELECT * FROM perdure_run p WHERE p.run_id = u.run_id FOR NO KEY UPDATE) r
"""
_GONE = "SELECT run_id FROM perdure_gone WHERE run_id = ANY(%s::text[])"
_KNOWN = """
    SELECT i.run_id, i.id, i.position FROM unnest(%s::text[], %s::text[]) AS u(run_id, id)
    JOIN perdure_inbox i USING (run_id, id)
"""
_WAITING = """
    SELECT i.run_id, i.position FROM unnest(%s::text[], %s::bigint[]) AS u(run_id, position)
    JOIN perdure_inbox i USING (run_id, position) WHERE NOT i.taken
"""
_EVENTS = """
    INSERT INTO perdure_event (run_id, seq, digest, data)
    SELECT * FROM unnest(%s::text[], %s::bigint[], %b::bytea[], %b::bytea[])
"""
_BLOBS = """
    INSERT INTO perdure_blob (run_id, digest, data)
    SELECT * FROM unnest(%s::text[], %b::bytea[], %b::bytea[]) ON CONFLICT DO NOTHING
"""
_OLDER = """
    DELETE FROM perdure_snapshot s USING unnest(%s::text[], %s::bigint[]) AS u(run_id, kept)
    WHERE s.run_id = u.run_id AND s.seq > u.kept
"""
_SNAPSHOTS = """
    INSERT INTO perdure_snapshot (run_id, seq, digest, data)
    SELECT * FROM unnest(%s::text[], %s::bigint[], %b::bytea[], %b::bytea[])
    ON CONFLICT (run_id, seq) DO UPDATE SET digest = excluded.digest, data = excluded.data
"""
_MESSAGES = """
    INSERT INTO perdure_inbox (run_id, position, id, kind, data, at, taken)
    SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %b::bytea[], %s::bigint[],
                         %s::boolean[])
"""
_TAKE = """
    UPDATE perdure_inbox i SET taken = true, data = ''
    FROM unnest(%s::text[], %s::bigint[]) AS u(run_id, position)
    WHERE i.run_id = u.run_id AND i.position = u.position
"""
_GROW = """
    UPDATE perdure_run r SET seq = u.seq FROM unnest(%s::text[], %s::bigint[]) AS u(run_id, seq)
    WHERE r.run_id = u.run_id
"""
_SET_COLUMNS: dict[str, Callable[[list[Any]], Column]] = {
    "version": texts, "status": texts, "due_at": numbers, "info": binaries, "updated_at": numbers,
    "terminal": truths, "epoch": numbers, "holder": texts, "held": truths, "died": truths,
    "lease_until": numbers, "claims": numbers, "seq": numbers, "inbox": numbers, "pending": numbers,
    "asks": truths, "parked_at": numbers, "floor": numbers,
}  # fmt: skip
_SET = f"""
    UPDATE perdure_run r SET {", ".join(f"{name} = u.{name}" for name in _SET_COLUMNS)}
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %b::bytea[], %s::bigint[], %s::boolean[],
                %s::bigint[], %s::text[], %s::boolean[], %s::boolean[], %s::bigint[], %s::bigint[],
                %s::bigint[], %s::bigint[], %s::bigint[], %s::boolean[], %s::bigint[], %s::bigint[])
         AS u(run_id, {", ".join(_SET_COLUMNS)})
    WHERE r.run_id = u.run_id
"""
_DROP = tuple(
    f"DELETE FROM perdure_{table} WHERE run_id = ANY(%s::text[])"
    for table in ("event", "snapshot", "blob", "inbox", "key", "run")
)
_COMPACT = (
    "DELETE FROM perdure_event WHERE run_id = %s AND seq <= %s",
    "DELETE FROM perdure_snapshot WHERE run_id = %s AND seq < %s",
)
_DROP_BLOBS = "DELETE FROM perdure_blob WHERE run_id = %s AND digest = ANY(%b::bytea[])"
_DROP_LEFT = "DELETE FROM perdure_tombstone WHERE run_id = ANY(%s::text[])"
_BURY = "INSERT INTO perdure_gone (run_id, at) SELECT name, %s FROM unnest(%s::text[]) AS u(name)"
_LEAVE = """
    INSERT INTO perdure_tombstone (run_id, position, data)
    SELECT %s, u.n + (SELECT coalesce(max(position), 0) FROM perdure_tombstone WHERE run_id = %s), u.data
    FROM unnest(%b::bytea[]) WITH ORDINALITY AS u(data, n)
"""
_SAME_KEY = """
    INSERT INTO perdure_key (run_id, data, at) SELECT %s, data, %s FROM perdure_key WHERE run_id = %s
    ON CONFLICT DO NOTHING
"""
_NOTIFY = "SELECT pg_notify('perdure', '')"
_CHANGED = "SELECT nextval('perdure_change')"


class Renewal(Struct, frozen=True):
    """`Store.renew` as a job."""

    worker: str
    run_ids: tuple[str, ...]
    seconds: float


class Release(Struct, frozen=True):
    """`Store.release` as a job."""

    run_id: str
    epoch: int


class Removal(Struct, frozen=True):
    """`Store.drop` as a job."""

    run_id: str
    tombstones: tuple[bytes, ...]


Work: TypeAlias = Batch | NewRun | Message | Renewal | Release | Removal | Compaction
"""One verb that is written."""


class _Coming(Struct):
    """A message that is written with this commit; one that was taken at once is kept empty."""

    id: str
    kind: str
    data: bytes
    at: int
    taken: bool = False


def run_ids(work: Work) -> Iterable[str]:
    """Every run whose row a verb looks at."""
    if isinstance(work, Renewal):
        return work.run_ids
    if isinstance(work, Batch):
        return chain((work.run_id,), (message.run_id for message in work.outbox))
    return (work.run_id,)


class Transaction:
    """The writes of one commit. Made anew for each.

    `given` is the clock of a store whose time a test moves, else the database's own counts; `key` marks this
    process's transactions for whoever must find out what became of one.
    """

    def __init__(
        self,
        connection: Connection,
        key: int,
        given: Callable[[], int] | None,
        *,
        synced: bool = False,
        held_up_seconds: float = HELD_UP_SECONDS,
    ) -> None:
        self.connection = connection
        self.now = 0
        self.wrote = False
        self.proof = Proof(key, "")
        self._given = given
        self._synced = synced
        self._limits = limits(held_up_seconds)
        self._entries: dict[str, Standing] = {}
        self._gone: set[str] = set()
        self._made: set[str] = set()
        self._known: dict[tuple[str, str], int] = {}
        self._waiting: set[tuple[str, int]] = set()
        self._changed: dict[str, Standing] = {}
        self._grown: dict[str, Standing] = {}
        self._events: list[tuple[str, Stored]] = []
        self._blobs: dict[tuple[str, bytes], bytes] = {}
        self._older: dict[str, int] = {}
        self._snapshots: dict[tuple[str, int], Snapshot] = {}
        self._messages: dict[tuple[str, int], _Coming] = {}
        self._taken: list[tuple[str, int]] = []
        self._removed: list[tuple[str, tuple[bytes, ...], bool]] = []
        self._compacted: list[Compaction] = []
        self._left: list[tuple[str, tuple[bytes, ...]]] = []
        self._shared: list[tuple[str, int, str]] = []
        self._wakes = False

    # -- the first exchange

    def begin(self, works: Sequence[Work], *, already: bool = False, lock: bool = True) -> None:
        """Read what these verbs need, and lock it. `already`: the transaction is open."""
        connection = self.connection
        new = {work.run_id: work for work in reversed(works) if isinstance(work, NewRun)}
        named = sorted(set(chain.from_iterable(run_ids(work) for work in works)))
        sent = _sent(works)
        with connection.pipeline():
            if not already:
                connection.execute(BEGIN)
            head = connection.execute(_BEGIN, (self.proof.key, *self._limits))
            if self._synced:
                connection.execute(_SYNCED)
            made = connection.execute(_CREATE, _new_values(new, self._given)) if new else None
            rows = connection.execute(_LOCK if lock else _LOOK, (texts(named),), binary=True)
            clock = None if self._given else connection.execute(f"SELECT {NOW}", binary=True)
            known = connection.execute(_KNOWN, turned(sent, 2)) if sent else None
            taken = [(b.run_id, at) for b in works if isinstance(b, Batch) for at in b.taken]
            waiting = connection.execute(_WAITING, turned(taken, 2)) if taken else None
            dropped = connection.execute(_GONE, (list(new),)) if new else None
        _, xid, version, *_ = one(head)
        if version > SHAPE.version:
            what = f"the tables are of version {version} by now, this perdure knows {SHAPE.version}"
            raise StoreNewer(what, version=version, known=SHAPE.version)
        self.now = self._given() if self._given else one(clock)[0] if clock else 0
        self.proof = Proof(self.proof.key, xid)
        self._entries = {row[0]: Standing(*row) for row in rows.fetchall()}
        self._made = _first(made)
        self._gone = _first(dropped)
        self._known = {(run_id, name): position for run_id, name, position in _all(known)}
        self._waiting = {(run_id, position) for run_id, position in _all(waiting)}
        absent = [run_id for run_id in named if run_id not in self._entries and run_id not in self._gone]
        if absent:
            self._gone |= _first(connection.execute(_GONE, (absent,)))
        self.wrote = bool(self._made)

    # -- the verbs

    def run(self, work: Work) -> Any:
        """Do one verb. A refusal comes before anything of it was noted."""
        match work:
            case Batch():
                return self._append(work)
            case NewRun():
                return self._create(work)
            case Message():
                return self._deliver(work)
            case Renewal():
                return self._renew(work)
            case Release():
                return self._release(work)
            case Removal():
                return self._remove(work)
            case Compaction():
                return self._compact(work)

    def find(self, run_id: str) -> Standing:
        """A run's row. Raises NoSuchRun, RunGone."""
        if run_id in self._gone:
            raise gone(run_id)
        found = self._entries.get(run_id)
        if found is None:
            raise nowhere(run_id)
        return found

    def _create(self, run: NewRun) -> tuple[RunRow, bool]:
        found = self.find(run.run_id)
        if run.run_id not in self._made:
            return found.row(self.now), False
        self._made.discard(run.run_id)
        self._add(run.run_id, run.events)
        self._add_blobs(run.run_id, run.blobs)
        if run.base is not None:
            self._snapshots[run.run_id, run.base.seq] = run.base
            self._left.append((run.run_id, run.left))
        if run.shares:
            self._shared.append((run.run_id, self.now, run.shares))
        self._prove(
            "SELECT 1 FROM perdure_run WHERE run_id = %s AND created_at = %s", run.run_id, found.created_at
        )
        self._wakes = True
        return found.row(self.now), True

    def _append(self, batch: Batch) -> Appended:
        standing = self.judge(batch)
        self._add(batch.run_id, batch.events)
        if batch.events:
            standing.seq = batch.events[-1].seq
            self._grown[batch.run_id] = standing
        self._add_blobs(batch.run_id, batch.blobs)
        if batch.snapshot is not None:
            self._add_snapshot(batch.run_id, batch.snapshot, kept=max(batch.kept, standing.floor))
        for position in batch.taken:
            self._take(batch.run_id, position)
        if batch.taken:
            standing.pending -= len(batch.taken)
            standing.updated_at = self.now
            self._change(standing)
        if standing.change(batch.row, release=batch.release, now=self.now):
            self._change(standing)
            self._wakes = self._wakes or not standing.held
        undelivered = tuple(message.id for message in batch.outbox if not self._send(message))
        return Appended(standing.seq, self.now, undelivered, standing.inbox)

    def judge(self, batch: Batch) -> Standing:
        """The run's row, if every fence of a batch holds."""
        standing = self.find(batch.run_id)
        if (refusal := standing.refusal(batch, self.now)) is not None:
            raise refusal
        for position in batch.taken:
            if (batch.run_id, position) not in self._waiting:
                what = f"message {position} of run {batch.run_id} is not waiting"
                raise InboxMoved(what, run_id=batch.run_id)
        return standing

    def _add(self, run_id: str, events: Sequence[Stored]) -> None:
        if events:
            self._events.extend([(run_id, event) for event in events])
            self.wrote = True
            last = events[-1]
            sql = "SELECT 1 FROM perdure_event WHERE run_id = %s AND seq = %s AND digest = %s"
            self._prove(sql, run_id, last.seq, last.digest)

    def _add_blobs(self, run_id: str, blobs: Iterable[Blob]) -> None:
        for blob in blobs:
            self._blobs.setdefault((run_id, blob.digest), blob.data)
            self.wrote = True

    def _add_snapshot(self, run_id: str, snapshot: Snapshot, *, kept: int) -> None:
        self._older[run_id] = min(kept, self._older.get(run_id, kept))
        gone = [key for key in self._snapshots if key[0] == run_id and key[1] > kept]
        for key in gone:
            del self._snapshots[key]
        self._snapshots[run_id, snapshot.seq] = snapshot
        self.wrote = True

    def _take(self, run_id: str, position: int) -> None:
        self._waiting.discard((run_id, position))
        if (new := self._messages.get((run_id, position))) is not None:
            new.taken, new.data = True, b""
        else:
            self._taken.append((run_id, position))

    def _deliver(self, message: Message) -> Delivered:
        standing = self.find(message.run_id)
        known = self._known.get((message.run_id, message.id))
        if known is not None:
            return Delivered(known, fresh=False)
        if refuses(standing, message):
            raise ended(standing)
        standing.inbox += 1
        standing.pending += 1
        standing.updated_at = self.now
        position = standing.inbox
        self._known[message.run_id, message.id] = position
        self._waiting.add((message.run_id, position))
        self._messages[message.run_id, position] = _Coming(message.id, message.kind, message.data, self.now)
        self._change(standing)
        self._wakes = True
        sql = "SELECT 1 FROM perdure_inbox WHERE run_id = %s AND position = %s AND id = %s"
        self._prove(sql, message.run_id, position, message.id)
        return Delivered(position, fresh=True)

    def _send(self, message: Message) -> bool:
        try:
            self._deliver(message)
        except (NoSuchRun, RunGone, RunEnded):
            return False
        return True

    def _renew(self, renewal: Renewal) -> frozenset[str]:
        kept = set()
        for run_id in renewal.run_ids:
            standing = self._entries.get(run_id)
            if standing is not None and standing.renew(renewal.worker, renewal.seconds, self.now):
                self._change(standing)
                kept.add(run_id)
        return frozenset(kept)

    def _release(self, release: Release) -> None:
        standing = self._entries.get(release.run_id)
        if standing is not None and standing.release(release.epoch, self.now):
            self._change(standing)
            self._wakes = True

    def _remove(self, removal: Removal) -> bool:
        """Stands in its transaction beside removals of other runs alone."""
        run_id = removal.run_id
        there = run_id not in self._gone
        if there and not self.find(run_id).terminal:
            raise still_open(self.find(run_id))
        self._removed.append((run_id, removal.tombstones, there))
        self._prove("SELECT 1 FROM perdure_gone WHERE run_id = %s", run_id)
        self.wrote = True
        return there

    def _compact(self, compaction: Compaction) -> None:
        """Stands alone in its transaction."""
        standing = self.find(compaction.run_id)
        standing.compact(compaction)
        self._compacted.append(compaction)
        self._snapshots[compaction.run_id, compaction.base.seq] = compaction.base
        self._left.append((compaction.run_id, compaction.left))
        self._change(standing)
        sql = """
            SELECT 1 FROM perdure_run r JOIN perdure_snapshot s ON s.run_id = r.run_id AND s.seq = r.floor
            WHERE r.run_id = %s AND r.floor = %s AND s.data = %b
        """
        self._prove(sql, compaction.run_id, compaction.base.seq, compaction.base.data)

    def _change(self, standing: Standing) -> None:
        self._changed[standing.run_id] = standing
        self.wrote = True

    def _prove(self, sql: str, *values: Any) -> None:
        self.proof = Proof(self.proof.key, self.proof.xid, sql, values)

    # -- the second exchange

    def commit(self) -> tuple[int, bool]:
        """Write all and commit. Returns the number of the change, and whether the server committed."""
        connection = self.connection
        with connection.pipeline():
            self._flush(connection)
            if self._wakes:
                connection.execute(_NOTIFY)
            done = connection.execute("COMMIT", prepare=False)
            number = connection.execute(_CHANGED)
        return one(number)[0], done.statusmessage == "COMMIT"

    def _flush(self, connection: Connection) -> None:
        if self._made:  # asked for under an id that was dropped meanwhile
            connection.execute(_DROP[-1], (list(self._made),))
        if self._events:
            owners = texts([run_id for run_id, _ in self._events])
            connection.execute(_EVENTS, (owners, *_stored([event for _, event in self._events])))
        if self._blobs:
            named, digests = turned(list(self._blobs), 2)
            connection.execute(_BLOBS, (named, digests, list(self._blobs.values())))
        if self._older:
            connection.execute(_OLDER, turned(sorted(self._older.items()), 2))
        for compaction in self._compacted:
            run_id, base = compaction.run_id, compaction.base
            for sql in _COMPACT:
                connection.execute(sql, (run_id, base.seq))
            connection.execute(_DROP_BLOBS, (run_id, list(compaction.blobs)))
            connection.execute(_DROP_LEFT, ([run_id],))
        if self._snapshots:
            owners = texts([run_id for run_id, _ in self._snapshots])
            connection.execute(_SNAPSHOTS, (owners, *_stored(list(self._snapshots.values()))))
        if self._messages:
            rows = [(*key, m.id, m.kind, m.data, m.at, m.taken) for key, m in self._messages.items()]
            connection.execute(_MESSAGES, turned(rows, 7))
        if self._taken:
            connection.execute(_TAKE, turned(self._taken, 2))
        grown = [s for run_id, s in self._grown.items() if run_id not in self._changed]
        if grown:
            connection.execute(_GROW, (texts([s.run_id for s in grown]), numbers([s.seq for s in grown])))
        if self._changed:
            set_runs(connection, list(self._changed.values()), self.now)
        for shared in self._shared:
            connection.execute(_SAME_KEY, shared)
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        for run_id, left in self._left:
            connection.execute(_LEAVE, (run_id, run_id, list(left)))
        names = sorted(run_id for run_id, _, there in self._removed if there)
        if names:
            for sql in (*_DROP, _DROP_LEFT):
                connection.execute(sql, (names,))
            connection.execute(_BURY, (self.now, names))
        for run_id, left, there in sorted(self._removed):
            if not there:  # one at a time, so that the places of what is left behind are each their own
                connection.execute("SELECT 1 FROM perdure_gone WHERE run_id = %s FOR UPDATE", (run_id,))
            if left:
                connection.execute(_LEAVE, (run_id, run_id, list(left)))


def set_runs(connection: Connection, runs: Sequence[Standing], now: int) -> None:
    """Write whole rows of runs that are locked; places of keys that are free by that are given on."""
    columns = [pack([getattr(run, name) for run in runs]) for name, pack in _SET_COLUMNS.items()]
    connection.execute(_SET, (texts([run.run_id for run in runs]), *columns))
    keyed.let_in(connection, [run.limit_key for run in runs if run.limit_key and not run.held], now)


def nowhere(run_id: str) -> NoSuchRun:
    """The refusal for a run that never was."""
    return NoSuchRun(f"the store holds no run {run_id!r}", run_id=run_id)


def absent(connection: Connection, run_id: str) -> StoreError:
    """The refusal for a run that is not there: NoSuchRun or RunGone."""
    found = connection.execute(_GONE, ([run_id],)).fetchone()
    return nowhere(run_id) if found is None else gone(run_id)


def check_follows(run_id: str, events: Sequence[Stored], after: int) -> None:
    """Raises SeqConflict unless a call's events go on from its batch."""
    if not follows(tuple(events), after):
        raise SeqConflict(f"run {run_id}: a call's events do not go on from its batch", run_id=run_id)


def _sent(works: Sequence[Work]) -> list[tuple[str, str]]:
    """Every message of these verbs, as its run and id."""
    found = {(work.run_id, work.id) for work in works if isinstance(work, Message)}
    for work in works:
        if isinstance(work, Batch):
            found.update((message.run_id, message.id) for message in work.outbox)
    return list(found)


def _new_values(new: dict[str, NewRun], given: Callable[[], int] | None) -> tuple[Any, ...]:
    runs = list(new.values())
    return (
        [run.run_id for run in runs],
        [run.agent for run in runs],
        [run.version for run in runs],
        [run.parent for run in runs],
        [run.status for run in runs],
        [run.due_at for run in runs],
        [run.info for run in runs],
        [run.floor + len(run.events) for run in runs],
        [run.epoch for run in runs],
        [run.terminal for run in runs],
        [run.asks for run in runs],
        [run.placement.queue for run in runs],
        [" ".join(run.placement.tags) for run in runs],
        [run.placement.priority for run in runs],
        [run.placement.limit_key for run in runs],
        [run.placement.key_limit for run in runs],
        [run.floor for run in runs],
        given() if given else None,
    )


def _stored(items: Sequence[Stored | Snapshot]) -> tuple[Column, Column, Column]:
    seqs, digests = numbers([item.seq for item in items]), binaries([item.digest for item in items])
    return seqs, digests, binaries([item.data for item in items])


def _all(cursor: psycopg.Cursor[Row] | None) -> list[Row]:
    return [] if cursor is None else cursor.fetchall()


def _first(cursor: psycopg.Cursor[Row] | None) -> set[str]:
    return {row[0] for row in _all(cursor)}
