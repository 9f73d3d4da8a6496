"""Other processes that use the same store: a Python of their own, told what to do by a few lines of code.

The code sees `store` (open), `args`, and everything of the store's protocol; it says lines, and may hear.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FRAME = """
import asyncio, os, sys, time
from perdure.clock import SECOND, Clock
from perdure.errors import *
from perdure.store import SQLiteStore, open_store
from perdure.store.protocol import *

args = sys.argv[2:]

def event(seq, data=b"data"):
    return Stored(seq, data, b"%16d" % seq)

def say(*words):
    print(*words, flush=True)

def hear():
    return sys.stdin.readline().strip()

async def main():
    if "-unprivileged" in args:  # rights do not apply to root
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    store = open_store(sys.argv[1])
    try:
        await store.open()
    except StoreError as error:
        say(type(error).__name__, "|", error.what, "|", error.remedy)
        return
{code}
    await store.close()

asyncio.run(main())
"""


class Elsewhere:
    """One other process."""

    def __init__(self, path: Path | str, code: str, *args: object) -> None:
        text = _FRAME.replace("{code}", textwrap.indent(textwrap.dedent(code), "    "))
        self.process = subprocess.Popen(
            [sys.executable, "-c", text, str(path), *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def hear(self) -> str:
        """The next line that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, line: str = "") -> None:
        """Tell it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Wait for its end; what it still had to say. It must have ended well."""
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        said = self.process.stdout.read()
        self.process.wait()
        assert self.process.returncode == 0, f"ended with {self.process.returncode} after {said!r}"
        return said

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait()


@contextmanager
def elsewhere(path: Path | str, code: str, *args: object) -> Iterator[Elsewhere]:
    """A process for the block; killed at its end if it still runs."""
    other = Elsewhere(path, code, *args)
    try:
        yield other
    finally:
        if other.process.poll() is None:
            other.kill()
        for pipe in (other.process.stdin, other.process.stdout):
            if pipe is not None:
                pipe.close()
