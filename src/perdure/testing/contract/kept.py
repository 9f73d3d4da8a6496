"""Promises about writing everything anew: all that is kept is found, and a value is replaced only if it is
still the one that was read.
"""

from __future__ import annotations

from msgspec.structs import replace

from perdure.errors import WorkerTaken
from perdure.store.kept import MARK, PAGE_BYTES, PARTS, Kept, Part
from perdure.store.protocol import Batch, Blob, Compaction, RowChange, Snapshot, Store
from perdure.testing.contract.trial import Promises, Trial, event, events, message, new_run, promise, refused


class KeptPromises(Promises):
    """What lies in a store, read and replaced as it is."""

    @promise
    async def test_everything_that_is_kept_is_found(self, trial: Trial) -> None:
        await _filled(trial)
        assert {part: len(await _all(trial.store, part)) for part in PARTS} == {
            "event": 5,
            "snapshot": 2,
            "blob": 2,
            "inbox": 1,
            "info": 1,
            "left": 3,
            "key": 1,
        }
        found = {(one.run_id, one.seq) for one in await _all(trial.store, "event")}
        assert found == {("c", 3), ("r", 1), ("r", 2), ("s", 1), ("s", 2)}
        [waiting] = await _all(trial.store, "inbox")
        assert (waiting.run_id, waiting.id, waiting.kind) == ("s", "m-2", "signal")

    @promise
    async def test_large_values_come_in_pages(self, trial: Trial) -> None:
        await trial.lease()
        large = tuple(event(seq, bytes((seq,)) * (PAGE_BYTES - 100)) for seq in range(2, 5))
        await trial.store.append(Batch("r", 1, 1, large))
        first = await trial.store.kept("event")
        assert 0 < len(first) < 4
        assert [one.seq for one in await _all(trial.store, "event")] == [1, 2, 3, 4]

    @promise
    async def test_a_value_is_replaced_if_it_is_still_there(self, trial: Trial) -> None:
        await _filled(trial)
        for part in PARTS:
            for old in await _all(trial.store, part):
                digest = bytes(255 - byte for byte in old.digest)
                new = replace(old, data=b"new " + old.data, digest=digest)
                assert await trial.store.swap([(old, new)]) == 1, part
                assert new.data in [one.data for one in await _all(trial.store, part)]
                assert await trial.store.swap([(old, new)]) == 0, part
        assert (await trial.store.row("r")).seq == 2
        [blob, _] = await _all(trial.store, "blob")
        assert await trial.store.swap([(blob, replace(blob, data=b"under its name"))]) == 1
        assert b"under its name" in [one.data for one in await _all(trial.store, "blob")]
        both = [(one, replace(one, data=b"newer")) for one in (await _all(trial.store, "event"))[:2]]
        await trial.store.swap(both[:1])
        assert await trial.store.swap(both) == 1, "each is judged by itself"

    @promise
    async def test_its_owner_goes_on_beside_it(self, trial: Trial) -> None:
        """What a store knows of a row that it has leased is what lies there."""
        claimed = await trial.lease()
        await trial.store.append(Batch("r", claimed.row.epoch, 1, row=RowChange(info=b"before")))
        [old] = await _all(trial.store, "info")
        await trial.store.swap([(old, replace(old, data=b"after"))])
        await trial.store.append(Batch("r", claimed.row.epoch, 1, events(2, 2), RowChange(status="running")))
        assert [one.data for one in await _all(trial.store, "info")] == [b"after"]

    @promise
    async def test_a_blob_may_come_to_lie_where_it_lies_already(self, trial: Trial) -> None:
        await trial.lease()
        blobs = (Blob(b"1" * 16, b"same"), Blob(b"2" * 16, b"same"))
        await trial.store.append(Batch("r", 1, 1, events(2, 2), blobs=blobs))
        old, other = await _all(trial.store, "blob")
        assert await trial.store.swap([(old, replace(old, digest=other.digest))]) == 1
        assert [one.digest for one in await _all(trial.store, "blob")] == [other.digest]

    @promise
    async def test_the_mark_is_set_while_nobody_works(self, trial: Trial) -> None:
        mark = await trial.store.key(MARK, b"\1" + bytes(8))
        assert mark is not None
        assert await _all(trial.store, "key") == []
        old = Kept("key", (MARK,), MARK, mark)
        if self.shared:
            await trial.store.enlist("w1")
            with refused(WorkerTaken):
                await trial.store.swap([(old, replace(old, data=mark + b"!"))], alone=True)
            assert await trial.store.key(MARK) == mark
        assert await trial.store.swap([(old, replace(old, data=mark + b"!"))]) == 1
        assert await trial.store.key(MARK) == mark + b"!"
        assert await trial.store.scrub(whole=True)
        assert await trial.store.key(MARK) == mark + b"!"


async def _filled(trial: Trial) -> None:
    """Something of each part: two open runs, a compacted one, one that is gone."""
    await trial.lease("r")
    await trial.store.key("r", b"key of r")
    blobs = (Blob(b"1" * 16, b"one"), Blob(b"2" * 16, b"two"))
    kept = Snapshot(2, b"at two", b"b" * 16)
    change = RowChange(info=b"why")
    await trial.store.append(Batch("r", 1, 1, events(2, 2), row=change, snapshot=kept, blobs=blobs))
    claimed = await trial.lease("s")
    await trial.store.deliver(message("s", "m-1"))
    await trial.store.deliver(message("s", "m-2"))
    await trial.store.append(Batch("s", claimed.row.epoch, 1, events(2, 2), taken=(1,)))
    await trial.store.create(new_run("c", events=3))
    await trial.store.compact(Compaction("c", Snapshot(2, b"base", b"b" * 16), (b"left", b"behind")))
    await trial.lease("gone")
    await trial.store.append(Batch("gone", 1, 1, row=RowChange(status="done", terminal=True)))
    await trial.store.drop("gone", (b"tombstone",))


async def _all(store: Store, part: Part) -> list[Kept]:
    found: list[Kept] = []
    while page := await store.kept(part, found[-1] if found else None):
        found += page
    return found
