"""What a fork may change and where, and what becomes of calls that were open at its point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import perdure
from perdure import codec
from perdure.agent import Budget, Finished, Held
from perdure.codec.sealed import Seen
from perdure.errors import (
    BadChange,
    BudgetBelowSpent,
    ForkRefused,
    OtherGoal,
    ShapeMismatch,
)
from perdure.state import events as e
from perdure.timeline.change import Change
from tests.unit.runtime.forking import FORK, Desk, carried, ended, forked, point, receipt
from tests.unit.runtime.stage import RUN, Stage, World, agent


@pytest.fixture(autouse=True)
def without_personal_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not come across any: other tests may have."""
    monkeypatch.setattr(Seen, "personal", False)


# ------------------------------------------------------------------------------------------- open calls


class Slow:
    """Pays in the middle of a step, and may lose the reply."""

    def __init__(self) -> None:
        self.world = World()
        world = self.world

        @perdure.tool(effect="irreversible")
        async def pay(cents: int) -> str:
            return str(world.act(f"paid {cents}"))

        async def step(run: Any) -> None:
            run.state["log"].append(await pay(700))
            run.finish(run.state["log"])

        self.agent = agent(step, pay)


async def intent(stage: Stage) -> int:
    """The event of the intent to pay."""
    (seq,) = [event.seq for event in await stage.events() if isinstance(event.body, e.CallIntended)]
    return seq


async def test_a_call_that_was_open_takes_the_later_receipt(stage: Stage) -> None:
    slow = Slow()
    await stage.run(slow.agent)
    made = await forked(stage, None, await intent(stage), Change())
    assert made.served == (("1:0", "pay"),)
    assert made.acts == ()
    async with stage.runtime(slow.agent) as place:
        assert await place.resume(FORK) == Finished(["paid 700"], run_id=FORK)
    assert len(slow.world) == 1
    await stage.blameless(slow.world, run_id=FORK)


async def test_without_a_receipt_the_fork_is_refused(stage: Stage) -> None:
    slow = Slow()
    slow.world.lose = 1
    held = await stage.run(slow.agent)
    assert isinstance(held, Held)
    for at in (await intent(stage), None):
        with pytest.raises(ForkRefused, match=r"call 1:0 \(pay, irreversible\) was under way") as refused:
            await forked(stage, None, at, Change())
        assert f"perdure why {RUN} says how" in refused.value.remedy
    assert (await forked(stage, None, await intent(stage) - 1, Change(), dry_run=True)).acts[
        0
    ].outcome == "unknown"
    async with stage.runtime() as place:
        await place.resolve(RUN, "1:0", by="bob", done="paid 700")
    async with stage.runtime(slow.agent) as place:
        await place.resume(RUN)
    await forked(stage, None, await intent(stage), Change())
    async with stage.runtime(slow.agent) as place:
        assert await place.resume(FORK) == Finished(["paid 700"], run_id=FORK)
    assert len(slow.world) == 1


async def test_a_person_may_say_what_an_open_call_came_to(stage: Stage) -> None:
    slow = Slow()
    slow.world.lose = 1
    await stage.run(slow.agent)
    await forked(stage, None, await intent(stage), Change(result={"1:0": "paid by hand"}))
    async with stage.runtime(slow.agent) as place:
        assert await place.resume(FORK) == Finished(["paid by hand"], run_id=FORK)
    assert len(slow.world) == 1


# ------------------------------------------------------------------------------------------- changes


async def test_a_recorded_result_is_changed(stage: Stage) -> None:
    desk = Desk()
    await ended(stage, desk)
    read = await receipt(stage, "1:0")
    made = await forked(stage, desk, read, Change(result={"1:0": 5}), effects="redo")
    assert [(one.what, one.place, one.was, one.now) for one in made.changes] == [
        ("result", "1:0 price", 700, 5)
    ]
    assert await carried(stage, desk) == Finished("paid book 5", run_id=FORK)
    assert desk.reads == [(RUN, "book")]
    assert desk.acts(FORK) == ["paid book 5", "mailed paid book 5"]
    assert (await stage.record(FORK)).spent.calls == (await stage.record(RUN)).spent.calls


async def test_a_result_of_an_earlier_step_names_the_point_where_it_can_be_changed(stage: Stage) -> None:
    desk = Desk()
    at = await ended(stage, desk)
    with pytest.raises(BadChange, match="none of the step that is open") as refused:
        await forked(stage, desk, at, Change(result={"1:0": 5}))
    read = await receipt(stage, "1:0")
    assert f"perdure fork {RUN}@{read} --result 1:0=JSON" in refused.value.remedy
    with pytest.raises(BadChange, match="no result of a call"):
        await forked(stage, desk, at, Change(result={"9:9": 5}))


async def test_a_result_on_which_another_call_rests_is_not_changed(stage: Stage) -> None:
    asked: list[Any] = []

    @perdure.tool(effect="read")
    async def look(what: Any) -> Any:
        asked.append(what)
        return what

    async def step(run: Any) -> None:
        one, two = await run.gather(look("a"), look("b"))
        run.finish([one, two, await look([one, two])])

    tester = agent(step, look)
    await stage.run(tester)
    seqs = {path: await receipt(stage, path) for path in ("1:0.0.0", "1:0.1.0", "1:1")}
    with pytest.raises(BadChange, match=r"1:1 \(look\) came after it") as refused:
        await forked(stage, None, seqs["1:1"], Change(result={"1:0.0.0": "x"}))
    assert f"@{seqs['1:0.0.0']} --result 1:0.0.0=JSON" in refused.value.remedy
    # Branches that run side by side know nothing of each other.
    both = Change(result={"1:0.0.0": "x", "1:0.1.0": "y"})
    await forked(stage, None, max(seqs["1:0.0.0"], seqs["1:0.1.0"]), both)
    async with stage.runtime(tester) as place:
        assert await place.resume(FORK) == Finished(["x", "y", ["x", "y"]], run_id=FORK)
    assert asked == ["a", "b", ["a", "b"], ["x", "y"]]


async def test_a_result_that_the_code_does_not_take_holds_the_fork(stage: Stage) -> None:
    """It is not dropped as something that was recorded by other code."""
    desk = Desk()
    await ended(stage, desk)
    read = await receipt(stage, "1:0")
    async with stage.runtime(desk.agent) as place:
        with pytest.raises(ShapeMismatch):
            await place.fork(RUN, read, Change(result={"1:0": "many"}))
    await forked(stage, desk, read, Change(result={"1:0": "many"}))
    held = await carried(stage, desk)
    assert isinstance(held, Held)
    assert held.reason == "fork-unfit"
    assert desk.reads == [(RUN, "book")]


async def test_state_is_not_changed_under_what_the_open_step_has_recorded(stage: Stage) -> None:
    desk = Desk()
    at = await ended(stage, desk)
    for change in (Change(state={"cents": 1}), Change(goal="cup")):
        with pytest.raises(BadChange, match="cannot be changed at event") as refused:
            await forked(stage, desk, at + 2, change)
        assert f"perdure fork {RUN}@{at};" in refused.value.remedy


async def test_state_must_fit_the_agents_type_where_it_is_known(stage: Stage) -> None:
    @dataclass
    class Count:
        n: int = 0

    tester: Any = perdure.Agent("tester", state=Count, goal=str, start=lambda goal: Count())

    async def step(run: Any) -> None:
        run.state.n += 1
        if run.state.n > 9:
            run.finish(run.state.n)

    tester.step(step)
    await stage.run(tester, "go")
    at = await point(stage, 3)
    async with stage.runtime(tester) as place:
        with pytest.raises(ShapeMismatch):
            await place.fork(RUN, at, Change(state={"n": "three"}))
        made = await place.fork(RUN, at, Change(state={"n": 8}), id=FORK)
        assert await place.resume(FORK) == Finished(10, run_id=FORK)
    assert made.step == 3


async def test_another_goal_at_the_start_makes_another_state(stage: Stage) -> None:
    desk = Desk()
    await ended(stage, desk)
    with pytest.raises(BadChange, match="not at hand here"):
        await forked(stage, desk, 1, Change(goal="cup"))
    async with stage.runtime(desk.agent) as place:
        await place.fork(RUN, 1, Change(goal="cup"), id=FORK, effects="redo")
        assert await place.resume(FORK) == Finished("paid cup 700", run_id=FORK)
        assert await place.run(desk.agent, FORK, "cup") == Finished("paid cup 700", run_id=FORK)
        with pytest.raises(OtherGoal):
            await place.run(desk.agent, FORK, "book")


async def test_another_goal_later_leaves_the_state(stage: Stage) -> None:
    desk = Desk()
    at = await ended(stage, desk)
    await forked(stage, desk, at, Change(goal="cup"), effects="redo")
    assert await carried(stage, desk) == Finished("paid book 700", run_id=FORK)
    assert codec.decode((await stage.record(FORK)).goal) == "cup"


async def test_another_model_is_called_from_the_point_on(stage: Stage) -> None:
    desk = Desk()
    await ended(stage, desk)
    await forked(stage, desk, await point(stage, 1), Change(model="large"), effects="redo")
    await carried(stage, desk)
    assert desk.models == ["small", "large"]
    with pytest.raises(BadChange, match="declares no model function fly"):
        await forked(stage, desk, 1, Change(model={"fly": "large"}))


async def test_limits_are_changed_and_what_was_spent_is_inherited(stage: Stage) -> None:
    desk = Desk(budget=Budget(calls=3))
    assert isinstance(await stage.run(desk.agent, "book"), Held)
    at = await point(stage, 3)
    with pytest.raises(BudgetBelowSpent, match="had spent 3 calls"):
        await forked(stage, desk, at, Change(budget=Budget(calls=2)))
    made = await forked(stage, desk, at, Change(budget=Budget(calls=4)))
    assert [(one.place, one.was, one.now) for one in made.changes] == [("calls", "3 calls", "4 calls")]
    assert await carried(stage, desk) == Finished("paid book 700", run_id=FORK)
    record = await stage.record(FORK)
    assert record.spent.calls == 4


def test_changes_that_cannot_be_meant() -> None:
    for wrong in ({"state": 1}, {"result": {1: 2}}, {"model": 3}, {"model": {"a": ""}}, {"budget": 5}):
        with pytest.raises(BadChange):
            Change(**wrong)
    assert Change().empty
    assert not Change(goal=None).empty
