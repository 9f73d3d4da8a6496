"""`perdure replay`: today's code over whole histories, for people, programs and pipelines."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command

CODE = """
from typing import Any
from perdure import Agent, Run, tool


@tool(effect="irreversible")
async def pay(cents: int) -> str:
    return f"paid {cents}"


desk = Agent("desk", state=dict[str, Any], start=lambda goal: {"paid": []}, tools=[pay])


@desk.step
async def step(run: Run[Any]) -> None:
    print("in the step")
    run.state["paid"].append(await pay(len(run.state["paid"]) + CENTS))
    if len(run.state["paid"]) == 3:
        run.finish(run.goal)
"""

SAME, OTHER = "same.py", "other.py"


@pytest.fixture(scope="module")
def sixty_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with same.py and other.py, whose payments differ, and sixty runs of the one, which ended."""
    folder = tmp_path_factory.mktemp("sixty_runs")
    (folder / SAME).write_text(CODE.replace("CENTS", "5"))
    (folder / OTHER).write_text(CODE.replace("CENTS", "(6 if run.state['paid'] else 5)"))
    asyncio.run(_live(folder))
    return folder


@pytest.fixture
def lived(place: Path, sixty_runs: Path) -> Path:
    """A copy of that folder, to be in."""
    shutil.copytree(sixty_runs, place, dirs_exist_ok=True)
    return place


async def _live(place: Path) -> None:
    from perdure import Agent, Runtime
    from perdure.cli.app import load

    desk = load(str(place / SAME))
    other: Agent[object, str, object] = Agent("other", state=dict, start=lambda goal: {"x": 1})

    @other.step
    async def step(run: object) -> None:
        run.finish("done")  # type: ignore[attr-defined]

    async with Runtime(str(place / "perdure.db"), [desk, other]) as runtime:
        await asyncio.gather(
            *(
                runtime.run(desk, f"run-{number:02}", "go", patience=timedelta(0), check=False)
                for number in range(60)
            )
        )
        await runtime.run(other, "stranger", "go", check=False)


def files(place: Path) -> dict[str, bytes]:
    """Everything in the folder that belongs to the store; the index of the log is no part of it."""
    found = sorted(place.glob("perdure.db*"))
    return {path.name: path.read_bytes() for path in found if path.is_file() and path.suffix != ".db-shm"}


def test_the_same_code_agrees(perdure: Command, lived: Path) -> None:
    before = files(lived)
    found = perdure("replay", "run-07", "--app", SAME)
    assert found.code == 0, found.err
    assert "1 run, 3 steps replayed in " in found.out
    assert "1 same; nothing was written or called" in found.out
    assert "in the step" not in found.out
    assert files(lived) == before


def test_other_code_differs_with_both_sides(perdure: Command, lived: Path) -> None:
    found = perdure("replay", "run-07", "--app", OTHER)
    assert found.code == 1
    line = next(
        n for n, text in enumerate((lived / OTHER).read_text().splitlines(), 1) if "await pay" in text
    )
    for words in (
        "run-07  differs  agent desk, succeeded, step 2",
        "recorded  pay(cents=6)",
        "now       pay(cents=7)",
        "at        run-07@5  2:0",
        f"code      {lived / OTHER}:{line}",
        "the arguments of pay differ: cents recorded 6, now 7",
        "1 differs; nothing was written or called",
    ):
        assert words in found.out.replace("\n" + " " * 12, " "), (words, found.out)


def test_every_run_in_several_processes_for_a_program(lived: Path) -> None:
    command = [sys.executable, "-m", "perdure", "replay", "--all", "--app", OTHER, "--json", "--jobs", "2"]
    done = subprocess.run(command, cwd=lived, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["counts"] == {"differs": 60}
    assert (told["ok"], told["others"], told["exit"]) == (False, 1, 1)
    assert [run["run_id"] for run in told["runs"]] == [f"run-{n:02}" for n in range(60)][::-1]
    [one] = [run for run in told["runs"] if run["run_id"] == "run-03"]
    assert one["verdict"] == "differs"
    assert {
        name: one["difference"][name] for name in ("aspect", "step", "seq", "path", "recorded", "now")
    } == {
        "aspect": "call",
        "step": 2,
        "seq": 5,
        "path": "2:0",
        "recorded": "pay(cents=6)",
        "now": "pay(cents=7)",
    }
    assert "in the step" in done.stderr


def test_only_the_runs_that_are_chosen(perdure: Command, lived: Path) -> None:
    for options, count in (
        (("--newest", "4"), 4),
        (("--status", "failed"), 0),
        (("--status", "succeeded", "--since", "1d"), 60),
        (("--since", "0s"), 0),
    ):
        told = perdure("replay", "--all", "--app", SAME, "--json", "--jobs", "1", *options).document
        assert len(told["runs"]) == count, options
        assert told["ok"]


def test_an_exported_run_needs_no_store(perdure: Command, lived: Path) -> None:
    assert perdure("export", "run-05", "kept.perdure").code == 0
    for path in lived.glob("perdure.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    same = perdure("replay", "kept.perdure", "--app", SAME)
    assert same.code == 0, same.err
    other = perdure("replay", "kept.perdure", "--app", OTHER, "--json")
    assert other.code == 1
    [run] = other.document["runs"]
    assert (run["run_id"], run["difference"]["now"]) == ("run-05", "pay(cents=7)")


def test_a_damaged_run_is_refused_and_the_others_are_looked_at(perdure: Command, lived: Path) -> None:
    import apsw

    connection = apsw.Connection(str(lived / "perdure.db"))
    number = "(SELECT run_no FROM perdure_run WHERE run_id = 'run-11')"
    connection.execute(
        f"UPDATE perdure_event SET data = CAST(x'0102' || substr(data, 3) AS BLOB) WHERE key >> 32 = {number}"
    )
    connection.close()
    told = perdure("replay", "--all", "--app", SAME, "--json", "--jobs", "1").document
    assert told["counts"] == {"same": 59, "refused": 1}
    assert told["exit"] == 1
    [refused] = [run["refused"] for run in told["runs"] if run["refused"]]
    assert "run run-11: event 1" in refused


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        ((), 2, "name runs or exported files, or give --all"),
        (("run-01", "--all"), 2, "name runs or exported files, or give --all"),
        (("run-01", "--since", "7d"), 2, "go with --all"),
        (("nobody",), 3, "no run's id begins with nobody"),
        (("stranger",), 5, "run stranger was made by agent other; this code has desk"),
    ],
)
def test_what_cannot_be_done(
    perdure: Command, lived: Path, arguments: tuple[str, ...], exit_code: int, words: str
) -> None:
    found = perdure("replay", *arguments, "--app", SAME)
    assert found.code == exit_code, found.err
    assert words in " ".join((found.out + found.err).split())


def test_a_step_that_never_ends_is_told(lived: Path) -> None:
    text = (
        (lived / SAME)
        .read_text()
        .replace("    run.state", "    while run.state['paid']: pass\n    run.state", 1)
    )
    (lived / "hangs.py").write_text(text)
    command = [sys.executable, "-m", "perdure", "replay", "run-01", "--app", "hangs.py", "--seconds", "0.3"]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        command, cwd=lived, capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode == 1, done.stderr
    assert "[R220] step 2 came to no end within 0.3 s" in done.stdout
    assert re.search(r"at +run-01@[1-9]", done.stdout), done.stdout
    assert f"{lived / 'hangs.py'}:" in done.stdout


DIFFERS = """\
run-07  differs  agent desk, succeeded, step 2
  recorded  pay(cents=6)
  now       pay(cents=7)
  at        run-07@5  2:0
  code      PLACE/other.py:17
  why       at 2:0 the arguments of pay differ: cents recorded 6, now 7 (PLACE/other.py:17)

1 run, 2 steps replayed in T: 1 differs; nothing was written or called
"""


def drawn(text: str, place: Path) -> str:
    """What was drawn, without what differs from one machine to the next."""
    return re.sub(r"in \d+\.\d+ s", "in T", text.replace(str(place), "PLACE"))


def test_what_is_drawn_to_the_letter(perdure: Command, lived: Path) -> None:
    assert drawn(perdure("replay", "run-07", "--app", OTHER).out, lived) == DIFFERS
    same = drawn(perdure("replay", "run-07", "run-08", "--app", SAME).out, lived)
    assert same == "2 runs, 6 steps replayed in T: 2 same; nothing was written or called\n"


@pytest.mark.parametrize("ending", ["SystemExit(0)", "KeyboardInterrupt()", "GeneratorExit()"])
def test_code_that_would_end_the_process_is_one_more_finding(
    perdure: Command, lived: Path, ending: str
) -> None:
    ends = CODE.replace("CENTS", "5").replace('print("in the step")', f"raise {ending}")
    (lived / "ends.py").write_text(ends)
    found = perdure("replay", "run-07", "run-08", "--app", "ends.py", "--jobs", "1")
    assert (found.code, found.out.count(f"raised {ending}")) == (1, 4), found.out + found.err
    told = perdure("simulate", "run-07", "--app", "ends.py")
    assert (told.code, f"raised {ending}" in told.out) == (1, True)
