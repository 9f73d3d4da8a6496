"""New processes: importing the library, and the command line's first answer."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

from bench.desks import Plan, desk
from bench.room import Room
from bench.table import Line
from perdure import Runtime
from perdure.store import SQLiteStore

GROUP = "A new process"
ROUNDS = 11


@dataclass
class _Case:
    name: str
    command: list[str]
    most: float | None = None
    walls: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)


async def measure(room: Room) -> None:
    """Each command in a process of its own, interleaved; `python -c pass` is taken off imports."""
    path = room.path()
    store = SQLiteStore(path)
    async with Runtime(store) as runtime:
        for number in range(20):
            await runtime.start(desk(Plan(1)), f"run-{number}", "go")
    await store.close()
    python = sys.executable
    cases = [
        _Case("python -c pass", [python, "-c", "pass"]),
        _Case("import perdure", [python, "-c", "import perdure"], 150.0),
        _Case(
            "from perdure import Agent, Runtime", [python, "-c", "from perdure import Agent, Runtime"], 150.0
        ),
        _Case("perdure runs, 20 runs", [python, "-m", "perdure", "runs", "--store", str(path)], 250.0),
        _Case("perdure --version", [python, "-m", "perdure", "--version"]),
    ]
    # As installed: modules are compiled once. Without that each process compiles all that it imports.
    settings = {**os.environ, "NO_COLOR": "1", "PYTHONPYCACHEPREFIX": str(room.folder / "compiled")}
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    for case in cases:
        _cold(case.command, settings)
    paces: list[float] = []
    for _ in range(ROUNDS):
        paces.append(room.pace.look())
        for case in cases:
            wall, cpu = _cold(case.command, settings)
            case.walls.append(wall)
            case.used.append(cpu)
    empty = cases[0]
    for case in cases:
        walls, used = case.walls, case.used
        if case.name.startswith(("import", "from")):
            walls = [one - other for one, other in zip(walls, empty.walls, strict=True)]
            used = [one - other for one, other in zip(used, empty.used, strict=True)]
        quiet = room.scaled(used, paces)
        room.lines.append(Line(GROUP, case.name, "ms", statistics.median(walls), quiet, most=case.most))


def _cold(command: list[str], settings: dict[str, str]) -> tuple[float, float]:
    """Milliseconds of a new process: by the wall clock, and of processor time."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=settings)
    _, status, usage = os.wait4(process.pid, 0)
    wall = (time.perf_counter() - begun) * 1000
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command} failed"
    return wall, (usage.ru_utime + usage.ru_stime) * 1000
