"""Where the output of the program goes wrong, it says so, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cases.field import Field
from tests.processes import SECONDS

PROGRAM = """
agent = Agent("agent", state=dict, start=lambda goal: {})

@agent.step
async def step(run):
    run.state["text"] = "x" * 100_000
    await run.wait("go")
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("json", [(), ("--json",)])
def test_output_that_cannot_be_written_is_told(field: Field, json: tuple[str, ...]) -> None:
    """A full disk behind `>` was called a fault in perdure itself."""
    field.program(PROGRAM)
    assert field.perdure("run", "app.py:agent", "go", "--id", "r", "--store", str(field.store))[0] == 6
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "perdure", "state", "r", "--store", str(field.store), *json],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 1
    assert "the output could not be written whole: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "fault in perdure" not in done.stderr


def test_a_closed_output_ends_no_command(field: Field) -> None:
    """Nor did a command end well that was started without one."""
    closed = "import os, sys; [os.close(n) for n in (0, 1)]; os.execv(sys.executable, sys.argv[1:])"
    argv = (sys.executable, "-m", "perdure", "runs", "--store", str(field.store))
    field.program(PROGRAM)
    assert field.perdure("run", "app.py:agent", "go", "--id", "r", "--store", str(field.store))[0] == 6
    done = subprocess.run(
        [sys.executable, "-c", closed, *argv], stderr=subprocess.PIPE, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
