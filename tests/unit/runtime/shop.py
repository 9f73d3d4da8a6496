"""A shop with two counters: real processes that pay, on one store, and are killed, stopped and told to end.

Each is a Python of its own that runs PROGRAM from the shop's folder. Beside it lie the ledger (a line for
each payment: its key and who made it) and what a test writes there: `kind` of the payment, where to die
(`deaths`, each once, in their order), and `open`, for which a payment waits once it is made.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import Processes

PROGRAM = '''
"""Pays. Usage: run RUN_ID LEASE | start RUN_ID LEASE."""
import asyncio, os, signal, sys, time
from pathlib import Path
from perdure import Agent, Done, NotDone, Runtime, current_call

HERE = Path(__file__).parent
KIND = (HERE / "kind").read_text()
desk = Agent("desk", state=dict, start=lambda goal: {"paid": []})


def die(where):
    """By kill -9, if it is time."""
    deaths = HERE / "deaths"
    left = deaths.read_text().split() if deaths.exists() else []
    if left and left[0] == where:
        deaths.write_text(" ".join(left[1:]))
        os.kill(os.getpid(), signal.SIGKILL)


def book(name, text):
    with open(HERE / name, "a") as file:
        file.write(text + "\\n")


@desk.tool(effect="read")
async def ask() -> str:
    """How much?"""
    book("asked", str(os.getpid()))
    return "5 cents"


async def pay_async(what: str) -> str:
    """Pay."""
    die("before")
    key = current_call().key
    book("ledger", f"{key} {os.getpid()}")
    die("after")
    while not (HERE / "open").exists():
        await asyncio.sleep(0.01)
    return key


def pay_thread(what: str) -> str:
    """Pay, in a thread that nothing can cancel."""
    key = current_call().key
    book("ledger", f"{key} {os.getpid()}")
    while not (HERE / "open").exists():
        time.sleep(0.01)
    return key


effect = "idempotent" if KIND == "idempotent" else "irreversible"
pay = desk.tool(effect=effect, name="pay")(pay_thread if KIND == "thread" else pay_async)

if KIND == "irreversible":
    @pay.reconcile
    async def paid(what: str) -> Done[str] | NotDone:
        """Look into the ledger."""
        die("hook")
        key = current_call().key
        return Done(key) if key in (HERE / "ledger").read_text() else NotDone()


@desk.step
async def step(run):
    what = await ask()
    run.state["paid"].append(await run.call(pay, what))
    die("step")
    if len(run.state["paid"]) == int(run.goal):
        run.finish(run.state["paid"])


async def main(mode, run_id, lease):
    async with Runtime(str(HERE / "runs.db"), [desk], lease_seconds=float(lease)) as runtime:
        if mode == "start":
            await runtime.start(desk, run_id, "2")
        else:
            print((await runtime.run(desk, run_id, "2" if mode == "twice" else "1")).status, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
'''


class Shop(Processes):
    """A folder with the program, its store and its ledger."""

    def __init__(self, folder: Path, kind: str, *deaths: str, opened: bool = True) -> None:
        super().__init__(folder)
        self.store = folder / "runs.db"
        (folder / "shop.py").write_text(PROGRAM)
        (folder / "kind").write_text(kind)
        (folder / "deaths").write_text(" ".join(deaths))
        (folder / "ledger").touch()
        if opened:
            self.open()

    def open(self) -> None:
        """Let payments end."""
        (self.folder / "open").touch()

    @property
    def ledger(self) -> list[tuple[str, int]]:
        """What was paid: key, and the process that paid."""
        lines = (self.folder / "ledger").read_text().splitlines()
        return [(key, int(pid)) for key, pid in (line.split() for line in lines)]

    @property
    def asked(self) -> int:
        """How often `ask` was made."""
        path = self.folder / "asked"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def counter(self, mode: str = "run", *, lease: float = 3600.0) -> subprocess.Popen[str]:
        """A process that runs the run `r`. Its lease outlasts every test, unless a test says otherwise."""
        return self.process("shop.py", mode, "r", str(lease))

    def worker(self) -> subprocess.Popen[str]:
        """The command that serves the desk."""
        return self.process("-m", "perdure", "worker", "shop.py:desk", "--store", str(self.store))

    @property
    def workers(self) -> int:
        """How many incarnations have enlisted and are not buried yet."""
        place = self.folder / "runs.db-workers"
        return len(list(place.iterdir())) if place.exists() else 0


@contextmanager
def shop(folder: Path, kind: str, *deaths: str, opened: bool = True) -> Iterator[Shop]:
    """A shop whose processes are ended with the block."""
    made = Shop(folder, kind, *deaths, opened=opened)
    try:
        yield made
    finally:
        made.end()


def heard(process: subprocess.Popen[str], word: str) -> None:
    """Wait until it says this word to people."""
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(f"it ended without a word of {word!r}")


def stop(process: subprocess.Popen[str]) -> None:
    """Stop it where it is, and wait until it stands."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
