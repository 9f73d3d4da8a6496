"""A run at one of its points, and where a value came from."""

from __future__ import annotations

import pytest

from perdure import codec
from perdure.errors import BadPoint, Damaged
from perdure.state import events as e
from perdure.state.patch import same
from perdure.store.memory import MemoryStore
from perdure.store.protocol import GENESIS, Batch, Claim, NewRun, Stored
from perdure.timeline.moment import moment_of, origins
from perdure.timeline.place import MISSING
from tests.unit.timeline.past import RECONCILED, STARTED, events


def patched(number: int, *ops: e.Op) -> e.StepCommitted:
    return e.StepCommitted(number, ops)


STORY = (
    STARTED,
    patched(1, e.Set(("plan",), codec.encode("fly"))),
    patched(2, e.Set(("cents",), codec.encode(5))),
    patched(3, e.Set(("plan",), codec.encode("fly"))),
    patched(4, e.Set(("plan",), codec.encode("rail"))),
    patched(5, e.Delete(("plan",))),
)


async def stored(bodies: tuple[e.AnyBody, ...]) -> MemoryStore:
    store, digest, items = MemoryStore(), GENESIS, []
    for event in events(bodies):
        data = codec.pack(event)
        digest = codec.chain(digest, data)
        items.append(Stored(event.seq, data, digest))
    await store.open()
    await store.create(NewRun("r", "desk", "1", "held", (items[0],)))
    [claimed] = await store.claim(Claim("w", 60.0, run_id="r"))
    await store.append(Batch("r", claimed.row.epoch, 1, tuple(items[1:]), release=True))
    return store


async def test_the_state_is_that_of_the_last_commit_before_the_point() -> None:
    store = await stored(RECONCILED)
    found = [(await moment_of(store, "r", seq)).state for seq in range(1, len(RECONCILED) + 1)]
    assert found[:4] == [{}] * 4
    assert found[4:] == [{"found": True}] * (len(RECONCILED) - 4)
    assert (await moment_of(store, "r")).seq == len(RECONCILED)


@pytest.mark.parametrize("seq", [0, -1, len(RECONCILED) + 1])
async def test_a_point_that_the_run_has_not_is_refused(seq: int) -> None:
    store = await stored(RECONCILED)
    with pytest.raises(BadPoint, match=f"no event {seq}"):
        await moment_of(store, "r", seq)


async def test_damage_before_the_point_is_never_served() -> None:
    store = await stored(RECONCILED)
    event = store._runs["r"].events[2]
    store._runs["r"].events[2] = Stored(event.seq, event.data[:-1] + b"\0", event.digest)
    assert (await moment_of(store, "r", 2)).state == {}
    with pytest.raises(Damaged):
        await moment_of(store, "r", 3)


def test_each_event_that_set_a_value_is_told_and_no_other() -> None:
    """A commit that writes the same value again did not set it."""
    found = [(one.seq, one.step, one.value) for one in origins(events(STORY), ("plan",))]
    assert found == [(2, 1, "fly"), (5, 4, "rail"), (6, 5, MISSING)]


def test_the_whole_state_was_set_by_the_start_and_by_each_change() -> None:
    found = origins(events(STORY), ())
    assert [one.seq for one in found] == [1, 2, 3, 5, 6]
    assert same(found[-1].value, {"cents": 5})
