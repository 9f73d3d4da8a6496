"""SIGKILL at the statements of a rotation: what is left opens with the keys that its mark names, and is ended
by whoever comes next.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.crash


def swept(folder: Path, aim: str, step: int, how: str = "whole") -> list[dict[str, Any]]:
    """What each kill has left."""
    argv = [sys.executable, "-m", "tests.crash.rotations", str(folder), aim, how, str(step)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("aim", "step", "states"), [("same", 2, 3), ("encrypted", 5, 3), ("plain", 5, 3)])
def test_a_kill_leaves_what_its_keys_open(tmp_path: Path, aim: str, step: int, states: int) -> None:
    found = swept(tmp_path, aim, step)
    assert [one for one in found if one["wrong"]] == []
    assert len({one["state"] for one in found}) == states, "before, between and after"
    print(f"\n{len(found)} places of {found[-1]['place']}")


def test_a_mark_that_says_too_early_that_all_is_done_is_seen(tmp_path: Path) -> None:
    """Control: the old key would be dropped while values lie under it."""
    assert any(one["wrong"] for one in swept(tmp_path, "same", 7, "broken"))
