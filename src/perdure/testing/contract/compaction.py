"""Promises about compaction: a run's early past goes, and nothing else of it."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from perdure.errors import Damaged, NoSuchRun, RunGone, SeqConflict, TooLarge
from perdure.store.protocol import Batch, Blob, Compaction, Query, RowChange, Snapshot
from perdure.testing.contract.trial import Promises, Trial, events, new_run, promise, refused

LARGE = Blob(b"k" * 16, b"large")
"""The large value that the run has."""

BASE = Snapshot(3, b"at three", b"c" * 16)
"""The snapshot with which a compacted run begins."""


class CompactionPromises(Promises):
    """What stays of a run, and what is refused."""

    @promise
    async def test_a_compacted_run_begins_with_its_snapshot(self, trial: Trial) -> None:
        await _grown(trial)
        await trial.store.compact(Compaction("r", BASE, (b"what was",), seq=5))
        loaded = await trial.store.load("r")
        assert (loaded.row.floor, loaded.row.seq) == (3, 5)
        assert (loaded.snapshot, loaded.events) == (BASE, events(4, 5))
        assert await trial.store.read("r") == await trial.store.read("r", 3) == events(4, 5)
        assert await trial.store.read("r", 4) == events(5, 5)
        assert await trial.store.snapshots("r") == (BASE,)
        assert await trial.store.tombstones("r") == (b"what was",)
        size = self.size_of(BASE, *events(4, 5), LARGE)
        assert await trial.store.sizes(["r"]) == {"r": size}

    @promise
    async def test_its_owner_goes_on_and_never_removes_what_it_begins_with(self, trial: Trial) -> None:
        await _grown(trial)
        await trial.store.compact(Compaction("r", BASE))
        later = Snapshot(6, b"at six", b"f" * 16)
        await trial.store.append(Batch("r", 1, 5, events(6, 7), snapshot=later))
        loaded = await trial.store.load("r")
        assert (loaded.snapshot, loaded.events, loaded.older) == (later, events(7, 7), 3)
        assert await trial.store.snapshots("r") == (BASE, later)
        assert await trial.store.read("r") == events(4, 7)

    @promise
    async def test_all_events_may_go(self, trial: Trial) -> None:
        await _grown(trial)
        await trial.store.append(Batch("r", 1, 5, row=RowChange(status="done", terminal=True)))
        base = replace(BASE, seq=5)
        await trial.store.compact(Compaction("r", base))
        loaded = await trial.store.load("r")
        assert (loaded.row.seq, loaded.row.floor, loaded.row.status) == (5, 5, "done")
        assert (loaded.snapshot, loaded.events) == (base, ())
        assert await trial.store.read("r") == ()
        assert [row.floor for row in await trial.store.list(Query())] == [5]

    @promise
    async def test_an_owner_goes_on_after_all_events_went(self, trial: Trial) -> None:
        await _grown(trial)
        await trial.store.compact(Compaction("r", replace(BASE, seq=5)))
        await trial.store.append(Batch("r", 1, 5, events(6, 6)))
        assert await trial.store.read("r") == events(6, 6)
        assert (await trial.store.row("r")).seq == 6

    @promise
    async def test_a_run_is_compacted_again_further_on_and_never_back(self, trial: Trial) -> None:
        await _grown(trial)
        await trial.store.compact(Compaction("r", BASE, (b"one", b"two")))
        await trial.store.compact(Compaction("r", BASE, (b"one", b"two")))
        assert await trial.store.tombstones("r") == (b"one", b"two"), "twice is once"
        further = replace(BASE, seq=4)
        await trial.store.compact(Compaction("r", further, (b"three",)))
        assert await trial.store.tombstones("r") == (b"three",)
        assert await trial.store.snapshots("r") == (further,)
        with refused(SeqConflict):
            await trial.store.compact(Compaction("r", BASE))
        with refused(SeqConflict):
            await trial.store.compact(Compaction("r", replace(BASE, seq=6)))
        assert await trial.store.read("r") == events(5, 5)

    @promise
    async def test_a_run_that_went_on_is_refused_whole(self, trial: Trial) -> None:
        await _grown(trial)
        before = await trial.store.load("r")
        with refused(SeqConflict):
            await trial.store.compact(Compaction("r", BASE, (b"left",), (b"k" * 16,), seq=4))
        assert await trial.store.load("r") == before
        assert await trial.store.tombstones("r") == ()
        assert await trial.store.blob("r", b"k" * 16) == b"large"

    @promise
    async def test_only_the_blobs_that_are_named_go(self, trial: Trial) -> None:
        await _grown(trial)
        await trial.store.append(Batch("r", 1, 5, events(6, 6), blobs=(Blob(b"m" * 16, b"other"),)))
        await trial.store.compact(Compaction("r", BASE, (), (b"k" * 16,), seq=6))
        assert await trial.store.blob("r", b"m" * 16) == b"other"
        with refused(Damaged):
            await trial.store.blob("r", b"k" * 16)

    @promise
    async def test_what_was_left_goes_with_the_run(self, trial: Trial) -> None:
        await _grown(trial)
        await trial.store.append(Batch("r", 1, 5, row=RowChange(status="done", terminal=True)))
        await trial.store.compact(Compaction("r", BASE, (b"what was",)))
        await trial.store.drop("r", (b"epitaph",))
        assert await trial.store.tombstones("r") == (b"epitaph",)
        with refused(RunGone):
            await trial.store.compact(Compaction("r", BASE))
        with refused(NoSuchRun):
            await trial.store.compact(Compaction("nobody", BASE))

    @promise
    async def test_batches_that_are_queued_beside_it_keep_their_order(self, trial: Trial) -> None:
        await _grown(trial)
        blob = Blob(b"k" * 16, b"large")
        first = trial.store.append(Batch("r", 1, 5, events(6, 6)))
        refusal = asyncio.ensure_future(trial.store.compact(Compaction("r", BASE, (), (blob.digest,), seq=5)))
        second = trial.store.append(Batch("r", 1, 6, events(7, 7), blobs=(blob,)))
        outcomes = await asyncio.gather(first, refusal, second, return_exceptions=True)
        assert [type(one).__name__ for one in outcomes] in (
            ["Appended", "SeqConflict", "Appended"],
            ["Appended", "NoneType", "Appended"],  # it was taken first
        )
        assert await trial.store.blob("r", blob.digest) == b"large"
        assert (await trial.store.read("r"))[-2:] == events(6, 7)

    @promise
    async def test_a_compacted_run_may_come_from_elsewhere(self, trial: Trial) -> None:
        made = replace(new_run(events=0), events=events(4, 5), base=BASE, left=(b"what was",), epoch=2)
        row, fresh = await trial.store.create(made)
        assert (fresh, row.floor, row.seq) == (True, 3, 5)
        loaded = await trial.store.load("r")
        assert (loaded.snapshot, loaded.events) == (BASE, events(4, 5))
        assert await trial.store.tombstones("r") == (b"what was",)
        with refused(SeqConflict):
            await trial.store.create(replace(made, run_id="s", events=events(3, 5)))

    @promise
    async def test_the_snapshot_at_or_before_an_event_is_found(self, trial: Trial) -> None:
        await trial.lease()
        assert await trial.store.snapshot("r", 1) is None
        kept = [Snapshot(seq, b"at %d" % seq, b"d" * 16) for seq in (2, 4)]
        for one in kept:
            batch = Batch("r", 1, one.seq - 2 or 1, events(one.seq - 1 if one.seq > 2 else 2, one.seq))
            await trial.store.append(replace(batch, snapshot=one, kept=one.seq))
        found = [await trial.store.snapshot("r", upto) for upto in (0, 1, 2, 3, 4, 9, 1 << 40)]
        assert found == [None, None, kept[0], kept[0], kept[1], kept[1], kept[1]]
        with refused(NoSuchRun):
            await trial.store.snapshot("nobody", 1)

    @promise
    async def test_too_large_a_beginning_is_refused(self, trial: Trial) -> None:
        await _grown(trial)
        trial.store.value_bytes = 100
        with refused(TooLarge):
            await trial.store.compact(Compaction("r", replace(BASE, data=bytes(101))))
        with refused(TooLarge):
            await trial.store.compact(Compaction("r", BASE, (bytes(101),)))
        assert (await trial.store.row("r")).floor == 0


async def _grown(trial: Trial) -> None:
    """Run `r` with five events, an early snapshot and a blob."""
    await trial.lease()
    early = Snapshot(2, b"at two", b"b" * 16)
    await trial.store.append(Batch("r", 1, 1, events(2, 2), snapshot=early, blobs=(LARGE,)))
    await trial.store.append(Batch("r", 1, 2, events(3, 5)))
