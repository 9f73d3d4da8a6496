"""Promises about keys of personal data: one for a run, made once, destroyed for good."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from perdure.errors import NoSuchRun, RunGone, RunOpen
from perdure.store.protocol import Batch, RowChange
from perdure.testing.contract.trial import Promises, Trial, new_run, promise, refused


class KeyPromises(Promises):
    """Keys, and their end."""

    @promise
    async def test_a_key_is_made_once(self, trial: Trial) -> None:
        assert await trial.store.key("r") is None
        assert await trial.store.key("r", b"first") == b"first"
        await trial.new_run()
        assert await trial.store.key("r", b"second") == b"first"
        assert await trial.store.key("r") == b"first"
        assert await trial.store.key("s") is None

    @promise
    async def test_of_many_who_make_one_all_get_the_same(self, trial: Trial) -> None:
        other = await trial.another() if self.shared else trial.store
        made = (store.key("r", b"key %d" % n) for n, store in enumerate([trial.store, other] * 4))
        assert len(set(await asyncio.gather(*made))) == 1

    @promise
    async def test_a_key_outlives_its_process(self, trial: Trial) -> None:
        await trial.store.key("r", b"first")
        if self.shared:
            assert await (await trial.another()).key("r") == b"first"

    @promise
    async def test_only_keys_of_ended_runs_are_destroyed_and_all_or_none(self, trial: Trial) -> None:
        await _ended(trial, "r")
        await trial.lease("s")
        for run_id in ("r", "s"):
            await trial.store.key(run_id, run_id.encode())
        with refused(RunOpen):
            await trial.store.erase(("r", "s"))
        with refused(NoSuchRun):
            await trial.store.erase(("r", "nobody"))
        assert [await trial.store.key(run_id) for run_id in ("r", "s")] == [b"r", b"s"]

    @promise
    async def test_a_destroyed_key_is_gone_for_good(self, trial: Trial) -> None:
        for run_id in ("r", "s"):
            await _ended(trial, run_id)
        await trial.store.key("r", b"first")
        before = await trial.store.read("r")
        for _ in range(2):
            await trial.store.erase(("r", "s"))
            assert [await trial.store.key(run_id, b"new") for run_id in ("r", "s")] == [b"", b""]
        assert await trial.store.scrub()
        assert await trial.store.read("r") == before
        if self.shared:
            assert await (await trial.another()).key("r") == b""

    @promise
    async def test_runs_that_share_a_key_lose_it_together(self, trial: Trial) -> None:
        for run_id in ("r", "s", "t"):
            await _ended(trial, run_id)
        await trial.lease("open")
        for run_id, key in (("r", b"one"), ("s", b"one"), ("t", b"other"), ("never-made", b"one")):
            await trial.store.key(run_id, key)
        assert await trial.store.sharers("r") == ("never-made", "s")
        assert await trial.store.sharers("t") == await trial.store.sharers("nobody") == ()
        await trial.store.key("open", b"one")
        with refused(RunOpen):
            await trial.store.erase(("r",))
        assert await trial.store.key("s") == b"one"
        end = RowChange(status="succeeded", terminal=True)
        await trial.store.append(Batch("open", 1, 1, row=end, release=True))
        await trial.store.erase(("r",))
        left = [await trial.store.key(run_id) for run_id in ("r", "s", "open", "never-made", "t")]
        assert left == [b"", b"", b"", b"", b"other"]
        assert await trial.store.sharers("r") == ()

    @promise
    async def test_a_run_may_have_the_key_of_another_one_from_its_first_moment(self, trial: Trial) -> None:
        await trial.new_run("r")
        await trial.store.key("r", b"one")
        await trial.store.create(replace(new_run("f"), shares="r"))
        await trial.store.create(replace(new_run("g"), shares="nobody"))
        await trial.store.key("h", b"other")
        await trial.store.create(replace(new_run("h"), shares="r"))
        assert [await trial.store.key(run_id) for run_id in "fgh"] == [b"one", None, b"other"]
        assert await trial.store.sharers("r") == ("f",)

    @promise
    async def test_a_removed_run_leaves_no_key_and_gets_none(self, trial: Trial) -> None:
        await _ended(trial, "r")
        await trial.store.key("r", b"first")
        await trial.store.drop("r")
        assert await trial.store.key("r") is None
        with refused(RunGone):
            await trial.store.key("r", b"second")
        with refused(RunGone):
            await trial.store.erase(("r",))


async def _ended(trial: Trial, run_id: str) -> None:
    await trial.lease(run_id)
    end = RowChange(status="succeeded", terminal=True)
    await trial.store.append(Batch(run_id, 1, 1, row=end, release=True))
