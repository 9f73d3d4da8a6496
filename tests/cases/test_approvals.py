"""People who are asked: what was forgotten, asked twice or taken for an answer elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.agent import Principal
from perdure.runtime.questions import open_waits
from perdure.state import events as e
from tests.unit.runtime.people import payer
from tests.unit.runtime.stage import RUN, Stage, World, agent

ANA = Principal("ana")

SHAPES = ("one after the other", "at once", "in two steps")


def _asker(shape: str, name: str) -> Any:
    """An agent that asks q1 and q2."""

    async def step(run: Any) -> None:
        log = run.state["log"]
        if shape == "at once":
            log += await run.gather(run.ask("q1"), run.ask("q2"))
        elif shape == "in two steps" and not log:
            log.append(await run.ask("q1"))
            return
        elif shape == "in two steps":
            log.append(await run.ask("q2"))
        else:
            log += [await run.ask("q1"), await run.ask("q2")]
        run.finish(log)

    return agent(step, name=name)


def _nested(asker: Any, depth: int, as_tool: bool) -> tuple[Any, str]:
    """The asker below so many parents, and the id of its run."""
    made, run_id = asker, RUN
    for level in range(depth):
        child = made
        tool = child.as_tool(f"ask_{level}", "Let it ask.") if as_tool else None

        async def step(run: Any, child: Any = child, tool: Any = tool) -> None:
            run.finish(await (run.spawn(child, "go") if tool is None else tool("go")))

        more: dict[str, Any] = {"spawns": [child]} if tool is None else {}
        made = agent(step, *([] if tool is None else [tool]), name=f"parent_{level}", **more)
        run_id = f"{run_id}.1:0"
    return made, run_id


async def _open(stage: Stage, run_id: str) -> list[str]:
    return [wait.name for wait in open_waits(await stage.record(run_id), "answer")]


@pytest.mark.parametrize("as_tool", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_nested_question_that_is_answered_is_not_asked_again(
    memory: Stage, shape: str, depth: int, as_tool: bool
) -> None:
    """O-058: after a restart a nested workflow asked again what had been answered. Only the second question
    is open, and the answer to the first one is kept; each process is a new one.
    """
    made, asking = _nested(_asker(shape, "asker"), depth, as_tool)
    assert (await memory.run(made)).status == "waiting"
    assert (await _open(memory, asking))[0] == "q1"
    async with memory.runtime() as anybody:
        await anybody.answer(asking, "one", by=ANA, question=_place(await memory.record(asking), "q1"))
    await memory.crash(made, "run.suspend")
    for _ in range(2):
        assert (await memory.run(made)).status == "waiting"
        assert await _open(memory, asking) == ["q2"]
    async with memory.runtime() as anybody:
        await anybody.answer(asking, "two", by=ANA)
    assert (await memory.run(made)).unwrap() == ["one", "two"]
    opened = [wait.name for wait in await memory.bodies(e.WaitOpened, asking) if wait.kind == "answer"]
    assert opened == ["q1", "q2"]


def _place(record: Any, name: str) -> str:
    return next(str(wait.path) for wait in open_waits(record, "answer") if wait.name == name)


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_nested_permission_that_is_given_is_not_asked_for_again(stage: Stage, depth: int) -> None:
    """O-058, for permissions: two calls of a child need one each; the first is given, the second is open."""
    world = World()
    pay = payer(world, effect="idempotent")

    async def step(run: Any) -> None:
        run.finish(list(await run.gather(pay("ada", 1), pay("bob", 2))))

    made, asking = _nested(agent(step, pay, name="payer"), depth, as_tool=False)
    await stage.run(made)
    async with stage.runtime(made) as place:
        asked = (await place.outcome(asking)).approvals  # type: ignore[union-attr]
        first = next(request for request in asked if request.args["to"] == "ada")
        await place.approve(first.id, by=ANA)
    await stage.crash(made, "run.suspend")
    open_now: tuple[Any, ...] = ()
    for _ in range(2):
        await stage.run(made)
        async with stage.runtime(made) as place:
            open_now = (await place.outcome(asking)).approvals  # type: ignore[union-attr]
        assert [request.args["to"] for request in open_now] == ["bob"]
    (second,) = open_now
    async with stage.runtime(made) as place:
        await place.approve(second.id, by=ANA)
    assert (await stage.run(made)).unwrap() == ["ada has 1", "bob has 2"]
    assert len(await stage.bodies(e.ApprovalRequested, asking)) == 2
    await stage.blameless(world, run_id=asking)


@pytest.mark.parametrize("answers", ["reject reject reject approve", "approve"])
async def test_a_wait_in_a_loop_repeats_nothing_before_it(stage: Stage, answers: str) -> None:
    """O-004: a wait for a person within a loop made everything before it happen again at each answer. Each
    line is appended once, though the whole loop is one step and each answer finds a new process.
    """
    lines: list[int] = []

    @perdure.tool(effect="idempotent")
    async def append(n: int) -> int:
        lines.append(n)
        return n

    async def step(run: Any) -> None:
        for n in range(10):
            await append(n)
            if await run.ask("Good?", choices=["reject", "approve"]) == "approve":
                run.finish(n + 1)
                return

    made = agent(step, append)
    for said in answers.split():
        assert (await stage.run(made)).status == "waiting"
        async with stage.runtime() as anybody:
            await anybody.answer(RUN, said, by=ANA)
    assert (await stage.run(made)).unwrap() == len(answers.split())
    assert lines == list(range(len(answers.split())))


async def test_permissions_in_a_loop_repeat_nothing_before_them(stage: Stage) -> None:
    """O-004, for permissions: the gated call stands in one step's loop behind an append."""
    world, lines = World(), list[int]()
    pay = payer(world)

    @perdure.tool(effect="irreversible")
    async def append(n: int) -> int:
        lines.append(n)
        return n

    async def step(run: Any) -> None:
        for n in range(10):
            await append(n)
            try:
                run.finish(await pay("ada", n))
            except perdure.PerdureError:
                continue
            return

    made = agent(step, append, pay)
    for verb in ("deny", "deny", "deny", "approve"):
        (request,) = (await stage.run(made)).approvals
        async with stage.runtime() as anybody:
            await getattr(anybody, verb)(request.id, by=ANA)
    assert (await stage.run(made)).unwrap() == "ada has 3"
    assert lines == [0, 1, 2, 3]
    assert len(world) == 1
