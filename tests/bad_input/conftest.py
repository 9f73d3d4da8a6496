"""A folder with an agent, and a store with an ended run, a held one and a waiting one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bad_input.bench import AGENT, perdure


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with agent.py in it."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    return folder


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "agent.py").write_text(AGENT)
    for goal, run_id, code in (("o-1", "paid-1", 0), ("lost", "lost-1", 4), ("nap", "nap-1", 6)):
        answer = perdure("run", "agent.py", goal, "--id", run_id, cwd=folder)
        assert answer.code == code, answer
    return folder


@pytest.fixture
def store(_made: Path, tmp_path: Path) -> Path:
    """./perdure.db with the runs paid-1 (succeeded), lost-1 (held, outcome unknown) and nap-1 (waiting)."""
    return shutil.copytree(_made, tmp_path / "stored") / "perdure.db"
