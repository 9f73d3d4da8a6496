"""Families whose processes die."""

from __future__ import annotations

import pytest

from tests.cases.field import Field
from tests.processes import said, until

FAMILY = """
DEPTH, WHERE = (HERE / "kind").read_text().split()
child = Agent("child", state=dict, start=lambda goal: {})


@child.tool(effect="irreversible")
async def pay(what: str) -> str:
    if WHERE == "before" and not is_open("died"):
        (HERE / "died").touch()
        die()
    book("paid", current_call().key)
    if WHERE == "after" and not is_open("died"):
        (HERE / "died").touch()
        die()
    return what


@pay.reconcile
async def paid(what: str) -> Done[str] | NotDone:
    key = current_call().key
    return Done(what) if is_open("paid") and key in (HERE / "paid").read_text() else NotDone()


@child.step
async def work(run):
    got = await pay(run.goal)
    if WHERE == "step" and not is_open("died"):
        (HERE / "died").touch()
        die()
    run.finish(got)


agent = child
for level in range(int(DEPTH)):
    below = agent
    agent = Agent(f"parent{level}", state=dict, start=lambda goal: {}, spawns=[below])

    @agent.step
    async def step(run, below=below):
        run.finish(list(await run.gather(run.spawn(below, "a"), run.spawn(below, "b"))))


if __name__ == "__main__":
    run_here(agent)
"""


@pytest.mark.crash
@pytest.mark.parametrize("where", ["before", "after", "step"])
@pytest.mark.parametrize("depth", [1, 2])
async def test_a_child_goes_on_after_a_kill_and_then_its_parent(field: Field, depth: int, where: str) -> None:
    """O-071: after the process was killed during a child run, nothing seemed to go on. A worker with room for
    one run carries the child on, then the parent, which gets the result.
    """
    (field.folder / "kind").write_text(f"{depth} {where}")
    field.program(FAMILY)
    dead = field.process("app.py")
    assert said(dead) == "killed"
    worker = field.worker(concurrency=1)
    assert await field.until_ended("r") == ["succeeded"]
    worker.terminate()
    assert said(worker) is not None
    children = 2 if depth == 1 else 4
    assert len(field.lines("paid")) == len(set(field.lines("paid"))) == children
    assert {row["status"] for row in field.asked("runs")["runs"]} == {"succeeded"}


@pytest.mark.crash
async def test_workers_that_are_killed_in_turn_lose_no_child(field: Field) -> None:
    """O-071: each worker is killed in the middle of a child; the last one ends the family."""
    (field.folder / "kind").write_text("2 nowhere")
    field.program(FAMILY)
    argv = ("run", "app.py:agent", "go", "--id", "r", "--detach", "--store", str(field.store))
    code, _, complaint = field.perdure(*argv)
    assert code in (0, 4), complaint
    for paid in (1, 2, 3):
        worker = field.worker(concurrency=1)
        until(lambda paid=paid: len(field.lines("paid")) >= paid, worker)  # type: ignore[misc]
        worker.kill()
        worker.communicate()
    field.worker(concurrency=1)
    assert await field.until_ended("r") == ["succeeded"]
    assert len(field.lines("paid")) == len(set(field.lines("paid"))) == 4
