"""What cleaning up costs the living: a worker's commits while many ended runs are removed, and the space.

The living worker is a process of its own that commits one event after the other, with a short pause between;
`python -m bench.keeping URL` is that process: it prints the milliseconds of each commit when it is told to
end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Self

from bench.room import Room
from bench.table import HERE, Line
from perdure import codec
from perdure.lab.server import postgres
from perdure.state import events as e
from perdure.store import open_store
from perdure.store.protocol import GENESIS, Batch, Claim, NewRun, Query, Store, Stored
from perdure.store.sqlite.place import size_of
from perdure.timeline.pruning import Rule, planned, prune

GROUP = "Removing 100,000 ended runs beside a live worker"
RUNS, QUICK = 100_000, 10_000
PART = 5  # in a database one in so many, for each removal is some exchanges with a server
PAUSE_SECONDS = 0.002
STALL_MS = 250.0
MANY = 500  # created in one go


def ended_events(number: int) -> tuple[Stored, ...]:
    """A short run that has ended, as frames: a start, a thought, an act, an end."""
    head = e.CallHead("pay", "irreversible", (("n", codec.encode(number)),), bytes(16))
    value = codec.encode(f"{number:06d}" * 50)
    bodies: tuple[e.AnyBody, ...] = (
        e.RunStarted("desk", "1", 1, codec.encode("go"), codec.encode({"n": number}), b""),
        e.CallIntended("1/0", head, key=f"key-{number}", attempt=1, deadline=0),
        e.CallSettled("1/0", "done", value, key=f"key-{number}"),
        e.StepCommitted(1),
        e.RunFinished("succeeded", codec.encode("done")),
    )
    digest, stored = GENESIS, []
    for seq, body in enumerate(bodies, 1):
        data = codec.pack(e.Event(seq, seq, 1, body))
        digest = codec.chain(digest, data)
        stored.append(Stored(seq, data, digest))
    return tuple(stored)


async def fill(store: Store, runs: int) -> None:
    """So many runs that have ended."""
    for start in range(0, runs, MANY):
        await asyncio.gather(
            *(
                store.create(
                    NewRun(f"r{n}", "desk", "1", "succeeded", ended_events(n), epoch=1, terminal=True)
                )
                for n in range(start, min(start + MANY, runs))
            )
        )


async def live(url: str) -> None:
    """Commit until standard input ends; then print what each commit took."""
    store = open_store(url)
    await store.open()
    name = f"live-{os.getpid()}"
    await store.create(NewRun(name, "desk", "1", "running", ended_events(0)[:1]))
    [claimed] = await store.claim(Claim("w", 3600.0, run_id=name))
    took, seq, told = list[float](), 1, asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print("ready", flush=True)
    while not told.done():
        begun = time.perf_counter()
        event = Stored(seq + 1, b"x" * 400, bytes(16))
        await store.append(Batch(name, claimed.row.epoch, seq, (event,), urgent=True))
        seq += 1
        took.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)
    await store.close()
    print(" ".join(f"{one:.3f}" for one in took))


class Living:
    """That process, from this side."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.took: list[float] = []

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "bench.keeping", self._url)
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, limit=1 << 26, cwd=HERE.parent
        )
        assert self._process.stdout is not None
        assert (await self._process.stdout.readline()).strip() == b"ready"
        return self

    async def __aexit__(self, *_: object) -> None:
        out, _nothing = await self._process.communicate(b"")
        self.took = [float(one) for one in out.split()]


async def measure(room: Room) -> None:
    """A full store of each kind; the worker alone, and beside the removal."""
    path, runs = room.path(), QUICK if room.quick else RUNS
    await measured(room, f"sqlite:///{path}", runs, path)
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(postgres())
        if found is not None:
            database = await asyncio.to_thread(stack.enter_context, found.database())
            await measured(room, database.url, runs // PART, None)


async def measured(room: Room, url: str, runs: int, path: Path | None) -> None:
    """The same for a store at a URL; `path`: of its file, if it is one."""
    store = open_store(url)
    await store.open()
    await fill(store, runs)
    kind = "" if path is not None else f", PostgreSQL, {runs:,} runs"
    async with Living(url) as alone:
        await asyncio.sleep(5)
    before = (await store.stats()).file_bytes
    async with Living(url) as beside:
        begun = time.perf_counter()
        plan = await planned(store, Rule())
        found = await prune(store, plan.rows)
        seconds = time.perf_counter() - begun
    assert found.removed == len(plan.rows) == runs, found
    assert len(await store.list(Query())) == 2, "the living stay"
    for name, one in (("alone", alone), ("beside it", beside)):
        took = sorted(one.took)
        room.lines.append(Line(GROUP, f"a commit {name}, middle{kind}", "ms", statistics.median(took)))
        room.lines.append(
            Line(GROUP, f"a commit {name}, 999 of 1000{kind}", "ms", took[len(took) * 999 // 1000])
        )
        most = STALL_MS if name == "beside it" else None
        room.lines.append(Line(GROUP, f"a commit {name}, the longest{kind}", "ms", took[-1], most=most))
    room.lines.append(Line(GROUP, f"removed per second{kind}", "runs/s", runs / seconds))
    await store.close()
    if path is not None:
        room.lines.append(Line(GROUP, "the file before", "MB", before / 1e6))
        room.lines.append(Line(GROUP, "the file after", "MB", size_of(str(path)) / 1e6))


if __name__ == "__main__":
    asyncio.run(live(sys.argv[1]))
