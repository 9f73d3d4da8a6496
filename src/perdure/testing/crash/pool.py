"""Several warm processes at once: each is alone with its share, so that it may fork thousands of times
safely.

A test process has threads (its runner's, a debugger's) and must not fork; so it starts these instead. Each
failure comes with the command that repeats it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JOBS = 2
"""Processes at once, unless the caller says otherwise."""


@dataclass(slots=True)
class Tally:
    """What all shares came to together. `hit` counts kills that struck, by the boundary of the first."""

    points: int = 0
    kills: int = 0
    acknowledged: int = 0
    unknowns: int = 0
    seconds: float = 0.0
    hit: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=dict)

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            self.points + other.points,
            self.kills + other.kills,
            self.acknowledged + other.acknowledged,
            self.unknowns + other.unknowns,
            self.seconds + other.seconds,
            self.hit + other.hit,
            self.failures | other.failures,
        )

    def summary(self) -> str:
        """One line of figures."""
        rate = self.points / self.seconds * 60 if self.seconds else 0.0
        return (
            f"{self.points} points, {self.kills} kills, {self.acknowledged} acknowledged events,"
            f" {self.unknowns} unknown outcomes, {len(self.failures)} failures,"
            f" {self.seconds:.1f} s ({rate:.0f} points a minute)"
        )

    def told(self) -> str:
        """The failures, each with the command that repeats it."""
        return "\n".join(
            f"{command}\n" + "\n".join(f"    {what}" for what in offences)
            for command, offences in self.failures.items()
        )


def sweep_all(
    items: Sequence[str], folder: Path, *, again: float = 1.0, seed: int = 1, jobs: int = JOBS
) -> Tally:
    """Sweep these items (see `__main__`) in `jobs` processes. Raises RuntimeError if one of them breaks."""
    shares = [
        [
            *("sweep", *items, "--share", f"{job}/{jobs}"),
            *("--again", str(again), "--seed", str(seed), "--folder", str(folder)),
        ]
        for job in range(jobs)
    ]
    tally, began = Tally(), time.monotonic()
    for line in run_all(shares):
        at = line["at"]
        tally.points += 1
        tally.kills += line["killed"]
        tally.acknowledged += line["acknowledged"]
        tally.unknowns += line["unknowns"]
        if line["killed"]:
            tally.hit[at.split(":")[0]] += 1
        if line["offences"]:
            tally.failures[f"python -m perdure.testing.crash point '{line['item']}' --at '{at}'"] = line[
                "offences"
            ]
    tally.seconds = time.monotonic() - began
    return tally


def run_all(commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Run the harness with each of these argument lists, all at once; the JSON lines that they print."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with ExitStack() as stack:
        running = []
        for command in commands:
            out, words = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
            whole = [sys.executable, "-m", "perdure.testing.crash", *command]
            process = subprocess.Popen(whole, stdout=out, stderr=words, env=environment)
            running.append((process, out, words))
        codes = [process.wait() for process, _, _ in running]
        lines: list[dict[str, Any]] = []
        for code, (_, out, words) in zip(codes, running, strict=True):
            out.seek(0)
            if code:
                words.seek(0)
                raise RuntimeError(f"the harness ended with {code}:\n{words.read()[-2000:]}")
            lines += [json.loads(line) for line in out]
    return lines
