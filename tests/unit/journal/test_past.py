"""What is loaded of a run later: snapshots and when they are due, damage, large values."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from perdure import codec
from perdure.errors import Damaged
from perdure.journal import SnapshotPolicy, load, verify
from perdure.journal.snapshots import LOAD_COSTS
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from tests.unit.journal.book import NO_SNAPSHOTS, RUN, head, large, opened, receipt

# -------------------------------------------------------------------------------------------------- snapshots


async def stepped(
    count: int, policy: SnapshotPolicy, weight: int = 0
) -> tuple[MemoryStore, list[tuple[int, int]]]:
    """A run of so many steps of one read, whose state has `weight` bytes.

    And the events at which snapshots were written, with their bytes.
    """
    book = await opened(policy=policy)
    for number in range(1, count + 1):
        ops: tuple[e.Op, ...] = (
            e.Set(("n",), codec.encode(number)),
            e.Set(("big",), codec.encode(large(weight, weight))),
        )
        ops = ops if number == 1 and weight else ops[:1]
        await book.journal.append(e.CallSettled(f"{number}:0", "done", codec.encode("x" * 40), head("look")))
        await book.journal.append(e.StepCommitted(number, ops))
        await book.journal.commit_step()
    batches = [batch for batch, _ in book.disk.queue]
    taken = [(b.snapshot.seq, len(b.snapshot.data)) for b in batches if b.snapshot is not None]
    await book.flushed()
    return book.store, taken


@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        (SnapshotPolicy(None, None), []),
        (SnapshotPolicy(1, None), [1, 2, 3, 4, 5, 6, 7]),
        (SnapshotPolicy(3, None), [3, 6]),
        (SnapshotPolicy(20, None), []),
    ],
)
async def test_snapshots_after_so_many_steps(policy: SnapshotPolicy, steps: list[int]) -> None:
    store, taken = await stepped(7, policy)
    assert [seq for seq, _ in taken] == [1 + 2 * step for step in steps]
    past = await load(store, RUN)
    assert (past.record.step, past.record.state) == (7, {"n": 7})
    assert past.snapshot_step == (steps[-1] if steps else 0)
    assert (await verify(store, RUN)).ok


async def test_snapshots_that_bound_the_time_of_a_load_keep_bytes_linear() -> None:
    """One when a load would cost the bound, and no more than twice as many bytes of them as of events.

    Field case O-016.
    """
    store, taken = await stepped(40, SnapshotPolicy(None, LOAD_COSTS.of(4, 0, 0)), 2000)
    sizes, events = [size for _, size in taken], (await store.stats()).event_bytes
    assert len(taken) > 1
    assert sum(sizes[:-1]) <= 2 * events
    eager, all_of_them = await stepped(40, SnapshotPolicy(1, None), 2000)
    assert sum(size for _, size in all_of_them) > 4 * (await eager.stats()).event_bytes  # so many otherwise
    light, _ = await stepped(40, SnapshotPolicy(None, 3600.0), 2000)
    assert (await light.stats()).snapshot_bytes == 0  # the bound is kept without one


async def test_every_snapshot_gives_the_state_that_all_events_give() -> None:
    store, taken = await stepped(7, SnapshotPolicy(2, None))
    assert len(taken) == 3
    with_it = await load(store, RUN)
    store._runs[RUN].snapshots.clear()
    assert (await load(store, RUN)).record == with_it.record


# ----------------------------------------------------------------------------------------------------- damage


async def test_a_damaged_snapshot_is_passed_over_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Field case O-012."""
    store, _ = await stepped(7, SnapshotPolicy(3, None))
    expected = (await load(store, RUN)).record
    kept = store._runs[RUN].snapshots
    kept[-1] = replace(kept[-1], data=kept[-1].data[:-1] + bytes([kept[-1].data[-1] ^ 1]))
    with caplog.at_level(logging.WARNING, "perdure.journal"):
        past = await load(store, RUN)
    assert past.record == expected
    assert past.snapshot_seq == 0
    assert "earlier events are read instead" in caplog.text
    assert not (await verify(store, RUN)).ok


@pytest.mark.parametrize("damage", ["flipped", "missing", "swapped", "cut"])
async def test_a_damaged_event_is_found_and_never_served(damage: str) -> None:
    store, _ = await stepped(4, NO_SNAPSHOTS)
    events = store._runs[RUN].events
    match damage:
        case "flipped":
            assert b"xxxx" in events[3].data
            events[3] = replace(events[3], data=events[3].data.replace(b"xxxx", b"xxxy", 1))
        case "missing":
            del events[3]
        case "swapped":
            events[3], events[4] = events[4], events[3]
        case "cut":
            del events[-1]
    with pytest.raises(Damaged):
        await load(store, RUN)
    found = await verify(store, RUN)
    assert (found.ok, found.seq) == (False, 9 if damage == "cut" else 4)


@pytest.mark.parametrize("damage", ["flipped", "missing"])
async def test_a_damaged_blob_is_found_and_never_served(damage: str) -> None:
    book = await opened()
    await book.journal.append(receipt(0, large(0)))
    await book.flushed()
    assert len((await load(book.store, RUN)).record.calls["1:0"].value) > 1 << 20
    blobs = book.store._runs[RUN].blobs
    [digest] = blobs
    if damage == "missing":
        del blobs[digest]
    else:
        blobs[digest] = b"\0" + blobs[digest][1:]
    with pytest.raises(Damaged):
        await load(book.store, RUN)
    assert not (await verify(book.store, RUN)).ok


async def test_equal_large_values_are_kept_once() -> None:
    """Field case O-015."""
    book = await opened()
    value = large(0)
    await book.journal.append(receipt(0, value), receipt(1, value))
    await book.flushed()
    assert len(book.store._runs[RUN].blobs) == 1
    record = (await load(book.store, RUN)).record
    assert record.calls["1:0"].value == record.calls["1:1"].value
