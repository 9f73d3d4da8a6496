"""A disk that fills up inside an act: what was done is kept, and the run goes on once there is room."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.bench import acts, all_whole, perdure, told

FILLING = """
import contextlib
import os
from pathlib import Path

from perdure import Agent, Run

desk = Agent("desk", state=dict, start=lambda goal: {"paid": []})
OUTSIDE = Path(os.environ["OUTSIDE"])


def fill():
    with contextlib.suppress(OSError), open("filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


@desk.tool(effect="irreversible")
async def pay(order: str) -> str:
    with open(OUTSIDE / "acts.txt", "a") as file:
        file.write(order + "\\n")
    if order == "o-2" and os.environ.get("FILL"):
        fill()
    return f"paid {order}" + "." * 1000


@desk.step
async def step(run: Run) -> None:
    for number in range(1, 60):
        run.state["paid"].append(await pay(f"o-{number}"))
    run.finish(len(run.state["paid"]))
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT TRIED: no right to mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up_in_an_act_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    """Field case O-079."""
    (small_disk / "agent.py").write_text(FILLING)
    outside, path = str(tmp_path), small_disk / "perdure.db"
    told(
        perdure("run", "agent.py", "go", "--id", "r", cwd=small_disk, FILL="1", OUTSIDE=outside),
        "S103",
        1,
        str(path),
    )
    done = acts(tmp_path)
    assert done == [f"o-{number}" for number in range(1, len(done) + 1)]
    assert 2 <= len(done) < 59
    for command in ("runs", "show r", "why r", "verify"):
        answer = perdure(*command.split(), cwd=small_disk)
        assert answer.code == 0, (command, answer)
    told(perdure("run", "agent.py", "--id", "r", cwd=small_disk, OUTSIDE=outside), "S103", 1)
    done = acts(tmp_path)  # closing the first process gave some room back; nothing was acted twice in it
    assert done == [f"o-{number}" for number in range(1, len(done) + 1)]
    all_whole(path)
    (small_disk / "filler").unlink()
    answer = perdure("run", "agent.py", "--id", "r", "--json", cwd=small_disk, OUTSIDE=outside)
    assert (answer.code, answer.document["result"]) == (0, 59), answer
    assert acts(tmp_path) == [f"o-{number}" for number in range(1, 60)]
    all_whole(path)
