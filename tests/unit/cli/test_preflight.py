"""`perdure preflight`: what new code would do to open runs, for people, programs and pipelines."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.store.sqlite import SQLiteStore
from tests.unit.cli.conftest import Command
from tests.unit.cli.test_replay import files

CODE = """
from typing import Any
from perdure import Agent, Run, tool


@tool(effect="irreversible")
async def pay(cents: int) -> str:
    return f"paid {cents}"


desk = Agent("desk", state=dict[str, Any], tools=[pay])


@desk.step
async def step(run: Run[Any]) -> None:
    print("in the step")
    await pay(CENTS)
    await run.wait("go")
    run.finish("gone")
"""


@pytest.fixture
def waiting(perdure: Command, place: Path) -> Path:
    """./old.py and ./new.py, whose payments differ, and thirty runs of the old one that wait."""
    (place / "old.py").write_text(CODE.replace("CENTS", "5"))
    (place / "new.py").write_text(CODE.replace("CENTS", "6"))
    asyncio.run(_begin(place))
    return place


async def _begin(place: Path) -> None:
    from perdure import Runtime
    from perdure.cli.app import load

    desk = load(str(place / "old.py"))
    async with Runtime(str(place / "perdure.db"), [desk]) as runtime:
        for number in range(30):
            await runtime.run(desk, f"run-{number:02}", "go", patience=timedelta(0))


def test_the_same_code_may_be_deployed(perdure: Command, waiting: Path) -> None:
    """Exit code 0, a table, and a store of the same bytes."""
    before = files(waiting)
    answer = perdure("preflight", "old.py")
    assert answer.code == 0, answer.err
    assert "resumes   30" in answer.out
    assert "30 open runs looked at in" in answer.out
    assert answer.out.rstrip().endswith("ok to deploy")
    assert "in the step" not in answer.out
    assert files(waiting) == before


def test_other_code_is_stopped(perdure: Command, waiting: Path) -> None:
    """Exit code 1, both sides with the line of the code, remedies that name the store, in bounded length."""
    before = files(waiting)
    answer = perdure("preflight", "new.py", "--store", "perdure.db")
    assert answer.code == 1
    assert "diverges" in answer.out
    assert "at 1:0 the arguments of pay differ: cents recorded 5, now 6" in answer.out
    assert f"{waiting / 'new.py'}:17" in answer.out
    assert "perdure retry --store perdure.db run-29" in answer.out
    assert "and 10 more that are diverges; --json has them all" in answer.out
    assert answer.out.rstrip().endswith("not ok: somebody should look at these first")
    assert files(waiting) == before


def test_a_document_for_programs(perdure: Command, waiting: Path) -> None:
    """Every run, none left out."""
    answer = perdure("preflight", "new.py", "--json")
    found = answer.document
    assert (answer.code, found["exit"], found["ok"]) == (1, 1, False)
    assert found["counts"] == {"diverges": 30}
    names = [run["run_id"] for run in found["runs"]]
    assert names == [f"run-{number:02}" for number in reversed(range(30))]
    first = found["runs"][0]
    assert (first["agent"], first["status"], first["step"], first["stops"]) == ("desk", "waiting", 1, True)
    assert first["reason"] == "diverged"


def test_an_empty_store(perdure: Command, place: Path) -> None:
    """Nothing open is nothing in the way; no store is an error, and none is made."""
    (place / "old.py").write_text(CODE.replace("CENTS", "5"))
    assert perdure("preflight", "old.py").code == 3
    assert not (place / "perdure.db").exists()
    store = SQLiteStore(place / "perdure.db")
    asyncio.run(_touch(store))
    answer = perdure("preflight", "old.py")
    assert (answer.code, answer.out.startswith("no open runs in")) == (0, True)


async def _touch(store: SQLiteStore) -> None:
    await store.open()
    await store.close()


WORKER = """
import asyncio, sys
from perdure import Runtime
from perdure.cli.app import load

async def main():
    desk = load("old.py")
    async with Runtime("perdure.db", [desk], workers=4) as runtime:
        print("there", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

asyncio.run(main())
"""


def test_beside_a_worker(perdure: Command, waiting: Path) -> None:
    """A worker goes on while somebody looks; the look changes nothing of what it keeps."""
    environment = {**os.environ, "PYTHONPATH": str(waiting)}
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(
        command, cwd=waiting, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdin is not None
        while worker.stdout.readline().strip() not in ("there", ""):
            pass
        before = files(waiting)
        answer = perdure("preflight", "new.py", "--json")
        assert answer.document["counts"] == {"diverges": 30}
        assert files(waiting) == before
        assert perdure("signal", "run-07", "go", "null").code == 0
        status = ""
        for _ in range(200):
            status = perdure("show", "run-07", "--json").document["run"]["status"]
            if status == "succeeded":
                break
        assert status == "succeeded", json.dumps(perdure("show", "run-07", "--json").document)[:2000]
        worker.stdin.write("stop\n")
        worker.stdin.flush()
    assert perdure("preflight", "old.py", "--json").document["counts"] == {"resumes": 29}
