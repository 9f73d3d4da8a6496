"""The play of `perdure demo`: a worker is killed between the bank's act and its receipt, another carries on.

Nothing in it is simulated. The bank is a process with a ledger of its own; the workers are `perdure worker`
processes; the kill is a SIGKILL, sent once the bank has paid and before its answer has left. Every time that
is told was measured. This file performs and tells; how it looks is for a face to decide.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from perdure.agent import Outcome
from perdure.clock import SECOND, SYSTEM
from perdure.demo.chat import ASKED, model_name
from perdure.demo.client import Bank
from perdure.demo.desk import BANK, desk
from perdure.errors import DemoFailed
from perdure.host import Runtime
from perdure.state import events as e
from perdure.store.protocol import Store
from perdure.timeline.condition import condition

PATIENCE_SECONDS = 60.0
"""Longest time for one scene; a real model may take its time."""

LOOK_SECONDS = 0.01
"""How often the run is looked at."""

RUN_ID = "order-1042"  # the one run of the play
GOAL = "Refund order o-77 in full: the kettle arrived broken. Look the order up first."
"""What the run is started with."""

Who: TypeAlias = Literal["bank", "worker", "killed", "run", "taken"]
"""Whom a scene is about."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Something that happened: seconds since the play began, to whom, and what in words."""

    at: float
    who: Who
    text: str


@dataclass(frozen=True, slots=True)
class Setting:
    """Where it plays: the folder, the store's file, the bank's address and process, and the model."""

    folder: Path
    store: Path
    bank_url: str
    bank_pid: int
    model: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended.

    `refunds` is the bank's whole ledger; `asked` counts questions to the model, by the model.

    `takeover_seconds`: from the second worker's start to its claim, and `rest_seconds` from there to the end
    of the run.
    """

    outcome: Outcome[Any]
    killed: bool
    refunds: list[dict[str, Any]]
    asked: int
    recorded: int
    takeover_seconds: float
    rest_seconds: float
    events: list[e.Event] = field(repr=False)

    @property
    def ok(self) -> bool:
        """One refund, no more and no less, in spite of a real kill; and the run ended well."""
        return self.killed and self.outcome.status == "succeeded" and len(self.refunds) == 1


@dataclass(slots=True)
class Stage:
    """What the scenes share."""

    setting: Setting
    tell: Callable[[Scene], None]
    store: Store
    bank: Process
    began: float = field(default_factory=SYSTEM.monotonic)

    def say(self, who: Who, text: str) -> None:
        """Tell a scene that has just happened."""
        self.tell(Scene(SYSTEM.monotonic() - self.began, who, text))


async def perform(folder: Path, opening: Callable[[Setting], None], tell: Callable[[Scene], None]) -> Ending:
    """Perform in this folder, which must hold no play yet. Raises DemoFailed if a part does not come."""
    await asyncio.to_thread(_prepare, folder)
    async with _bank(folder / "bank.db") as (bank, url), Runtime(str(folder / "perdure.db")) as runtime:
        setting = Setting(folder, folder / "perdure.db", url, bank.pid, model_name())
        opening(setting)
        stage = Stage(setting, tell, runtime.store, bank)
        await runtime.start(desk, RUN_ID, GOAL)
        killed = await _first_worker(stage)
        taken_at = await _second_worker(stage) if killed else SYSTEM.now()
        return await _ending(runtime, stage, killed=killed, worker_at=taken_at)


def _prepare(folder: Path) -> None:
    if (folder / "perdure.db").exists():
        raise DemoFailed(f"{folder} holds a play already", remedy="perdure demo --dir with an empty folder")
    folder.mkdir(parents=True, exist_ok=True)


async def _first_worker(stage: Stage) -> bool:
    """A worker drives the run until the bank has paid, and is killed there; False if the run ended before
    that.
    """
    async with _worker(stage, 1) as worker:
        stage.say("worker", f"worker {worker.pid} started; it takes up run {RUN_ID}")
        paid = asyncio.ensure_future(_paid(stage))
        ended = asyncio.ensure_future(_stopped(stage.store))
        gone = asyncio.ensure_future(worker.wait())
        done, left = await asyncio.wait(
            [paid, ended, gone], timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        for task in left:
            task.cancel()
        if gone in done or not done:
            raise _missing(
                stage.setting.folder / "worker-1.log", "the worker ended or did not come to the refund"
            )
        if paid not in done:
            return False
        receipt = paid.result()
        stage.say(
            "bank", f"paid {receipt['paid']} and wrote it into its ledger; the answer has not left the bank"
        )
        os.kill(worker.pid, signal.SIGKILL)
        await worker.wait()
        stage.say(
            "killed",
            f"worker {worker.pid} killed with SIGKILL, for real: the money is paid, the receipt is lost",
        )
    row = await stage.store.row(RUN_ID)
    state = condition(row, stage.store.now())
    stage.say("run", f"{RUN_ID} is {state.word}: {state.because}")
    return True


async def _second_worker(stage: Stage) -> int:
    """Another worker carries the run on to its end; returns the moment at which it was started."""
    async with _worker(stage, 2) as worker:
        started = SYSTEM.now()
        stage.say("worker", f"worker {worker.pid} started; same code, nothing handed over but the store")
        ended = asyncio.ensure_future(_stopped(stage.store))
        asked = asyncio.ensure_future(_asked(stage))
        gone = asyncio.ensure_future(worker.wait())
        await asyncio.wait([ended, gone], timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in (asked, gone):
            task.cancel()
        if not ended.done():
            ended.cancel()
            raise _missing(stage.setting.folder / "worker-2.log", "the second worker ended or did not finish")
        worker.terminate()
        await worker.wait()
    return started


async def _asked(stage: Stage) -> None:
    """Tell it when the bank is asked about the lost receipt."""
    question = await _line(stage.bank, "asked")
    found = f"yes, {question['found']}" if question["found"] else "no"
    stage.say("taken", f"the refund's outcome is unknown, so it asked the bank: did it happen? {found}")


async def _ending(runtime: Runtime, stage: Stage, *, killed: bool, worker_at: int) -> Ending:
    from perdure.journal import history

    events = await history(stage.store, RUN_ID)
    outcome = await runtime.outcome(RUN_ID)
    stage.say("run", f"{RUN_ID} {outcome.status}")
    claims = [event.at for event in events if isinstance(event.body, e.RunResumed) and event.at >= worker_at]
    claimed = claims[0] if claims else worker_at
    counted = stage.setting.folder / "asked.log"
    recorded = sum(isinstance(event.body, e.CallSettled) and _is_chat(event.body) for event in events)
    return Ending(
        outcome=outcome,
        killed=killed,
        refunds=await Bank(stage.setting.bank_url).ledger(),
        asked=len(counted.read_text().splitlines()) if counted.exists() else 0,
        recorded=recorded,
        takeover_seconds=(claimed - worker_at) / SECOND,
        rest_seconds=(events[-1].at - claimed) / SECOND,
        events=events,
    )


def _is_chat(body: e.CallSettled) -> bool:
    return body.head is not None and body.head.name == "chat"


# ---------------------------------------------------------------------------------------------- processes


@asynccontextmanager
async def _bank(ledger: Path) -> AsyncIterator[tuple[Process, str]]:
    """The bank's process and address. It closes when its standard input does, so it cannot outlive us."""
    arguments = ["-m", "perdure.demo.server", str(ledger), "--hold-first"]
    bank = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=PIPE, stdout=PIPE)
    try:
        listening = await asyncio.wait_for(_line(bank, "listening"), PATIENCE_SECONDS)
        yield bank, str(listening["listening"])
    finally:
        if bank.stdin is not None:
            bank.stdin.close()
        await bank.wait()


@asynccontextmanager
async def _worker(stage: Stage, number: int) -> AsyncIterator[Process]:
    """An ordinary `perdure worker` for the desk; what it logs goes to worker-N.log in the play's folder."""
    folder = stage.setting.folder
    names = {BANK: stage.setting.bank_url, ASKED: str(folder / "asked.log")}
    arguments = [
        "-m",
        "perdure",
        "worker",
        "perdure.demo.desk:desk",
        "--store",
        str(stage.setting.store),
        "--json",
    ]
    with (folder / f"worker-{number}.log").open("wb") as log:
        worker = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, env=os.environ | names, stdout=log, stderr=log
        )
        try:
            yield worker
        finally:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()


async def _line(bank: Process, word: str) -> dict[str, Any]:
    """The next thing the bank tells that has this word in it. Raises DemoFailed if the bank has gone."""
    assert bank.stdout is not None
    while line := await bank.stdout.readline():
        told: dict[str, Any] = json.loads(line)
        if word in told:
            return told
    raise DemoFailed("the bank ended before its time")


async def _paid(stage: Stage) -> dict[str, Any]:
    return await _line(stage.bank, "paid")


async def _stopped(store: Store) -> None:
    """Return when the run has ended or is held."""
    while True:
        row = await store.row(RUN_ID)
        if row.terminal or row.status == "held":
            return
        await asyncio.sleep(LOOK_SECONDS)


def _missing(log: Path, what: str) -> DemoFailed:
    tail = log.read_text(errors="replace").strip().splitlines()[-3:] if log.exists() else []
    said = f": {' / '.join(tail)}" if tail else ""
    return DemoFailed(f"{what}{said}", where=str(log))
