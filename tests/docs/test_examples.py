"""Each example is a folder with an agent that runs by itself; run again it tells the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*/agent.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.parent.name)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    """It ends well, and started again it tells the same result."""
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "error", str(example)],
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if not name.startswith("PERDURE")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    assert told[0] == told[1] != ""


def test_there_are_examples() -> None:
    """The folder was found."""
    assert EXAMPLES
