"""Promises about a run's events: made, appended, fenced, read back (laws 6 and 15)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from perdure.errors import (
    BadRunId,
    Damaged,
    Expired,
    InboxMoved,
    NoSuchRun,
    PerdureError,
    RunEnded,
    SeqConflict,
    StaleEpoch,
)
from perdure.store.protocol import NEVER, Batch, Blob, Claim, NewRun, RowChange, Snapshot, Stored
from perdure.testing.contract.trial import Promises, Trial, event, events, message, new_run, promise, refused


class EventPromises(Promises):
    """A run's events."""

    # -- create

    @promise
    async def test_a_new_run_is_there_with_its_first_events(self, trial: Trial) -> None:
        blob = Blob(b"k" * 16, b"large")
        new = NewRun("r", "agent", "7", "ready", events(1, 2), 5, b"why", "parent", (blob,))
        row, made = await trial.store.create(new)
        assert made
        assert (row.run_id, row.agent, row.version, row.status) == ("r", "agent", "7", "ready")
        assert (row.due_at, row.info, row.parent, row.seq) == (5, b"why", "parent", 2)
        assert (row.epoch, row.worker, row.lease_until, row.claims) == (0, None, 0, 0)
        assert (row.inbox, row.pending, row.terminal) == (0, 0, False)
        assert row.created_at == row.updated_at == trial.clock.now()
        assert await trial.store.row("r") == row
        loaded = await trial.store.load("r")
        assert (loaded.row, loaded.snapshot, loaded.events, loaded.inbox) == (row, None, events(1, 2), ())
        assert await trial.store.blob("r", blob.digest) == b"large"

    @promise
    async def test_creating_twice_finds_the_first(self, trial: Trial) -> None:
        first, _ = await trial.store.create(new_run(agent="a"))
        second, made = await trial.store.create(new_run(agent="b", events=3))
        assert (second, made) == (first, False)
        assert await trial.store.read("r") == events(1, 1)

    @promise
    async def test_of_many_creating_at_once_one_makes_it(self, trial: Trial) -> None:
        made = await asyncio.gather(*(trial.store.create(new_run()) for _ in range(20)))
        assert sorted(was for _, was in made) == [False] * 19 + [True]

    @promise
    async def test_ids_that_no_one_could_type_are_refused(self, trial: Trial) -> None:
        for bad in ("", "x" * 201, "a b", "a@1", "a\n", "a\0b", "a\ud800", "\u200b"):
            with refused(BadRunId):
                await trial.store.create(new_run(bad))
        for good in ("x" * 200, "order-1042", "auftrag/über:7", "注文-1"):
            await trial.store.create(new_run(good))
            assert (await trial.store.row(good)).run_id == good

    @promise
    async def test_unknown_runs_are_refused_by_every_verb(self, trial: Trial) -> None:
        store = trial.store
        verbs: Sequence[Callable[[], Awaitable[Any]]] = (
            lambda: store.load("x"),
            lambda: store.row("x"),
            lambda: store.read("x"),
            lambda: store.snapshots("x"),
            lambda: store.blob("x", b""),
            lambda: store.inbox("x"),
            lambda: store.deliver(message("x", "m")),
            lambda: store.append(Batch("x", 0, 0, events(1, 1))),
            lambda: store.claim(Claim("w", 1, run_id="x")),
            lambda: store.drop("x"),
        )
        for verb in verbs:
            with refused(NoSuchRun):
                await verb()
        await store.release("x", 1)
        assert await store.renew("w", ["x"], 1) == frozenset()
        assert await store.tombstones("x") == ()

    # -- append

    @promise
    async def test_appended_events_are_read_back_byte_for_byte(self, trial: Trial) -> None:
        await trial.lease()
        datas = [b"", b"\0", bytes(range(256)), b"x" * 100_000, "é\ud7ff".encode()]
        added = tuple(Stored(seq, data, b"%16d" % seq) for seq, data in enumerate(datas, 2))
        appended = await trial.store.append(Batch("r", 1, 1, added))
        assert (appended.seq, appended.at, appended.undelivered) == (6, trial.clock.now(), ())
        assert await trial.store.read("r", after=1) == added
        assert await trial.store.read("r", after=2, limit=2) == added[1:3]
        assert await trial.store.read("r", after=6) == ()
        assert (await trial.store.row("r")).seq == 6

    @promise
    async def test_batches_queued_without_waiting_chain_onto_each_other(self, trial: Trial) -> None:
        await trial.lease()
        futures = [trial.store.append(Batch("r", 1, seq, events(seq + 1, seq + 1))) for seq in range(1, 101)]
        assert [appended.seq for appended in await asyncio.gather(*futures)] == list(range(2, 102))
        assert await trial.store.read("r") == events(1, 101)

    @promise
    async def test_a_refused_batch_harms_no_neighbour_and_leaves_nothing(self, trial: Trial) -> None:
        for run_id in ("r", "s", "t"):
            await trial.lease(run_id)
        row = await trial.store.row("s")
        stale = Batch(
            "s", 0, 1, events(2, 3), RowChange(status="no"), outbox=(message("t", "no"),),
            blobs=(Blob(b"b" * 16, b"no"),), snapshot=Snapshot(2, b"no", b""),
        )  # fmt: skip
        futures = [
            trial.store.append(Batch("r", 1, 1, events(2, 2))),
            trial.store.append(stale),
            trial.store.append(Batch("r", 1, 2, events(3, 3))),
            trial.store.append(Batch("t", 1, 1, events(2, 2))),
        ]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, False, False]
        assert isinstance(outcomes[1], StaleEpoch)
        assert await trial.store.row("s") == row
        assert (await trial.store.snapshots("s"), await trial.store.inbox("t")) == ((), ())
        with refused(Damaged):
            await trial.store.blob("s", b"b" * 16)
        assert [(await trial.store.row(run_id)).seq for run_id in ("r", "s", "t")] == [3, 1, 2]

    @promise
    async def test_after_a_refusal_what_was_built_on_it_is_refused_too(self, trial: Trial) -> None:
        await trial.lease()
        futures = [trial.store.append(Batch("r", 1, 1, events(2, 2), not_after=trial.clock.now()))]
        futures += [trial.store.append(Batch("r", 1, seq, events(seq + 1, seq + 1))) for seq in (2, 3)]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Expired, SeqConflict, SeqConflict]
        assert await trial.store.read("r") == events(1, 1)

    @promise
    async def test_every_fence_refuses(self, trial: Trial) -> None:
        store, now = trial.store, trial.clock.now()
        await trial.lease()
        await store.deliver(message("r", "m1"))
        wrong: Sequence[tuple[type[PerdureError], Batch]] = (
            (StaleEpoch, Batch("r", 0, 1, events(2, 2))),
            (StaleEpoch, Batch("r", 2, 1, events(2, 2))),
            (SeqConflict, Batch("r", 1, 0, events(1, 1))),
            (SeqConflict, Batch("r", 1, 2, events(3, 3))),
            (SeqConflict, Batch("r", 1, 1, events(3, 3))),
            (SeqConflict, Batch("r", 1, 1, (event(2), event(2)))),
            (SeqConflict, Batch("r", 1, 1, snapshot=Snapshot(2, b"", b""))),
            (InboxMoved, Batch("r", 1, 1, events(2, 2), inbox_seen=0)),
            (InboxMoved, Batch("r", 1, 1, events(2, 2), taken=(2,))),
            (Expired, Batch("r", 1, 1, events(2, 2), not_after=now)),
        )
        for kind, batch in wrong:
            with refused(kind):
                await store.append(batch)
        right = Batch("r", 1, 1, events(2, 2), inbox_seen=1, not_after=now + 1, taken=(1,))
        await store.append(right)
        with refused(InboxMoved):
            await store.append(Batch("r", 1, 2, events(3, 3), taken=(1,)))

    @promise
    async def test_nothing_follows_the_end(self, trial: Trial) -> None:
        await trial.lease()
        await trial.store.append(Batch("r", 1, 1, events(2, 2), RowChange(status="failed", terminal=True)))
        row = await trial.store.row("r")
        assert (row.terminal, row.status, row.worker, row.lost) == (True, "failed", None, None)
        for batch in (Batch("r", 1, 2, events(3, 3)), Batch("r", 1, 2, row=RowChange(status="ready"))):
            with refused(RunEnded):
                await trial.store.append(batch)
        with refused(StaleEpoch):
            await trial.store.append(Batch("r", 0, 2, events(3, 3)))
        with refused(RunEnded):
            await trial.store.deliver(message("r", "m"))
        trial.clock.advance(1000)
        assert await trial.next_ids() == []
        assert await trial.store.claim(Claim("w", 30, run_id="r")) == ()
        assert await trial.store.due() == NEVER

    @promise
    async def test_time_never_decides_who_is_newer(self, trial: Trial) -> None:
        """Appends with a frozen clock, and with one that was set back between them, are accepted in order."""
        await trial.lease()
        for seq in range(1, 51):
            await trial.store.append(Batch("r", 1, seq, events(seq + 1, seq + 1)))
        for seq in range(51, 61):
            trial.clock.set_back(5)
            await trial.store.append(Batch("r", 1, seq, events(seq + 1, seq + 1)))
        assert await trial.store.read("r") == events(1, 61)

    @promise
    async def test_a_row_change_touches_what_it_names(self, trial: Trial) -> None:
        await trial.lease()
        trial.clock.advance(1)
        change = RowChange("waiting", 77, info=b"why", version="2")
        await trial.store.append(Batch("r", 1, 1, row=change))
        row = await trial.store.row("r")
        assert (row.status, row.due_at, row.info, row.version) == ("waiting", 77, b"why", "2")
        assert (row.seq, row.worker, row.updated_at) == (1, "w1", trial.clock.now())
        await trial.store.append(Batch("r", 1, 1, row=RowChange(info=b"")))
        row = await trial.store.row("r")
        assert (row.status, row.due_at, row.info, row.version) == ("waiting", 77, b"", "2")

    # -- snapshots and blobs

    @promise
    async def test_the_newest_snapshot_is_loaded_with_the_events_after_it(self, trial: Trial) -> None:
        await trial.lease()
        first, second = Snapshot(2, b"at two", b"d" * 16), Snapshot(3, b"at three", b"e" * 16)
        await trial.store.append(Batch("r", 1, 1, events(2, 2), snapshot=first))
        await trial.store.append(Batch("r", 1, 2, events(3, 4), snapshot=second))
        loaded = await trial.store.load("r")
        assert (loaded.snapshot, loaded.events) == (second, events(4, 4))
        assert await trial.store.snapshots("r") == (second,)
        assert await trial.store.read("r") == events(1, 4)

    @promise
    async def test_older_snapshots_stay_if_asked_for(self, trial: Trial) -> None:
        await trial.lease()
        kept = tuple(Snapshot(seq, b"%d" % seq, b"d" * 16) for seq in (2, 3, 4))
        for snapshot in kept:
            batch = Batch("r", 1, snapshot.seq - 1, events(snapshot.seq, snapshot.seq), snapshot=snapshot)
            await trial.store.append(replace(batch, kept=snapshot.seq))
        assert await trial.store.snapshots("r") == kept

    @promise
    async def test_a_blob_is_kept_once_and_a_missing_one_is_damage(self, trial: Trial) -> None:
        await trial.lease()
        blob = Blob(b"k" * 16, b"v" * 300_000)
        await trial.store.append(Batch("r", 1, 1, events(2, 2), blobs=(blob,)))
        await trial.store.append(Batch("r", 1, 2, events(3, 3), blobs=(blob,)))
        assert await trial.store.blob("r", blob.digest) == blob.data
        assert (await trial.store.stats()).blob_bytes == self.size_of(blob)
        await trial.new_run("s")
        with refused(Damaged):
            await trial.store.blob("s", blob.digest)
