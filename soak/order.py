"""What a sweep is asked for, and what it answers.

It knows no sweep. A sweep draws everything from the order's seed, so that the same order does the same again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct


class Order(Struct, frozen=True):
    """One sweep. `share` of its full length; `folder` is empty and its own."""

    seed: int
    share: float
    folder: Path

    def of(self, full: int) -> int:
        """So many of `full`, one at least."""
        return max(1, round(full * self.share))


class Outcome(Struct):
    """What came of it: figures, and in words whatever should not be."""

    figures: dict[str, object]
    offences: Sequence[str] = ()


WORKERS = os.cpu_count() or 1
"""Processes that a sweep may use at once."""


def module(*arguments: object) -> str:
    """Run `python -m …` and return what it printed. Raises RuntimeError with its end if it fails."""
    command = [sys.executable, "-W", "ignore", "-m", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(map(str, arguments))} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


def suite(tests: Sequence[str], scale: float) -> Outcome:
    """Tests that draw more with PERDURE_CRASH_SCALE: their last lines, and their failures as offences."""
    env = {**os.environ, "PERDURE_CRASH_SCALE": str(scale)}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith("FAILED")]
    if done.returncode and not failed:
        failed = lines[-20:]
    return Outcome({"scale": scale, "tests": lines[-1] if lines else "none"}, failed)
