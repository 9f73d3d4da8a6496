"""What may be written in one transaction: many runs' batches, new runs, messages, ends.

Each run's row is read once while nobody else writes, and changed in memory (`Standing`); refusals come
before the first write of the refused verb, so that they need no savepoint and its neighbours commit. `flush`
writes what was gathered. It knows the tables, and neither threads nor locks nor when a commit happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apsw
from msgspec import Struct

from perdure.errors import InboxMoved, NoSuchRun, RunGone, SeqConflict, StoreError
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
from perdure.store.sqlite.keyed import next_ones
from perdure.store.standing import (
    Standing,
    check_size,
    ended,
    follows,
    gone,
    new_standing,
    refuses,
    still_open,
)
from perdure.store.tx import Guard

SHIFT = 32
"""A key is run_no << SHIFT | number."""

MASK = (1 << SHIFT) - 1
"""The number in a key."""

_TEXTS = ("run_id", "agent", "version", "parent", "status", "holder", "queue", "tags", "limit_key")
_NAMES = (
    "run_no, run_id, agent, version, parent, created_at, status, due_at, info, updated_at, terminal, epoch,"
    " holder, held, died, lease_until, claims, inbox, pending, asks, seq_floor, queue, tags, priority,"
    " limit_key, key_limit, parked_at, floor"
)
COLUMNS = (
    ", ".join(f"CAST({one} AS BLOB) AS {one}" if one in _TEXTS else one for one in _NAMES.split(", "))
    + f", (SELECT key & {MASK} FROM perdure_event"
    f" WHERE key > run_no << {SHIFT} AND key <= run_no << {SHIFT} | {MASK} ORDER BY key DESC LIMIT 1)"
)
"""What is read of a run, in the order of `standing_of`.

Texts come as their bytes: one that is damaged is the matter of its own run, not of a whole list. The last
event's number comes from its events, and is never below the one that the row had when it was last
written: a run whose newest events were lost since then is seen to end too early.
"""

_FIND = f"SELECT {COLUMNS} FROM perdure_run WHERE run_id = ?"
_FIND_NO = f"SELECT {COLUMNS} FROM perdure_run WHERE run_no = ?"
_GONE = "SELECT 1 FROM perdure_gone WHERE run_id = ?"
_KEY = "SELECT data FROM perdure_key WHERE run_id = ?"
_NEW_KEY = "INSERT INTO perdure_key (run_id, data, at) VALUES (?, ?, ?)"
_SAME_KEY = (
    "INSERT OR IGNORE INTO perdure_key (run_id, data, at) SELECT ?, data, ? FROM perdure_key WHERE run_id = ?"
)
_SHARERS = (
    "SELECT run_id FROM perdure_key WHERE run_id != ? AND data != x''"
    " AND data = (SELECT data FROM perdure_key WHERE run_id = ?) ORDER BY run_id"
)
_NO_KEY = (
    "INSERT INTO perdure_key (run_id, data, at) VALUES (?, x'', ?)"
    " ON CONFLICT (run_id) DO UPDATE SET data = x'', at = excluded.at WHERE data != x''"
)
_NEW_RUN = (
    "INSERT INTO perdure_run (run_id, agent, version, parent, created_at, status, due_at, info, updated_at,"
    " terminal, epoch, asks, seq_floor, queue, tags, priority, limit_key, key_limit, floor)"
    f" VALUES ({', '.join('?' * 19)}) RETURNING run_no"
)
_SET_RUN = (
    "UPDATE perdure_run SET version = ?, status = ?, due_at = ?, info = ?, updated_at = ?, terminal = ?,"
    " epoch = ?, holder = ?, held = ?, died = ?, lease_until = ?, claims = ?, inbox = ?, pending = ?,"
    " asks = ?, seq_floor = ?, parked_at = ?, floor = ? WHERE run_no = ?"
)
_NEW_EVENT = "INSERT INTO perdure_event (key, digest, data) VALUES (?, ?, ?)"
_NEW_BLOB = "INSERT OR IGNORE INTO perdure_blob (run_no, digest, data) VALUES (?, ?, ?)"
_NEW_SNAPSHOT = "INSERT OR REPLACE INTO perdure_snapshot (key, digest, data) VALUES (?, ?, ?)"
_DROP_SNAPSHOTS = "DELETE FROM perdure_snapshot WHERE key > ? AND key <= ? AND key != ?"
_DROP_EVENTS = "DELETE FROM perdure_event WHERE key > ? AND key <= ?"
_DROP_BLOB = "DELETE FROM perdure_blob WHERE run_no = ? AND digest = ?"
_LEAVE = "INSERT INTO perdure_tombstone (run_id, data) VALUES (?, ?)"
_DROP_LEFT = "DELETE FROM perdure_tombstone WHERE run_id = ?"
_NEW_MESSAGE = "INSERT INTO perdure_inbox (key, run_no, id, kind, data, at) VALUES (?, ?, ?, ?, ?, ?)"
_FIND_MESSAGE = "SELECT key FROM perdure_inbox WHERE run_no = ? AND id = ?"
_WAITING = "SELECT 1 FROM perdure_inbox WHERE key = ? AND taken = 0"
_TAKE = "UPDATE perdure_inbox SET taken = 1, data = x'' WHERE key = ?"


class Entry(Struct):
    """A run within one transaction: its number, its row, and whether the row must be written."""

    run_no: int
    standing: Standing
    dirty: bool = False

    @property
    def start(self) -> int:
        """The key before the run's first."""
        return self.run_no << SHIFT

    @property
    def end(self) -> int:
        """The last key that the run can have."""
        return self.start | MASK


class Rows:
    """What one connection knows of runs' rows from its last transaction to the next.

    SQLite counts the commits of others (`data_version`): while their number stands still, the rows are as
    this connection left them, so that fences are judged without reading them again.
    """

    MOST = 5000
    """So many runs are remembered."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._entries: dict[str, Entry] = {}

    def of(self, connection: apsw.Connection) -> dict[str, Entry]:
        """The rows that are known inside a transaction that has just begun."""
        version = connection.execute("PRAGMA data_version").get
        if version != self._version or len(self._entries) > self.MOST:
            self._version, self._entries = version, {}
        return self._entries

    def forget(self) -> None:
        """A transaction that changed them was rolled back, or the connection is another one."""
        self._version, self._entries = None, {}


class Proof(Struct, frozen=True):
    """A row that is in the file if, and only if, this transaction was committed."""

    sql: str
    key: tuple[str | int | bytes | None, ...]


class Transaction:
    """The writes of one commit. Made anew for each; `now` is the store's clock inside it.

    `entries`: rows as an earlier transaction of this connection left them, where nobody else has written
    since. They are changed here, and worth nothing any more if this transaction is not committed.
    """

    def __init__(
        self, connection: apsw.Connection, guard: Guard, now: int, entries: dict[str, Entry]
    ) -> None:
        self.connection = connection
        self.now = now
        self.wrote = False
        self.freed = False  # whether pages were freed, so that room can be given back to the disk
        self.proof: Proof | None = None
        self._guard = guard
        self.committed: list[Callable[[], None]] = []  # called once it is
        self.rolled_back: list[Callable[[], None]] = []  # or this, if it was not
        self._entries = entries
        self._touched: dict[str, Entry] = {}
        self._events: list[tuple[int, bytes, bytes]] = []

    # -- runs

    def find(self, run_id: str) -> Entry:
        """A run's entry. Raises NoSuchRun, RunGone."""
        if (known := self._entries.get(run_id)) is not None:
            return known
        if not is_text(run_id):
            raise nowhere(run_id)
        row = self.connection.execute(_FIND, (run_id,)).fetchone()
        if row is None:
            raise missing(self.connection, run_id)
        return self._enter(row)

    def find_no(self, run_no: int) -> Entry:
        """A run's entry by its number, which must be there."""
        row: Any = self.connection.execute(_FIND_NO, (run_no,)).fetchone()
        return self._entries.get(_text(row[1])) or self._enter(row)

    def _enter(self, row: Any) -> Entry:
        entry = Entry(row[0], standing_of(row))
        self._entries[entry.standing.run_id] = self._touched[entry.standing.run_id] = entry
        return entry

    def create(self, run: NewRun) -> tuple[RunRow, bool]:
        """See `Store.create`."""
        try:
            return self.find(run.run_id).standing.row(self.now), False
        except NoSuchRun:
            pass
        new = new_standing(run, self.now)
        values = (
            new.run_id,
            new.agent,
            new.version,
            new.parent,
            self.now,
            new.status,
            new.due_at,
            new.info,
            self.now,
            new.terminal,
            new.epoch,
            new.asks,
            new.seq,
            *(new.queue, new.tags, new.priority, new.limit_key, new.key_limit, new.floor),
        )
        run_no = self.connection.execute(_NEW_RUN, values).get
        entry = Entry(run_no, new)
        self._entries[run.run_id] = self._touched[run.run_id] = entry
        self._add(entry, run.events)
        self._add_blobs(entry, run.blobs)
        if run.base is not None:
            self._add_snapshot(entry, run.base, kept=0)
            self._leave(run.run_id, run.left)
        if run.shares:
            self.connection.execute(_SAME_KEY, (run.run_id, self.now, run.shares))
        self._wrote("SELECT 1 FROM perdure_run WHERE run_no = ? AND run_id = ?", run_no, run.run_id)
        return new.row(self.now), True

    # -- appends

    def append(self, batch: Batch) -> Appended:
        """See `Store.append`. A refusal comes before anything of the batch was written."""
        entry = self.find(batch.run_id)
        standing = entry.standing
        if (refusal := standing.refusal(batch, self.now)) is not None:
            raise refusal
        if batch.taken:
            self._check_waiting(entry, batch.taken)
        if batch.events:
            self._add(entry, batch.events)
        if batch.act is not None:
            self._act(entry, batch)
        if batch.blobs:
            self._add_blobs(entry, batch.blobs)
        if batch.snapshot is not None:
            self._add_snapshot(entry, batch.snapshot, kept=max(batch.kept, standing.floor))
        if batch.taken:
            self._take(entry, batch.taken)
        if standing.change(batch.row, release=batch.release, now=self.now):
            self.changed(entry)
        undelivered = tuple(m.id for m in batch.outbox if not self._send(m)) if batch.outbox else ()
        return Appended(standing.seq, self.now, undelivered, standing.inbox)

    def _add(self, entry: Entry, events: Sequence[Stored]) -> None:
        if not events:
            return
        start = entry.start
        self._events.extend([(start + event.seq, event.digest, event.data) for event in events])
        last = events[-1]
        entry.standing.seq = last.seq
        self.wrote = True
        self.proof = Proof(
            "SELECT 1 FROM perdure_event WHERE key = ? AND digest = ?", (start + last.seq, last.digest)
        )

    def _act(self, entry: Entry, batch: Batch) -> None:
        assert batch.act is not None
        self.flush()
        events = tuple(self._guard.run(batch.act, batch.act_seconds))
        check_size(1 << 30, *(event.data for event in events))
        if not follows(events, entry.standing.seq):
            raise SeqConflict(
                f"run {batch.run_id}: a call's events do not go on from its batch", run_id=batch.run_id
            )
        self._add(entry, events)
        self.wrote = True

    def _add_blobs(self, entry: Entry, blobs: Iterable[Blob]) -> None:
        rows = [(entry.run_no, blob.digest, blob.data) for blob in blobs]
        if rows:
            self.connection.executemany(_NEW_BLOB, rows)
            digest = rows[-1][1]
            self._wrote("SELECT 1 FROM perdure_blob WHERE run_no = ? AND digest = ?", entry.run_no, digest)

    def _add_snapshot(self, entry: Entry, snapshot: Snapshot, *, kept: int) -> None:
        key = entry.start + snapshot.seq
        self.connection.execute(_DROP_SNAPSHOTS, (entry.start + kept, entry.end, key))
        self.connection.execute(_NEW_SNAPSHOT, (key, snapshot.digest, snapshot.data))
        self._wrote("SELECT 1 FROM perdure_snapshot WHERE key = ? AND digest = ?", key, snapshot.digest)

    # -- messages

    def _check_waiting(self, entry: Entry, positions: Sequence[int]) -> None:
        for position in positions:
            if self.connection.execute(_WAITING, (entry.start + position,)).get is None:
                run_id = entry.standing.run_id
                raise InboxMoved(f"message {position} of run {run_id} is not waiting", run_id=run_id)

    def _take(self, entry: Entry, positions: Sequence[int]) -> None:
        self.connection.executemany(_TAKE, [(entry.start + position,) for position in positions])
        entry.standing.pending -= len(positions)
        entry.standing.updated_at = self.now
        self.changed(entry)

    def deliver(self, message: Message) -> Delivered:
        """See `Store.deliver`."""
        entry = self.find(message.run_id)
        standing = entry.standing
        known = self.connection.execute(_FIND_MESSAGE, (entry.run_no, message.id)).get
        if known is not None:
            return Delivered(known & MASK, fresh=False)
        if refuses(standing, message):
            raise ended(standing)
        standing.inbox += 1
        standing.pending += 1
        standing.updated_at = self.now
        key = entry.start + standing.inbox
        values = (key, entry.run_no, message.id, message.kind, message.data, self.now)
        self.connection.execute(_NEW_MESSAGE, values)
        self.changed(entry)
        self._wrote("SELECT 1 FROM perdure_inbox WHERE key = ? AND id = ?", key, message.id)
        return Delivered(standing.inbox, fresh=True)

    def _send(self, message: Message) -> bool:
        try:
            self.deliver(message)
        except StoreError as refusal:
            if refusal.code not in ("S112", "S113", "S117"):
                raise
            return False
        return True

    # -- ends

    def compact(self, compaction: Compaction) -> None:
        """See `Store.compact`."""
        entry, base = self.find(compaction.run_id), compaction.base
        entry.standing.compact(compaction)
        self.flush()
        key = entry.start + base.seq
        self.connection.execute(_DROP_EVENTS, (entry.start, key))
        self.connection.execute(_DROP_SNAPSHOTS, (entry.start, key, key))
        self.connection.execute(_NEW_SNAPSHOT, (key, base.digest, base.data))
        self.connection.executemany(_DROP_BLOB, [(entry.run_no, digest) for digest in compaction.blobs])
        self.connection.execute(_DROP_LEFT, (compaction.run_id,))
        self._leave(compaction.run_id, compaction.left)
        self.freed = True
        self.changed(entry)
        self._wrote(
            "SELECT 1 FROM perdure_run WHERE run_no = ? AND floor = ?"
            " AND EXISTS (SELECT 1 FROM perdure_snapshot WHERE key = ? AND data = ?)",
            *(entry.run_no, base.seq, key, base.data),
        )

    def _leave(self, run_id: str, left: Sequence[bytes]) -> None:
        self.connection.executemany(_LEAVE, [(run_id, data) for data in left])

    def drop(self, run_id: str, tombstones: Sequence[bytes]) -> bool:
        """See `Store.drop`."""
        there = True
        try:
            entry = self.find(run_id)
        except RunGone:
            there = False
        else:
            if not entry.standing.terminal:
                raise still_open(entry.standing)
            self.flush()
            self._delete(entry)
            del self._entries[run_id]
            self._touched.pop(run_id, None)
        self._leave(run_id, tombstones)
        self._wrote("SELECT 1 FROM perdure_gone WHERE run_id = ?", run_id)
        return there

    def key(self, run_id: str, make: bytes) -> bytes | None:
        """See `Store.key`."""
        found = self.connection.execute(_KEY, (run_id,)).get
        if found is None and make:
            if self.connection.execute(_GONE, (run_id,)).get is not None:
                raise gone(run_id)
            self.connection.execute(_NEW_KEY, (run_id, make, self.now))
            self._wrote("SELECT 1 FROM perdure_key WHERE run_id = ? AND data = ?", run_id, make)
            found = make
        return None if found is None else bytes(found)

    def erase(self, run_ids: Sequence[str]) -> None:
        """See `Store.erase`."""
        all_of_them = dict.fromkeys(run_ids)
        for run_id in run_ids:
            all_of_them.update(dict.fromkeys(sharing(self.connection, run_id)))
        for run_id in all_of_them:
            try:
                standing = self.find(run_id).standing
            except StoreError:
                if run_id in run_ids:
                    raise
                continue  # the key of a fork that was never made
            if not standing.terminal:
                raise still_open(standing)
        self.overwriting()
        self.connection.executemany(_NO_KEY, [(run_id, self.now) for run_id in all_of_them])
        for run_id in run_ids:
            self._wrote("SELECT 1 FROM perdure_key WHERE run_id = ? AND data = x''", run_id)

    def overwriting(self) -> None:
        """What this transaction deletes is overwritten with zeros. It costs writes, so not every one does."""
        self.connection.execute("PRAGMA secure_delete = ON")

        def usual() -> None:
            self.connection.execute("PRAGMA secure_delete = OFF")

        self.committed.append(usual)
        self.rolled_back.append(usual)

    def _delete(self, entry: Entry) -> None:
        for table in ("perdure_event", "perdure_snapshot", "perdure_inbox"):
            self.connection.execute(
                f"DELETE FROM {table} WHERE key > ? AND key <= ?", (entry.start, entry.end)
            )
        if entry.standing.floor:
            self.connection.execute(_DROP_LEFT, (entry.standing.run_id,))
        self.freed = True
        self.connection.execute("DELETE FROM perdure_blob WHERE run_no = ?", (entry.run_no,))
        if self.connection.execute(_KEY, (entry.standing.run_id,)).get is not None:
            self.overwriting()
            self.connection.execute("DELETE FROM perdure_key WHERE run_id = ?", (entry.standing.run_id,))
        self.connection.execute("DELETE FROM perdure_run WHERE run_no = ?", (entry.run_no,))
        self.connection.execute(
            "INSERT INTO perdure_gone (run_id, at) VALUES (?, ?)", (entry.standing.run_id, self.now)
        )

    # -- end of the transaction

    def changed(self, entry: Entry) -> None:
        """The run's row must be written."""
        entry.dirty = True
        self._touched[entry.standing.run_id] = entry
        self.wrote = True

    def forget(self) -> None:
        """Rows were changed behind the entries' back, after a flush: read them again when they are needed."""
        self._entries.clear()
        self._touched.clear()
        self.wrote = True

    def flush(self) -> None:
        """Write what was gathered: events in one go, each changed row once."""
        if self._events:
            self.connection.executemany(_NEW_EVENT, self._events)
            self._events = []
        freed: set[str] = set()
        for entry in self._touched.values():
            if entry.dirty:
                entry.dirty = False
                self._set_run(entry)
                if entry.standing.limit_key and not entry.standing.held:
                    freed.add(entry.standing.limit_key)
        if freed:
            self.let_in(freed)

    def let_in(self, keys: Iterable[str]) -> None:
        """Runs that wait for a place of these keys may be claimed again where there is one."""
        for key in keys:
            for run_no in next_ones(self.connection, key, self.now):
                entry = self.find_no(run_no)
                entry.standing.parked_at = 0
                self._touched[entry.standing.run_id] = entry
                self._set_run(entry)

    def let_go(self) -> None:
        """It is committed: only the rows of runs that somebody drives are worth remembering."""
        for run_id, entry in self._touched.items():
            if not entry.standing.held:
                self._entries.pop(run_id, None)

    def _set_run(self, entry: Entry) -> None:
        run = entry.standing
        self.connection.execute(
            _SET_RUN,
            (
                *(
                    run.version,
                    run.status,
                    run.due_at,
                    run.info,
                    run.updated_at,
                    run.terminal,
                    run.epoch,
                    run.holder,
                ),
                *(run.held, run.died, run.lease_until, run.claims, run.inbox, run.pending, run.asks, run.seq),
                *(run.parked_at, run.floor, entry.run_no),
            ),
        )
        if self.proof is None:
            self.proof = Proof(
                "SELECT 1 FROM perdure_run WHERE run_no = ? AND epoch = ? AND updated_at = ?"
                " AND lease_until = ? AND status = ? AND pending = ?",
                (entry.run_no, run.epoch, run.updated_at, run.lease_until, run.status, run.pending),
            )

    def _wrote(self, sql: str, *key: str | int | bytes) -> None:
        self.wrote = True
        self.proof = Proof(sql, key)


def standing_of(row: Any) -> Standing:
    """A row in the order of COLUMNS."""
    return Standing(
        run_id=_text(row[1]),
        agent=_text(row[2]),
        version=_text(row[3]),
        parent=None if row[4] is None else _text(row[4]),
        created_at=row[5],
        status=_text(row[6]),
        due_at=row[7],
        info=row[8],
        updated_at=row[9],
        terminal=bool(row[10]),
        epoch=row[11],
        holder=None if row[12] is None else _text(row[12]),
        held=bool(row[13]),
        died=bool(row[14]),
        lease_until=row[15],
        claims=row[16],
        inbox=row[17],
        pending=row[18],
        asks=bool(row[19]),
        seq=max(row[20], row[28] or 0),
        queue=_text(row[21]),
        tags=_text(row[22]),
        priority=row[23],
        limit_key=_text(row[24]),
        key_limit=row[25],
        parked_at=row[26],
        floor=row[27],
    )


def _text(data: bytes) -> str:
    """A text; what cannot be one is told by escapes, which no run was ever written with."""
    return data.decode("utf-8", "backslashreplace")


def sharing(connection: apsw.Connection, run_id: str) -> tuple[str, ...]:
    """See `Store.sharers`."""
    return tuple(name for (name,) in connection.execute(_SHARERS, (run_id, run_id)))


def missing(connection: apsw.Connection, run_id: str) -> StoreError:
    """The refusal for a run that is not there: NoSuchRun or RunGone."""
    if connection.execute(_GONE, (run_id,)).get is not None:
        return gone(run_id)
    return nowhere(run_id)


def nowhere(run_id: str) -> NoSuchRun:
    """The refusal for a run that never was."""
    return NoSuchRun(f"the store holds no run {run_id!r}", run_id=run_id)


def is_text(text: str) -> bool:
    """Whether SQLite can hold the text: an unpaired surrogate, as from a command line, is in no id."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
