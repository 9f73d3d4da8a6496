"""Going back in time: an old answer that came back, a nested run begun anew, a head that no longer moved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.state import events as e
from tests.cases.field import Field

PERMITTED = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool(effect="irreversible", approval=Approval())
async def pay(n: int) -> str:
    book("paid", f"no {n}")
    return f"paid {n}"


@agent.step
async def step(run):
    if "n" not in run.state:
        run.state["n"] = 1
    else:
        run.finish(await pay(run.state["n"]))
"""

FAMILY = """
inner = Agent("inner", state=dict, start=lambda goal: {"log": []})


@inner.tool(effect="idempotent")
async def work(name: str) -> str:
    book("worked", f"{current_call().run_id} {name}")
    return name


@inner.step
async def inside(run):
    log = run.state["log"]
    log.append(await work("abc"[len(log)]))
    if len(log) == 3:
        run.finish("".join(log))


agent = Agent("agent", state=dict, start=lambda goal: {}, spawns=[inner])


@agent.step
async def step(run):
    run.finish(await run.spawn(inner, "abc"))
"""

COUNTS = """
agent = Agent("agent", state=dict, start=lambda goal: {"n": 0})


@agent.tool(effect="read")
async def one() -> int:
    return 1


@agent.step
async def step(run):
    run.state["n"] += await one()
    await run.wait("go") if run.state["n"] > 4 else None
    if run.state["n"] > 8:
        run.finish(run.state["n"])
"""


async def _bodies(field: Field, run: str) -> list[Any]:
    return list((await field.told(run))[2])


async def _point(field: Field, step: int, run: str = "r") -> int:
    bodies = enumerate(await _bodies(field, run), 1)
    return next(seq for seq, body in bodies if isinstance(body, e.StepCommitted) and body.number == step)


@pytest.mark.crash
async def test_a_fork_from_before_an_approval_asks_again(field: Field) -> None:
    """O-085: the first branch's decision stays what it was, and permits nothing in the fork."""
    field.program(PERMITTED)
    store = ("--store", str(field.store))
    assert field.perdure("run", "app.py", "go", "--id", "r", *store)[0] == 4
    (asked,) = await field.facts(e.ApprovalRequested)
    field.asked("approve", asked.id)
    assert field.perdure("run", "app.py", "--id", "r", *store)[0] == 0
    before = await _bodies(field, "r")
    made = field.asked(
        "fork", f"r@{await _point(field, 1)}", "--set", "n=2", "--effects", "redo", "--id", "f"
    )
    assert [act["name"] for act in made["acts"]] == ["pay"]
    assert field.perdure("run", "app.py", "--id", "f", *store)[0] == 4
    (again,) = await field.facts(e.ApprovalRequested, "f")
    assert again.id != asked.id
    assert field.lines("paid") == ["no 1"]
    field.asked("approve", again.id)
    assert field.perdure("run", "app.py", "--id", "f", *store)[0] == 0
    assert field.lines("paid") == ["no 1", "no 2"]
    assert await _bodies(field, "r") == before


@pytest.mark.crash
async def test_a_fork_of_a_nested_run_does_only_what_comes_after_the_point(field: Field) -> None:
    """O-086: parent, and a child that does a, b and c; the child is forked after a."""
    field.program(FAMILY)
    store = ("--store", str(field.store))
    assert field.perdure("run", "app.py:agent", "go", "--id", "r", *store)[0] == 0
    child = "r.1:0"
    field.asked("fork", f"{child}@{await _point(field, 1, child)}", "--effects", "redo", "--id", "f")
    assert field.perdure("run", "app.py:inner", "--id", "f", *store)[0] == 0
    assert [line for line in field.lines("worked") if line.startswith("f ")] == ["f b", "f c"]
    assert len(field.lines("worked")) == 5
    told: Any = field.asked("show", "f")
    assert told["fork"]["origin"] == child
    assert told["run"]["fork_of"].startswith(f"{child}@")
    assert told["run"]["parent"] is None


@pytest.mark.crash
async def test_each_branch_has_a_head_of_its_own_that_moves(field: Field) -> None:
    """O-087: fork at 3, two steps, and again; the first branch stays where it was, and both are listed."""
    field.program(COUNTS)
    store = ("--store", str(field.store))
    assert field.perdure("run", "app.py", "go", "--id", "r", *store)[0] == 6
    at = await _point(field, 3)
    stood = len(await _bodies(field, "r"))
    field.asked("fork", f"r@{at}", "--id", "f")
    heads = []
    for count in range(3):
        assert field.perdure("run", "app.py", "--id", "f", *store)[0] == 6
        heads.append(len(await _bodies(field, "f")))
        assert json.loads(field.perdure("state", "f", "n", "--json", *store)[1])["value"] == 4 + count
        field.asked("signal", "f", "go")
    assert heads == sorted(set(heads))
    assert len(await _bodies(field, "r")) == stood
    listed = {one["run_id"]: one["fork_of"] for one in field.asked("runs")["runs"]}
    assert listed == {"r": None, "f": f"r@{at}"}
