"""A run's row while a store changes it: the fences, the lease, what a row change means.

Pure: a store reads a row into a `Standing`, asks it, and writes it back. So every store refuses for the same
reasons in the same order (laws 6 and 15). It knows no tables, no clock and no lock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from perdure.clock import SECOND
from perdure.errors import (
    BadRunId,
    Expired,
    InboxMoved,
    RunEnded,
    RunGone,
    RunOpen,
    SeqConflict,
    StaleEpoch,
    StoreEncrypted,
    StoreError,
    TooLarge,
    WorkerTaken,
)
from perdure.store.kept import kids_of
from perdure.store.protocol import (
    PRIORITIES,
    RESTORER,
    Batch,
    Claim,
    Claimed,
    Compaction,
    Message,
    NewRun,
    Placement,
    RowChange,
    RunRow,
    Stored,
)

VALUE_BYTES = 512 << 20
"""The largest event, snapshot, blob or message that a store takes."""

SEIZED_SECONDS = 100 * 365 * 86_400.0
"""How long a run that was brought back stays with `RESTORER`: a hundred years, for clocks can show that."""

_TEXT_CHARS = 1000  # agents, versions, statuses, message ids and kinds, workers


class Standing(msgspec.Struct):
    """One run's row, open for change.

    `holder` is who has or had the lease; `held` is True until it is given back or known to be free, `died`
    tells that the holder's process is dead. `tags` are those of its placement in one text. `parked_at`: its
    key was found full, and this is its place among those that wait for it (0: it does not).
    """

    run_id: str
    agent: str
    version: str
    parent: str | None
    created_at: int
    status: str
    due_at: int
    info: bytes
    updated_at: int
    terminal: bool = False
    epoch: int = 0
    holder: str | None = None
    held: bool = False
    died: bool = False
    lease_until: int = 0
    claims: int = 0
    seq: int = 0
    inbox: int = 0
    pending: int = 0
    asks: bool = False
    queue: str = "default"
    tags: str = ""
    priority: int = 0
    limit_key: str = ""
    key_limit: int = 1
    parked_at: int = 0
    floor: int = 0

    def refusal(self, batch: Batch, now: int) -> StoreError | None:
        """Why a batch may not be written now, if so."""
        name = f"run {self.run_id}"
        if batch.epoch != self.epoch:
            what = f"{name} is at epoch {self.epoch}, the write carried {batch.epoch}"
            return StaleEpoch(what, run_id=self.run_id, epoch=self.epoch, carried=batch.epoch)
        if self.terminal:
            return RunEnded(f"{name} has ended as {self.status}", run_id=self.run_id, status=self.status)
        if batch.after != self.seq:
            what = f"{name} ends at event {self.seq}, the write expected {batch.after}"
            return SeqConflict(what, run_id=self.run_id, seq=self.seq, expected=batch.after)
        if not follows(batch.events, self.seq):
            return SeqConflict(f"{name}: the write's events do not go on from {self.seq}", run_id=self.run_id)
        if batch.snapshot is not None and batch.snapshot.seq > self.seq + len(batch.events):
            return SeqConflict(f"{name}: the write's snapshot lies beyond its last event", run_id=self.run_id)
        if batch.inbox_seen is not None and self.inbox > batch.inbox_seen:
            what = f"message {self.inbox} of {name} came after {batch.inbox_seen}"
            return InboxMoved(what, run_id=self.run_id, inbox=self.inbox, seen=batch.inbox_seen)
        if batch.not_after is not None and now >= batch.not_after:
            what = f"a write to {name} was allowed until {batch.not_after}, it is {now}"
            return Expired(what, run_id=self.run_id, not_after=batch.not_after, now=now)
        return None

    def compact(self, compaction: Compaction) -> None:
        """Let the run begin with a snapshot. Raises SeqConflict."""
        name, base = f"run {self.run_id}", compaction.base.seq
        if not max(self.floor, 1) <= base <= self.seq:
            what = f"{name} has the events after {self.floor} to {self.seq}, and cannot begin after {base}"
            raise SeqConflict(what, run_id=self.run_id, floor=self.floor, seq=self.seq)
        if compaction.seq not in (None, self.seq):
            what = f"{name} ends at event {self.seq}, its compaction expected {compaction.seq}"
            raise SeqConflict(what, run_id=self.run_id, seq=self.seq, expected=compaction.seq)
        self.floor = base

    def change(self, row: RowChange | None, *, release: bool, now: int) -> bool:
        """Apply what an append says of the row; True if anything in it changed."""
        if row is None and not release:
            return False
        if row is not None:
            self.status = self.status if row.status is None else row.status
            self.due_at = self.due_at if row.due_at is None else row.due_at
            self.info = self.info if row.info is None else row.info
            self.version = self.version if row.version is None else row.version
            self.asks = self.asks if row.asks is None else row.asks
            self.terminal = row.terminal
            self.claims = 0 if row.progress else self.claims
        if release or self.terminal:
            self._give_back()
        self.updated_at = now
        return True

    def leased(self, now: int) -> bool:
        """Whether someone's lease keeps others away."""
        return self.held and not self.died and self.lease_until > now

    def claimable(self, now: int) -> bool:
        """Whether a claim may take it: open, free, and due or with a message."""
        return not self.terminal and not self.leased(now) and (self.due_at <= now or self.pending > 0)

    def wakes_at(self) -> int:
        """The moment from which a claim may take it, as far as is known now; 0 = any."""
        wake = 0 if self.pending else self.due_at
        return max(wake, self.lease_until) if self.held and not self.died else wake

    def lease(self, claim: Claim, now: int) -> Claimed:
        """Give the lease to the claim's worker."""
        previous, until, died = self.holder, self.lease_until, self.died
        self.epoch += 1
        self.claims += 1
        self.holder, self.held, self.died = claim.worker, True, False
        self.parked_at = 0
        self.lease_until = now + round(claim.lease_seconds * SECOND)
        self.updated_at = now
        return Claimed(self.row(now), previous, until, died)

    def seize(self, now: int) -> None:
        """Give the lease to whoever brings the store back from a backup."""
        if not (self.held and self.holder == RESTORER):
            self.claims += 1  # which giving it back takes away
        self.epoch += 1
        self.holder, self.held, self.died = RESTORER, True, False
        self.parked_at = 0
        self.lease_until = now + round(SEIZED_SECONDS * SECOND)
        self.updated_at = now

    def renew(self, worker: str, lease_seconds: float, now: int) -> bool:
        """Extend the worker's lease if it still has it."""
        if self.holder != worker or self.terminal or not self.leased(now):
            return False
        self.lease_until = now + round(lease_seconds * SECOND)
        return True

    def release(self, epoch: int, now: int) -> bool:
        """Give the lease back if it is this epoch's; True if it was."""
        if epoch != self.epoch or not self.held:
            return False
        self._give_back()
        self.updated_at = now
        return True

    def _give_back(self) -> None:
        if self.held:
            self.claims = max(0, self.claims - 1)
        self.held, self.died, self.lease_until = False, False, 0

    def row(self, now: int) -> RunRow:
        """The row as others see it."""
        leased = self.leased(now)
        return RunRow(
            run_id=self.run_id,
            agent=self.agent,
            version=self.version,
            status=self.status,
            terminal=self.terminal,
            epoch=self.epoch,
            worker=self.holder if leased else None,
            lease_until=self.lease_until if leased else 0,
            due_at=self.due_at,
            claims=self.claims,
            seq=self.seq,
            inbox=self.inbox,
            pending=self.pending,
            info=self.info,
            parent=self.parent,
            created_at=self.created_at,
            updated_at=self.updated_at,
            lost=self.holder if self.lease_until and not leased and not self.terminal else None,
            died=self.died,
            asks=self.asks and not self.terminal,
            placement=self.placement,
            floor=self.floor,
        )

    @property
    def placement(self) -> Placement:
        """Where it stands among others, as it was created."""
        if not (self.limit_key or self.tags or self.priority) and self.queue == PLAIN.queue:
            return PLAIN if self.key_limit == PLAIN.key_limit else Placement(key_limit=self.key_limit)
        tags = tuple(self.tags.split(" ")) if self.tags else ()
        return Placement(self.queue, tags, self.priority, self.limit_key, self.key_limit)


PLAIN = Placement()
"""Where most runs stand."""


def served(agents: Mapping[str, frozenset[str]] | None, agent: str, version: str) -> bool:
    """Whether a worker that serves `agents` takes this agent and version."""
    if not agents:
        return True
    versions = agents.get(agent)
    return versions is not None and (not versions or version in versions)


def follows(events: tuple[Stored, ...], after: int) -> bool:
    """Whether events are numbered `after + 1`, `after + 2` …"""
    return all(event.seq == after + place for place, event in enumerate(events, 1))


def new_standing(run: NewRun, now: int) -> Standing:
    """The row of a new run."""
    return Standing(
        run_id=run.run_id,
        agent=run.agent,
        version=run.version,
        parent=run.parent,
        created_at=now,
        status=run.status,
        due_at=run.due_at,
        info=run.info,
        updated_at=now,
        terminal=run.terminal,
        epoch=run.epoch,
        seq=run.floor + len(run.events),
        asks=run.asks,
        queue=run.placement.queue,
        tags=" ".join(run.placement.tags),
        priority=run.placement.priority,
        limit_key=run.placement.limit_key,
        key_limit=run.placement.key_limit,
        floor=run.floor,
    )


ID_CHARACTERS = 200
"""The longest id of a run."""

_SHELL = re.compile(r"""["'`$&|;<>()*?!\\]|^[~=#]""")
"""What a shell obeys: a remedy is a command, and people paste it with the id in it. What it might
take for a pattern, as the brackets of user[5], is left alone.
"""


def check_id(run_id: str) -> None:
    """Raises BadRunId if a run cannot have this id, and says why."""
    for wrong, what in (
        (not run_id, "it is empty"),
        (len(run_id) > ID_CHARACTERS, f"it has {len(run_id)} characters, and may have {ID_CHARACTERS}"),
        (run_id.startswith("-"), "it begins with -, as an option of a command does"),
        ("@" in run_id, "it has an @, which begins a point"),
        (any(map(str.isspace, run_id)), "it has a space"),
        (not run_id.isprintable(), "it has a character that cannot be printed"),
        (_SHELL.search(run_id), f"it has {_active(run_id)}, which a shell does not take as it is"),
    ):
        if wrong:
            raise BadRunId(f"{run_id!r:.80} cannot be a run id: {what}", run_id=run_id)


def _active(run_id: str) -> str:
    found = _SHELL.search(run_id)
    return found[0] if found else ""


def check_run(run: NewRun, limit: int = VALUE_BYTES) -> None:
    """Refuse a new run that no store should hold. Raises BadRunId, SeqConflict, TooLarge."""
    name = run.run_id
    check_id(name)
    check_text(run.agent, run.version, run.status, run.parent or "")
    if run.placement != PLAIN:
        _check_placement(run.placement)
    if not follows(run.events, run.floor):
        raise SeqConflict(f"the first events of run {name} are not numbered 1, 2, 3 …", run_id=name)
    check_size(limit, run.info, *(event.data for event in run.events), *(blob.data for blob in run.blobs))
    if run.base is not None:
        check_size(limit, run.base.data, *run.left)


def _check_placement(placement: Placement) -> None:
    """Raises BadRunId for what some store could not keep, or not find again."""
    check_text(placement.queue, placement.limit_key, *placement.tags)
    tags = placement.tags
    if list(tags) != sorted(set(tags)) or any(not tag or " " in tag for tag in tags):
        raise BadRunId(f"{tags!r:.80} are no tags: sorted, each once, without spaces", tags=tags)
    if abs(placement.priority) > PRIORITIES or not 1 <= placement.key_limit < 1 << 31:
        raise BadRunId(f"{placement!r:.200} is out of range", placement=repr(placement))


def check_batch(batch: Batch, limit: int = VALUE_BYTES) -> None:
    """Refuse a batch with too large a value or a text that cannot be stored. Raises TooLarge, BadRunId."""
    check_size(limit, *[event.data for event in batch.events], *[blob.data for blob in batch.blobs])
    if batch.snapshot is not None:
        check_size(limit, batch.snapshot.data)
    if batch.row is not None:
        check_text(batch.row.status or "", batch.row.version or "")
        check_size(limit, batch.row.info or b"")
    for message in batch.outbox:
        check_message(message, limit)


def check_compaction(compaction: Compaction, limit: int = VALUE_BYTES) -> None:
    """Refuse a compaction with too large a value. Raises TooLarge."""
    check_size(limit, compaction.base.data, *compaction.left)


def check_message(message: Message, limit: int = VALUE_BYTES) -> None:
    """Refuse a message that cannot be stored. Raises TooLarge, BadRunId."""
    check_text(message.id, message.kind)
    check_size(limit, message.data)


def check_text(*texts: str) -> None:
    """Refuse words that some store could not keep: too long, NUL, lone surrogates. Raises BadRunId."""
    for text in texts:
        if len(text) > _TEXT_CHARS or "\0" in text or not _encodable(text):
            raise BadRunId(f"{text[:80]!r} cannot be stored as an id or a name", text=text[:80])


def check_size(limit: int, *values: bytes) -> None:
    """Refuse a value above the limit. Raises TooLarge."""
    for value in values:
        if len(value) > limit:
            what = f"a value of {len(value)} bytes is above the store's limit of {limit}"
            raise TooLarge(what, bytes=len(value), limit=limit)


def told(error: BaseException) -> BaseException:
    """What a future can be given: it takes no StopIteration, which a user's own code may raise."""
    if not isinstance(error, StopIteration):
        return error
    other = RuntimeError("a transactional call raised StopIteration")
    other.__cause__ = error
    return other


def gone(run_id: str) -> RunGone:
    """The refusal for a run that was dropped."""
    return RunGone(f"run {run_id} was pruned", run_id=run_id)


def check_mark(url: str, mark: bytes | None, *, sealed: bool) -> None:
    """Refuse to open an encrypted store as one that is not. Raises StoreEncrypted."""
    if mark and not sealed and any(map(any, kids_of(mark))):
        raise StoreEncrypted(f"the store {url} is encrypted, and was opened as one that is not", url=url)


def at_work(worker: str) -> WorkerTaken:
    """The refusal to do what wants a store for itself, where a worker is alive."""
    return WorkerTaken(
        f"worker {worker!r} is alive in this store: it is at work",
        remedy="stop every worker of this store first",
        worker=worker,
    )


def still_open(standing: Standing) -> RunOpen:
    """The refusal to drop a run that has not ended."""
    return RunOpen(f"run {standing.run_id} is {standing.status}, it has not ended", run_id=standing.run_id)


def refuses(standing: Standing, message: Message) -> bool:
    """Whether a run takes this message no more: it has ended, and the message is not one for that case."""
    return standing.terminal and not message.after_end


def ended(standing: Standing) -> RunEnded:
    """The refusal of a message to a run that has ended."""
    what = f"run {standing.run_id} has ended as {standing.status}"
    return RunEnded(what, run_id=standing.run_id, status=standing.status)


def _encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
