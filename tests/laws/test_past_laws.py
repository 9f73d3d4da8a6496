"""Law 5 over a run's whole past: its state at every point, from every snapshot and from none, on every store.

Histories with crashes are made from seeds, and written with a snapshot at every so many events, or with
none. At each event the run must be what the fold of the events up to it is. A failure prints its seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure import codec
from perdure.errors import Damaged, EventsPruned
from perdure.journal import Keep, compaction, load, pack_snapshot, record_at, retold, verify
from perdure.journal.abridged import abridged
from perdure.state.events import (
    ApprovalGranted,
    ApprovalRequested,
    ApprovalUsed,
    CallIntended,
    Event,
)
from perdure.state.fold import fold
from perdure.state.record import RunRecord
from perdure.store import SQLiteStore
from perdure.store.memory import MemoryStore
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Batch, Claim, NewRun, RowChange, Snapshot, Store, Stored
from perdure.timeline.bundle import bundled, packed, shelf, unpacked
from perdure.timeline.compaction import compacted
from perdure.timeline.moment import moment_of
from tests.database import PLACE
from tests.laws.test_damage_laws import lived

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

SCALE = float(os.environ.get("PERDURE_CRASH_SCALE", "1"))
EXAMPLES = round(60 * SCALE)
FILES = round(6 * SCALE)


def folded(stored: list[Stored]) -> list[RunRecord]:
    """The run after each event, the first one at 0."""
    records, record = [], RunRecord()
    for item in stored:
        record = fold(record, codec.unpack(item.data, Event), codec.decode)
        records.append(record)
    return records


async def written(store: Store, stored: list[Stored], every: int) -> None:
    """Run `r` with a snapshot at every so many events, all of them kept; 0: with none."""
    records = folded(stored)
    await store.open()
    await store.create(NewRun("r", "interpreter", "1", "held", (stored[0],)))
    [claimed] = await store.claim(Claim("w", 60.0, run_id="r"))
    after = 1
    for item in stored[1:]:
        due = bool(every) and item.seq % every == 0
        snapshot = pack_snapshot(records[item.seq - 1], item.digest) if due else None
        ended = records[item.seq - 1].ended
        change = None if ended is None else RowChange(status=ended, terminal=True)
        batch = Batch("r", claimed.row.epoch, after, (item,), change, snapshot, kept=1 << 40)
        await store.append(batch)
        after = item.seq


async def wrong_points(store: Store, stored: list[Stored], every: int) -> list[int]:
    """The points at which the store's run is another one than the events say."""
    await written(store, stored, every)
    try:
        return [
            record.seq
            for record in folded(stored)
            if await record_at(store, "r", record.seq) != record
            or (await moment_of(store, "r", record.seq)).state != record.state
        ]
    finally:
        await store.close()


@given(seed=st.integers(0, 1000), every=st.sampled_from((0, 1, 2, 3, 7, 20)))
@settings(max_examples=EXAMPLES, phases=(Phase.generate,))
def test_the_state_at_every_point_is_what_the_events_say(seed: int, every: int) -> None:
    events, _ = lived(seed)
    assert asyncio.run(wrong_points(MemoryStore(), events, every)) == [], f"seed {seed}, every {every}"


@pytest.mark.parametrize("seed", range(FILES))
def test_a_file_says_the_same(tmp_path: Path, seed: int) -> None:
    events, _ = lived(seed)
    for every in (0, 3):
        store = SQLiteStore(tmp_path / f"{every}.db")
        assert asyncio.run(wrong_points(store, events, every)) == [], f"seed {seed}, every {every}"


async def wrong_after(store: Store, stored: list[Stored], every: int, cuts: Sequence[int]) -> list[str]:
    """What is wrong with a run after each of these compactions: its past from there on, its present, what it
    did, what was refused; and what is wrong with it in another store.
    """
    await written(store, stored, every)
    records, wrong = folded(stored), list[str]()
    acts = [event for event in (codec.unpack(item.data, Event) for item in stored) if is_act(event)]
    try:
        for cut in cuts:
            floor = (await compacted(store, "r", upto=cut)).floor
            for record in records:
                try:
                    found = await record_at(store, "r", record.seq)
                except EventsPruned:
                    if record.seq >= floor:
                        wrong.append(f"{record.seq} is refused after {cut}")
                else:
                    if record.seq < floor or found != record:
                        wrong.append(f"{record.seq} is another one after {cut}")
            if (await load(store, "r")).record != records[-1]:
                wrong.append(f"the present is another one after {cut}")
            told = await retold(store, "r")
            if [e.seq for e in told.events if is_act(e)] != [e.seq for e in acts]:
                wrong.append(f"an act is missing after {cut}")
            if [e.seq for e in told.later] != list(range(floor + 1, len(stored) + 1)):
                wrong.append(f"an event is missing after {cut}")
            if not (found_ := await verify(store, "r")).ok:
                wrong.append(f"damaged after {cut}: {found_.what}")
        other = await shelf(unpacked(packed(await bundled(store, "r"))), "memory:")
        if (await load(other, "r")).record != records[-1] or not (await verify(other, "r")).ok:
            wrong.append("it is another one elsewhere")
    finally:
        await store.close()
    return wrong


def is_act(event: Event) -> bool:
    """An intent of what changes the outside, or a word of people about one."""
    body = event.body
    if isinstance(body, CallIntended):
        return body.head.effect != "read"
    return isinstance(body, ApprovalRequested | ApprovalGranted | ApprovalUsed)


def cuts_of(seed: int, events: int) -> list[int]:
    """Where a run is compacted, one after the other."""
    return sorted(random.Random(seed).sample(range(1, events + 1), min(3, events)))


@given(seed=st.integers(0, 1000), every=st.sampled_from((0, 1, 3, 7)))
@settings(max_examples=EXAMPLES, phases=(Phase.generate,))
def test_the_past_after_a_compaction_is_what_the_events_said(seed: int, every: int) -> None:
    events, _ = lived(seed)
    cuts = cuts_of(seed, len(events))
    wrong = asyncio.run(wrong_after(MemoryStore(), events, every, cuts))
    assert wrong == [], f"seed {seed}, every {every}, cuts {cuts}"


@pytest.mark.parametrize("seed", range(FILES))
def test_other_stores_are_compacted_alike(tmp_path: Path, seed: int) -> None:
    events, _ = lived(seed)
    cuts = cuts_of(seed, len(events))
    for store in (SQLiteStore(tmp_path / "runs.db"), PostgresStore(PLACE.at(tmp_path))):
        wrong = asyncio.run(wrong_after(store, events, 3, cuts))
        assert wrong == [], f"seed {seed}, {store.url}, cuts {cuts}"


@pytest.mark.parametrize("seed", range(2))
def test_a_database_says_the_same(tmp_path: Path, seed: int) -> None:
    events, _ = lived(seed)
    for every in (0, 3):
        store = PostgresStore(PLACE.at(tmp_path / f"{every}"))
        assert asyncio.run(wrong_points(store, events, every)) == [], f"seed {seed}, every {every}"


def test_control_a_compaction_that_forgets_an_act_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If what is kept lacks the intents, something is missing."""
    kept = abridged

    def forgetful(events: Sequence[Event], keep: Keep) -> list[Event]:
        return [event for event in kept(events, keep) if not isinstance(event.body, CallIntended)]

    monkeypatch.setattr(compaction, "abridged", forgetful)
    events, _ = lived(6)
    assert asyncio.run(wrong_after(MemoryStore(), events, 3, cuts_of(6, len(events)))) != []


def test_control_a_snapshot_of_another_point_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a snapshot holds the run of one event earlier, some point is wrong."""
    events, _ = lived(3)
    records, packed = folded(events), pack_snapshot

    def too_early(record: RunRecord, digest: bytes) -> Snapshot:
        stale = replace(records[record.seq - 2], seq=record.seq)
        return packed(stale, digest)

    monkeypatch.setitem(globals(), "pack_snapshot", too_early)
    with suppress(Damaged):  # the events after it did not fit it: noticed as well
        assert asyncio.run(wrong_points(MemoryStore(), events, 3)) != []
