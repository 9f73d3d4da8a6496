"""Parked runs are brought to today's code: each whole, beside workers, and again without harm."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Approval, DeployPolicy
from perdure.runtime.bringing import Brought
from perdure.state import events as e
from perdure.store.protocol import NEVER
from tests.unit.runtime.people import asked, decide
from tests.unit.runtime.stage import RUN, Stage, World
from tests.unit.runtime.test_adoption import payer, renamed_field, shop, untouched, word
from tests.unit.runtime.test_voided_lists import open_requests


def one(world: World, **options: Any) -> Any:
    """Version one."""
    return shop(payer(world), **options)


def two(world: World, **options: Any) -> Any:
    """Version two."""
    return renamed_field(shop(payer(world), state_version=2, **options))


async def brought(stage: Stage, made: Any, **how: Any) -> list[Brought]:
    """What comes of the runs."""
    async with stage.runtime(made) as place:
        return list((await place.migrate(**how)).runs)


async def test_a_parked_run_is_brought_over_and_lies_as_it_lay(stage: Stage) -> None:
    world = World()
    await stage.run(one(world))
    before = await stage.store.row(RUN)
    (run,) = await brought(stage, two(world))
    assert (run.how, run.from_version, run.to_version) == ("migrated", 1, 2)
    row = await stage.store.row(RUN)
    assert (row.status, row.due_at, row.pending, row.worker) == ("waiting", NEVER, 0, None)
    assert (row.version, row.claims, row.info) == ("1 state-2", before.claims, before.info)
    assert (await stage.kinds())[-2:] == ["run.resumed", "run.migrated"]
    assert (await stage.state()) == {"goods": ["tea"]}
    (again,) = await brought(stage, two(world))
    assert again.how == "current"
    await word(stage)
    assert (await stage.run(two(world), check=True)).status == "succeeded"
    assert len(world) == 1
    assert len(await stage.bodies(e.RunMigrated)) == 1
    await stage.blameless(world)


async def test_a_plan_writes_nothing(stage: Stage) -> None:
    world = World()
    await stage.run(one(world))
    before = await untouched(stage)
    (run,) = await brought(stage, two(world), plan=True)
    assert run.how == "migrated"
    assert await untouched(stage) == before


async def test_a_run_that_died_in_its_step_keeps_what_is_unknown(stage: Stage) -> None:
    world = World()
    await stage.crash(one(world), "call.acted")
    (run,) = await brought(stage, two(world))
    assert run.how == "migrated"
    assert (await stage.record()).calls["1:0"].standing == "unknown"
    assert (await stage.store.row(RUN)).status == "ready"
    assert (await stage.run(two(world))).status == "waiting"
    assert len(world) == 1
    await stage.blameless(world)


async def test_what_is_sent_meanwhile_is_kept(stage: Stage) -> None:
    world = World()
    await stage.run(one(world))
    await word(stage)
    (run,) = await brought(stage, two(world))
    assert (run.how, (await stage.store.row(RUN)).pending) == ("migrated", 1)
    assert (await stage.run(two(world))).result[1] == "now"


@pytest.mark.parametrize("boundary", ["migrate.nudge", "migrate.claimed", "migrate.write", "migrate.done"])
async def test_a_kill_leaves_each_run_old_or_new(stage: Stage, boundary: str) -> None:
    world = World()
    await stage.run(one(world))
    await stage.crash_in(boundary, lambda place: place.migrate(), two(world))
    record = await stage.record()
    assert record.state == ({"items": ["tea"]} if record.state_version == 1 else {"goods": ["tea"]})
    assert (record.state_version == 2) is (boundary == "migrate.done")
    await brought(stage, two(world))
    assert (await stage.record()).state == {"goods": ["tea"]}
    await word(stage)
    assert (await stage.run(two(world))).status == "succeeded"
    assert len(await stage.bodies(e.RunMigrated)) == 1


async def test_what_fails_is_left_as_it_was(stage: Stage) -> None:
    world = World()
    await stage.run(one(world))
    events, _ = await untouched(stage)
    bad = shop(payer(world), state_version=2)
    bad.migration(1)(lambda old: {"goods": old["missing"]})
    (run,) = await brought(stage, bad, plan=True)
    assert (run.how, "[M306]" in run.detail) == ("failed", True)
    (run,) = await brought(stage, bad)
    assert run.how == "failed"
    after, row = await untouched(stage)
    assert (after, row.pending, row.status) == (events, 0, "held")
    (run,) = await brought(stage, bad)
    assert run.how == "failed", "it is tried again when somebody asks"
    (run,) = await brought(stage, two(world))
    assert run.how == "migrated"
    await word(stage)
    assert (await stage.run(two(world))).status == "succeeded"


async def test_what_a_person_decides_is_not_decided(stage: Stage) -> None:
    world = World()
    await stage.run(one(world))
    events, _ = await untouched(stage)
    changed = renamed_field(
        shop(payer(world, effect="idempotent"), state_version=2, on_change=DeployPolicy(tool_changed="hold"))
    )
    for plan in (True, False):
        (run,) = await brought(stage, changed, plan=plan)
        assert (run.how, "effect pay" in run.detail) == ("asks", True)
    after, row = await untouched(stage)
    assert (after, row.pending, row.status) == (events, 0, "waiting")


async def test_a_request_that_is_void_is_asked_anew_by_the_next_worker(stage: Stage) -> None:
    """Nobody could decide what is void: the run does not wait for it until its end (law 20)."""
    world = World()
    old = await asked(stage, shop(payer(world, approval=Approval())))
    policy = DeployPolicy(renamed={"pay": "charge"})
    new = renamed_field(shop(payer(world, "charge", approval=Approval()), state_version=2, on_change=policy))
    (run,) = await brought(stage, new)
    row = await stage.store.row(RUN)
    assert (run.how, row.status, row.due_at, row.asks) == ("migrated", "ready", 0, False)
    assert await open_requests(stage) == []
    again = await asked(stage, new)
    assert (again.tool, again.id != old.id) == ("charge", True)
    await decide(stage, "approve", again.id)
    await word(stage)
    assert (await stage.run(new)).status == "succeeded"
    assert len(world) == 1
    await stage.blameless(world)


async def test_pinned_and_newer_runs_are_left(stage: Stage) -> None:
    world = World()
    await stage.run(one(world, version="1", on_change=DeployPolicy(pin=True)))
    before = await untouched(stage)
    (run,) = await brought(stage, two(world, version="2"))
    assert (run.how, "pinned to version 1" in run.detail) == ("stranded", True)
    assert await untouched(stage) == before


async def test_an_older_state_that_waits_for_a_person_is_brought_over(stage: Stage) -> None:
    world = World()
    policy = DeployPolicy(state_older="hold")
    await stage.run(one(world))
    (run,) = await brought(stage, two(world, on_change=policy))
    assert run.how == "migrated"
    await word(stage)
    assert (await stage.run(two(world, on_change=policy))).status == "succeeded"


async def test_beside_a_worker_each_run_is_brought_over_once(stage: Stage) -> None:
    world = World()
    names = [f"r{number}" for number in range(20)]
    for name in names:
        await stage.run(one(world), run_id=name)
    async with stage.runtime(two(world), workers=4), stage.runtime(two(world)) as place:
        for name in names[::2]:
            await place.signal(name, "word", "now")
        found = await place.migrate()
        assert set(found.counts) <= {"migrated", "busy", "current"}
        async with asyncio.timeout(20):
            while any([(await stage.store.row(name)).version == "1" for name in names]):
                await asyncio.sleep(0.02)
                await place.migrate()
    for name in names:
        assert len(await stage.bodies(e.RunMigrated, name)) == 1
        assert (await stage.record(name)).state_version == 2
    assert len(world) == len(names)
