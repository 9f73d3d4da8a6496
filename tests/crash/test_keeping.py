"""SIGKILL at every boundary of a removal, a compaction, an import and a fork, on a file and in a database:
before or after, never between.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.keeping import BOUNDARIES, FILE, RUNS
from tests.database import new_database

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def trial(folder: Path, work: str, kind: str, mutant: str = "") -> dict[str, Any]:
    """What the trial tells."""
    address = FILE if kind == FILE else new_database()
    command = [sys.executable, "-m", "tests.crash.keeping", str(folder), work, address, mutant]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


KINDS = (FILE, pytest.param("database", marks=pytest.mark.postgres))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("work", BOUNDARIES)
def test_each_run_is_as_before_or_as_after(tmp_path: Path, work: str, kind: str) -> None:
    """And in the end all are as after, whatever was cut short on the way."""
    told = trial(tmp_path, work, kind)
    print(told)
    assert told["wrong"] == []
    assert told["ended"]
    assert told["last"] == {"after": RUNS}
    assert all(told["killed"].get(boundary, 0) >= 1 for boundary in BOUNDARIES[work]), told["killed"]
    assert any("before" in between for between in told["between"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("work", "mutant"),
    [
        ("prune", "removed_in_halves"),
        ("compact", "compacted_in_halves"),
        ("import", "imported_in_halves"),
        ("fork", "forked_in_halves"),
    ],
)
def test_work_that_is_not_one_write_is_noticed(tmp_path: Path, work: str, mutant: str, kind: str) -> None:
    """Otherwise the trial proves nothing."""
    told = trial(tmp_path, work, kind, f"tests.crash.keeping_mutants:{mutant}")
    print(told["wrong"])
    assert told["wrong"]
