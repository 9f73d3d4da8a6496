"""Where a measurement happens: a folder on the disk, the two floors beside it, and the report's lines.

Knows how one run is driven and timed; what is measured, and against which target, is told elsewhere.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench.desks import Pieces, Plan, Stamp, between, desk, now
from bench.floor import LOG_BYTES, Bare, Pace
from bench.table import Line
from perdure import Runtime
from perdure.store import SQLiteStore, Store
from perdure.store.protocol import Appended, Batch, Blob, Claim, NewRun, StoreStats

_numbers = itertools.count(1)


@dataclass
class Room:
    """One session. `rounds`: how often each case is repeated, all cases of a group interleaved."""

    folder: Path
    rounds: int
    quick: bool = False
    pace: Pace = field(default_factory=Pace)
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bare = Bare(self.folder / "bare.db")

    def path(self) -> Path:
        """A database that does not exist yet."""
        return self.folder / f"store-{next(_numbers)}.db"

    def new_bare(self) -> Bare:
        """A bare loop on a file that does not exist yet, whose log still grows."""
        return Bare(self.folder / f"bare-{next(_numbers)}.db", used=False)

    def scaled(self, took: Sequence[float], beside: Sequence[float]) -> float:
        """The median of processor times, each scaled to the pace of a quiet machine."""
        quiet = self.pace.quiet
        return statistics.median(
            [one * min(quiet / pace, 1.0) for one, pace in zip(took, beside, strict=True)]
        )


@dataclass
class Ride:
    """One measured run. `pace`: of the plain loop beside it; `step` and `floor`: microseconds of a step and
    of a bare commit, the medians of all in the run, where the disk is waited for.
    """

    stamps: list[Stamp]
    begun: Stamp
    ended: Stamp
    pace: float
    step: float
    floor: float
    stats: StoreStats

    def part(self, first: int, last: int) -> Pieces:
        """Microseconds per step between two steps."""
        return between(
            next(stamp for stamp in self.stamps if stamp.step >= first),
            next(stamp for stamp in reversed(self.stamps) if stamp.step <= last),
        )


async def ride(room: Room, plan: Plan, runtime: Runtime) -> Ride:
    """Drive one run of this plan, with the floors beside it."""
    agent = desk(plan)
    run_id = f"run-{next(_numbers)}"
    await runtime.start(agent, run_id, "go")
    gc.collect()
    before = room.pace.look()
    begun = now(0)
    outcome = await runtime.run(agent, run_id, "go")
    ended = now(plan.steps)
    pace = (before + room.pace.look()) / 2
    assert outcome.unwrap() == "done"
    bounds = plan.bounds
    steps = [(after.ended - before.began) / 1000 for before, after in pairwise(bounds)]
    middles = (statistics.median(steps), statistics.median(plan.bare)) if plan.bare else (0.0, 0.0)
    return Ride(plan.stamps, begun, ended, pace, *middles, await runtime.store.stats())


async def alone(room: Room, plan: Plan, *, used: bool = False) -> Ride:
    """The same on a store of its own: a new one, or one that has been in use for a while."""
    async with Runtime(SQLiteStore(room.path())) as runtime:
        await runtime.store.open()
        try:
            if used:
                await use(runtime.store)
            return await ride(room, plan, runtime)
        finally:
            await runtime.store.close()


async def use(store: Store) -> None:
    """Bring a new store's write-ahead log to its full length, as it is in a store that has been in use."""
    await store.create(NewRun("use", "use", "1", "ready", ()))
    await store.claim(Claim("use", 3600, run_id="use"))
    await store.append(Batch("use", 1, 0, blobs=(Blob(b"use", bytes(LOG_BYTES)),)))


class CountingStore(SQLiteStore):
    """An SQLite store that counts its appends, and those which their run waits for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.appends = self.waited = 0

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """Append; who waits says so, for the store may then write it at once."""
        self.appends += 1
        self.waited += batch.urgent
        return super().append(batch)


@dataclass(frozen=True)
class Counted:
    """What a run asked of its store."""

    appends: int
    waited: int
    commits: int


async def counted(room: Room, plan: Plan) -> Counted:
    """Drive one run and count its appends, those that were waited for, and the commits that carried them."""
    store = CountingStore(room.path())
    async with Runtime(store) as runtime:
        await store.open()
        agent = desk(plan)
        await runtime.start(agent, "run", "go")
        before = (await store.stats()).commits
        (await runtime.run(agent, "run", "go")).unwrap()
        after = (await store.stats()).commits
        await store.close()
    return Counted(store.appends, store.waited, after - before)
