"""SIGKILL at the statements of a rotation, on both stores: what is left opens with the keys that its mark
names, and is ended by whoever comes next. `PERDURE_CRASH_SCALE=4` tries four times as many of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.database import new_database

pytestmark = pytest.mark.crash

SCALE = float(os.environ.get("PERDURE_CRASH_SCALE", "1"))


def swept(where: str, aim: str, step: int, how: str = "whole") -> list[dict[str, Any]]:
    """What each kill has left."""
    argv = [sys.executable, "-m", "tests.crash.rotations", where, aim, how, str(max(1, round(step / SCALE)))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def judged(found: list[dict[str, Any]]) -> None:
    """Nothing wrong anywhere, and the kills fell before, into and after it."""
    assert [one for one in found if one["wrong"]] == []
    assert len({one["state"] for one in found}) == 3
    print(f"\n{len(found)} places of {found[-1]['place']}")


@pytest.mark.parametrize(("aim", "step"), [("same", 2), ("encrypted", 5), ("plain", 5)])
def test_a_kill_leaves_what_its_keys_open(tmp_path: Path, aim: str, step: int) -> None:
    judged(swept(str(tmp_path), aim, step))


@pytest.mark.parametrize(("aim", "step"), [("same", 24), ("encrypted", 40), ("plain", 40)])
@pytest.mark.slow
@pytest.mark.postgres
def test_a_kill_leaves_in_a_database_what_its_keys_open(aim: str, step: int) -> None:
    judged(swept(new_database(), aim, step))


def test_a_mark_that_says_too_early_that_all_is_done_is_seen(tmp_path: Path) -> None:
    """Control: the old key would be dropped while values lie under it."""
    assert any(one["wrong"] for one in swept(str(tmp_path), "same", 7, "broken"))
