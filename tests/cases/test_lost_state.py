"""Work that was there before a restart and not after it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cases.field import Field
from tests.processes import said, until

STEPS = """
agent = Agent("agent", state=dict, start=lambda goal: {"n": 0})


@agent.tool(effect="idempotent")
async def work(n: int) -> int:
    book("worked", str(n))
    return n + 1


@agent.step
async def step(run):
    run.state["n"] = await work(run.state["n"])
    if run.state["n"] == 2 and not is_open("more"):
        book("two")
        return
    if run.state["n"] >= 3:
        await opened("more")
        run.finish(run.state["n"])
"""


@pytest.mark.crash
@pytest.mark.parametrize("where", ["the default store", "a store by option", "a store by environment"])
async def test_a_run_is_there_after_a_kill_and_a_restart(field: Field, where: str) -> None:
    """O-001: a development server swapped the configured store for one in memory. Two steps, a kill -9, a
    restart: the run is listed with its two steps, and goes on from there.
    """
    field.program(STEPS)
    option = ["--store", "runs.db"] if where == "a store by option" else []
    path = field.folder / ("runs.db" if option else "perdure.db")
    field.store = path
    first = field.process("-m", "perdure", "run", "app.py", "go", "--id", "r", *option)
    until(lambda: field.lines("two") and path.exists(), first)
    await field.until("r", lambda row, record, facts: record.step >= 2)
    first.kill()
    first.communicate()
    (row,) = field.asked("runs")["runs"]
    assert row["run_id"] == "r"
    _, record, _ = await field.told()
    assert (record.step, record.state) == (2, {"n": 2})
    field.open("more")
    code, out, complaint = field.perdure("run", "app.py", "--id", "r", *option)
    assert code == 0, complaint + out
    assert field.lines("worked")[:2] == ["0", "1"]


@pytest.mark.crash
@pytest.mark.parametrize(
    "address",
    ["missing/folder/runs.db", "mongodb://nowhere/runs", "app.py", "postgresql://127.0.0.1:9/nowhere"],
)
@pytest.mark.parametrize("command", ["run", "worker", "runs"])
def test_a_store_that_cannot_be_opened_is_named_and_nothing_else_is_used(
    field: Field, command: str, address: str
) -> None:
    """O-001: nothing falls back to memory or to another file; the program stops before it starts anything."""
    field.program(STEPS)
    argv = {"run": ("app.py", "go"), "worker": ("app.py:agent",), "runs": ()}[command]
    code, _, complaint = field.perdure(command, *argv, "--store", address)
    assert code not in (0, 4)
    assert address.removesuffix("/runs.db").split("://")[0] in complaint
    assert not field.lines("worked")
    assert not list(field.folder.glob("*.db"))


ASKING = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool(effect="irreversible")
async def enter() -> str:
    book("entered")
    return "in"


@agent.tool(effect="irreversible", approval=Approval())
async def pay() -> str:
    book("paid")
    return "paid"


@agent.step
async def step(run):
    if not run.state:
        run.state["entered"] = await enter()
        return
    run.finish(await pay())
"""


@pytest.mark.crash
def test_only_the_store_is_carried_to_another_machine(field: Field, tmp_path: Path) -> None:
    """O-002: when the machine was made anew, a continuation began at the entry. Everything but the store is
    gone; the other machine gets only the answer, and goes on at the permission: the entry was made once.
    """
    field.program(ASKING)
    code, _, complaint = field.perdure("run", "app.py", "go", "--id", "r", "--store", str(field.store))
    assert code == 4, complaint
    there = Field(tmp_path / "elsewhere")
    there.folder.mkdir()
    shutil.copy(field.store, there.store)
    there.program(ASKING)
    for left in field.folder.iterdir():
        if left != there.folder:
            left.unlink() if left.is_file() else shutil.rmtree(left)
    try:
        code, _, complaint = there.perdure("approve", "r", "--store", str(there.store))
        assert code == 0, complaint
        code, _, complaint = there.perdure("run", "app.py", "--id", "r", "--store", str(there.store))
        assert code == 0, complaint
    finally:
        there.end()
    assert (there.lines("entered"), len(there.lines("paid"))) == ([], 1)
    assert said(there.process("-c", "print('alive')")) == "alive"


async def test_a_file_of_two_names_is_refused_under_each(field: Field) -> None:
    """Each name has a log of its own: who works by the one writes over what was done by the other."""
    field.program(
        """
agent = Agent("counter", state=dict)

@agent.step
async def step(run):
    run.finish("done")
"""
    )
    (field.folder / "other").mkdir()
    assert field.perdure("run", "app.py:agent", "go", "--id", "r", "--store", "runs.db")[0] == 0
    os.link(field.file, field.folder / "other" / "runs.db")
    for name in ("runs.db", "other/runs.db"):
        for command in (("runs",), ("run", "app.py:agent", "go", "--id", "s"), ("worker", "app.py:agent")):
            code, _, complaint = field.perdure(*command, "--store", name)
            assert (code, "[S102]" in complaint, "2 names" in complaint) == (1, True, True), complaint
    (field.folder / "other" / "runs.db").unlink()
    os.symlink(field.file, field.folder / "other" / "runs.db")  # which is followed
    assert field.perdure("run", "app.py:agent", "go", "--id", "s", "--store", "other/runs.db")[0] == 0
    assert await field.until_ended("r", "s") == ["succeeded", "succeeded"]
