"""Steps: state in, calls out, state committed; how a run ends; what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
import pytest

import perdure
from perdure.agent import Agent, Failed, Finished, Held
from perdure.errors import BadRunId, CallOutsideStep, OtherGoal
from perdure.state import events as e
from tests.unit.runtime.stage import RUN, Stage, World, agent


@dataclass
class Line:
    text: str
    cents: int


@dataclass
class Desk:
    lines: list[Line] = field(default_factory=list)
    total: int = 0


@dataclass(frozen=True)
class Goal:
    lines: tuple[Line, ...]


@dataclass
class Bill:
    total: int
    first: Line


async def test_typed_state_goal_and_result(stage: Stage) -> None:
    """Dataclasses come in as themselves, live and after each commit, and go out as themselves."""
    seen: list[Any] = []
    desk: Agent[Desk, Goal, Bill] = Agent("desk", state=Desk, goal=Goal, result=Bill)

    @desk.step
    async def step(run: Any) -> None:
        seen.append((type(run.state), type(run.goal), [type(line) for line in run.state.lines]))
        number = len(run.state.lines)
        if number == len(run.goal.lines):
            run.finish(Bill(run.state.total, run.state.lines[0]))
            return
        run.state.lines.append(run.goal.lines[number])
        run.state.total += run.goal.lines[number].cents

    outcome = await stage.run(desk, Goal((Line("a", 1), Line("b", 2))), check=True)
    assert outcome == Finished(Bill(3, Line("a", 1)), run_id=RUN)
    assert type(outcome.unwrap().first) is Line
    assert {(state, goal) for state, goal, _ in seen} == {(Desk, Goal)}
    assert seen[-1][2] == [Line, Line]
    lines = [{"text": "a", "cents": 1}, {"text": "b", "cents": 2}]
    assert await stage.state() == {"lines": lines, "total": 3}
    assert (await stage.record()).step == 3


class Board(TypedDict):
    notes: list[str]


class Deck(msgspec.Struct):
    notes: list[str] = []


@pytest.mark.parametrize("kind", [Board, Deck, dict])
async def test_other_kinds_of_state(memory: Stage, kind: Any) -> None:
    """A TypedDict, a Struct and a dict are states too."""

    async def step(run: Any) -> None:
        notes = run.state.notes if kind is Deck else run.state["notes"]
        notes.append(f"n{len(notes)}")
        if len(notes) == 2:
            run.finish(len(notes))

    made: Any = Agent("board", state=kind, start=lambda goal: Deck([]) if kind is Deck else {"notes": []})
    made.step(step)
    assert (await memory.run(made, check=True)).unwrap() == 2
    assert await memory.state() == {"notes": ["n0", "n1"]}


async def test_a_step_may_put_another_state_in_place(memory: Stage) -> None:
    """Assigning run.state replaces it."""

    async def step(run: Any) -> None:
        run.state = {"log": ["new"], "more": 1}
        run.finish()

    assert await memory.run(agent(step), check=True) == Finished(None, run_id=RUN)
    assert await memory.state() == {"log": ["new"], "more": 1}


async def test_fail_ends_the_run_and_tells_why(stage: Stage) -> None:
    """Only run.fail fails a run; its state is committed, its error told as text."""

    async def step(run: Any) -> None:
        run.state["log"].append("tried")
        run.fail(LookupError("no such order"))

    outcome = await stage.run(agent(step), check=True)
    assert outcome == Failed("no such order", "LookupError", run_id=RUN)
    assert await stage.state() == {"log": ["tried"]}
    assert await stage.run(agent(step)) == outcome


async def test_fail_with_a_message(memory: Stage) -> None:
    """A text does as well."""

    async def step(run: Any) -> None:
        run.fail("out of paper")

    assert (await memory.run(agent(step))).error == "out of paper"


async def test_finish_takes_effect_when_the_step_has_returned(memory: Stage) -> None:
    """What the step still does after run.finish is part of the run; an exception takes the ending back."""
    world = World()

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        return str(world.act("paid"))

    async def step(run: Any) -> None:
        run.finish("early")
        run.state["log"].append(await pay())
        if run.goal == "bad":
            raise ValueError("after all not")

    assert (await memory.run(agent(step, pay), check=True)).unwrap() == "early"
    assert await memory.state() == {"log": ["paid"]}
    held = await memory.run(agent(step, pay), "bad", run_id="other")
    assert isinstance(held, Held)
    assert held.reason == "step-error"
    assert await memory.state("other") == {"log": []}


async def test_a_finished_run_is_told_again_and_nothing_is_called(stage: Stage) -> None:
    """The same id and goal: the recorded result, from the journal."""
    world = World()

    @perdure.tool(effect="read")
    async def look() -> int:
        return int(world.act(7))

    async def step(run: Any) -> None:
        run.finish(await look())

    first = await stage.run(agent(step, look))
    events = await stage.events()
    assert await stage.run(agent(step, look)) == first == Finished(7, run_id=RUN)
    assert len(world) == 1
    assert await stage.events() == events


async def test_another_goal_or_agent_is_refused(stage: Stage) -> None:
    """A run id is one agent pursuing one goal."""

    async def step(run: Any) -> None:
        run.finish(run.goal)

    await stage.run(agent(step), {"order": 1})
    before = await stage.events()
    with pytest.raises(OtherGoal, match="order"):
        await stage.run(agent(step), {"order": 2})
    with pytest.raises(OtherGoal, match="belongs to agent tester"):
        await stage.run(agent(step, name="other"), {"order": 1})
    assert OtherGoal.code == "R205"
    assert await stage.events() == before


@pytest.mark.parametrize("run_id", ["", "a b", "a@3", "a\x00", "a\n", "x" * 201, "\ud800", "-f"])
async def test_bad_run_ids_are_refused(memory: Stage, run_id: str) -> None:
    """Before anything is stored."""

    async def step(run: Any) -> None:
        run.finish()

    with pytest.raises(BadRunId):
        await memory.run(agent(step), run_id=run_id)
    assert (await memory.store.stats()).events == 0


async def test_the_handle_is_of_no_use_after_the_step(memory: Stage) -> None:
    """Not for calls, not for endings, not for the state (T212)."""
    kept: list[Any] = []

    @perdure.tool(effect="read")
    async def look() -> int:
        return 1

    async def step(run: Any) -> None:
        kept.append(run)
        run.state["log"].append("another step")
        if len(kept) == 2:
            await after(kept[0])
            run.finish("done")

    async def after(old: Any) -> None:
        for use in (old.call(look), old.gather(), old.map(look, []), old.tools([]), old.sleep(1)):
            with pytest.raises(CallOutsideStep):
                await use
        for do in (old.finish, lambda: old.fail("x"), old.now, old.random, old.new_id, lambda: old.state):
            with pytest.raises(CallOutsideStep):
                do()
        with pytest.raises(CallOutsideStep):
            old.state = {}

    assert (await memory.run(agent(step, look))).unwrap() == "done"
    assert CallOutsideStep.code == "T212"


async def test_the_goal_is_the_same_in_every_step(memory: Stage) -> None:
    """A step that changes its goal changes a copy: after a restart the change would be gone."""
    seen: list[Any] = []

    async def step(run: Any) -> None:
        seen.append(list(run.goal))
        run.goal.append("mine")
        run.state["log"].append(len(run.goal))
        if len(run.state["log"]) == 2:
            run.finish()

    made: Any = Agent("tester", state=dict, goal=list, start=lambda goal: {"log": []})
    made.step(step)
    assert (await memory.run(made, ["g"], check=True)).status == "succeeded"
    assert await memory.state() == {"log": [2, 2]}
    assert set(map(tuple, seen)) == {("g",)}


async def test_a_result_that_is_none_of_the_declared_type_is_refused_in_the_step(memory: Stage) -> None:
    """At run.finish, not for ever after to everyone who asks for the outcome."""
    made: Any = Agent("tester", state=dict, result=Bill, start=lambda goal: {"log": []})

    async def step(run: Any) -> None:
        run.finish({"total": "many"})

    made.step(step)
    outcome = await memory.run(made)
    assert isinstance(outcome, Held)
    assert outcome.reason == "step-error"
    assert "$.result" in outcome.detail


async def test_one_commit_per_step_ends_with_the_state(memory: Stage) -> None:
    """Steps are numbered 1, 2, 3 …"""

    async def step(run: Any) -> None:
        run.state["log"].append(len(run.state["log"]))
        if len(run.state["log"]) == 3:
            run.finish()

    await memory.run(agent(step))
    assert [body.number for body in await memory.bodies(e.StepCommitted)] == [1, 2, 3]
    assert (await memory.kinds())[-1] == "run.finished"
