"""Whole runs on PostgreSQL, killed with SIGKILL at points drawn by a seed, resumed and judged as on a file.

`PERDURE_CRASH_SCALE=4` draws four times as many points. A control breaks the store and must be found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash import database
from tests.database import new_database

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.postgres]

SCALE = float(os.environ.get("PERDURE_CRASH_SCALE", "1"))
SEED = 3


def tried(folder: Path, kills: int, *how: str) -> list[dict[str, Any]]:
    """What each scenario came to."""
    command = [
        sys.executable,
        "-m",
        "tests.crash.database",
        new_database(),
        str(folder),
        str(kills),
        str(SEED),
    ]
    done = subprocess.run([*command, *how], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(f"seed {SEED}: {done.stdout}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_nothing_is_lost_repeated_or_hidden(tmp_path: Path) -> None:
    found = tried(tmp_path, round(3 * SCALE))
    assert {one["scenario"] for one in found} == set(database.NAMES)
    assert [one for one in found if one["offences"]] == []
    assert sum(one["killed"] for one in found) >= sum(one["trials"] for one in found) * 0.9


def test_a_store_that_acknowledges_too_early_is_found_out(tmp_path: Path) -> None:
    assert any(one["offences"] for one in tried(tmp_path, 4, "hasty"))
