"""Law 5 over a run's whole past: its state at every point, from every snapshot and from none, on every store.

Histories with crashes are made from seeds, and written with a snapshot at every so many events, or with
none. At each event the run must be what the fold of the events up to it is. A failure prints its seed.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure import codec
from perdure.errors import Damaged
from perdure.journal import pack_snapshot, record_at
from perdure.state.events import Event
from perdure.state.fold import fold
from perdure.state.record import RunRecord
from perdure.store import SQLiteStore
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Batch, Claim, NewRun, Snapshot, Store, Stored
from perdure.timeline.moment import moment_of
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
        batch = Batch("r", claimed.row.epoch, after, (item,), snapshot=snapshot, kept=1 << 40)
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
