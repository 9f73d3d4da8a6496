"""SIGKILL at every boundary of the migration of a hundred parked runs, and a broken engine that must show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.migrations import BOUNDARIES

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def trial(folder: Path, runs: int, mutant: str = "") -> dict[str, Any]:
    """What the trial tells."""
    command = [sys.executable, "-m", "tests.crash.migrations", str(folder), str(runs), mutant]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_each_of_a_hundred_runs_is_old_and_whole_or_new_and_whole(tmp_path: Path) -> None:
    """Killed four times on its way, each run is migrated once."""
    told = trial(tmp_path, 100)
    assert told["wrong"] == []
    assert told["killed"] == dict.fromkeys(BOUNDARIES, 100)
    assert (told["count"], told["last"]) == ({"new": 100}, {"current": 100})


@pytest.mark.parametrize("mutant", ["migration_apart", "migration_in_halves"])
def test_a_migration_that_is_not_one_write_is_noticed(tmp_path: Path, mutant: str) -> None:
    """Otherwise the trial proves nothing."""
    told = trial(tmp_path, 3, f"tests.crash.mutants:{mutant}")
    print(told["wrong"])
    assert told["wrong"]
