"""One run in one file: to keep, to hand to someone, to carry to another store.

A bundle has every event as it is stored, the large values and the messages not taken yet, behind a digest of
the whole; the chain of the events is checked when it is written and when it is read, so that a changed byte
shows. It is read with no store and no code at hand. A run that is carried into another store acts nothing
there until a person releases it: its original may still be at work.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from perdure import codec
from perdure.errors import Damaged, ImportConflict, NoSuchRun, NotABundle, RunGone
from perdure.journal import gathered, load
from perdure.runtime.boundary import reached
from perdure.runtime.holds import carried_in
from perdure.runtime.rowinfo import row_info
from perdure.state import events as e
from perdure.state.fold import fold
from perdure.state.record import RunRecord
from perdure.store.memory import MemoryStore
from perdure.store.protocol import (
    NEVER,
    Blob,
    Inbound,
    Message,
    NewRun,
    Placement,
    RunRow,
    Snapshot,
    Store,
    Stored,
)
from perdure.timeline.plain import clean

MAGIC = b"perdure run\n"
"""What a bundle's file begins with; a frame follows, and 16 bytes: the digest of both."""

DIGEST_BYTES = 16
"""How long that digest is."""

DECISIONS = frozenset({"release", "retry"})
"""Messages that let a held run go on: they were meant for the original, and are not carried along."""


class Bundle(Struct, frozen=True, array_like=True):
    """A run as it was exported at `exported_at` (microseconds, its store's clock); the rest as in its row.

    One that was compacted comes with the snapshot that it begins with, and what was kept of earlier events.
    """

    run_id: str
    agent: str
    version: str
    status: str
    terminal: bool
    parent: str | None
    epoch: int
    exported_at: int
    info: bytes
    asks: bool
    events: tuple[Stored, ...]
    blobs: tuple[Blob, ...]
    inbox: tuple[Inbound, ...]
    base: Snapshot | None = None
    left: tuple[bytes, ...] = ()
    placement: Placement = Placement()

    @property
    def head(self) -> bytes:
        """The chain's digest after the last event: two exports with one head have one past."""
        return self.events[-1].digest if self.events or self.base is None else self.base.digest

    @property
    def last(self) -> int:
        """The number of the last event."""
        return len(self.events) + (0 if self.base is None else self.base.seq)


async def bundled(store: Store, run_id: str) -> Bundle:
    """The run as it is now, verified. Raises Damaged, NewerFormat, NoSuchRun, RunGone."""
    while True:
        loaded = await store.load(run_id)
        row = loaded.row
        stored, blobs = await gathered(store, run_id, row.seq)
        base = await store.snapshot(run_id, row.floor) if row.floor else None
        left = await store.tombstones(run_id) if row.floor else ()
        if (await store.row(run_id)).floor == row.floor:  # else it was compacted meanwhile
            break
    return Bundle(
        row.run_id,
        row.agent,
        row.version,
        row.status,
        row.terminal,
        row.parent,
        row.epoch,
        store.now(),
        row.info,
        row.asks,
        tuple(stored),
        tuple(blobs),
        loaded.inbox,
        base,
        left,
        row.placement,
    )


def packed(bundle: Bundle) -> bytes:
    """The bundle's file."""
    frame = codec.pack(bundle)
    return MAGIC + frame + codec.digest(MAGIC, frame)


def unpacked(data: bytes) -> Bundle:
    """The bundle in a file's bytes. Raises NotABundle, Damaged, NewerFormat."""
    if not data.startswith(MAGIC):
        raise NotABundle("the file does not begin as an exported run does")
    frame, digest = data[len(MAGIC) : -DIGEST_BYTES], data[-DIGEST_BYTES:]
    if codec.digest(MAGIC, frame) != digest:
        raise Damaged(
            "the exported run does not match its digest: it was changed, or is not whole",
            remedy="export it again, or take another copy of the file",
        )
    return codec.unpack(frame, Bundle)


async def shelf(bundle: Bundle, url: str) -> MemoryStore:
    """A store in memory that holds this run alone, to be looked at."""
    store = MemoryStore()
    store.url = url
    await store.open()
    await store.create(_new_run(bundle, bundle.events, due_at=NEVER))
    for item in bundle.inbox:
        await store.deliver(_message(bundle, item))
    return store


async def adopt(store: Store, bundle: Bundle) -> tuple[RunRow, bool]:
    """Carry the run into a store, whole or not at all: (its row, True), or (…, False) if it was there.

    One that has not ended is held there, `imported`. Doing it twice is once. Raises ImportConflict if the
    store has a run of this id with another past, or lacks a child that the run waits for, Damaged,
    NewerFormat, RunGone.
    """
    record = await _checked(bundle)
    new = _new_run(bundle, bundle.events, due_at=NEVER)
    if not bundle.terminal:
        await _with_its_children(store, bundle, record)
        new = _held(new, record, bundle, store.now())
    reached("import.write")
    row, fresh = await store.create(new)
    reached("import.done")
    if not fresh and not await _same_past(store, row, bundle):
        raise ImportConflict(
            f"{store.url} has a run {clean(bundle.run_id)} already, with another past", run_id=bundle.run_id
        )
    if fresh or row.status == "held":
        await _send_on(store, bundle)
    return await store.row(bundle.run_id), fresh


async def _with_its_children(store: Store, bundle: Bundle, record: RunRecord) -> None:
    """Refuse a run whose open children are not there: whoever drives it would start them, and act, anew."""
    missing = []
    for wait in record.waits.values():
        if wait.kind == "child" and not wait.closed:
            try:
                await store.row(wait.name)
            except NoSuchRun:
                missing.append(clean(wait.name))
            except RunGone:
                pass
    if missing:
        raise ImportConflict(
            f"run {clean(bundle.run_id)} waits for {', '.join(missing)}, which would be started anew here:"
            f" {store.url} has it not",
            remedy="perdure export the child from the original store, and import it first",
            run_id=bundle.run_id,
        )


async def _checked(bundle: Bundle) -> RunRecord:
    """The folded run; its chain, its large values and its numbers are verified on the way."""
    lent = await shelf(bundle, "bundle:")
    await gathered(lent, bundle.run_id, bundle.last)
    return (await load(lent, bundle.run_id)).record


def _new_run(bundle: Bundle, events: Sequence[Stored], *, due_at: int) -> NewRun:
    return NewRun(
        bundle.run_id,
        bundle.agent,
        bundle.version,
        bundle.status,
        tuple(events),
        due_at,
        bundle.info,
        bundle.parent,
        bundle.blobs,
        bundle.epoch,
        bundle.terminal,
        bundle.asks,
        base=bundle.base,
        left=bundle.left,
        placement=bundle.placement,
    )


def _held(new: NewRun, record: RunRecord, bundle: Bundle, now: int) -> NewRun:
    """The same run, held: with one event more, unless a person is waited for already."""
    if record.held is None:
        event = e.Event(record.seq + 1, now, bundle.epoch, carried_in(bundle.run_id))
        data = codec.pack(event)
        record = fold(record, event, codec.decode)
        new = replace(new, events=(*new.events, Stored(event.seq, data, codec.chain(bundle.head, data))))
    held = record.held
    why = held.reason if held is not None else "imported"
    return replace(new, status="held", due_at=NEVER, info=row_info(record, why), asks=True)


async def _same_past(store: Store, row: RunRow, bundle: Bundle) -> bool:
    """Whether the store's run begins with all of the bundle's events."""
    if bundle.last == row.floor:
        base = await store.snapshot(row.run_id, row.floor)
        return base is not None and base.digest == bundle.head
    kept = await store.read(row.run_id, bundle.last - 1, 1)
    return bool(kept) and kept[0].digest == bundle.head


async def _send_on(store: Store, bundle: Bundle) -> None:
    for item in bundle.inbox:
        if item.kind not in DECISIONS:
            await store.deliver(_message(bundle, item))
            reached("import.sent")


def _message(bundle: Bundle, item: Inbound) -> Message:
    return Message(bundle.run_id, item.id, item.kind, item.data, after_end=bundle.terminal)
