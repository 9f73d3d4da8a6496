"""Exported runs as regression tests: what pytest shows of the same code, and of another."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.cli.app import load
from perdure.host import Runtime
from perdure.store.memory import MemoryStore
from perdure.testing.plugin import exported_runs
from perdure.timeline.bundle import bundled, packed

CODE = """
from typing import Any
from perdure import Agent, Run, tool


@tool(effect="irreversible")
async def pay(cents: int) -> str:
    return f"paid {cents}"


desk = Agent("desk", state=dict[str, Any], start=lambda goal: {"paid": ""}, tools=[pay])


@desk.step
async def step(run: Run[Any]) -> None:
    run.state["paid"] = await pay(CENTS)
    run.finish(run.goal)
"""

TEST = """
import pytest
from perdure.testing.plugin import exported_runs
from code_{name} import desk


@pytest.mark.parametrize("file", exported_runs("runs"))
def test_each(perdure_replay, file):
    assert perdure_replay(file, desk).steps == 1


def test_one(perdure_replay):
    perdure_replay("runs/first.perdure", desk)


def test_in_a_loop(perdure_replay):
    import asyncio

    async def inside():
        return perdure_replay("runs/second.perdure", desk)

    assert asyncio.run(inside()).ok
"""


async def _exported(code: Path, run_id: str) -> bytes:
    desk = load(str(code))
    store = MemoryStore()
    async with Runtime(store, [desk]) as runtime:
        await runtime.run(desk, run_id, "go", check=False)
        return packed(await bundled(store, run_id))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two exported runs, the code that made them, another one, and tests for each."""
    for name, cents in (("same", "5"), ("other", "6")):
        (tmp_path / f"code_{name}.py").write_text(CODE.replace("CENTS", cents))
        (tmp_path / f"test_{name}.py").write_text(TEST.format(name=name))
    (tmp_path / "runs").mkdir()
    for name in ("first", "second"):
        data = asyncio.run(_exported(tmp_path / "code_same.py", name))
        (tmp_path / "runs" / f"{name}.perdure").write_bytes(data)
    return tmp_path


def run_tests(project: Path, name: str) -> subprocess.CompletedProcess[str]:
    """What pytest says, with this plugin alone."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "perdure.testing.plugin", f"test_{name}.py"]
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(project), "COLUMNS": "200"}
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"} | alone
    return subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_the_same_code_passes(project: Path) -> None:
    done = run_tests(project, "same")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_other_code_fails_with_both_sides(project: Path) -> None:
    done = run_tests(project, "other")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 failed" in done.stdout
    for words in (
        "run first differs: at 1:0 the arguments of pay differ: cents recorded 5, now 6",
        "recorded  pay(cents=5)",
        "now       pay(cents=6)",
        f"code      {project / 'code_other.py'}:16",
        "test_each[first]",
        "test_each[second]",
    ):
        assert words in done.stdout, words


def test_a_folder_without_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(pytest.UsageError, match="no exported run at"):
        exported_runs(tmp_path)
