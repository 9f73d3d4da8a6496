"""A store in this process's memory: the contract in its plainest form, for tests and for runs that may be
forgotten.

It keeps every promise except to outlive the process. The tables of transactional calls live in an SQLite
database in memory. It knows no file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import apsw
from msgspec import Struct
from msgspec.structs import replace

from perdure.clock import SYSTEM, Clock
from perdure.errors import Damaged, ForeignLoop, InboxMoved, NoSuchRun, SeqConflict, StoreClosed
from perdure.store.kept import MARK, Kept, Part, page
from perdure.store.protocol import (
    NEVER,
    Appended,
    Batch,
    Claim,
    Claimed,
    Compaction,
    Delivered,
    Inbound,
    Loaded,
    Message,
    NewRun,
    Query,
    RunRow,
    Snapshot,
    Store,
    Stored,
    StoreStats,
)
from perdure.store.standing import (
    VALUE_BYTES,
    Standing,
    check_batch,
    check_compaction,
    check_mark,
    check_message,
    check_run,
    check_size,
    ended,
    follows,
    gone,
    new_standing,
    refuses,
    served,
    still_open,
    told,
)
from perdure.store.turns import ANYTHING, Candidate, Lane, Turns, wants
from perdure.store.tx import Guard


class _Run(Struct, eq=False):
    standing: Standing
    events: list[Stored] = []
    snapshots: list[Snapshot] = []
    blobs: dict[bytes, bytes] = {}
    waiting: dict[int, Inbound] = {}
    known: dict[str, int] = {}  # message id -> position
    left: list[bytes] = []


def _bytes_of(run: _Run) -> int:
    events, snapshots = (sum(len(item.data) for item in items) for items in (run.events, run.snapshots))
    return events + snapshots + sum(map(len, run.blobs.values()))


def _after(run: _Run, seq: int) -> tuple[Stored, ...]:
    """The events with higher numbers; whatever lies there, where a test has done harm."""
    return tuple(run.events[max(seq - run.standing.floor, 0) :])


class MemoryStore(Store):
    """Runs of one process, gone with it."""

    url = "memory:"

    def __init__(self, *, clock: Clock = SYSTEM, value_bytes: int = VALUE_BYTES) -> None:
        self._clock = clock
        self.value_bytes = value_bytes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = False
        self._runs: dict[str, _Run] = {}
        self._gone: dict[str, list[bytes]] = {}
        self._keys: dict[str, bytes] = {}
        self._mark = 1
        self._commits = 0
        self._written = asyncio.Event()
        self._tables: apsw.Connection | None = None
        self._guard: Guard | None = None

    def now(self) -> int:
        return self._clock.now()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        if self._opened and self._loop is not loop and self._loop is not None and not self._loop.is_closed():
            raise ForeignLoop("the store was opened in another event loop")
        check_mark(self.url, self._keys.get(MARK), sealed=self.sealed)
        self._loop = loop
        self._opened = True

    async def close(self) -> None:
        self._opened = False

    # -- writing

    async def create(self, run: NewRun) -> tuple[RunRow, bool]:
        self._check_open()
        check_run(run, self.value_bytes)
        if run.run_id in self._gone:
            raise gone(run.run_id)
        if (found := self._runs.get(run.run_id)) is not None:
            return found.standing.row(self.now()), False
        made = _Run(new_standing(run, self.now()), list(run.events))
        made.blobs.update((blob.digest, blob.data) for blob in run.blobs)
        if run.base is not None:
            made.snapshots.append(run.base)
            made.left.extend(run.left)
        if run.shares and run.shares in self._keys:
            self._keys.setdefault(run.run_id, self._keys[run.shares])
        self._runs[run.run_id] = made
        self._wrote()
        return made.standing.row(self.now()), True

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        loop = self._loop or asyncio.get_running_loop()
        future: asyncio.Future[Appended] = loop.create_future()
        try:
            future.set_result(self._append(batch))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a call's own code raised goes to its caller
            future.set_exception(told(error))
        return future

    def _append(self, batch: Batch) -> Appended:
        self._check_open()
        check_batch(batch, self.value_bytes)
        run = self._find(batch.run_id)
        now = self.now()
        if (refusal := run.standing.refusal(batch, now)) is not None:
            raise refusal
        for position in batch.taken:
            if position not in run.waiting:
                raise InboxMoved(
                    f"message {position} of run {batch.run_id} is not waiting", run_id=batch.run_id
                )
        events = (*batch.events, *self._act(batch))
        self._keep(run, batch, events, now)
        run.standing.change(batch.row, release=batch.release, now=now)
        undelivered = tuple(message.id for message in batch.outbox if not self._send(message, now))
        self._wrote()
        return Appended(run.standing.seq, now, undelivered, run.standing.inbox)

    def _act(self, batch: Batch) -> Sequence[Stored]:
        if batch.act is None:
            return ()
        if self._tables is None or self._guard is None:
            self._tables = apsw.Connection(":memory:")
            self._guard = Guard(self._tables)
        tables = self._tables
        tables.execute("BEGIN")
        try:
            events = tuple(self._guard.run(batch.act, batch.act_seconds))
            check_size(self.value_bytes, *(event.data for event in events))
            if not follows(events, batch.after + len(batch.events)):
                raise SeqConflict(f"run {batch.run_id}: a call's events do not go on from its batch")
            tables.execute("COMMIT")
            return events
        finally:
            if tables.in_transaction:
                tables.execute("ROLLBACK")

    def _keep(self, run: _Run, batch: Batch, events: tuple[Stored, ...], now: int) -> None:
        run.events.extend(events)
        run.standing.seq += len(events)
        for blob in batch.blobs:
            run.blobs.setdefault(blob.digest, blob.data)
        if batch.snapshot is not None:
            stay, new = max(batch.kept, run.standing.floor), batch.snapshot.seq
            run.snapshots = [kept for kept in run.snapshots if kept.seq <= stay and kept.seq != new]
            run.snapshots.append(batch.snapshot)
            run.snapshots.sort(key=lambda kept: kept.seq)
        for position in batch.taken:
            del run.waiting[position]
            run.standing.updated_at = now
        run.standing.pending = len(run.waiting)

    def _send(self, message: Message, now: int) -> bool:
        run = self._runs.get(message.run_id)
        if run is None or (message.id not in run.known and refuses(run.standing, message)):
            return False
        self._accept(run, message, now)
        return True

    def _accept(self, run: _Run, message: Message, now: int) -> Delivered:
        if (position := run.known.get(message.id)) is not None:
            return Delivered(position, fresh=False)
        standing = run.standing
        standing.inbox += 1
        standing.updated_at = now
        run.known[message.id] = standing.inbox
        run.waiting[standing.inbox] = Inbound(standing.inbox, message.id, message.kind, message.data, now)
        standing.pending = len(run.waiting)
        return Delivered(standing.inbox, fresh=True)

    async def deliver(self, message: Message) -> Delivered:
        self._check_open()
        check_message(message, self.value_bytes)
        run = self._find(message.run_id)
        if message.id not in run.known and refuses(run.standing, message):
            raise ended(run.standing)
        delivered = self._accept(run, message, self.now())
        if delivered.fresh:
            self._wrote()
        return delivered

    async def claim(self, claim: Claim) -> tuple[Claimed, ...]:
        self._check_open()
        now = self.now()
        turns: Turns[Standing] = Turns(claim, *self._leases(now))
        if claim.run_id is not None:
            run = self._find(claim.run_id).standing
            mine = run.claimable(now) and served(claim.agents, run.agent, run.version)
            found = [_candidate(run)] if mine else []
        else:
            ready = (run for run in self._open() if run.claimable(now))
            found = [one for one in map(_candidate, ready) if wants(claim, one.lane)]
        taken, _ = turns.take(found)
        claimed = tuple(one.name.lease(claim, now) for one in taken)
        if claimed:
            self._wrote()
        return claimed

    def _open(self) -> Iterator[Standing]:
        return (run.standing for run in self._runs.values() if not run.standing.terminal)

    def _leases(self, now: int) -> tuple[Callable[[str], int], Callable[[str], int]]:
        """What counts the leases of an agent, and of a key."""
        return (
            lambda agent: sum(run.agent == agent and run.leased(now) for run in self._open()),
            lambda key: sum(run.limit_key == key and run.leased(now) for run in self._open()),
        )

    async def renew(self, worker: str, run_ids: Sequence[str], lease_seconds: float) -> frozenset[str]:
        self._check_open()
        now = self.now()
        known = [run_id for run_id in run_ids if run_id in self._runs]
        return frozenset(r for r in known if self._runs[r].standing.renew(worker, lease_seconds, now))

    async def restore(self) -> int:
        self._check_open()
        open_runs = [run.standing for run in self._runs.values() if not run.standing.terminal]
        for standing in open_runs:
            standing.seize(self.now())
        self._wrote()
        return len(open_runs)

    async def release(self, run_id: str, epoch: int) -> None:
        self._check_open()
        run = self._runs.get(run_id)
        if run is not None and run.standing.release(epoch, self.now()):
            self._wrote()

    async def enlist(self, worker: str) -> None:
        """Does nothing: when this process dies, the store dies with it."""
        self._check_open()

    async def drop(self, run_id: str, tombstones: Sequence[bytes] = ()) -> bool:
        self._check_open()
        there = run_id not in self._gone
        if there:
            run = self._find(run_id)
            if not run.standing.terminal:
                raise still_open(run.standing)
            del self._runs[run_id]
            self._keys.pop(run_id, None)
        self._gone.setdefault(run_id, []).extend(tombstones)
        self._wrote()
        return there

    async def compact(self, compaction: Compaction) -> None:
        self._check_open()
        check_compaction(compaction, self.value_bytes)
        run, base = self._find(compaction.run_id), compaction.base
        run.standing.compact(compaction)
        run.events = [event for event in run.events if event.seq > base.seq]
        run.snapshots = [base, *(kept for kept in run.snapshots if kept.seq > base.seq)]
        run.left = list(compaction.left)
        for digest in compaction.blobs:
            run.blobs.pop(digest, None)
        self._wrote()

    # -- reading

    async def load(self, run_id: str) -> Loaded:
        self._check_open()
        run = self._find(run_id)
        snapshot = run.snapshots[-1] if run.snapshots else None
        events = _after(run, snapshot.seq if snapshot else 0)
        older = run.snapshots[-2].seq if len(run.snapshots) > 1 else 0
        return Loaded(run.standing.row(self.now()), snapshot, events, tuple(run.waiting.values()), older)

    async def row(self, run_id: str) -> RunRow:
        self._check_open()
        return self._find(run_id).standing.row(self.now())

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> tuple[Stored, ...]:
        self._check_open()
        return _after(self._find(run_id), after)[:limit]

    async def snapshots(self, run_id: str) -> tuple[Snapshot, ...]:
        self._check_open()
        return tuple(self._find(run_id).snapshots)

    async def snapshot(self, run_id: str, upto: int) -> Snapshot | None:
        self._check_open()
        kept = [one for one in self._find(run_id).snapshots if one.seq <= upto]
        return kept[-1] if kept else None

    async def blob(self, run_id: str, digest: bytes) -> bytes:
        self._check_open()
        run = self._find(run_id)
        if digest not in run.blobs:
            raise Damaged(f"a large value of run {run_id} is missing: {digest.hex()}", run_id=run_id)
        return run.blobs[digest]

    async def inbox(self, run_id: str, after: int = 0) -> tuple[Inbound, ...]:
        self._check_open()
        return tuple(item for item in self._find(run_id).waiting.values() if item.position > after)

    async def key(self, run_id: str, make: bytes = b"") -> bytes | None:
        self._check_open()
        if make and run_id in self._gone:
            raise gone(run_id)
        if make and run_id not in self._keys:
            self._keys[run_id] = make
            self._wrote()
        return self._keys.get(run_id)

    async def erase(self, run_ids: Sequence[str]) -> None:
        self._check_open()
        sharing = [name for run_id in run_ids for name in await self.sharers(run_id)]
        made = [name for name in sharing if name in self._runs]  # the others have a key, and never became one
        for run in map(self._find, (*run_ids, *made)):
            if not run.standing.terminal:
                raise still_open(run.standing)
        self._keys.update(dict.fromkeys((*run_ids, *sharing), b""))
        self._wrote()

    async def sharers(self, run_id: str) -> tuple[str, ...]:
        self._check_open()
        key = self._keys.get(run_id)
        found = [name for name, other in self._keys.items() if key and other == key and name != run_id]
        return tuple(sorted(found))

    async def scrub(self, *, whole: bool = False) -> bool:
        self._check_open()
        return True

    async def tombstones(self, run_id: str) -> tuple[bytes, ...]:
        self._check_open()
        run = self._runs.get(run_id)
        return tuple(run.left if run is not None else self._gone.get(run_id, ()))

    async def sizes(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        self._check_open()
        found = {run_id: self._runs[run_id] for run_id in run_ids if run_id in self._runs}
        return {run_id: _bytes_of(run) for run_id, run in found.items()}

    async def due(self, claim: Claim | None = None) -> int:
        self._check_open()
        now, claim = self.now(), claim or ANYTHING
        turns: Turns[Standing] = Turns(claim, *self._leases(now))
        first = NEVER
        for one in map(_candidate, self._open()):
            run = one.name
            if not wants(claim, one.lane):
                continue
            wake = run.wakes_at()
            if not run.leased(now):
                if not turns.room(run.agent):
                    wake = max(wake, self._ends(now, "agent", run.agent))
                if turns.full(run.limit_key, run.key_limit):
                    wake = max(wake, self._ends(now, "limit_key", run.limit_key))
            first = min(first, wake)
        return 0 if first <= now else first

    def _ends(self, now: int, field: str, value: str) -> int:
        """When the first lease of this agent or key ends by itself."""
        leased = (run for run in self._open() if run.leased(now) and getattr(run, field) == value)
        return min((run.lease_until for run in leased), default=NEVER)

    async def versions(self, agents: Sequence[str]) -> Mapping[str, frozenset[str]]:
        self._check_open()
        open_ = [run.standing for run in self._runs.values() if not run.standing.terminal]
        return {name: frozenset(run.version for run in open_ if run.agent == name) for name in agents}

    async def list(self, query: Query) -> tuple[RunRow, ...]:
        self._check_open()
        now = self.now()
        found = [run.standing.row(now) for run in self._runs.values()]
        found = [row for row in found if _matches(row, query)]
        found.sort(key=lambda row: (row.created_at, row.run_id), reverse=True)
        return tuple(found[: query.limit])

    async def changed(self, seen: int, timeout_seconds: float) -> int:
        self._check_open()
        if self._mark == seen and timeout_seconds > 0:
            waits = [
                asyncio.ensure_future(self._written.wait()),
                asyncio.ensure_future(self._sleep(timeout_seconds)),
            ]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        return self._mark

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def kept(self, part: Part, after: Kept | None = None) -> tuple[Kept, ...]:
        self._check_open()
        values = sorted(self._values(part), key=lambda value: value.place)
        return page(v for v in values if v.run_id != MARK and (after is None or v.place > after.place))

    def _values(self, part: Part) -> Iterator[Kept]:
        """Each value of a part, with its place."""
        if part == "key":
            yield from (Kept(part, (name,), name, data) for name, data in self._keys.items() if data)
        if part == "left":
            lying = [*self._gone.items(), *((name, run.left) for name, run in self._runs.items())]
            yield from (
                Kept(part, (name, n), name, data) for name, left in lying for n, data in enumerate(left)
            )
        for name, run in self._runs.items():
            match part:
                case "event" | "snapshot":
                    for item in run.events if part == "event" else run.snapshots:
                        yield Kept(part, (name, item.seq), name, item.data, item.digest, item.seq)
                case "blob":
                    for digest, data in run.blobs.items():
                        yield Kept(part, (name, digest), name, data, digest)
                case "inbox":
                    for one in run.waiting.values():
                        yield Kept(part, (name, one.position), name, one.data, id=one.id, kind=one.kind)
                case "info" if run.standing.info:
                    yield Kept(part, (name,), name, run.standing.info)

    async def swap(self, pairs: Sequence[tuple[Kept, Kept]], *, alone: bool = False) -> int:
        self._check_open()
        values = chain(*map(self._values, {old.part for old, _ in pairs}))
        there = {(value.part, value.place): value for value in values}
        done = [(old, new) for old, new in pairs if there.get((old.part, old.place)) == old]
        for old, new in done:
            self._put(old, new)
        if done:
            self._wrote()
        return len(done)

    def _put(self, old: Kept, new: Kept) -> None:
        run = self._runs.get(old.run_id)
        match old.part:
            case "key":
                self._keys[old.run_id] = new.data
            case "left":
                (self._gone[old.run_id] if run is None else run.left)[old.place[1]] = new.data
            case "info" if run:
                run.standing.info = new.data
            case "blob" if run:
                del run.blobs[old.digest]
                run.blobs[new.digest] = new.data
            case "inbox" if run:
                run.waiting[old.place[1]] = replace(run.waiting[old.place[1]], data=new.data)
            case "event" | "snapshot" if run:
                items: list[Any] = run.events if old.part == "event" else run.snapshots
                at = next(n for n, item in enumerate(items) if item.seq == old.seq)
                items[at] = replace(items[at], data=new.data, digest=new.digest)

    async def stats(self) -> StoreStats:
        self._check_open()
        runs: dict[str, int] = {}
        for run in self._runs.values():
            runs[run.standing.status] = runs.get(run.standing.status, 0) + 1
        all_runs = self._runs.values()
        return StoreStats(
            runs=runs,
            events=sum(len(run.events) for run in all_runs),
            event_bytes=sum(len(event.data) for run in all_runs for event in run.events),
            snapshot_bytes=sum(len(kept.data) for run in all_runs for kept in run.snapshots),
            blob_bytes=sum(len(data) for run in all_runs for data in run.blobs.values()),
            file_bytes=0,
            wal_bytes=0,
            commits=self._commits,
            facts={"store": "memory: gone when this process ends"},
            snapshots=sum(len(run.snapshots) for run in all_runs),
            inbox_bytes=sum(len(item.data) for run in all_runs for item in run.waiting.values()),
            left_bytes=sum(map(len, chain(*self._gone.values(), *(run.left for run in all_runs)))),
        )

    # -- inside

    def _check_open(self) -> None:
        if not self._opened:
            raise StoreClosed("the store in memory is not open")

    def _find(self, run_id: str) -> _Run:
        if (run := self._runs.get(run_id)) is not None:
            return run
        if run_id in self._gone:
            raise gone(run_id)
        raise NoSuchRun(f"the store holds no run {run_id!r}", run_id=run_id)

    def _wrote(self) -> None:
        self._commits += 1
        self._mark += 1
        self._written.set()
        self._written = asyncio.Event()


def _candidate(run: Standing) -> Candidate[Standing]:
    since = run.updated_at if run.pending or not run.due_at else run.due_at
    lane = Lane(run.agent, run.version, run.queue, run.tags, run.priority)
    return Candidate(lane, since, run, run.limit_key, run.key_limit)


def _matches(row: RunRow, query: Query) -> bool:
    place = row.placement
    return (
        (query.queue is None or place.queue == query.queue)
        and set(query.tags) <= set(place.tags)
        and (query.priority is None or place.priority >= query.priority)
        and (query.limit_key is None or place.limit_key == query.limit_key)
        and _matches_word(row, query)
    )


def _matches_word(row: RunRow, query: Query) -> bool:
    return (
        (not query.statuses or row.status in query.statuses)
        and (query.agent is None or row.agent == query.agent)
        and row.run_id.startswith(query.prefix)
        and (not query.open_only or not row.terminal)
        and (not query.asks or row.asks)
        and (query.before is None or (row.created_at, row.run_id) < query.before)
    )
