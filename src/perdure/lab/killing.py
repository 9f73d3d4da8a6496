"""A process that forks others, lets them die, and tells what came of it: `python -m perdure.lab.killing`.

It reads one JSON document from its standard input (method, effects, point and step of each trial) and prints
one JSON line for each trial; the environment names a database, if one of them needs it. It stays alone,
without a thread or an event loop, so that it may fork; each life of a trial is a child of its own, killed by
a real SIGKILL or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from perdure.lab.methods import DATABASE, LEASE_SECONDS, METHODS, TIMEOUT, Fate, tally
from perdure.testing.crash.clock import HurriedClock

LIFE_SECONDS = 60
"""A life that lasts longer is stuck, and is ended."""


def main() -> int:
    """Run every trial that is asked for. Returns the exit code."""
    trials = json.load(sys.stdin)
    if os.environ.get(DATABASE):
        import perdure.store.postgres  # noqa: F401 - once, and not in each life
    with tempfile.TemporaryDirectory(prefix="perdure-lab-", ignore_cleanup_errors=True) as made:
        for number, trial in enumerate(trials):
            folder = Path(made) / str(number)
            folder.mkdir()
            sys.stdout.write(json.dumps({**trial, **_tried(folder, trial)}) + "\n")
            sys.stdout.flush()
            shutil.rmtree(folder)
    return 0


def _tried(folder: Path, trial: dict[str, Any]) -> dict[str, int]:
    """One trial: a life that dies at its point, and one that nobody disturbs."""
    HurriedClock(folder, 1.0)
    first = _life(folder, trial, Fate(trial["point"], trial["step"]))
    if first != -signal.SIGKILL:
        raise SystemExit(f"{trial}: the process was not killed, it ended with {first}")
    HurriedClock(folder, 1.0).put_forward(LEASE_SECONDS + TIMEOUT.total_seconds() + 1)
    second = _life(folder, trial, Fate())
    if second:
        raise SystemExit(f"{trial}: the task could not be brought to its end: {second}")
    return tally(folder, trial["method"], trial["effects"])


def _life(folder: Path, trial: dict[str, Any], fate: Fate) -> int:
    """How a child ended: its exit code, or the signal that killed it, negative."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(LIFE_SECONDS)
            METHODS[trial["method"]](folder, trial["effects"], fate)
            code = 0
        except BaseException:  # noqa: BLE001 - told on standard error; the exit code says the rest
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
