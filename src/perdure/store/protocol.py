"""The contract of a store: verbs, each with its guarantee in one sentence.

A store keeps bytes and promises and knows no meanings: events, snapshots and messages are opaque, statuses
are words that it only compares with `terminal`. It keeps laws 6 (fencing), 9 and 10 (accepted messages), 15
(nothing after the end). Times are microseconds by the store's own clock. Driver errors never leave a store:
they come as `perdure.errors.StoreError`.

Verbs are coroutines; `append` returns a future, so that the journal can go on before the disk has answered.
One store object belongs to one event loop and serves many runs of one process at once; other processes, and
other loops, open a store object of their own on the same place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from perdure.store.kept import Kept, Part

GENESIS = b"\0" * 16
"""The chain digest before the first event."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One event as bytes. `digest` is the chain digest after it (16 bytes)."""

    seq: int
    data: bytes
    digest: bytes


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A folded run as bytes, at event `seq`, with the chain digest there."""

    seq: int
    data: bytes
    digest: bytes


class Blob(msgspec.Struct, frozen=True, gc=False):
    """A large value, kept once per run and digest."""

    digest: bytes
    data: bytes


class Message(msgspec.Struct, frozen=True):
    """Something sent to a run without a lease.

    `id` is the sender's: a second message with the same id changes nothing, even after the first one was
    taken. `after_end`: a run that has ended accepts it too, and keeps it beside its events, where nobody
    takes it: for what must not be lost though no event can follow the end.
    """

    run_id: str
    id: str
    kind: str
    data: bytes
    after_end: bool = False


class Delivered(msgspec.Struct, frozen=True):
    """Where a message lies in its run's inbox (1, 2, 3 …). `fresh` is False if the id was there before."""

    position: int
    fresh: bool


class Inbound(msgspec.Struct, frozen=True):
    """A message that its run has not taken yet. `at` is when it was accepted, by the store's clock."""

    position: int
    id: str
    kind: str
    data: bytes
    at: int


class RowChange(msgspec.Struct, frozen=True):
    """What an append changes in the run's row; None leaves a field as it is.

    `due_at`: the run is claimable from this moment on (0 = at once); `NEVER` = only a message makes it
    claimable.
    `info`: opaque bytes for lists (why it waits, what it spent). `asks`: whether people are asked for
    something, so that such runs are found among many. `terminal` is for good, and gives the lease
    back.
    `progress` sets the count of claims without progress back to 0.
    """

    status: str | None = None
    due_at: int | None = None
    terminal: bool = False
    info: bytes | None = None
    version: str | None = None
    progress: bool = False
    asks: bool | None = None


RESTORER = "restore"
"""The holder of every open run of a backup, from the moment of its `restore` until the run is given back."""

NEVER = 1 << 62
"""`due_at` of a run that only a message wakes. Larger than any moment in microseconds."""


class Placement(msgspec.Struct, frozen=True):
    """Where a run stands among those that wait for a worker; it never changes.

    `queue`: which workers may take it. `tags`: what a worker must offer, sorted. `priority`: of two runs of
    one agent the one with the higher priority is claimed first, unless the other has waited `AGEING` longer
    for each step between them. Of the runs that share a `limit_key` at most `key_limit` are leased at once,
    each judged by its own number; without a key there is no such limit.
    """

    queue: str = "default"
    tags: tuple[str, ...] = ()
    priority: int = 0
    limit_key: str = ""
    key_limit: int = 1


AGEING = 60_000_000
"""One step of priority counts like so much waiting (microseconds), so that no run waits for ever."""

PRIORITIES = 100
"""The highest priority, and the lowest below zero."""


class NewRun(msgspec.Struct, frozen=True):
    """The first append of a run.

    One that was lived elsewhere comes with all its events, the `epoch` that its last owner had, `terminal` if
    it has ended, and `asks` if it needs people. One that was compacted there comes with the snapshot that it
    begins with, the events after it, and what was left behind. `shares`: the run whose key of
    personal data it has too.
    """

    run_id: str
    agent: str
    version: str
    status: str
    events: tuple[Stored, ...]
    due_at: int = 0
    info: bytes = b""
    parent: str | None = None
    blobs: tuple[Blob, ...] = ()
    epoch: int = 0
    terminal: bool = False
    asks: bool = False
    placement: Placement = Placement()
    base: Snapshot | None = None
    left: tuple[bytes, ...] = ()
    shares: str = ""

    @property
    def floor(self) -> int:
        """The last event that is not among them."""
        return 0 if self.base is None else self.base.seq


class RunRow(msgspec.Struct, frozen=True):
    """What a list shows of a run and what claiming looks at.

    `worker` is the incarnation that holds the lease now, and `lease_until` its end (None and 0 when nobody
    does, or when it ran out). `claims` counts the claims since the last progress that were not given back:
    each of them lost its worker. `lost` is the incarnation that had the lease and neither gave it back nor
    has it any more (None when nobody has lost it since the last claim); `died` tells that its process is
    known to be dead. `seq` is the last event, `inbox` the position of the last message, `pending` how many
    were not taken yet. `updated_at` is when the row itself last changed; an append that changes nothing in
    the row leaves it. `floor` is the last event that compaction took away (0: none); the snapshot at `floor`
    is what the run begins with.
    """

    run_id: str
    agent: str
    version: str
    status: str
    terminal: bool
    epoch: int
    worker: str | None
    lease_until: int
    due_at: int
    claims: int
    seq: int
    inbox: int
    pending: int
    info: bytes
    parent: str | None
    created_at: int
    updated_at: int
    lost: str | None = None
    died: bool = False
    asks: bool = False
    placement: Placement = Placement()
    floor: int = 0


class Loaded(msgspec.Struct, frozen=True):
    """A run in one read: its row, newest snapshot, the events after it, and the messages not taken yet.

    `older` is the event of the snapshot before the newest that was kept; 0: there is none.
    """

    row: RunRow
    snapshot: Snapshot | None
    events: tuple[Stored, ...]
    inbox: tuple[Inbound, ...]
    older: int = 0


class Tx(Protocol):
    """The store's open transaction, for a transactional call: the user's own tables in the same database."""

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows.

        COMMIT, ROLLBACK, PRAGMA, ATTACH and perdure's own tables are refused.
        """
        ...


class Batch(msgspec.Struct, frozen=True):
    """One atomic append. Refused whole, and alone, unless every fence holds when it is written, judged in
    this order:

    * the run exists and was not pruned                                        else `NoSuchRun`, `RunGone`
    * `epoch` is the run's newest                                              else `StaleEpoch`
    * the run has not ended                                                    else `RunEnded`
    * the run's last event is exactly `after`, and `events` go on from there   else `SeqConflict`
    * no message has come after position `inbox_seen`, if given                else `InboxMoved`
    * the store's clock is before `not_after`, if given                        else `Expired`

    `taken` are the inbox positions that these events apply; one that is not pending is refused with
    `InboxMoved`.
    `outbox` is delivered to other runs in the same transaction; what cannot be delivered is named in
    `Appended`.

    `act` runs inside the transaction, after `events` were written, in a savepoint of at most `act_seconds`:
    it gets the
    `Tx` and returns the events to add; if it raises, the whole batch is rolled back and the error goes to the
    caller. It is called in a thread of the store's, at most once, and not at all if a fence fails.

    `kept` leaves the older snapshots up to this event beside a new one; the others go. `release` gives
    the lease back. `reserve` allows the batch to use the room that is kept for a full disk: for receipts,
    verdicts and ends, not for intents. `urgent`: its run can do nothing before it is durable; a store may
    write it before `append` returns, if nobody else is kept waiting by that.
    """

    run_id: str
    epoch: int
    after: int
    events: tuple[Stored, ...] = ()
    row: RowChange | None = None
    snapshot: Snapshot | None = None
    blobs: tuple[Blob, ...] = ()
    taken: tuple[int, ...] = ()
    inbox_seen: int | None = None
    not_after: int | None = None
    outbox: tuple[Message, ...] = ()
    act: Callable[[Tx], Sequence[Stored]] | None = None
    act_seconds: float = 1.0
    release: bool = False
    kept: int = 0
    reserve: bool = False
    urgent: bool = False


class Appended(msgspec.Struct, frozen=True):
    """A batch is durable: `seq` is the run's last event now, `at` the store's clock.

    `undelivered` are the ids of outbox messages whose run has ended, was pruned or does not exist. `inbox` is
    the position of the last message that the run has got: whoever writes need not ask whether one has come.
    """

    seq: int
    at: int
    undelivered: tuple[str, ...] = ()
    inbox: int = 0


class Compaction(msgspec.Struct, frozen=True):
    """The end of a run's early past, in one transaction: its events up to `base.seq`, the snapshots before it
    and the blobs named in `blobs` go; `base` stays as what the run begins with, and `left`, opaque, in the
    place of what an earlier compaction left.

    `seq`: what the run's last event must be, if given: nothing new refers to those blobs then.
    """

    run_id: str
    base: Snapshot
    left: tuple[bytes, ...] = ()
    blobs: tuple[bytes, ...] = ()
    seq: int | None = None


class Claim(msgspec.Struct, frozen=True):
    """What a worker asks for: runs of these agents, or one run by id.

    `agents` maps a name to the versions that the worker serves (none listed = any); no agents = any. At most
    `limit` runs. Only those in one of its `queues` (none = any) that need no tag but its own (None = any).

    Agents take turns: the next run is one of the agent of which the fewest are in `busy`, which counts what
    the worker drives already, or were claimed just now; of several such agents, of the one named first. Of an
    agent's runs those come first that have been claimable for the longest time, counting `AGEING` for each
    step of priority.

    `limits`: of an agent no more than so many runs are leased at once, to all workers together. `drives`:
    False for who only writes an end or a hold; queues, tags and limits are not for them. A claim by id keeps
    to limits, not to queues and tags.
    """

    worker: str
    lease_seconds: float
    agents: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    run_id: str | None = None
    limit: int = 1
    queues: frozenset[str] = frozenset()
    tags: frozenset[str] | None = None
    limits: Mapping[str, int] = msgspec.field(default_factory=dict)
    busy: Mapping[str, int] = msgspec.field(default_factory=dict)
    drives: bool = True


class Claimed(msgspec.Struct, frozen=True):
    """A lease: the run's row with its new epoch, who held it before, and until when (0: it had been given
    back).

    `died` is True when the store knows that the previous holder's process is dead, not merely silent.
    """

    row: RunRow
    previous: str | None
    previous_until: int
    died: bool


class Query(msgspec.Struct, frozen=True):
    """A filter for `list`; empty fields match everything. `asks`: only open runs that ask people.

    `tags`: a run must need all of these. `priority`: at least so high. `limit_key`: the runs that share it.

    Newest first; `before` pages by (created_at, run_id). A page of runs that ask costs the same among a
    hundred and among a hundred thousand others.
    """

    statuses: tuple[str, ...] = ()
    agent: str | None = None
    prefix: str = ""
    open_only: bool = False
    asks: bool = False
    limit: int = 100
    before: tuple[int, str] | None = None
    queue: str | None = None
    tags: tuple[str, ...] = ()
    priority: int | None = None
    limit_key: str | None = None


class StoreStats(msgspec.Struct, frozen=True):
    """Counts and sizes. `facts` are words for `doctor`: versions, settings read back, and so on.

    `inbox_bytes`: of messages not taken; `left_bytes`: what pruned and compacted runs left; `free_bytes`: of
    the file, that hold nothing and are used again or given back (a database does not tell).
    """

    runs: Mapping[str, int]  # status -> how many
    events: int
    event_bytes: int
    snapshot_bytes: int
    blob_bytes: int
    file_bytes: int
    wal_bytes: int
    commits: int  # by this process since it opened the store
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)
    snapshots: int = 0
    inbox_bytes: int = 0
    left_bytes: int = 0
    free_bytes: int = 0


class Store(Protocol):
    """Where bytes are kept. `url` tells where; `value_bytes` is the largest single value that is taken.

    `sealed`: whoever opens it seals what it keeps. One that is encrypted opens to nobody else
    (StoreEncrypted).
    """

    url: str
    value_bytes: int
    sealed: bool = False

    def now(self) -> int:
        """The store's clock, in microseconds; the only one that judges leases and deadlines."""
        ...

    async def open(self) -> None:
        """Open or create; make or upgrade tables in one transaction; refuse newer ones. Twice is once."""
        ...

    def twin(self) -> Store | None:
        """Another store object on the same place, not open, for another event loop; None if none can be."""
        return None

    async def close(self) -> None:
        """Write what is queued, release this incarnation, close. Closing twice is once."""
        ...

    async def create(self, run: NewRun) -> tuple[RunRow, bool]:
        """Make the run durable, or find it: (row, True) if this call made it, (row, False) if it was there.

        Raises RunGone for the id of a pruned run.
        """
        ...

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """Queue a batch; the future is done when it is durable, and never before. Batches of one run keep
        their order.

        Batches of many runs share one commit; a refused one harms no neighbour.
        """
        ...

    async def load(self, run_id: str) -> Loaded:
        """Everything that a resume needs, of one moment. Raises NoSuchRun, RunGone."""
        ...

    async def row(self, run_id: str) -> RunRow:
        """The run's row. Raises NoSuchRun, RunGone."""
        ...

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> tuple[Stored, ...]:
        """Events with seq > after, in order: `limit` of them, or all that there are if those are fewer.

        Raises NoSuchRun, RunGone.
        """
        ...

    async def snapshots(self, run_id: str) -> tuple[Snapshot, ...]:
        """The kept snapshots, oldest first."""
        ...

    async def snapshot(self, run_id: str, upto: int) -> Snapshot | None:
        """The newest snapshot at or before this event. Raises NoSuchRun, RunGone."""
        ...

    async def blob(self, run_id: str, digest: bytes) -> bytes:
        """A blob's bytes. Raises Damaged if it is missing."""
        ...

    async def claim(self, claim: Claim) -> tuple[Claimed, ...]:
        """Lease runs that are due or have a pending message, are not terminal, and whose lease is free.

        A lease is free when it was given back, has run out by the store's clock, or its holder's process is
        known to be dead. The epoch rises by one and `claims` by one in the same commit. A run is leased to
        one worker only, and the limits of agents and keys are judged in that commit too, so that no two
        claims pass them together. Raises NoSuchRun, RunGone for a claim by id.
        """
        ...

    async def renew(self, worker: str, run_ids: Sequence[str], lease_seconds: float) -> frozenset[str]:
        """Extend the leases that the worker still holds, and tell which. Never revives a lost one."""
        ...

    async def release(self, run_id: str, epoch: int) -> None:
        """Give the lease back, which takes one from `claims`. Does nothing if the epoch is not the newest."""
        ...

    async def deliver(self, message: Message) -> Delivered:
        """Make a message durable in its run's inbox without a lease, once per id.

        Raises NoSuchRun, RunGone, and RunEnded unless it is for runs that have ended too.
        """
        ...

    async def inbox(self, run_id: str, after: int = 0) -> tuple[Inbound, ...]:
        """The messages not taken yet, with position > after, in order."""
        ...

    async def due(self, claim: Claim | None = None) -> int:
        """When the next open run that this claim would take (None = any) becomes claimable.

        0: one is now. NEVER: none will by itself. Where a limit keeps runs back: when it may no longer.
        """
        ...

    async def versions(self, agents: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """The versions that open runs of these agents are on, so that a claim can name those it serves."""
        ...

    async def list(self, query: Query) -> tuple[RunRow, ...]:
        """Rows that match."""
        ...

    async def changed(self, seen: int, timeout_seconds: float) -> int:
        """Wait until something was written by anyone, or a worker died, or the time is over.

        Returns a mark to pass as `seen` next; nothing that happens between two calls is missed.
        """
        ...

    async def enlist(self, worker: str) -> None:
        """Register a worker incarnation so that its death is noticed at once where the store can.

        Leases of a dead incarnation of the same name are free from now on. Raises WorkerTaken if one is
        alive.
        """
        ...

    async def restore(self) -> int:
        """Begin a new incarnation of a store that was brought back: in one commit every open run is leased to
        `RESTORER`, whoever had it, for as good as ever, and its epoch rises. Returns how many they are.

        Whoever asked may then append to each by its new epoch and give it back; until then nobody claims it.
        Doing it again takes all open runs again. Raises WorkerTaken if a worker is alive in this store.
        """
        ...

    async def drop(self, run_id: str, tombstones: Sequence[bytes] = ()) -> bool:
        """Remove a terminal run, its key too, and leave its id and these opaque tombstones behind, in one
        transaction.

        A run that is still open is refused (RunOpen). Removing it twice is once: True if this call did it;
        tombstones add up, but what a compaction left goes with the run.
        """
        ...

    async def compact(self, compaction: Compaction) -> None:
        """Take a run's early past away, in one transaction, whoever drives it.

        Refused with SeqConflict, whole, if the run begins later already, ends before `base`, or does not end
        at `seq`. Raises NoSuchRun, RunGone.
        """
        ...

    async def key(self, run_id: str, make: bytes = b"") -> bytes | None:
        """The key of a run's personal data, opaque. None: it has none; empty: it was destroyed, for good.

        `make`: becomes its key, durably, if it has none; of several who make one at once all get the same.
        The run need not be there yet. Raises RunGone to whoever would make one for a run that was dropped.
        """
        ...

    async def erase(self, run_ids: Sequence[str]) -> None:
        """Destroy the keys of terminal runs, and of those that share them, all or none, in one transaction.

        Twice is once, and none is ever made for them again. A run that is still open, also one that shares a
        key, is refused (RunOpen); NoSuchRun, RunGone.
        """
        ...

    async def sharers(self, run_id: str) -> tuple[str, ...]:
        """The other runs that have the same key as this one: its forks, their forks and its origin."""
        ...

    async def scrub(self, *, whole: bool = False) -> bool:
        """Take what was destroyed out of the place's own files, logs included, as far as that can be done.

        False: something still reads what it must not miss; ask again later. `whole`: the files are written
        anew, which takes their room once more, and lets nobody write meanwhile.
        """
        ...

    async def tombstones(self, run_id: str) -> tuple[bytes, ...]:
        """What `drop` left behind for this id, else what the last `compact` did."""
        ...

    async def sizes(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        """The bytes that each of these runs keeps in events, snapshots and blobs; none for one not there."""
        ...

    async def stats(self) -> StoreStats:
        """Counts, sizes and facts."""
        ...

    async def kept(self, part: Part, after: Kept | None = None) -> tuple[Kept, ...]:
        """The next values of a part of the store after this one, as they lie there; none: that was all.

        Values that come to be meanwhile may be missed. The store's own mark is no key.
        """
        ...

    async def swap(self, pairs: Sequence[tuple[Kept, Kept]], *, alone: bool = False) -> int:
        """Put new values (data and digest) in the places of old ones, in one transaction: of each pair the
        second, if the first lies there still. Returns how many.

        `alone`: raises WorkerTaken while a worker is alive in this store.
        """
        ...
