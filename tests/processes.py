"""Real Python processes of a test: started in its folder, waited for, and ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

SECONDS = 60.0
"""How long a test waits for another process before it gives up: more than any machine needs."""


class Processes:
    """A folder, and the processes that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def environment(self) -> Mapping[str, str]:
        """What the processes are told beside their arguments."""
        return {name: value for name, value in os.environ.items() if name != "PERDURE_STORE"}

    def process(self, *argv: str) -> subprocess.Popen[str]:
        """One more Python process in the folder."""
        made = subprocess.Popen(
            [sys.executable, *argv],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(made)
        return made

    def end(self) -> None:
        """End every process that was started."""
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    """What a process says until it ends, well or by a kill that was asked for."""
    out, complaint = process.communicate(timeout=SECONDS)
    assert process.returncode in (0, -signal.SIGKILL), complaint
    return out.strip() if process.returncode == 0 else "killed"


def ended_by(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send the signal and wait for the end; what it complained of."""
    process.send_signal(number)
    return process.communicate(timeout=SECONDS)[1]


def until(condition: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Wait until it holds; a process that ends meanwhile is a failure."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never held"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)
