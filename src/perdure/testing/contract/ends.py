"""Promises about the rest: ends and removals, lists, waiting for a change, closing, and sharing a place."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from perdure.clock import SECOND
from perdure.errors import RunEnded, RunGone, RunOpen, SeqConflict, StaleEpoch, StoreClosed, TooLarge
from perdure.store.protocol import NEVER, Batch, Blob, Claim, Compaction, Query, RowChange, Snapshot, Store
from perdure.testing.contract.trial import Promises, Trial, event, events, message, new_run, promise, refused


class PlacePromises(Promises):
    """Removal, lists, changes, and the place itself."""

    # -- drop

    @promise
    async def test_only_a_run_that_has_ended_is_removed(self, trial: Trial) -> None:
        await trial.lease()
        with refused(RunOpen):
            await trial.store.drop("r", (b"key",))
        assert await trial.store.tombstones("r") == ()
        assert await trial.store.read("r") == events(1, 1)

    @promise
    async def test_a_removed_run_leaves_its_id_and_its_tombstones(self, trial: Trial) -> None:
        await _ended(trial)
        assert await trial.store.drop("r", (b"key one", b"key two"))
        assert await trial.store.tombstones("r") == (b"key one", b"key two")
        for verb in (trial.store.load, trial.store.row, trial.store.read, trial.store.inbox):
            with refused(RunGone):
                await verb("r")
        assert not await trial.store.drop("r", (b"key three",)), "it was removed already"
        assert await trial.store.tombstones("r") == (b"key one", b"key two", b"key three")

    @promise
    async def test_a_removed_id_is_never_used_again(self, trial: Trial) -> None:
        await _ended(trial)
        await trial.store.drop("r")
        with refused(RunGone):
            await trial.store.create(new_run())
        await trial.new_run("s")
        assert await trial.store.read("s") == events(1, 1)

    @promise
    async def test_a_late_write_to_a_removed_run_leaves_no_orphan(self, trial: Trial) -> None:
        await _ended(trial)
        await trial.store.drop("r")
        before = await trial.store.stats()
        batch = Batch(
            "r", 1, 2, events(3, 3), snapshot=Snapshot(3, b"late", b""), blobs=(Blob(b"k", b"late"),)
        )
        with refused(RunGone):
            await trial.store.append(batch)
        with refused(RunGone):
            await trial.store.deliver(message("r", "late"))
        await trial.store.release("r", 1)
        assert await trial.store.renew("w1", ["r"], 30) == frozenset()
        after = await trial.store.stats()
        assert (after.runs, after.events, after.snapshot_bytes, after.blob_bytes) == ({}, 0, 0, 0)
        assert before.event_bytes == after.event_bytes == 0

    # -- runs that were lived elsewhere

    @promise
    async def test_a_run_may_come_with_its_whole_past_in_one_commit(self, trial: Trial) -> None:
        past = replace(new_run(events=3), epoch=7, status="held", due_at=NEVER, asks=True)
        past = replace(past, blobs=(Blob(b"k", b"v"),))
        row, made = await trial.store.create(past)
        assert made
        assert (row.epoch, row.seq, row.terminal) == (7, 3, False)
        assert await trial.store.read("r") == events(1, 3)
        assert await trial.store.blob("r", b"k") == b"v"
        assert await trial.next_ids() == []
        assert [one.run_id for one in await trial.store.list(Query(asks=True))] == ["r"]
        await trial.store.deliver(message("r", "go on"))
        claimed = await trial.claim("r")
        assert claimed.row.epoch == 8, "whoever goes on is newer than every owner that it had"
        await trial.store.append(Batch("r", 8, 3, events(4, 4)))
        assert await trial.store.create(past) == (await trial.store.row("r"), False)

    @promise
    async def test_a_run_that_has_ended_elsewhere_has_ended(self, trial: Trial) -> None:
        row, _ = await trial.store.create(replace(new_run(events=2), epoch=3, status="done", terminal=True))
        assert row.terminal
        with refused(RunEnded):
            await trial.store.append(Batch("r", 3, 2, events(3, 3)))
        with refused(RunEnded):
            await trial.store.deliver(message("r", "late"))
        assert await trial.next_ids() == []
        await trial.store.drop("r")

    # -- lists, counts

    @promise
    async def test_sizes_count_what_each_run_keeps(self, trial: Trial) -> None:
        await trial.lease()
        await trial.new_run("s", events=2)
        blob, snapshot = Blob(b"k", b"12345"), Snapshot(2, b"1234567", b"")
        second = event(2, b"x" * 100)
        await trial.store.append(Batch("r", 1, 1, (second,), None, snapshot, (blob,)))
        sizes = {"r": self.size_of(event(1), second, snapshot, blob), "s": self.size_of(*events(1, 2))}
        assert await trial.store.sizes(["r", "s", "nobody"]) == sizes

    @promise
    async def test_lists_filter_and_page_newest_first(self, trial: Trial) -> None:
        for number in range(6):
            await trial.store.create(replace(new_run(f"run-{number}"), agent="ab"[number % 2]))
            if number % 3:
                trial.clock.advance(1)
        await trial.claim("run-4")
        await trial.store.append(Batch("run-4", 1, 1, row=RowChange(status="done", terminal=True)))
        await trial.new_run("other")

        async def ids(query: Query) -> list[str]:
            return [row.run_id for row in await trial.store.list(query)]

        everything = ["other", "run-5", "run-4", "run-3", "run-2", "run-1", "run-0"]
        assert await ids(Query()) == everything
        assert await ids(Query(limit=3)) == everything[:3]
        assert await ids(Query(statuses=("done",))) == ["run-4"]
        assert await ids(Query(statuses=("done", "ready"), agent="a", prefix="run-")) == [
            "run-4",
            "run-2",
            "run-0",
        ]
        assert await ids(Query(open_only=True, prefix="run-4")) == []
        assert await ids(Query(prefix="run_")) == []
        paged, before = [], None
        while rows := await trial.store.list(Query(limit=2, before=before)):
            paged += [row.run_id for row in rows]
            before = (rows[-1].created_at, rows[-1].run_id)
        assert paged == everything

    @promise
    async def test_runs_that_ask_people_are_found_among_the_others(self, trial: Trial) -> None:
        for number in range(4):
            await trial.lease(f"run-{number}")
            trial.clock.advance(1)
            change = RowChange(status="waiting", asks=number != 1)
            await trial.store.append(Batch(f"run-{number}", 1, 1, row=change, release=True))

        async def asking(**more: Any) -> list[str]:
            return [row.run_id for row in await trial.store.list(Query(asks=True, **more))]

        assert await asking() == ["run-3", "run-2", "run-0"]
        assert await asking(limit=1) == ["run-3"]
        assert await asking(before=((await trial.store.row("run-2")).created_at, "run-2")) == ["run-0"]
        assert (await trial.store.row("run-3")).asks
        await trial.claim("run-3")
        await trial.store.append(Batch("run-3", 2, 1, events(2, 2), RowChange(status="running")))
        assert await asking() == ["run-3", "run-2", "run-0"], "what is not said of it stays"
        await trial.store.append(Batch("run-3", 2, 2, row=RowChange(asks=False)))
        await trial.claim("run-2")
        await trial.store.append(Batch("run-2", 2, 1, row=RowChange(status="done", terminal=True)))
        assert await asking() == ["run-0"], "a run that has ended asks nobody"
        assert not (await trial.store.row("run-2")).asks

    @promise
    async def test_stats_count(self, trial: Trial) -> None:
        await trial.lease()
        await trial.new_run("s", events=3)
        blob, snapshot = Blob(b"k", b"12345"), Snapshot(2, b"1234567", b"")
        second = event(2, b"x" * 100)
        await trial.store.append(Batch("r", 1, 1, (second,), RowChange(status="held"), snapshot, (blob,)))
        stats = await trial.store.stats()
        assert (stats.runs, stats.events) == ({"held": 1, "ready": 1}, 5)
        assert stats.event_bytes == self.size_of(second, event(1), *events(1, 3))
        sizes = (self.size_of(snapshot), self.size_of(blob))
        assert (stats.snapshots, stats.snapshot_bytes, stats.blob_bytes) == (1, *sizes)
        await trial.store.deliver(message("r", "m", b"123"))
        await trial.store.compact(Compaction("r", snapshot, (b"12345678",)))
        stats = await trial.store.stats()
        assert (stats.inbox_bytes, stats.left_bytes) == (self.size(b"123"), self.size(b"12345678"))
        assert stats.free_bytes >= 0
        assert stats.commits >= 4

    @promise
    async def test_a_value_above_the_limit_is_refused_alone(self, trial: Trial) -> None:
        await trial.lease()
        await trial.lease("s")
        large = bytes(1 << 20)
        trial.store.value_bytes = len(large) - 1
        futures = (
            trial.store.append(Batch("r", 1, 1, (event(2, large),))),
            trial.store.append(Batch("s", 1, 1, events(2, 2))),
        )
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(outcome).__name__ for outcome in outcomes] == ["TooLarge", "Appended"]
        with refused(TooLarge):
            await trial.store.deliver(message("r", "m", large))
        with refused(TooLarge):
            await trial.store.create(replace(new_run("t"), blobs=(Blob(b"k", large),)))
        with refused(TooLarge):
            await trial.store.append(Batch("r", 1, 1, snapshot=Snapshot(1, large, b"")))
        assert (await trial.store.row("r")).seq == 1

    # -- changes

    @promise
    async def test_every_kind_of_write_wakes_whoever_waits(self, trial: Trial) -> None:
        store = trial.store
        await trial.new_run()
        writes = (
            lambda: store.claim(Claim("w1", 30)),
            lambda: store.append(Batch("r", 1, 1, events(2, 2))),
            lambda: store.deliver(message("r", "m")),
            lambda: store.release("r", 1),
            lambda: store.create(new_run("s")),
        )
        for write in writes:
            seen = await _settled(store)
            waiting = asyncio.ensure_future(store.changed(seen, 3600))
            await asyncio.sleep(0)
            assert not waiting.done()
            await write()
            assert await asyncio.wait_for(waiting, 10) != seen

    @promise
    async def test_a_change_between_two_waits_is_not_missed(self, trial: Trial) -> None:
        seen = await _settled(trial.store)
        await trial.new_run()
        assert await asyncio.wait_for(trial.store.changed(seen, 3600), 10) != seen

    @promise
    async def test_waiting_ends_with_its_time(self, trial: Trial) -> None:
        seen = await _settled(trial.store)
        assert await trial.store.changed(seen, 0) == seen
        waiting = asyncio.ensure_future(trial.store.changed(seen, 5))
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not waiting.done()
        trial.clock.advance(5)
        assert await asyncio.wait_for(waiting, 10) == seen

    # -- opening, closing, sharing

    @promise
    async def test_a_closed_store_refuses_and_twice_is_once(self, trial: Trial) -> None:
        store = trial.store
        await store.open()
        await trial.new_run()
        queued = store.append(Batch("r", 0, 1, events(2, 2)))
        await store.close()
        await store.close()
        assert (await queued).seq == 2
        with refused(StoreClosed):
            await store.row("r")
        with refused(StoreClosed):
            await store.create(new_run("s"))
        with refused(StoreClosed):
            await store.append(Batch("r", 0, 2, events(3, 3)))

    @promise
    async def test_what_was_written_is_there_after_opening_again(self, trial: Trial) -> None:
        if not self.shared:
            return
        await trial.lease()
        await trial.store.append(Batch("r", 1, 1, events(2, 5)))
        await trial.store.deliver(message("r", "m"))
        loaded = await trial.store.load("r")
        await trial.store.close()
        again = await trial.another()
        assert await again.load("r") == loaded

    @promise
    async def test_two_who_write_from_the_same_version_get_one_winner(self, trial: Trial) -> None:
        if not self.shared:
            return
        await trial.lease()
        other = await trial.another()
        loaded = await asyncio.gather(trial.store.load("r"), other.load("r"))
        assert [item.row.seq for item in loaded] == [1, 1]
        futures = (
            trial.store.append(Batch("r", 1, 1, (event(2, b"mine"),))),
            other.append(Batch("r", 1, 1, (event(2, b"theirs"),))),
        )
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Appended", "SeqConflict"]
        assert [item.seq for item in await other.read("r")] == [1, 2]
        assert isinstance(next(o for o in outcomes if isinstance(o, Exception)), SeqConflict)

    @promise
    async def test_one_stores_write_is_the_others_change(self, trial: Trial) -> None:
        if not self.shared:
            return
        other = await trial.another()
        seen = await _settled(other)
        waiting = asyncio.ensure_future(other.changed(seen, 3600))
        await asyncio.sleep(0)
        await trial.new_run()
        assert await asyncio.wait_for(waiting, 10) != seen
        assert await other.due() == 0

    @promise
    async def test_fences_hold_across_store_objects(self, trial: Trial) -> None:
        if not self.shared:
            return
        await trial.lease(worker="w1", seconds=30)
        other = await trial.another()
        trial.clock.advance(31)
        (claimed,) = await other.claim(Claim("w2", 30))
        assert (claimed.row.epoch, claimed.previous) == (2, "w1")
        with refused(StaleEpoch):
            await trial.store.append(Batch("r", 1, 1, events(2, 2)))
        await other.append(Batch("r", 2, 1, events(2, 2)))
        assert await trial.store.due() == trial.clock.now() + 30 * SECOND
        assert await trial.store.due(Claim("w", 30, {"b": frozenset()})) == NEVER


async def _ended(trial: Trial) -> None:
    """Run r: two events, a message, a blob, a snapshot, and its end."""
    await trial.lease()
    await trial.store.deliver(message("r", "m"))
    batch = Batch("r", 1, 1, events(2, 2), RowChange(status="succeeded", terminal=True))
    await trial.store.append(replace(batch, snapshot=Snapshot(2, b"s", b""), blobs=(Blob(b"k", b"v"),)))


async def _settled(store: Store) -> int:
    """The mark of now: what was written so far has been counted."""
    seen = -1
    while (mark := await store.changed(seen, 0)) != seen:
        seen = mark
    return seen
