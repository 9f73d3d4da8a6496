"""Promises about whose turn it is: queues, tags, priorities, turns of agents, limits of agents and keys."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from perdure.clock import SECOND
from perdure.store.protocol import AGEING, NEVER, Batch, Claim, Placement, Query, RowChange
from perdure.testing.contract.trial import Promises, Trial, message, new_run, promise

CUSTOMER = Placement(limit_key="customer-7", key_limit=1)
"""One run of a customer at a time."""


async def placed(trial: Trial, run_id: str, agent: str = "a", version: str = "1", **how: Any) -> None:
    """A run that stands so."""
    run = replace(new_run(run_id, agent=agent, version=version), placement=Placement(**how))
    await trial.store.create(run)


async def leased(trial: Trial, claim: Claim) -> list[str]:
    """What a claim gets."""
    return [one.row.run_id for one in await trial.store.claim(claim)]


class TurnPromises(Promises):
    """Who comes next, and who must wait."""

    @promise
    async def test_a_placement_is_kept_as_it_was_created(self, trial: Trial) -> None:
        place = Placement("night", ("eu", "gpu"), -3, "customer-7", 4)
        row, _ = await trial.store.create(replace(new_run("r"), placement=place))
        assert (row.placement, (await trial.store.row("r")).placement) == (place, place)
        claimed = await trial.claim("r")
        assert claimed.row.placement == place
        await trial.store.append(
            Batch("r", 1, 1, row=RowChange(status="waiting", due_at=NEVER), release=True)
        )
        assert (await trial.store.load("r")).row.placement == place
        await trial.new_run("plain")
        assert (await trial.store.row("plain")).placement == Placement()

    @promise
    async def test_lists_are_filtered_by_where_runs_stand(self, trial: Trial) -> None:
        await placed(trial, "a", queue="night", tags=("eu", "gpu"), priority=5)
        await placed(trial, "b", queue="night", tags=("gpu-2",), limit_key="k")
        await placed(trial, "c", priority=-1, limit_key="k")
        found = {
            "ab": Query(queue="night"),
            "c": Query(queue="default"),
            "a": Query(tags=("gpu",)),
            "": Query(tags=("gpu", "us")),
            "bc": Query(limit_key="k"),
            "b": Query(limit_key="k", queue="night"),
            "ab ": Query(priority=0),
        }
        for wanted, query in found.items():
            ids = "".join(sorted(row.run_id for row in await trial.store.list(query)))
            assert ids == wanted.strip(), query

    @promise
    async def test_a_worker_of_some_queues_takes_no_others(self, trial: Trial) -> None:
        await placed(trial, "day", queue="day")
        await placed(trial, "night", queue="night")
        await placed(trial, "plain")
        night = Claim("w", 30, limit=9, queues=frozenset({"night", "evening"}))
        assert await trial.store.due(replace(night, queues=frozenset({"evening"}))) == NEVER
        assert await trial.store.due(night) == 0
        assert await leased(trial, night) == ["night"]
        assert sorted(await leased(trial, Claim("w", 30, limit=9))) == ["day", "plain"]

    @promise
    async def test_a_run_goes_only_where_its_tags_are_offered(self, trial: Trial) -> None:
        await placed(trial, "both", tags=("eu", "gpu"))
        await placed(trial, "gpu", tags=("gpu",))
        await placed(trial, "none")
        plain = Claim("w", 30, limit=9, tags=frozenset())
        assert await leased(trial, plain) == ["none"]
        assert await trial.store.due(plain) > trial.clock.now(), "only a lease's end"
        assert await leased(trial, replace(plain, tags=frozenset({"gpu", "ssd"}))) == ["gpu"]
        assert await leased(trial, replace(plain, tags=frozenset({"gpu", "eu", "ssd"}))) == ["both"]

    @promise
    async def test_the_more_urgent_comes_first(self, trial: Trial) -> None:
        for name, priority in (("low", -1), ("plain", 0), ("high", 5), ("higher", 6)):
            await placed(trial, name, priority=priority)
            trial.clock.advance(1)
        assert await leased(trial, Claim("w", 30, limit=9)) == ["higher", "high", "plain", "low"]

    @promise
    async def test_what_has_waited_long_enough_is_no_longer_passed_by(self, trial: Trial) -> None:
        await placed(trial, "low", priority=-2)
        await placed(trial, "timer", priority=0)
        trial.clock.advance(2 * AGEING / SECOND - 1)
        await placed(trial, "young")
        assert await leased(trial, Claim("w", 30, limit=2)) == ["timer", "young"], "a second too early"
        trial.clock.advance(2)
        await placed(trial, "younger")
        assert await leased(trial, Claim("w", 30, limit=9)) == ["low", "younger"]

    @promise
    async def test_a_timer_counts_from_the_moment_when_it_was_due(self, trial: Trial) -> None:
        due_at = trial.clock.now() + 10 * SECOND
        await trial.store.create(replace(new_run("timer", due_at=due_at), placement=Placement(priority=1)))
        trial.clock.advance(10 + AGEING / SECOND - 1)
        await trial.new_run("earlier")
        trial.clock.advance(2)
        await trial.new_run("later")
        assert await leased(trial, Claim("w", 30, limit=9)) == ["timer", "earlier", "later"]

    @promise
    async def test_agents_take_turns_whoever_came_first(self, trial: Trial) -> None:
        for number in range(6):
            await placed(trial, f"flood-{number}", agent="flood")
            trial.clock.advance(1)
        for number in range(2):
            await placed(trial, f"drop-{number}", agent="drop")
            trial.clock.advance(1)
        both: dict[str, frozenset[str]] = {"flood": frozenset(), "drop": frozenset()}
        first = await leased(trial, Claim("w", 30, both, limit=3))
        assert first == ["flood-0", "drop-0", "flood-1"]
        busy = Claim("w", 30, both, limit=2, busy={"flood": 5, "drop": 4})
        assert await leased(trial, busy) == ["drop-1", "flood-2"]
        turned = {"drop": both["drop"], "flood": both["flood"]}
        await placed(trial, "drop-2", agent="drop")
        assert await leased(trial, Claim("w", 30, turned)) == ["drop-2"]

    @promise
    async def test_an_agent_has_no_more_leases_than_its_limit(self, trial: Trial) -> None:
        for number in range(5):
            await placed(trial, f"r{number}")
            trial.clock.advance(1)
        await placed(trial, "other", agent="b")
        claim = Claim("w1", 30, limit=9, limits={"a": 2})
        assert sorted(await leased(trial, claim)) == ["other", "r0", "r1"]
        assert await leased(trial, replace(claim, worker="w2")) == []
        assert await trial.store.claim(replace(claim, run_id="r3")) == ()
        assert await trial.store.due(claim) == trial.clock.now() + 30 * SECOND
        await trial.store.release("r0", 1)
        assert await leased(trial, replace(claim, worker="w2")) == ["r2"]
        trial.clock.advance(31)
        assert await leased(trial, replace(claim, worker="w2", agents={"a": frozenset()})) == ["r3", "r4"]

    @promise
    async def test_a_key_has_no_more_leases_than_its_limit(self, trial: Trial) -> None:
        for number in range(4):
            await placed(trial, f"r{number}", agent="ab"[number % 2], limit_key="k", key_limit=2)
            trial.clock.advance(1)
        await placed(trial, "other", limit_key="l")
        await placed(trial, "plain")
        claim = Claim("w1", 30, limit=9)
        assert sorted(await leased(trial, claim)) == ["other", "plain", "r0", "r1"]
        assert await leased(trial, replace(claim, worker="w2")) == []
        assert await trial.store.claim(replace(claim, run_id="r2")) == ()
        await trial.store.append(Batch("r1", 1, 1, row=RowChange(status="done", terminal=True)))
        assert await leased(trial, replace(claim, worker="w2")) == ["r2"]
        assert await leased(trial, replace(claim, worker="w2")) == []
        await trial.store.release("r0", 1)
        assert (await trial.store.claim(replace(claim, run_id="r3")))[0].row.epoch == 1

    @promise
    async def test_a_place_of_a_key_is_free_when_its_lease_has_ended(self, trial: Trial) -> None:
        """Field case O-061."""
        for name in ("first", "second", "third"):
            await trial.store.create(replace(new_run(name), placement=CUSTOMER))
            trial.clock.advance(1)
        claim = Claim("w1", 30, limit=9)
        assert await leased(trial, claim) == ["first"]
        assert await leased(trial, claim) == []
        assert await trial.store.due(claim) == trial.clock.now() + 30 * SECOND
        trial.clock.advance(30)
        assert await trial.store.due(claim) == 0
        assert len(await leased(trial, claim)) == 1

    @promise
    async def test_those_who_wait_for_a_key_keep_their_order(self, trial: Trial) -> None:
        await placed(trial, "zero", limit_key="k")
        (zero,) = await trial.store.claim(Claim("w", 30))
        for name, priority in (("low", -1), ("first", 0), ("second", 0), ("high", 1)):
            await placed(trial, name, priority=priority, limit_key="k")
            trial.clock.advance(1)
        order = []
        run_id, epoch = "zero", zero.row.epoch
        for _ in range(4):
            assert await leased(trial, Claim("w", 30, limit=9)) == []
            row = RowChange(status="done", terminal=True)
            await trial.store.append(Batch(run_id, epoch, 1, row=row))
            (next_one,) = await trial.store.claim(Claim("w", 30, limit=9))
            run_id, epoch = next_one.row.run_id, next_one.row.epoch
            order.append(run_id)
        assert order == ["high", "first", "second", "low"]

    @promise
    async def test_who_nobody_serves_keeps_nobody_from_a_key(self, trial: Trial) -> None:
        await placed(trial, "zero", limit_key="k")
        await trial.store.claim(Claim("w", 30))
        await placed(trial, "stranded", version="0", limit_key="k")
        await placed(trial, "far", queue="far", limit_key="k")
        trial.clock.advance(1)
        await placed(trial, "served", limit_key="k")
        assert await leased(trial, Claim("w", 30, limit=9)) == []
        await trial.store.append(Batch("zero", 1, 1, row=RowChange(status="done", terminal=True)))
        claim = Claim("w", 30, {"a": frozenset({"1"})}, limit=9, queues=frozenset({"default"}))
        assert await leased(trial, claim) == ["served"]

    @promise
    async def test_a_waiting_run_can_be_ended_though_its_key_is_full(self, trial: Trial) -> None:
        for name in ("first", "second"):
            await trial.store.create(replace(new_run(name), placement=CUSTOMER))
        first, second = await leased(trial, Claim("w", 30, limit=9)), "second"
        second = "second" if first == ["first"] else "first"
        assert await leased(trial, Claim("w", 30, limit=9)) == []
        await trial.store.deliver(message(second, "cancel"))
        assert await trial.store.claim(Claim("w", 30, run_id=second)) == ()
        (claimed,) = await trial.store.claim(Claim("w", 30, run_id=second, drives=False))
        assert claimed.row.run_id == second

    @promise
    async def test_many_claims_at_once_pass_no_limit(self, trial: Trial) -> None:
        for number in range(30):
            key = f"k{number % 3}"
            await placed(trial, f"r{number}", agent="ab"[number % 2], limit_key=key, key_limit=2)
        claims = [
            Claim(f"w{number}", 30, limit=4, limits={"a": 2, "b": 9}) for number in range(8) for _ in range(3)
        ]
        await asyncio.gather(*(trial.store.claim(claim) for claim in claims))
        for _ in range(20):  # claims that were in each other's way took less than they might
            await trial.store.claim(Claim("w", 30, limit=4, limits={"a": 2, "b": 9}))
        rows = [row for row in await trial.store.list(Query()) if row.worker is not None]
        keys = [row.placement.limit_key for row in rows]
        assert {key: keys.count(key) for key in set(keys)} == {"k0": 2, "k1": 2, "k2": 2}
        assert sum(row.agent == "a" for row in rows) == 2
