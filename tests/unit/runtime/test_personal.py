"""Personal data in runs: whole wherever code holds it, ciphertext wherever bytes lie."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Agent, Change, Personal, Principal
from perdure.agent import Held, Waiting
from perdure.errors import BadSetting, EraseRefused, KeyMissing, OtherGoal, PersonalErased
from perdure.journal import verify
from perdure.state import events as e
from perdure.store.protocol import Query
from tests.bytes_of import bytes_of
from tests.unit.runtime.stage import RUN, Stage, World, agent

NAME = "Ada CANARY Lovelace"
LARGE = "CANARY " * 60_000
HOUR = timedelta(hours=1)


@dataclass
class Desk:
    """A typed state with personal fields, single and in a list that is watched."""

    name: Personal[str] = field(default_factory=lambda: Personal(""))
    notes: list[Personal[str]] = field(default_factory=list)
    seen: dict[str, Any] = field(default_factory=dict)


async def clean(stage: Stage) -> None:
    """No part of it is anywhere in the store."""
    assert b"CANARY" not in await bytes_of(stage.kept or stage.store)


def typed(step: Any, *tools: Any, **options: Any) -> Any:
    """An agent whose goal, state and result are personal."""
    made: Any = Agent(
        "typed",
        state=Desk,
        goal=Personal[str],
        result=Personal[str],
        start=Desk,
        tools=tools,
        **options,
    )
    made.step(step)
    return made


async def test_it_is_kept_sealed_and_comes_back_everywhere(stage: Stage) -> None:
    """Goal, state, arguments, results, errors' neighbours; live, checked, after a crash, in a snapshot."""
    world, seen = World(), list[Any]()

    @perdure.tool(effect="idempotent")
    async def send(to: Personal[str], text: str) -> Personal[dict[str, Any]]:
        seen.append(to.reveal())
        told: Personal[dict[str, Any]] = world.act(Personal({"to": to.reveal(), "text": text}))
        return told

    async def step(run: Any) -> None:
        if len(run.state.notes) < 6:
            run.state.notes.append(Personal(f"{NAME} {len(run.state.notes)}"))
            return
        run.state.seen["untyped"] = await send(run.state.name, "hello")
        run.finish(Personal(run.goal.reveal() + "!"))

    made = typed(step, send, storage="snapshot")
    await stage.crash(made, "receipt.queued", goal=Personal(NAME))
    result = (await stage.run(made, Personal(NAME), check=True)).unwrap()
    assert result == Personal(NAME + "!")
    assert set(seen) == {NAME}
    assert repr(result) == str(result) == f"{result}" == "[personal]"
    await clean(stage)
    await stage.blameless(world)
    async with stage.runtime(made) as place:
        assert (await place.start(made, RUN, Personal(NAME))).terminal  # the same goal again is the same run
        with pytest.raises(OtherGoal) as refused:
            await place.start(made, RUN, Personal("another"))
        assert "CANARY" not in str(refused.value)


async def test_large_values_signals_answers_approvals_and_edits(stage: Stage) -> None:
    """In a blob, in the inbox, in a request and in what a person puts in its place."""
    world, seen = World(), list[str]()

    @perdure.tool(effect="read")
    async def fetch() -> Personal[str]:
        return Personal(LARGE)

    @perdure.tool(effect="irreversible", approval=perdure.Approval(expires=HOUR))
    async def pay(to: Personal[str], cents: int) -> Any:
        seen.append(to.reveal())
        return world.act("paid")

    async def step(run: Any) -> None:
        run.state["large"] = await fetch()
        run.state["came"] = await run.wait("address", Personal[str], timeout=HOUR)
        run.state["answer"] = await run.ask("who?", Personal[str], expires=HOUR)
        run.finish(await pay(run.state["answer"], 5))

    made = agent(step, fetch, pay)
    assert isinstance(await stage.run(made), Waiting)
    async with stage.runtime(made) as place:
        await place.signal(RUN, "address", Personal("CANARY street"), id="s-1")
        assert not await place.signal(RUN, "address", Personal("CANARY street"), id="s-1")
    await clean(stage)
    assert isinstance(await stage.run(made), Waiting)
    async with stage.runtime(made) as place:
        await place.answer(RUN, Personal(NAME), by="ada")
    waiting = await stage.run(made)
    [request] = waiting.approvals
    async with stage.runtime(made) as place:
        await place.approve(request.id, by=Principal("boss"), edit={"to": Personal("CANARY Byron")})
    await clean(stage)
    assert (await stage.run(made, check=True)).unwrap() == "paid"
    assert seen == ["CANARY Byron"]
    await clean(stage)
    await stage.blameless(world)


async def test_what_goes_to_a_child_and_comes_back_is_under_the_key_of_who_holds_it(stage: Stage) -> None:
    """Neither run can open what the other one holds, and both see the true value."""

    async def inner(run: Any) -> None:
        run.state["got"] = run.goal
        run.finish(Personal(run.goal.reveal().upper()))

    child: Any = agent(inner, name="child")

    async def step(run: Any) -> None:
        run.state["told"] = await run.spawn(child, Personal("canary"))
        run.finish(run.state["told"].reveal() == "CANARY")

    made = agent(step, spawns=[child])
    assert (await stage.run(made, check=True)).unwrap() is True
    await clean(stage)
    rows = await (stage.kept or stage.store).list(Query())
    keys = {await stage.store.key(row.run_id) for row in rows}
    assert len(rows) == len(keys) == 2
    assert None not in keys


async def test_equal_values_differ_from_run_to_run_and_digests_tell_nothing(memory: Stage) -> None:
    """The same call in two runs has other bytes, another digest and another key in each."""

    @perdure.tool(effect="idempotent")
    async def send(to: Personal[str]) -> None:
        return None

    async def step(run: Any) -> None:
        await send(Personal(NAME))
        await send(Personal(NAME))
        run.finish(None)

    made = agent(step, send)
    await memory.run(made, run_id="one")
    await memory.run(made, run_id="two")
    one = [body.head for body in await memory.bodies(e.CallIntended, "one")]
    two = [body.head for body in await memory.bodies(e.CallIntended, "two")]
    assert one[0].args == one[1].args  # replay compares them
    assert one[0].args != two[0].args
    assert one[0].digest != two[0].digest


async def test_without_its_key_a_run_is_held_or_refused_and_never_guessed(memory: Stage) -> None:
    """Another key is not the run's: its code is not run on what it cannot read."""

    async def step(run: Any) -> None:
        run.state["name"] = Personal(NAME)
        await run.sleep(3600.0)
        run.finish(run.state["name"].reveal())

    async def two(run: Any) -> None:
        if "name" not in run.state:
            run.state["name"] = Personal(NAME)
            return
        await run.wait("go", timeout=HOUR)
        run.finish(run.state["name"].reveal())

    made = agent(two)
    assert isinstance(await memory.run(made), Waiting)
    store: Any = memory.store
    key, store._keys[RUN] = store._keys[RUN], b"x" * 32
    with pytest.raises(KeyMissing, match="K603"):
        async with memory.runtime(made) as place:
            await place.signal(RUN, "go")
            await place.run(made, RUN, "go")
    store._keys[RUN] = key
    assert (await memory.run(made)).unwrap() == NAME


async def test_an_error_that_quotes_it_and_a_held_step_do_not_show_it(memory: Stage) -> None:
    """A type that does not fit is told without the value."""

    @perdure.tool(effect="read")
    async def fetch() -> Personal[int]:
        return Personal("CANARY")  # type: ignore[arg-type]

    async def step(run: Any) -> None:
        await fetch()

    held = await memory.run(agent(step, fetch))
    assert isinstance(held, Held)
    assert "Personal[int]" in held.detail
    assert "CANARY" not in held.detail
    await clean(memory)


async def test_a_fork_reads_what_its_origin_has_sealed_and_its_change_is_sealed_too(stage: Stage) -> None:
    seen = list[Any]()

    async def step(run: Any) -> None:
        seen.append(run.state.name.reveal())
        run.state.notes.append(Personal(f"CANARY {len(run.state.notes)}"))
        if len(run.state.notes) > 1:
            run.finish(run.state.notes[0])

    made = typed(step)
    await stage.run(made, Personal(NAME))
    at = next(event.seq for event in await stage.events() if isinstance(event.body, e.StepCommitted))
    async with stage.runtime(made) as place:
        change = Change(state={"name": Personal("CANARY Byron")})
        await place.fork(RUN, at, change, id="f")
        assert await stage.store.key("f") == await stage.store.key(RUN) != b""
        assert (await place.resume("f")).unwrap() == Personal("CANARY 0")
    assert seen == [NAME, NAME, "CANARY Byron"]
    await clean(stage)


async def test_a_fork_has_the_key_of_its_origin_and_is_erased_with_it(stage: Stage) -> None:
    """It serves what was sealed, goes on under the same key; one erasure ends both, whichever is named."""

    @perdure.tool(effect="idempotent")
    async def send(to: Personal[str]) -> Personal[str]:
        return to

    async def step(run: Any) -> None:
        if "sent" not in run.state:
            run.state["sent"] = await send(Personal(NAME))
            return
        run.finish(Personal(run.state["sent"].reveal() + "!"))

    made = agent(step, send)
    await stage.run(made)
    async with stage.runtime(made) as place:
        fork = await place.fork(RUN, 3, id="fork", effects="redo")
        assert fork.run_id == "fork"
        assert (await place.run(made, "fork", "go")).unwrap() == Personal(NAME + "!")
        assert (await place.erase("fork", dry_run=True)).runs == ("fork", RUN)
        assert (await place.erase("fork")).done
        for run_id in (RUN, "fork"):
            with pytest.raises(PersonalErased, match="K604"):
                await place.outcome(run_id)
            assert (await verify(stage.store, run_id)).ok
    await clean(stage)


async def test_a_family_that_goes_on_is_not_erased(memory: Stage) -> None:
    """Refused while the run itself, or one of its own, has not ended."""

    async def step(run: Any) -> None:
        run.state["name"] = Personal(NAME)
        await run.wait("go", timeout=HOUR)

    await memory.run(agent(step))
    async with memory.runtime() as place:
        with pytest.raises(EraseRefused, match="K605"):
            await place.erase(RUN)
        assert (await place.erase(RUN, dry_run=True)).open == (RUN,)
    assert await memory.store.key(RUN)


async def test_a_master_key_wraps_the_keys_of_runs(
    memory: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The store has a wrapped key; a new master is put in front; another one is an error that names it."""

    async def step(run: Any) -> None:
        if "name" not in run.state:
            run.state["name"] = Personal(NAME)
            return
        await run.wait("go", timeout=HOUR)
        run.finish(run.state["name"].reveal())

    made = agent(step)
    first, second = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
    (tmp_path / "key").write_text(f"{second}\n")
    monkeypatch.setenv("PERDURE_KEY", first)
    assert isinstance(await memory.run(made), Waiting)
    key = await memory.store.key(RUN)
    assert key is not None
    assert len(key) > 32
    for wrong in (second, f"file:{tmp_path / 'key'}"):
        monkeypatch.setenv("PERDURE_KEY", wrong)
        async with memory.runtime(made) as place:
            with pytest.raises(KeyMissing, match=r"K603.*wrapped by the master key [0-9a-f]{16}"):
                await place.signal(RUN, "go")
    for broken in ("short", "file:/no/such/file", "!" * 44):
        monkeypatch.setenv("PERDURE_KEY", broken)
        async with memory.runtime(made) as place:
            with pytest.raises(BadSetting, match="PERDURE_KEY") as refused:
                await place.signal(RUN, "go")
            assert "!!!!" not in str(refused.value)
    monkeypatch.setenv("PERDURE_KEY", f"file:{tmp_path / 'key'},{first}")
    async with memory.runtime(made) as place:
        await place.signal(RUN, "go")
    assert (await memory.run(made)).unwrap() == NAME
    await memory.run(made, run_id="two")
    two = await memory.store.key("two")
    assert two is not None
    assert two[1:9] != key[1:9], "new runs are under the first master"
