"""perdure migrate, runs --stranded, why, and a worker that drains, over versions of one agent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.app import load
from perdure.host import Runtime
from tests.unit.cli.conftest import Command

ONE = """
from perdure import FOREVER, Agent, DeployPolicy

desk = Agent("desk", version="1", state=dict, start=lambda goal: {"name": "Ana Li"})


@desk.step
async def step(run):
    await run.wait("word", str, timeout=FOREVER)
    run.finish(sorted(run.state))
"""

TWO = (
    ONE.replace('version="1"', 'version="2", state_version=2')
    + """

@desk.migration(1)
def split(old):
    first, _, last = old["name"].partition(" ")
    return {"first": first, "last": last}
"""
)

BROKEN = TWO.replace('old["name"]', 'old["names"]')
PINNED = ONE.replace('version="1"', 'version="1", on_change=DeployPolicy(pin=True)')


def app(folder: Path, name: str, text: str) -> str:
    """A file with this code."""
    path = folder / f"{name}.py"
    path.write_text(text)
    return f"{path}:desk"


def parked(folder: Path, code: str, *names: str) -> str:
    """A store with runs of this code that wait."""
    store = str(folder / "runs.db")

    async def park() -> None:
        agent: Any = load(code)
        async with Runtime(store, [agent], workers=0) as runtime:
            for name in names:
                outcome = await runtime.run(agent, name, "go")
                assert outcome.status == "waiting"

    asyncio.run(park())
    return store


def test_a_plan_and_then_the_migration(tmp_path: Path, perdure: Command) -> None:
    store = parked(tmp_path, app(tmp_path, "one", ONE), "a", "b", "c")
    two = app(tmp_path, "two", TWO)
    plan = perdure("migrate", two, "--plan", "--store", store)
    assert (plan.code, "a plan: nothing was written" in plan.out) == (0, True)
    done = perdure("migrate", two, "--store", store, "--json")
    assert (done.code, done.document["counts"]) == (0, {"migrated": 3})
    again = perdure("migrate", two, "--store", store, "--json")
    assert again.document["counts"] == {"current": 3}
    shown = perdure("show", "a", "--store", store)
    assert "state 1 -> 2: brought to today's version" in shown.out
    told = perdure("why", "a", "--store", store)
    assert "version: 1 -> 2" in told.out
    (run,) = perdure("runs", "--store", store, "--limit", "1", "--json").document["runs"]
    assert (run["version"], run["state_version"], run["pinned"]) == ("2", 2, False)


def test_a_migration_that_fails_is_told(tmp_path: Path, perdure: Command) -> None:
    store = parked(tmp_path, app(tmp_path, "one", ONE), "a")
    broken = app(tmp_path, "broken", BROKEN)
    done = perdure("migrate", broken, "--store", store)
    assert (done.code, "[M306]" in done.out, "KeyError: 'names'" in done.out) == (1, True, True)
    why = perdure("why", "a", "--store", store)
    assert "It is not carried on: migration-failed" in why.out
    assert "perdure migrate" in why.out
    assert perdure("migrate", app(tmp_path, "two", TWO), "--store", store, "--id", "a").code == 0
    assert "waits" in perdure("show", "a", "--store", store).out


def test_stranded_runs_are_listed(tmp_path: Path, perdure: Command) -> None:
    store = parked(tmp_path, app(tmp_path, "one", PINNED), "a")
    two = app(tmp_path, "two", TWO)
    listed = perdure("runs", "--stranded", two, "--store", store)
    assert "blocked: version" in listed.out
    assert "pinned to version 1" in listed.out
    none = perdure("runs", "--stranded", app(tmp_path, "same", PINNED), "--store", store, "--json")
    assert none.document["runs"] == []
    other = app(tmp_path, "other", TWO.replace('"desk"', '"other"'))
    (run,) = perdure("runs", "--stranded", other, "--store", store, "--json").document["runs"]
    assert run["because"] == "blocked: this code has no agent desk"
    assert perdure("migrate", two, "--store", store, "--json").document["counts"] == {"stranded": 1}
    assert "version 1 (pinned)" in perdure("why", "a", "--store", store).out


@pytest.mark.slow
def test_a_worker_that_drains_ends_with_its_last_run(tmp_path: Path, perdure: Command) -> None:
    one = app(tmp_path, "one", ONE)
    store = parked(tmp_path, one, "a", "b")
    command = [sys.executable, "-m", "perdure", "worker", one, "--drain", "--store", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        for name in ("a", "b"):
            assert perdure("signal", name, "word", '"now"', "--store", store).code == 0
        assert worker.wait(timeout=30) == 0
    statuses = [run["status"] for run in perdure("runs", "--store", store, "--json").document["runs"]]
    assert statuses == ["succeeded", "succeeded"]
