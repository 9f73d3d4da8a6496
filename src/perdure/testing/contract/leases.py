"""Promises about who works on a run: claims, renewals, ends of leases, and when there is something to do."""

from __future__ import annotations

import asyncio

from perdure.clock import SECOND
from perdure.errors import StaleEpoch
from perdure.store.protocol import NEVER, RESTORER, Batch, Claim, Query, RowChange
from perdure.testing.contract.trial import Promises, Trial, events, message, new_run, promise, refused


class LeasePromises(Promises):
    """Who works on a run."""

    @promise
    async def test_a_claim_leases_a_run_that_is_due(self, trial: Trial) -> None:
        await trial.new_run()
        (claimed,) = await trial.store.claim(Claim("w1", 30))
        row = claimed.row
        assert (claimed.previous, claimed.previous_until, claimed.died) == (None, 0, False)
        assert (row.run_id, row.epoch, row.worker, row.claims) == ("r", 1, "w1", 1)
        assert row.lease_until == trial.clock.now() + 30 * SECOND
        assert await trial.store.row("r") == row

    @promise
    async def test_a_run_is_leased_to_one_worker_only(self, trial: Trial) -> None:
        for number in range(10):
            await trial.new_run(f"r{number}")
        got = await asyncio.gather(*(trial.next_ids(f"w{number}", limit=3) for number in range(8)))
        ids = [run_id for some in got for run_id in some]
        assert sorted(ids) == [f"r{number}" for number in range(10)]
        assert await trial.store.claim(Claim("w9", 30, run_id="r3")) == ()

    @promise
    async def test_a_store_that_is_brought_back_leaves_no_lease_and_lets_nobody_claim(
        self, trial: Trial
    ) -> None:
        store = trial.store
        for name in ("free", "leased", "waits", "ended"):
            await trial.new_run(name, due_at=NEVER if name == "waits" else 0)
        await store.claim(Claim("w1", 30, run_id="leased"))
        await store.claim(Claim("w1", 30, run_id="ended"))
        ended = RowChange(status="succeeded", terminal=True)
        await store.append(Batch("ended", 1, 1, row=ended, release=True))
        assert await store.restore() == 3
        with refused(StaleEpoch):
            await store.append(Batch("leased", 1, 1, events(2, 2)))
        assert await store.renew("w1", ["leased"], 30) == frozenset()
        await store.deliver(message("waits", "m"))
        trial.clock.advance(10 * 365 * 86_400)
        assert await store.claim(Claim("w2", 30, limit=9)) == ()
        assert await store.claim(Claim("w2", 30, run_id="waits")) == ()
        rows = {row.run_id: row for row in await store.list(Query())}
        assert {name: (row.worker, row.epoch) for name, row in rows.items()} == {
            "free": (RESTORER, 1),
            "leased": (RESTORER, 2),
            "waits": (RESTORER, 1),
            "ended": (None, 1),
        }
        assert await store.restore() == 3, "again, for one that did not finish"
        await store.append(Batch("leased", 3, 1, events(2, 2), release=True))
        (claimed,) = await store.claim(Claim("w2", 30, limit=9))
        assert (claimed.row.run_id, claimed.row.epoch, claimed.row.claims) == ("leased", 4, 2)

    @promise
    async def test_nothing_is_claimed_before_it_is_due(self, trial: Trial) -> None:
        due_at = trial.clock.now() + 60 * SECOND
        await trial.new_run(due_at=due_at)
        assert await trial.next_ids() == []
        assert await trial.store.claim(Claim("w", 30, run_id="r")) == ()
        assert await trial.store.due() == due_at
        trial.clock.advance(59.999999)
        assert await trial.next_ids() == []
        trial.clock.advance(0.000001)
        assert await trial.store.due() == 0
        assert await trial.next_ids() == ["r"]

    @promise
    async def test_the_versions_of_open_runs_are_told(self, trial: Trial) -> None:
        assert await trial.store.versions(["agent", "other"]) == {"agent": frozenset(), "other": frozenset()}
        for name, version in (("r1", "1"), ("r2", "2 state-3"), ("r3", "3"), ("r4", "1")):
            await trial.store.create(new_run(name, agent="agent", version=version))
        await trial.store.create(new_run("r5", agent="other", version="5"))
        (claimed,) = await trial.store.claim(Claim("w", 30, run_id="r2"))
        told = await trial.store.versions(["agent"])
        assert told == {"agent": frozenset({"1", "2 state-3", "3"})}, "leased or waiting or ready"
        await trial.store.claim(Claim("w", 30, run_id="r3"))
        ended = RowChange(status="succeeded", terminal=True)
        await trial.store.append(Batch("r3", 1, 1, row=ended, release=True))
        moved = RowChange(version="1")
        await trial.store.append(Batch("r2", claimed.row.epoch, 1, row=moved, release=True))
        assert await trial.store.versions(["agent"]) == {"agent": frozenset({"1"})}
        assert await trial.store.versions(["other"]) == {"other": frozenset({"5"})}

    @promise
    async def test_a_message_makes_a_waiting_run_claimable(self, trial: Trial) -> None:
        await trial.lease()
        change = RowChange(status="waiting", due_at=NEVER)
        await trial.store.append(Batch("r", 1, 1, row=change, release=True))
        assert (await trial.next_ids(), await trial.store.due()) == ([], NEVER)
        await trial.store.deliver(message("r", "m1"))
        assert await trial.store.due() == 0
        assert await trial.next_ids() == ["r"]
        waits = Batch("r", 2, 1, events(2, 2), change, taken=(1,), release=True)
        await trial.store.append(waits)
        assert (await trial.next_ids(), await trial.store.due()) == ([], NEVER)

    @promise
    async def test_who_has_waited_longest_comes_first(self, trial: Trial) -> None:
        start = trial.clock.now()
        await trial.new_run("timer-late", due_at=start + 5 * SECOND)
        await trial.new_run("timer-early", due_at=start + 2 * SECOND)
        await trial.new_run("first")
        trial.clock.advance(3)
        await trial.new_run("second")
        trial.clock.advance(7)
        assert await trial.next_ids(limit=2) == ["first", "timer-early"]
        assert await trial.next_ids(limit=9) == ["second", "timer-late"]

    @promise
    async def test_a_run_that_was_given_back_goes_behind_the_others(self, trial: Trial) -> None:
        await trial.new_run("a")
        trial.clock.advance(1)
        await trial.new_run("b")
        for expected in ("a", "b", "a", "b"):
            trial.clock.advance(1)
            (claimed,) = await trial.store.claim(Claim("w", 30))
            assert claimed.row.run_id == expected
            await trial.store.release(expected, claimed.row.epoch)

    @promise
    async def test_a_worker_gets_only_what_it_serves(self, trial: Trial) -> None:
        for agent, version in (("a", "1"), ("a", "2"), ("b", "1"), ("", "")):
            name = f"{agent or 'none'}-{version}"
            await trial.store.create(new_run(name, agent=agent, version=version))
        one, both = frozenset({"1"}), frozenset({"1", "2"})
        assert await trial.next_ids(agents={"a": frozenset({"3"}), "c": frozenset()}, limit=9) == []
        assert await trial.store.due(Claim("w", 30, {"a": frozenset({"3"})})) == NEVER
        assert await trial.store.due(Claim("w", 30, {"a": both})) == 0
        assert await trial.next_ids(agents={"a": one}, limit=9) == ["a-1"]
        assert await trial.next_ids(agents={"a": frozenset(), "b": frozenset({"2"})}, limit=9) == ["a-2"]
        assert await trial.store.claim(Claim("w", 30, {"a": both}, run_id="b-1")) == ()
        assert sorted(await trial.next_ids(limit=9)) == ["b-1", "none-"]

    @promise
    async def test_only_the_stores_clock_ends_a_lease(self, trial: Trial) -> None:
        await trial.lease(worker="w1", seconds=30)
        trial.clock.advance(29.999999)
        assert await trial.next_ids("w2") == []
        trial.clock.advance(0.000001)
        row = await trial.store.row("r")
        assert (row.worker, row.lease_until, row.lost, row.died) == (None, 0, "w1", False)
        claimed = await trial.claim("r", worker="w2")
        assert (claimed.previous, claimed.died) == ("w1", False)
        assert claimed.previous_until == trial.clock.now()
        assert (claimed.row.epoch, claimed.row.claims, claimed.row.lost) == (2, 2, None)

    @promise
    async def test_due_tells_when_a_lease_will_end(self, trial: Trial) -> None:
        await trial.lease(seconds=30)
        assert await trial.store.due() == trial.clock.now() + 30 * SECOND
        trial.clock.advance(31)
        assert await trial.store.due() == 0

    @promise
    async def test_a_lease_that_was_given_back_is_free_at_once(self, trial: Trial) -> None:
        await trial.lease(worker="w1")
        await trial.store.release("r", 0)
        assert await trial.next_ids("w2") == []
        await trial.store.release("r", 1)
        row = await trial.store.row("r")
        assert (row.worker, row.lease_until, row.claims, row.lost) == (None, 0, 0, None)
        claimed = await trial.claim("r", worker="w2")
        assert (claimed.previous, claimed.previous_until, claimed.died) == ("w1", 0, False)
        await trial.store.release("r", 1)
        assert (await trial.store.row("r")).worker == "w2"

    @promise
    async def test_an_append_can_give_the_lease_back(self, trial: Trial) -> None:
        await trial.lease()
        await trial.store.append(Batch("r", 1, 1, events(2, 2), release=True))
        assert (await trial.store.row("r")).worker is None
        await trial.store.append(Batch("r", 1, 2, events(3, 3)))  # until the next claim it may still write

    @promise
    async def test_renewing_extends_what_is_still_held(self, trial: Trial) -> None:
        await trial.lease("r", worker="w1", seconds=30)
        await trial.lease("s", worker="w2", seconds=30)
        trial.clock.advance(20)
        assert await trial.store.renew("w1", ["r", "s", "unknown"], 30) == {"r"}
        trial.clock.advance(20)
        assert await trial.next_ids("w3", limit=9) == ["s"]

    @promise
    async def test_a_lease_that_ran_out_is_not_revived(self, trial: Trial) -> None:
        await trial.lease(worker="w1", seconds=30)
        trial.clock.advance(30)
        assert await trial.store.renew("w1", ["r"], 30) == frozenset()
        assert await trial.next_ids("w2") == ["r"]

    @promise
    async def test_a_worker_that_slept_past_its_lease_can_do_nothing(self, trial: Trial) -> None:
        await trial.lease(worker="w1", seconds=30)
        trial.clock.advance(31)
        await trial.claim("r", worker="w2")
        assert await trial.store.renew("w1", ["r"], 30) == frozenset()
        await trial.store.release("r", 1)
        with refused(StaleEpoch):
            await trial.store.append(Batch("r", 1, 1, events(2, 2), RowChange(status="stolen")))
        row = await trial.store.row("r")
        assert (row.worker, row.epoch, row.seq, row.status) == ("w2", 2, 1, "ready")
        assert await trial.store.renew("w2", ["r"], 30) == {"r"}

    @promise
    async def test_a_clock_set_back_steals_no_lease(self, trial: Trial) -> None:
        await trial.lease(worker="w1", seconds=30)
        trial.clock.set_back(3600)
        assert await trial.next_ids("w2") == []
        assert await trial.store.renew("w1", ["r"], 30) == {"r"}
        await trial.new_run("s")
        trial.clock.set_back(3600)
        assert await trial.next_ids("w2") == ["s"]

    @promise
    async def test_claims_without_progress_are_counted(self, trial: Trial) -> None:
        await trial.new_run()
        for count in (1, 2, 3):
            assert (await trial.claim("r")).row.claims == count
            trial.clock.advance(31)
        row = (await trial.claim("r")).row
        await trial.store.append(Batch("r", row.epoch, 1, events(2, 2)))
        assert (await trial.store.row("r")).claims == 4
        await trial.store.append(Batch("r", row.epoch, 2, events(3, 3), RowChange(progress=True)))
        assert (await trial.store.row("r")).claims == 0

    @promise
    async def test_enlisting_frees_nothing_of_the_living(self, trial: Trial) -> None:
        await trial.store.enlist("w1")
        await trial.store.enlist("w1")
        await trial.lease(worker="w1")
        await trial.lease("s", worker="never-enlisted")
        await trial.store.enlist("w2")
        assert await trial.next_ids("w2", limit=9) == []
