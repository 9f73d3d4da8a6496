"""The laboratory's commands: what they print, and that no other command pays for them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command

QUIET = """
import sys
import perdure.cli.lab, perdure.cli.read
from perdure.cli.program import program
program.main(["lab", "--help"], standalone_mode=False)
print(sorted(name for name in sys.modules if name.startswith(("perdure.lab", "matplotlib", "numpy"))))
"""


def test_the_laboratory_is_loaded_only_when_an_experiment_is_called() -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUIET], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_storage_prints_the_paper_figures(perdure: Command, place: Path) -> None:
    answer = perdure("lab", "storage", "--paper")
    assert answer.code == 0
    told = [line.split() for line in answer.out.splitlines()]
    assert ["snapshot", "6,115", "kB", "0.0", "0"] in told
    assert ["every", "20", "399", "kB", "9.5", "19"] in told
    assert ["log", "64", "kB", "100.5", "200"] in told
    assert not list(place.iterdir())


def test_storage_as_a_document_and_a_picture(perdure: Command, place: Path) -> None:
    answer = perdure("lab", "storage", "--paper", "--steps", "50", "--seed", "7", "--json", "--plot", "d.png")
    assert answer.document["experiment"] == "storage"
    assert (answer.document["seed"], answer.document["steps"]) == (7, 50)
    assert (place / "d.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_nothing_is_measured(
    perdure: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = perdure("lab", "storage", "--paper", "--plot", "d.png")
    assert (answer.code, answer.out) == (1, "")
    assert 'pip install "perdure[lab]"' in answer.err
    assert perdure("lab", "storage", "--paper").code == 0
