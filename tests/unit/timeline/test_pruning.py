"""Which runs may go, what they leave behind, and that no open run is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perdure import codec
from perdure.clock import SECOND
from perdure.errors import RunGone, RunOpen
from perdure.state import events as e
from perdure.store import SQLiteStore
from perdure.store.memory import MemoryStore
from perdure.store.protocol import GENESIS, Message, NewRun, Stored
from perdure.testing.clock import MovableClock
from perdure.timeline.audit import audit
from perdure.timeline.bundle import bundled, packed
from perdure.timeline.pruning import Plan, Rule, epitaph_of, planned, prune
from tests.unit.timeline.past import HELD, RECONCILED, STARTED, events

DAY = 86_400 * SECOND


class Shelf:
    """A store in memory with runs of any age."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.store = MemoryStore(clock=self.clock)

    async def put(
        self,
        name: str,
        bodies: Sequence[e.AnyBody] = RECONCILED,
        *,
        ended: bool = True,
        parent: str | None = None,
        status: str = "succeeded",
        agent: str = "desk",
    ) -> None:
        """A run that changes last now."""
        await self.store.open()
        digest, stored = GENESIS, []
        for event in events(bodies):
            data = codec.pack(event)
            digest = codec.chain(digest, data)
            stored.append(Stored(event.seq, data, digest))
        await self.store.create(
            NewRun(name, agent, "1", status, tuple(stored), parent=parent, epoch=2, terminal=ended)
        )

    def later(self, days: float) -> None:
        """Days pass."""
        self.clock.advance(days * 86_400)

    async def plan(self, **rule: Any) -> Plan:
        """What the rule would remove."""
        return await planned(self.store, Rule(**rule))


def names(plan: Plan) -> list[str]:
    return [row.run_id for row in plan.rows]


async def test_runs_go_by_age_status_agent_and_count() -> None:
    shelf = Shelf()
    for number in range(4):
        await shelf.put(f"r{number}", agent="ab"[number % 2], status=("succeeded", "failed")[number // 2])
        shelf.later(1)
    assert names(await shelf.plan()) == ["r3", "r2", "r1", "r0"]
    assert names(await shelf.plan(older=3 * DAY)) == ["r1", "r0"]
    assert names(await shelf.plan(statuses=frozenset({"failed"}))) == ["r3", "r2"]
    assert names(await shelf.plan(agent="b")) == ["r3", "r1"]
    plan = await shelf.plan(newest=3)
    assert (names(plan), dict(plan.kept)) == (["r0"], {"among the newest": 3})
    assert plan.freed == sum((await shelf.store.sizes(["r0"])).values()) > 0


async def test_open_runs_and_children_of_open_parents_stay() -> None:
    """Law 12."""
    shelf = Shelf()
    await shelf.put("parent", HELD, ended=False, status="held")
    await shelf.put("child", parent="parent")
    await shelf.put("orphan", parent="never-was")
    shelf.later(400)
    plan = await shelf.plan()
    assert (names(plan), dict(plan.kept)) == (["orphan"], {"its parent is open": 1})
    before = packed(replace(await bundled(shelf.store, "parent"), exported_at=0))
    await prune(shelf.store, plan.rows)
    assert packed(replace(await bundled(shelf.store, "parent"), exported_at=0)) == before
    assert (await shelf.store.row("child")).terminal


async def test_a_run_that_is_open_is_never_removed_whatever_is_asked() -> None:
    shelf = Shelf()
    await shelf.put("open", HELD, ended=False, status="held")
    with pytest.raises(RunOpen):
        await prune(shelf.store, [await shelf.store.row("open")])
    assert (await shelf.store.row("open")).seq == len(HELD)


async def test_what_is_removed_leaves_its_id_and_the_keys_of_its_acts() -> None:
    shelf = Shelf()
    await shelf.put("r")
    done = await prune(shelf.store, (await shelf.plan()).rows)
    assert (done.removed, done.unreadable) == (1, ())
    with pytest.raises(RunGone):
        await shelf.store.row("r")
    left = epitaph_of(await shelf.store.tombstones("r"))
    assert left is not None
    assert (left.agent, left.status, left.keys, left.events) == ("desk", "succeeded", ("k-1",), ())
    assert names(await shelf.plan()) == []


async def test_with_its_audit_kept_a_removed_run_still_accounts_for_its_acts_and_for_nothing_else() -> None:
    shelf = Shelf()
    await shelf.put("r")
    await prune(shelf.store, (await shelf.plan()).rows, keep="audit")
    left = epitaph_of(await shelf.store.tombstones("r"))
    assert left is not None
    assert audit(left.told()) == audit(events(RECONCILED))
    assert not any(b"look" in frame for frame in left.events), "a model's reply is no act"


async def test_what_came_late_for_a_run_that_had_ended_stays_as_a_tombstone() -> None:
    shelf = Shelf()
    await shelf.put("r")
    await shelf.store.deliver(Message("r", "late-1", "late", b"\x80", after_end=True))
    await prune(shelf.store, (await shelf.plan()).rows)
    stones = await shelf.store.tombstones("r")
    assert epitaph_of(stones) is not None
    assert stones[1:] == (b"\x80",)


async def test_a_late_result_alone_is_no_epitaph() -> None:
    assert epitaph_of((b"\x80",)) is None
    assert epitaph_of(()) is None


async def test_a_damaged_run_stays_and_is_named_and_the_others_go() -> None:
    shelf = Shelf()
    for name in ("a", "b", "c"):
        await shelf.put(name)
    run = shelf.store._runs["b"]
    run.events[2] = replace(run.events[2], data=run.events[2].data[:-1] + b"\0")
    done = await prune(shelf.store, (await shelf.plan()).rows)
    assert (done.removed, done.unreadable) == (2, ("b",))
    assert names(await shelf.plan()) == ["b"]


async def test_many_are_removed_each_once_and_each_is_told() -> None:
    shelf, told = Shelf(), list[str]()
    for number in range(100):
        await shelf.put(f"r{number}", (STARTED, e.RunFinished("succeeded", codec.encode(1))))
    done = await prune(shelf.store, (await shelf.plan()).rows, each=lambda row: told.append(row.run_id))
    assert done.removed == 100
    assert sorted(told) == sorted(f"r{number}" for number in range(100))


async def test_two_who_remove_the_same_runs_at_once_count_each_run_once(tmp_path: Path) -> None:
    """Two cron jobs, say; what both looked at before either removed it is one removal."""
    one, other = (SQLiteStore(tmp_path / "runs.db") for _ in range(2))
    await one.open()
    await other.open()
    stored, digest = list[Stored](), GENESIS
    for event in events(RECONCILED):
        data = codec.pack(event)
        digest = codec.chain(digest, data)
        stored.append(Stored(event.seq, data, digest))
    for number in range(60):
        await one.create(
            NewRun(f"r{number}", "desk", "1", "succeeded", tuple(stored), epoch=2, terminal=True)
        )
    plans = [(await planned(store, Rule())).rows for store in (one, other)]
    both = await asyncio.gather(prune(one, plans[0]), prune(other, plans[1]))
    assert sum(found.removed for found in both) == 60
    assert [found.unreadable for found in both] == [(), ()]
    await one.close()
    await other.close()
