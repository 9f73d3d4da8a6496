"""A store that is killed, whose disk fails, or whose machine loses power, at any operation on its files.

Each try is a life of `tests/crash/store_life.py` with one fault (laws 6, 9, 15 and 21 below the engine): what
was acknowledged is there, nothing is there in part, what was refused for sure stays away, and a second life
carries on to the end. Here some points of each kind are tried, drawn by a printed seed; all of them by

    LD_PRELOAD=$(python -m tests.crash.disk) python -m tests.crash.store_sweep kill 1 0
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.crash.disk import build

pytestmark = pytest.mark.crash

SEED = 20
"""Of the points that are tried."""


@cache
def library() -> Path:
    """The disk that dies on purpose."""
    found = build()
    if found is None:
        pytest.skip("NOT TRIED: no C compiler here, or no LD_PRELOAD")
    return found


def sweep(mode: str, count: int, mutant: str = "") -> dict[str, int]:
    """The numbers of one sweep; what it found is printed."""
    command = [sys.executable, "-m", "tests.crash.store_sweep", mode, str(SEED), str(count)]
    ended = subprocess.run(
        [*command, mutant] if mutant else command,
        env={**os.environ, "LD_PRELOAD": str(library())},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    print(" ".join(command[2:]), ended.stdout, ended.stderr, sep="\n")
    assert ended.returncode == 0
    words = [line.split() for line in ended.stdout.splitlines() if not line.startswith("BROKEN")]
    return {name: int(number) for name, number in words}


@pytest.mark.parametrize(("mode", "count"), [("kill", 40), ("torn", 15)])
def test_a_killed_store_keeps_every_promise(mode: str, count: int) -> None:
    numbers = sweep(mode, count)
    assert numbers["broken"] == 0
    assert numbers["killed"] == numbers["points"] == count


def test_a_store_whose_making_was_cut_short_is_made_to_the_end() -> None:
    numbers = sweep("born", 0)
    assert numbers["broken"] == 0
    assert numbers["killed"] == numbers["points"] == 60


@pytest.mark.parametrize(("mode", "count"), [("sync", 30), ("eio", 20)])
def test_a_failing_disk_is_told_truly(mode: str, count: int) -> None:
    numbers = sweep(mode, count)
    assert numbers["broken"] == 0
    assert numbers["ended"] == numbers["points"] == count
    assert numbers["refused"] + numbers["unknown"] > 0


def test_a_disk_that_fills_up_loses_nothing() -> None:
    numbers = sweep("full", 25)
    assert numbers["broken"] == 0
    assert numbers["ended"] == numbers["points"] == 25
    assert numbers["refused"] > 0


def test_a_disk_that_writes_less_than_asked_is_asked_again() -> None:
    numbers = sweep("short", 10)
    assert (numbers["broken"], numbers["ended"], numbers["errors"]) == (0, 10, 0)


def test_a_power_failure_loses_nothing_acknowledged() -> None:
    numbers = sweep("power", 150)
    assert numbers["broken"] == 0
    assert min(numbers[way] for way in ("lost", "all", "some", "torn")) > 10


@pytest.mark.parametrize(
    ("mode", "count", "mutant"),
    [
        ("kill", 20, "acknowledged_early"),
        ("power", 40, "not_every_commit_synced"),
        ("power", 40, "nothing_synced"),
        ("sync", 40, "refused_unseen"),
    ],
)
def test_a_broken_store_is_found_out(mode: str, count: int, mutant: str) -> None:
    """The controls: each breaks one promise, and the sweep must say so."""
    assert sweep(mode, count, mutant)["broken"] > 0
