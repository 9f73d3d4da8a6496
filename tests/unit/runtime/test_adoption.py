"""New code takes over old runs: what it accepts it records, what it does not it leaves as it was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

import perdure
from perdure import Agent, DeployPolicy, Done, NotDone
from perdure.codec import decode
from perdure.errors import MigrationFailed, MigrationGap, NotServed, ShapeMismatch, StateNewer
from perdure.journal import verify
from perdure.runtime.manifest import carrier_of, manifest_bytes, manifest_of
from perdure.state import events as e
from perdure.store.protocol import Batch, Claim, RowChange, RunRow
from tests.unit.runtime.stage import RUN, Stage, World, agent


def payer(world: World, name: str = "pay", **options: Any) -> Any:
    """An irreversible tool that can be asked what happened; its argument may be a list of the state."""

    @perdure.tool(**({"effect": "irreversible"} | options), name=name)
    async def pay(items: list[Any], cents: int) -> str:
        return str(world.act(f"{items} {cents}"))

    @pay.reconcile
    async def paid(items: list[Any], cents: int) -> Done[str] | NotDone:
        assert items == ["tea"], items
        found = world.find(perdure.current_call().key)
        return NotDone() if found is None else Done(found)

    return pay


def shop(pay: Any, **options: Any) -> Any:
    """Version one: the state is {"items": [...]}; it pays, waits for a word, and tells both."""

    async def step(run: Any) -> None:
        field = "goods" if "goods" in run.state else "items"
        receipt = await pay(run.state[field], 5)
        word = await run.wait("word", str, timeout=perdure.FOREVER)
        run.state["said"] = word
        run.finish([receipt, word, sorted(run.state)])

    made = agent(step, pay, **options)
    made._start = lambda goal: {"items": ["tea"]}
    return made


def renamed_field(made: Any, *, lossy: bool = False) -> Any:
    """Version two: items are goods."""

    def goods(old: dict[str, Any]) -> dict[str, Any]:
        return {"goods": old.pop("items"), **old}

    made.migration(1, lossy=lossy)(goods)
    return made


async def word(stage: Stage, *made: Any) -> None:
    """Say it."""
    async with stage.runtime(*made) as place:
        await place.signal(RUN, "word", "now")


async def untouched(stage: Stage) -> tuple[Any, RunRow]:
    """The run's bytes, and its row."""
    return await stage.store.read(RUN), await stage.store.row(RUN)


async def served(stage: Stage, made: Any, seconds: float = 0.3) -> None:
    """A worker of this code, for some time."""
    async with stage.runtime(made, workers=4):
        await asyncio.sleep(seconds)


# ------------------------------------------------------------------------------------------- migrations


@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("storage", ["log", "snapshot"])
async def test_an_older_state_is_migrated_and_its_open_step_replayed(
    stage: Stage, storage: str, lossy: bool
) -> None:
    world = World()
    assert (await stage.run(shop(payer(world), storage=storage))).status == "waiting"
    await word(stage)
    two = renamed_field(shop(payer(world), state_version=2, storage=storage), lossy=lossy)
    outcome = await stage.run(two, check=True)
    assert outcome.result == ["['tea'] 5", "now", ["goods", "said"]]
    assert len(world) == 1
    (migrated,) = await stage.bodies(e.RunMigrated)
    assert (migrated.from_version, migrated.to_version, migrated.lossy) == (1, 2, lossy)
    assert (decode(migrated.original) if lossy else migrated.original) == (
        {"items": ["tea"]} if lossy else b""
    )
    (resumed,) = [body for body in await stage.bodies(e.RunResumed) if body.manifest]
    assert decode(resumed.manifest)["state_version"] == 2
    assert (await stage.record()).state_version == 2
    assert (await stage.store.row(RUN)).version == "1 state-2"
    await stage.blameless(world)


@pytest.mark.parametrize("boundary", ["call.act", "call.acted"])
async def test_a_hook_gets_the_arguments_as_they_were(stage: Stage, boundary: str) -> None:
    world = World()
    await stage.crash(shop(payer(world)), boundary)
    two = renamed_field(shop(payer(world), state_version=2))
    assert (await stage.run(two)).status == "waiting"
    await word(stage)
    assert (await stage.run(two, check=True)).result[0] == "['tea'] 5"
    assert len(world) == 1
    kinds = await stage.kinds()
    assert kinds.index("run.migrated") == kinds.index("run.resumed") + 1
    await stage.blameless(world)


@pytest.mark.parametrize("boundary", ["migrate.write", "migrate.queued", "run.resumed", "step.commit"])
async def test_a_migration_is_whole_or_not_there(stage: Stage, boundary: str) -> None:
    world = World()
    await stage.run(shop(payer(world)))
    await word(stage)
    two = renamed_field(shop(payer(world), state_version=2))
    await stage.crash(two, boundary)
    record = await stage.record()
    old = record.state_version == 1
    assert record.state == ({"items": ["tea"]} if old else {"goods": ["tea"]})
    assert (await stage.run(two)).status == "succeeded"
    assert len(await stage.bodies(e.RunMigrated)) == 1
    assert len(world) == 1


async def test_a_second_migration_in_the_same_step(stage: Stage) -> None:
    world = World()
    await stage.crash(shop(payer(world)), "call.acted")
    two = renamed_field(shop(payer(world), state_version=2))
    await stage.crash(two, "wait.opened")
    three = renamed_field(shop(payer(world), state_version=3))
    three.migration(2)(lambda old: {**old, "more": 1})
    await word(stage)
    assert (await stage.run(three)).result[2] == ["goods", "more", "said"]
    assert [(one.from_version, one.to_version) for one in await stage.bodies(e.RunMigrated)] == [
        (1, 2),
        (2, 3),
    ]
    assert len(world) == 1


# --------------------------------------------------------------------------------------------- refusals


async def test_newer_state_is_not_touched(stage: Stage) -> None:
    world = World()
    two = renamed_field(shop(payer(world), state_version=2))
    two._start = lambda goal: {"goods": ["tea"]}
    await stage.run(two)
    await word(stage)
    before = await untouched(stage)
    one = shop(payer(world))
    with pytest.raises(StateNewer, match=r"its state has version 2; this code knows versions up to 1"):
        await stage.run(one)
    await served(stage, one)
    assert await untouched(stage) == before
    assert (await stage.run(two)).status == "succeeded"


async def test_a_state_that_no_migration_begins_at_is_not_touched(stage: Stage) -> None:
    world = World()
    await stage.run(shop(payer(world)))
    await word(stage)
    before = await untouched(stage)
    three = shop(payer(world), state_version=3)
    three.migration(2)(dict)
    with pytest.raises(MigrationGap, match="no migration leads from there to 3"):
        await stage.run(three)
    await served(stage, three)
    assert await untouched(stage) == before


async def test_a_row_that_does_not_tell_is_found_out_once(stage: Stage) -> None:
    world = World()
    two = renamed_field(shop(payer(world), state_version=2))
    two._start = lambda goal: {"goods": ["tea"]}
    await stage.run(two)
    await word(stage)
    (claimed,) = await stage.store.claim(Claim("other", 30, run_id=RUN))
    forged = RowChange(version="1")
    await stage.store.append(Batch(RUN, claimed.row.epoch, claimed.row.seq, row=forged, release=True))
    events, row = await untouched(stage)
    one = shop(payer(world))
    await served(stage, one)
    after, now = await untouched(stage)
    assert (after, now.version, now.epoch) == (events, "1 state-2", row.epoch + 1)
    await served(stage, one)
    assert await untouched(stage) == (after, now)
    assert now.pending == row.pending == 1


@pytest.mark.parametrize("kind", ["raises", "unfit"])
async def test_a_migration_that_fails_leaves_the_run_to_better_code(stage: Stage, kind: str) -> None:
    world = World()
    await stage.run(shop(payer(world)))
    await word(stage)
    events, row = await untouched(stage)
    bad = shop(payer(world), state_version=2)
    bad.migration(1)((lambda old: {"goods": old["missing"]}) if kind == "raises" else (lambda old: ["tea"]))
    error = MigrationFailed if kind == "raises" else ShapeMismatch
    with pytest.raises(error):
        await stage.run(bad)
    after, now = await untouched(stage)
    assert (after, now.status, now.pending) == (events, "held", 1)
    assert now.version.startswith("1 unfit-")
    assert decode(now.info)["reason"] == "migration-failed"
    with pytest.raises(MigrationFailed, match="failed"):
        await stage.run(bad)
    await served(stage, bad)
    assert await untouched(stage) == (after, now)
    found = await verify(stage.store, RUN)
    assert found.ok
    good = renamed_field(shop(payer(world), state_version=2))
    assert (await stage.run(good)).status == "succeeded"
    assert (await stage.store.row(RUN)).version == "1 state-2"
    assert row.epoch + 2 == (await stage.store.row(RUN)).epoch


async def test_a_changed_type_without_a_version_is_a_refusal_too(stage: Stage) -> None:
    world = World()
    await stage.run(shop(payer(world)))
    await word(stage)
    events, _ = await untouched(stage)
    bad = shop(payer(world))
    bad._state = dict[str, int]
    with pytest.raises(ShapeMismatch, match=r"\$\.state\.items should be int"):
        await stage.run(bad)
    after, now = await untouched(stage)
    await served(stage, bad)
    assert await untouched(stage) == (after, now)
    assert after == events
    assert (await stage.run(shop(payer(world)))).status == "succeeded"


# -------------------------------------------------------------------------------------------- versions


async def test_a_pinned_run_stays_on_its_version(stage: Stage) -> None:
    world = World()
    one = shop(payer(world), version="1", on_change=DeployPolicy(pin=True))
    await stage.run(one)
    await word(stage)
    before = await untouched(stage)
    two = shop(payer(world), version="2")
    with pytest.raises(NotServed, match="pinned to version 1"):
        await stage.run(two)
    await served(stage, two)
    assert await untouched(stage) == before
    await served(stage, one)
    assert (await stage.store.row(RUN)).status == "succeeded"


async def test_versions_that_are_compatible_are_carried_on(stage: Stage) -> None:
    world = World()
    await stage.run(shop(payer(world), version="1"))
    await word(stage)
    picky = shop(payer(world), version="3", on_change=DeployPolicy(compatible=["2"]))
    with pytest.raises(NotServed, match="on version 1"):
        await stage.run(picky)
    three = shop(payer(world), version="3", on_change=DeployPolicy(compatible=["1", "2"]))
    await served(stage, three)
    row = await stage.store.row(RUN)
    assert (row.status, row.version) == ("succeeded", "3")
    assert (await stage.record()).version == "3"
    (resumed,) = [body for body in await stage.bodies(e.RunResumed) if body.manifest]
    assert resumed.differences == ("version: 1 -> 3",)


async def test_older_code_leaves_what_newer_code_has_taken(stage: Stage) -> None:
    world = World()
    await stage.run(shop(payer(world), version="2"))
    await word(stage)
    before = await untouched(stage)
    await served(stage, shop(payer(world), version="1"))
    assert await untouched(stage) == before


# ------------------------------------------------------------------------------------------ differences


async def test_a_tool_in_use_that_changed_holds_until_someone_accepts(stage: Stage) -> None:
    world = World()
    await stage.crash(shop(payer(world)), "call.acted")
    changed = shop(payer(world, effect="idempotent"))
    held = await stage.run(changed)
    assert (held.status, held.reason) == ("held", "changed")
    assert (
        "[R214] effect pay: irreversible -> idempotent (the outcome of call 1:0 is not known)" in held.detail
    )
    known = (await stage.record()).manifest
    assert (await stage.run(changed)).reason == "changed", "looking again changes nothing"
    async with stage.runtime(changed) as place:
        await place.release(RUN, by="ana")
    assert (await stage.run(changed)).status == "waiting"
    assert (await stage.record()).manifest != known
    assert len(world) == 1
    other = shop(payer(world))
    assert (await stage.run(other)).status == "waiting", "no call is unknown any more"


async def test_what_was_accepted_is_accepted_of_that_code_only(stage: Stage) -> None:
    world = World()
    policy = DeployPolicy(tool_changed="hold")
    await stage.run(shop(payer(world)))
    two = shop(payer(world, effect="idempotent"), on_change=policy)
    await word(stage)
    assert (await stage.run(two)).reason == "changed"
    async with stage.runtime(two) as place:
        await place.release(RUN, by="ana")
    three = shop(payer(world, effect="read"), on_change=policy)
    assert (await stage.run(three)).reason == "changed"
    assert (await stage.record()).ended is None
    async with stage.runtime(three) as place:
        await place.release(RUN, by="ana")
    assert (await stage.run(three)).status == "succeeded"
    assert len(world) == 1


async def test_a_cancelled_run_ends_whatever_has_changed(stage: Stage) -> None:
    world = World()
    await stage.run(shop(payer(world)))
    made = shop(payer(world, effect="idempotent"), on_change=DeployPolicy(tool_changed="hold"))
    async with stage.runtime(made) as place:
        await place.cancel(RUN, by="ana")
    assert (await stage.run(made)).status == "cancelled"


async def test_a_tool_with_a_new_name_is_the_same_tool(stage: Stage) -> None:
    world = World()
    await stage.crash(shop(payer(world)), "call.acted")
    new = payer(world, "refund")
    policy = DeployPolicy(renamed={"pay": "refund"})
    assert (await stage.run(shop(new, on_change=policy))).status == "waiting"
    await word(stage)
    assert (await stage.run(shop(new, on_change=policy), check=True)).status == "succeeded"
    assert len(world) == 1
    assert (await stage.run(shop(new), run_id="r2")).status == "waiting"


async def test_a_settled_call_of_an_old_name_is_served(stage: Stage) -> None:
    world = World()
    await stage.run(shop(payer(world)))
    await word(stage)
    renamed = shop(payer(world, "refund"), on_change=DeployPolicy(renamed={"pay": "refund"}))
    assert (await stage.run(renamed)).status == "succeeded"
    (resumed,) = [body for body in await stage.bodies(e.RunResumed) if body.manifest]
    assert resumed.differences == ("tool-renamed pay: pay -> refund",)
    assert len(world) == 1


@pytest.mark.parametrize(
    "policy", [None, DeployPolicy(models={"m-1": "m-2"}), DeployPolicy(model_removed="go-on")]
)
async def test_a_model_that_is_gone_is_replaced_or_holds(stage: Stage, policy: DeployPolicy | None) -> None:
    def talker(name: str, **options: Any) -> Any:
        @perdure.model(name)
        async def chat(text: str) -> str:
            return perdure.current_call().model

        async def step(run: Any) -> None:
            await run.wait("word", str, timeout=perdure.FOREVER)
            run.finish(await chat("hello"))

        return agent(step, chat, **options)

    await stage.run(talker("m-1"))
    await word(stage)
    now = talker("m-2", **({} if policy is None else {"on_change": policy}))
    outcome = await stage.run(now)
    if policy is None:
        assert outcome.reason == "changed"
        assert "model-removed m-1" in outcome.detail
        async with stage.runtime(now) as place:
            await place.release(RUN, by="ana")
        outcome = await stage.run(now)
    assert outcome.result == "m-2"


async def test_an_older_state_may_wait_for_a_person(stage: Stage) -> None:
    world = World()
    await stage.run(shop(payer(world)))
    await word(stage)
    policy = DeployPolicy(state_older="hold")
    two = renamed_field(shop(payer(world), state_version=2, on_change=policy))
    held = await stage.run(two)
    assert (held.reason, held.remedies[0].startswith("perdure migrate")) == ("changed", True)
    async with stage.runtime(two) as place:
        await place.release(RUN, by="ana")
    assert (await stage.run(two)).reason == "changed", "a yes migrates nothing"
    willing = replace_policy(two)
    async with stage.runtime(willing) as place:
        await place.release(RUN, by="ana")
    assert (await stage.run(willing)).status == "succeeded"


def replace_policy(made: Any) -> Any:
    """The same code that migrates by itself."""
    made.on_change = DeployPolicy()
    return made


def test_the_same_code_is_no_difference() -> None:
    world = World()
    first, second = shop(payer(world)), shop(payer(world))
    assert manifest_bytes(first) == manifest_bytes(second)
    assert manifest_of(first) == replace(manifest_of(second))


def test_a_declaration_that_is_added_later_is_in_the_manifest() -> None:
    code: Agent[Any, Any, Any] = Agent("late")
    before, carried = manifest_bytes(code), carrier_of(code)
    assert (manifest_bytes(code), carrier_of(code)) == (before, carried)

    @code.tool(effect="read")
    async def look(number: int) -> int:
        """Look."""
        return number

    assert manifest_bytes(code) != before
    code.state_version = 2
    code.migration(1)(dict)
    assert carrier_of(code) != carried
