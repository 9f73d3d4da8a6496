"""What a fork does not inherit: permissions, questions, signals, timers, children; and what it is served."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure.agent import Approval, Finished, Held, Principal, Waiting, current_call
from perdure.codec.sealed import Seen
from perdure.errors import BadChange, ShapeMismatch
from perdure.state import events as e
from perdure.timeline.change import Change
from tests.unit.runtime.forking import FORK
from tests.unit.runtime.stage import RUN, Stage, World, agent

NOW = timedelta(0)
ADA = Principal("ada")


@pytest.fixture(autouse=True)
def without_personal_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not come across any: other tests may have."""
    monkeypatch.setattr(Seen, "personal", False)


async def test_a_permission_is_asked_for_again(stage: Stage) -> None:
    """Neither one that is open at the point, nor one that was given there."""
    world = World()

    @perdure.tool(effect="irreversible", approval=Approval())
    async def pay(cents: int) -> str:
        return str(world.act(f"paid {cents}"))

    async def step(run: Any) -> None:
        run.finish(await pay(7))

    payer = agent(step, pay)
    async with stage.runtime(payer) as place:
        asked = await place.run(payer, RUN, "go", patience=NOW)
        assert isinstance(asked, Waiting)
        first = asked.approvals[0].id
        made = await place.fork(RUN, None, id=FORK)
        assert made.left == (f"approval {first}: asked again",)
        again = await place.resume(FORK, patience=NOW)
        assert isinstance(again, Waiting)
        assert again.approvals[0].id != first
        await place.approve(first, by=ADA)
        assert (await place.resume(RUN)).unwrap() == "paid 7"
        # At this point the permission was granted, and used for nothing yet.
        granted = next(x.seq for x in await stage.events() if isinstance(x.body, e.ApprovalGranted))
        await place.fork(RUN, granted, id="f2")
        held = await place.resume("f2")
        assert isinstance(held, Held)
        await place.decide_effect("f2", None, "act", by="ada")
        assert isinstance(await place.resume("f2", patience=NOW), Waiting)
    assert len(world) == 1
    await stage.blameless(world, run_id="f2")


async def test_a_served_call_whose_arguments_a_person_had_changed_stays_served(stage: Stage) -> None:
    world = World()

    @perdure.tool(effect="irreversible", approval=Approval())
    async def pay(cents: int) -> str:
        return str(world.act(f"paid {cents}"))

    @perdure.tool(effect="read")
    async def look() -> int:
        return 1

    async def step(run: Any) -> None:
        paid = await pay(7)
        run.finish([paid, await look()])

    payer = agent(step, pay, look)
    async with stage.runtime(payer) as place:
        asked = await place.run(payer, RUN, "go", patience=NOW)
        assert isinstance(asked, Waiting)
        await place.approve(asked.approvals[0].id, by=ADA, edit={"cents": 5})
        await place.resume(RUN)
        paid = next(
            x.seq for x in await stage.events() if isinstance(x.body, e.CallSettled) and x.body.path == "1:0"
        )
        await place.fork(RUN, paid, id=FORK)
        assert await place.resume(FORK) == Finished(["paid 5", 1], run_id=FORK)
    assert len(world) == 1


async def test_questions_signals_and_timers_begin_anew_and_what_came_is_served(stage: Stage) -> None:
    async def step(run: Any) -> None:
        size = await run.ask("Which size?", choices=["S", "M"])
        word = await run.wait("word", str)
        run.finish([size, word])

    asker = agent(step)
    async with stage.runtime(asker) as place:
        await place.run(asker, RUN, "go", patience=NOW)
        await place.signal(RUN, "word", "early")
        await place.answer(RUN, "S", by="ada")
        assert await place.resume(RUN) == Finished(["S", "early"], run_id=RUN)
        events = await stage.events()
        received = next(x.seq for x in events if isinstance(x.body, e.SignalReceived))
        answered = next(x.seq for x in events if isinstance(x.body, e.WaitClosed))

        made = await place.fork(RUN, received, id="f1")
        assert made.left == ("an answer to 'Which size?' at 1:0: begins anew", "signal 'word': not inherited")
        assert isinstance(await place.resume("f1", patience=NOW), Waiting)
        assert not (await stage.record("f1")).signals

        made = await place.fork(RUN, answered, Change(result={"1:0": "M"}), id="f2", by="bob")
        assert [(one.was, one.now) for one in made.changes] == [("S", "M")]
        assert isinstance(await place.resume("f2", patience=NOW), Waiting)
        await place.signal("f2", "word", "late")
        assert await place.resume("f2") == Finished(["M", "late"], run_id="f2")
        with pytest.raises(ShapeMismatch):
            await place.fork(RUN, answered, Change(result={"1:0": "XL"}), id="f3")
        # An open question may be given its answer, too; a sleep comes to nothing that could be changed.
        await place.fork(RUN, received, Change(result={"1:0": "S"}), id="f4")
        assert (await place.resume("f4", patience=NOW)).status == "waiting"


async def test_a_sleep_cannot_be_changed(memory: Stage) -> None:
    async def step(run: Any) -> None:
        await run.sleep(1_000_000)

    async with memory.runtime(sleeper := agent(step)) as place:
        await place.run(sleeper, RUN, "go", patience=NOW)
        with pytest.raises(BadChange, match="is a sleep"):
            await place.fork(RUN, None, Change(result={"1:0": 1}), id=FORK)


class Family:
    """A parent that spawns a child that acts."""

    def __init__(self) -> None:
        self.world = World()
        world = self.world

        @perdure.tool(effect="irreversible")
        async def work(name: str) -> str:
            return str(world.act(f"{current_call().run_id} {name}"))

        async def inside(run: Any) -> None:
            run.finish(await work(run.goal))

        async def step(run: Any) -> None:
            run.finish(await run.spawn(self.child, "a"))

        self.child = agent(inside, work, name="inner")
        self.parent = agent(step, spawns=[self.child])


async def test_a_child_that_acted_is_one_act_and_may_stand_in(stage: Stage) -> None:
    family = Family()
    async with stage.runtime(family.parent) as place:
        assert (await place.run(family.parent, RUN, "go")).unwrap() == f"{RUN}.1:0 a"
        for effects in ("simulate", "ask"):
            name = f"f-{effects}"
            made = await place.fork(RUN, 1, id=name, effects=effects)
            [act] = made.acts
            assert (act.child, act.acts, act.effect, act.args) == (
                f"{RUN}.1:0",
                1,
                "irreversible",
                {"goal": "a"},
            )
            outcome = await place.resume(name)
            if effects == "ask":
                assert isinstance(outcome, Held)
                await place.decide_effect(name, None, "reuse", by="ada")
                outcome = await place.resume(name)
            assert outcome.unwrap() == f"{RUN}.1:0 a"
    assert len(family.world) == 1


async def test_a_child_may_be_spawned_again_or_given_a_result(stage: Stage) -> None:
    family = Family()
    async with stage.runtime(family.parent) as place:
        await place.run(family.parent, RUN, "go")
        for name, how, told in (("f1", "act", "f1.1:0 a"), ("f2", "simulate", "given")):
            await place.fork(RUN, 1, id=name)
            await place.resume(name)
            more = {"result": told} if how == "simulate" else {}
            await place.decide_effect(name, None, how, by="ada", **more)  # type: ignore[arg-type]
            assert (await place.resume(name)).unwrap() == told
    assert [family.world.find(key) for key in family.world.keys] == [f"{RUN}.1:0 a", "f1.1:0 a"]
    assert (await stage.store.row("f1.1:0")).parent == "f1"


async def test_a_child_without_acts_is_spawned_anew_and_its_result_may_be_changed(stage: Stage) -> None:
    async def inside(run: Any) -> None:
        run.finish(run.goal)

    async def step(run: Any) -> None:
        run.finish(await run.spawn(child, "a"))

    child = agent(inside, name="inner")
    parent = agent(step, spawns=[child])
    async with stage.runtime(parent) as place:
        await place.run(parent, RUN, "go")
        made = await place.fork(RUN, 1, id="f1")
        assert made.acts == ()
        assert (await place.resume("f1")).unwrap() == "a"
        told = next(x.seq for x in await stage.events() if isinstance(x.body, e.WaitClosed))
        await place.fork(RUN, told, Change(result={"1:0": "other"}), id="f2")
        assert (await place.resume("f2")).unwrap() == "other"
