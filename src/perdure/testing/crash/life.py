"""One life of a process in a trial: it starts or resumes the run, people included, until the run has ended.

`live_forked` runs a life in a child, forked from a warm parent before any thread or event loop exists; it
tells how the child ended. What the child learnt it has written into the trial's folder, as a process that
may be killed must.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perdure.clock import Clock
from perdure.host import Runtime
from perdure.runtime.boundary import set_hook
from perdure.store import open_store
from perdure.store.protocol import Store
from perdure.store.sqlite import SQLiteStore
from perdure.testing.crash.clock import HurriedClock
from perdure.testing.crash.kill import TOLD, Hook, Kill
from perdure.testing.crash.outside import Outside
from perdure.testing.crash.scenario import RUN_ID, Place, Scenario
from perdure.testing.crash.witness import Acknowledgements, witnessed

LIFE_SECONDS = 20
"""A life that lasts longer is stuck, and is ended."""

PEOPLE = 12
"""How often people act in one life before it counts as stuck."""

LEASE_SECONDS = 600.0
"""Of the trial's hurried clock; a death is noticed by itself, so that nothing waits for it."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The folder of one trial and what lies in it. `address`: a database that is the trial's, not a file."""

    folder: Path
    address: str = ""

    @property
    def store(self) -> Path:
        """The store's file, in a folder of its own."""
        return self.folder / "store" / "perdure.db"

    @property
    def place(self) -> Path | str:
        """Where the runs are: the file, or the database's address."""
        return self.address or self.store

    def new_store(self, clock: Clock) -> Store:
        """The trial's store, not open yet."""
        if self.address:
            return open_store(self.address, clock=clock)
        return SQLiteStore(self.store, clock=clock, reserve_bytes=0)

    @property
    def outside(self) -> Outside:
        """The outside world."""
        return Outside(self.folder / "outside")

    @property
    def told(self) -> Acknowledgements:
        """What was acknowledged."""
        return Acknowledgements(self.folder / "told")

    @property
    def words(self) -> Path:
        """What the lives wrote to stderr."""
        return self.folder / "stderr"

    @property
    def hits(self) -> Path:
        """The boundaries that the last life reached, in order, one a line."""
        return self.folder / "hits"

    def prepare(self) -> None:
        """Make the folders."""
        self.store.parent.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True)
class Life:
    """What one process is to do. `breakage` breaks the engine first: for controls."""

    scenario: Scenario
    kill: Kill | None = None
    breakage: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Death:
    """How a life ended: by itself (`code` 0), with an error, or by a signal."""

    code: int
    signal: int

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.signal == signal.SIGKILL

    @property
    def ended(self) -> bool:
        """Whether the run was brought to its end."""
        return self.code == 0 and self.signal == 0

    def __str__(self) -> str:
        if self.signal == signal.SIGALRM:
            return "stuck"
        return f"signal {self.signal}" if self.signal else f"exit code {self.code}"


class Stuck(Exception):
    """The run has stopped and nobody knows how to go on."""


def live_forked(life: Life, ground: Ground) -> Death:
    """Live once, in a forked child. The caller must be alone in its process: no thread, no running loop."""
    be_alone()
    pid = os.fork()
    if pid == 0:
        _child(life, ground)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return Death(0, os.WTERMSIG(status))
    return Death(os.WEXITSTATUS(status), 0)


def be_alone() -> None:
    """Wait for threads that are about to end. Raises RuntimeError if any stays: a fork would be unsafe."""
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    for thread in others:
        thread.join(timeout=5.0)
    if threading.active_count() != 1:
        raise RuntimeError(f"a fork now would be unsafe, threads are alive: {threading.enumerate()}")


def _child(life: Life, ground: Ground) -> None:
    """The child's whole life; never returns."""
    gc.disable()
    signal.alarm(LIFE_SECONDS)
    fd = os.open(ground.words, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(fd, 2)
    code = 1
    try:
        if life.breakage is not None:
            life.breakage()
        asyncio.run(live(life, ground))
        code = 0
    except BaseException:  # noqa: BLE001  (told in the trial's words; the exit code says the rest)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


async def live(life: Life, ground: Ground, store: Store | None = None) -> None:
    """Start or resume the run, and go on until it has ended. Raises Stuck."""
    clock = HurriedClock(ground.folder)
    told = ground.told
    inner = store if store is not None else ground.new_store(clock)
    kept = witnessed(inner, told)
    places: list[Runtime] = []
    agent = life.scenario.build(ground.outside, lambda: places[0])
    with ground.hits.open("w", encoding="utf-8") as file:
        hook = Hook(life.kill, lambda name: print(name, file=file))
        set_hook(hook)
        try:
            async with Runtime(kept, [agent], clock=clock, lease_seconds=LEASE_SECONDS) as runtime:
                places.append(runtime)
                await _carry(life.scenario, Place(runtime, ground.outside), told, hook)
        finally:
            set_hook(None)
            await inner.close()


async def _carry(scenario: Scenario, place: Place, told: Acknowledgements, hook: Hook) -> None:
    agent = next(iter(place.runtime.agents.values()))
    for _ in range(PEOPLE):
        outcome = await place.runtime.run(agent, RUN_ID, scenario.goal, principal=scenario.principal)
        told.write(run=RUN_ID, status=outcome.status)
        hook(TOLD)
        if outcome.status not in ("waiting", "held"):
            return
        if not await scenario.person(place, RUN_ID, outcome):
            raise Stuck(f"{outcome}")
    raise Stuck(f"people acted {PEOPLE} times and the run has not ended")
