"""SIGKILL at every boundary of a removal, a compaction and an import: before or after, never between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.keeping import BOUNDARIES, RUNS

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def trial(folder: Path, work: str, mutant: str = "") -> dict[str, Any]:
    """What the trial tells."""
    command = [sys.executable, "-m", "tests.crash.keeping", str(folder), work, mutant]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("work", BOUNDARIES)
def test_each_run_is_as_before_or_as_after(tmp_path: Path, work: str) -> None:
    """And in the end all are as after, whatever was cut short on the way."""
    told = trial(tmp_path, work)
    print(told)
    assert told["wrong"] == []
    assert told["ended"]
    assert told["last"] == {"after": RUNS}
    assert all(told["killed"].get(boundary, 0) >= 1 for boundary in BOUNDARIES[work]), told["killed"]
    assert any("before" in between for between in told["between"])


@pytest.mark.parametrize(
    ("work", "mutant"),
    [
        ("prune", "removed_in_halves"),
        ("compact", "compacted_in_halves"),
        ("import", "imported_in_halves"),
    ],
)
def test_work_that_is_not_one_write_is_noticed(tmp_path: Path, work: str, mutant: str) -> None:
    """Otherwise the trial proves nothing."""
    told = trial(tmp_path, work, f"tests.crash.keeping_mutants:{mutant}")
    print(told["wrong"])
    assert told["wrong"]
