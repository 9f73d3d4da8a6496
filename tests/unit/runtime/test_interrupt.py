"""Ctrl+C in a real process: the run is whole afterwards, and nothing is settled that nobody knows."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.journal import history, verify
from perdure.state import events as e
from perdure.store.sqlite import SQLiteStore

PROGRAM = '''
"""Pays once, slowly. Usage: KIND STORE LEDGER."""
import asyncio, sys, threading, time
from perdure import Agent, Done, NotDone, current_call

kind, store, ledger = sys.argv[1:]
desk = Agent("desk", state=dict, start=lambda goal: {})
slow = not open(ledger, "a+").tell()


def book():
    with open(ledger, "a") as file:
        file.write(current_call().key + "\\n")
    print("paid", flush=True)


if kind == "thread":
    @desk.tool()
    def pay(cents: int) -> str:
        book()
        time.sleep(0.3 if slow else 0)
        return "receipt"
else:
    @desk.tool(effect="read" if kind == "read" else "irreversible")
    async def pay(cents: int) -> str:
        book()
        await asyncio.sleep(30 if slow else 0)
        return "receipt"

if kind == "asked":
    @pay.reconcile
    async def paid(cents: int) -> Done | NotDone:
        return Done("found") if current_call().key in open(ledger).read() else NotDone()


@desk.step
async def step(run):
    if kind == "sleep":
        print("paid", flush=True)
        await run.sleep(30 if slow else 0)
    run.finish(await run.call(pay, 5))


print(desk.run_sync("r", "go", store=store, check=False), flush=True)
'''


class Program:
    """The program above, run again and again on one store."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind, self.store, self.ledger = kind, folder / "runs.db", folder / "ledger"
        self.code = folder / "program.py"
        self.code.write_text(PROGRAM)

    def start(self) -> subprocess.Popen[str]:
        """One process of it."""
        argv = [sys.executable, str(self.code), self.kind, str(self.store), str(self.ledger)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ended(self, process: subprocess.Popen[str]) -> tuple[str, str]:
        """What it says until it ends, which it does."""
        try:
            return process.communicate(timeout=20)
        finally:
            process.kill()

    def interrupted(self, times: int) -> str:
        """What it says if it is interrupted so often, once it has paid."""
        with self.start() as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "paid\n"
            for _ in range(times):
                process.send_signal(signal.SIGINT)
            _, told = self.ended(process)
        assert process.returncode != 0
        return told

    def finished(self) -> str:
        """What it comes to if it is started again."""
        with self.start() as process:
            out, err = self.ended(process)
        assert process.returncode == 0, err
        return out.splitlines()[-1]

    @property
    def acts(self) -> int:
        """How often it was paid."""
        return len(self.ledger.read_text().splitlines()) if self.ledger.exists() else 0

    async def facts(self) -> list[e.AnyBody]:
        """The run's durable facts, verified."""
        store = SQLiteStore(self.store)
        await store.open()
        try:
            found = await verify(store, "r")
            assert found.ok, found
            return [event.body for event in await history(store, "r")]
        finally:
            await store.close()


@pytest.mark.parametrize(
    ("kind", "times", "ends", "acts"),
    [
        ("act", 1, "unknown-outcome", 1),  # nobody knows: a person is asked
        ("act", 2, "unknown-outcome", 1),
        ("asked", 2, "'found'", 1),
        ("read", 1, "'receipt'", 2),
        ("sleep", 1, "", 0),
        ("sleep", 2, "", 0),
    ],
)
async def test_an_interrupted_run_is_whole(
    tmp_path: Path, kind: str, times: int, ends: str, acts: int
) -> None:
    program = Program(tmp_path, kind)
    program.interrupted(times)
    facts = await program.facts()
    assert not any(isinstance(fact, e.CallSettled | e.RunHeld | e.RunFinished) for fact in facts)
    if kind == "sleep":  # the wait itself may or may not have been written
        return
    assert ends in program.finished()
    assert program.acts == acts


async def test_a_thread_that_acts_is_waited_for_and_its_receipt_is_kept(tmp_path: Path) -> None:
    program = Program(tmp_path, "thread")
    program.interrupted(1)
    assert [fact.outcome for fact in await program.facts() if isinstance(fact, e.CallSettled)] == ["done"]
    assert "'receipt'" in program.finished()
    assert program.acts == 1
