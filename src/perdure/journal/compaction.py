"""The end of a run's early past: the events that a snapshot stands for, and what is kept of them.

It folds the run from where it begins to where it is to begin, and says what a store is to put in the place of
all that: the snapshot, the kept events in one frame, and the large values that nothing refers to any more.
References in the arguments of kept acts are resolved, for what they refer to goes. Writes nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perdure import codec
from perdure.journal.abridged import Abridged, Keep, abridged, accounted, keys_of, packed
from perdure.journal.argument import resolve
from perdure.journal.outline import addresses, inline
from perdure.journal.past import beginning, opened_all
from perdure.journal.snapshots import pack_snapshot
from perdure.state import events as e
from perdure.state.fold import fold_all, recorded_values
from perdure.state.record import RunRecord
from perdure.store.protocol import Compaction, RunRow, Store


class Cut(Struct, frozen=True):
    """What a compaction takes away: `removed` events; nothing to do if `compaction` is None."""

    upto: int
    removed: int = 0
    compaction: Compaction | None = None


async def cut(store: Store, row: RunRow, upto: int | None, keep: Keep) -> Cut:
    """What is to be written so that the run begins after event `upto`; None: as late as may be, which is the
    end of a run that has ended, and the beginning of the open step of one that has not.

    The whole run is verified on the way. Raises Damaged, NewerFormat, NoSuchRun, RunGone.
    """
    first = await beginning(store, row.run_id)
    raw, digests = await opened_all(store, row.run_id, first, row.seq)
    whole = [await _whole(event, store, row.run_id) for event in raw]
    if upto is None:
        upto = row.seq if row.terminal else fold_all(first.record, whole, codec.decode).begun
    if upto < first.seq:
        return Cut(first.seq)
    count = upto - first.seq
    record, concrete = _folded(first.record, raw[:count], whole[:count])
    early = [*first.kept, *concrete]
    kept = abridged(early, keep)
    if len(kept) >= len(early):
        return Cut(first.seq)
    keys = tuple(dict.fromkeys((*first.keys, *keys_of(early))))
    left = Abridged(upto, store.now(), upto - len(kept), keys, tuple(map(codec.pack, kept)))
    digest = digests[count - 1] if count else first.digest
    compaction = Compaction(
        row.run_id,
        pack_snapshot(record, digest),
        (packed(left, digest),),
        _unneeded([*first.kept, *raw[:count]], [*kept, *raw[count:]]),
        row.seq,
    )
    return Cut(upto, len(early) - len(kept), compaction)


async def _whole(event: e.Event, store: Store, run_id: str) -> e.Event:
    body = await inline(event.body, store, run_id) if addresses(event.body) else event.body
    return event if body is event.body else e.Event(event.seq, event.at, event.epoch, body)


def _unneeded(gone: Iterable[e.Event], stay: Iterable[e.Event]) -> tuple[bytes, ...]:
    """The large values that only events that go refer to."""
    needed = {address for event in stay for address in addresses(event.body)}
    return tuple(dict.fromkeys(a for event in gone for a in addresses(event.body) if a not in needed))


def _folded(
    record: RunRecord, raw: Sequence[e.Event], whole: Sequence[e.Event]
) -> tuple[RunRecord, list[e.Event]]:
    """The run after these events, and the events with every reference in an act's arguments resolved."""
    acts = {event.seq for event in accounted(raw)}
    found, at = list(raw), 0
    for place, event in enumerate(raw):
        head = getattr(event.body, "head", None)
        if event.seq not in acts or not isinstance(head, e.CallHead) or not _refers(head):
            continue
        record = fold_all(record, whole[at : place + 1], codec.decode)
        at = place + 1
        found[place] = e.Event(event.seq, event.at, event.epoch, _concrete(event.body, head, record))
    return fold_all(record, whole[at:], codec.decode), found


def _refers(head: e.CallHead) -> bool:
    return any(isinstance(value, e.Ref | e.StateList) for _, value in head.args)


def _concrete(body: e.AnyBody, head: e.CallHead, record: RunRecord) -> e.AnyBody:
    values = recorded_values(record)
    args = tuple(
        (name, codec.encode(resolve(record.state, value, values)))
        if isinstance(value, e.Ref | e.StateList)
        else (name, value)
        for name, value in head.args
    )
    return replace(body, head=replace(head, args=args))
