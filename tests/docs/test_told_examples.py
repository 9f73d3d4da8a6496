"""Stories that a page tells: what the example prints and what its page shows are what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCREEN = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def ran(place: Path, *command: str, codes: Sequence[int] = (0,)) -> str:
    """What a command says, on both streams. `codes`: how it may end."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=place,
        env={name: value for name, value in os.environ.items() if not name.startswith("PERDURE")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in codes, done.stdout
    return done.stdout


@pytest.mark.parametrize("example", ["compensation", "premise"])
def test_the_page_shows_what_happens(example: str, tmp_path: Path) -> None:
    """Its first screen is the output; each line of the second stands in `perdure show`, in that order."""
    printed, shown = SCREEN.findall((EXAMPLES / example / "README.md").read_text())
    said = ran(tmp_path, str(EXAMPLES / example / "agent.py"))
    assert sorted(said.splitlines()) == sorted(printed.splitlines())
    lines = iter(ran(tmp_path, "-m", "perdure", "show", "trip-1").splitlines())
    for wanted in shown.splitlines():
        words = re.split(r"\s+", wanted)
        assert any(all(word in line for word in words) for line in lines), wanted
