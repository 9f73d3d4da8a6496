"""Bytes and syncs: what a run of 300-byte replies leaves on disk, what it writes, how often it syncs."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import apsw

from bench.desks import Plan, desk
from bench.room import Room
from bench.table import HERE, Line
from perdure import Runtime
from perdure.agent import Durability
from perdure.store import SQLiteStore

GROUP = "Bytes and syncs"


@dataclass(frozen=True)
class Weight:
    """Bytes: of the journal's payload, of the file after a checkpoint, written to any file on the way."""

    payload: int
    file: int
    written: int


async def weigh(path: Path, plan: Plan) -> Weight:
    """Drive one run on a new store and weigh what is left."""
    store = SQLiteStore(path)
    async with Runtime(store) as runtime:
        before = _written()
        (await runtime.run(desk(plan), "run", "go")).unwrap()
        written = _written() - before
        stats = await store.stats()
    await store.close()
    payload = stats.event_bytes + stats.snapshot_bytes + stats.blob_bytes
    return Weight(payload, _checkpointed(path), written)


def _checkpointed(path: Path) -> int:
    """The file's bytes once its write-ahead log has been brought home."""
    connection = apsw.Connection(str(path))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return os.path.getsize(path)


def _written() -> int:
    """Bytes that this process has handed to write calls."""
    told = Path("/proc/self/io")
    found = re.search(r"^wchar: (\d+)", told.read_text(), re.MULTILINE) if told.exists() else None
    return int(found[1]) if found else 0


async def measure(room: Room) -> None:
    """Sizes first, then syncs."""
    short = await weigh(room.path(), Plan(200))
    long = await weigh(room.path(), Plan(800))
    add = room.lines.append
    add(Line(GROUP, "200 steps: journal payload", "kB", short.payload / 1000, most=110))
    add(Line(GROUP, "200 steps: file after a checkpoint", "kB", short.file / 1000, most=220))
    add(Line(GROUP, "800 steps divided by 200: payload", "x", long.payload / short.payload, most=4.4))
    add(Line(GROUP, "800 steps divided by 200: file", "x", long.file / short.file, most=4.4))
    add(Line(GROUP, "800 steps: file per step", "bytes", long.file / 800, most=800))
    if short.written:
        add(Line(GROUP, "effects: written per step", "kB", short.written / 200_000, most=10))
        step = [(await weigh(room.path(), Plan(200, durability="step"))).written / 200_000 for _ in range(3)]
        add(Line(GROUP, "step: written per step", "kB", statistics.median(step), most=10))
    if shutil.which("strace"):
        _syncs(room)


def _syncs(room: Room) -> None:
    """Syncs that the kernel saw, of a longer run less those of a shorter one: opening cancels out."""
    add = room.lines.append
    targets: dict[Durability, float] = {"effects": 0.1, "step": 1.05, "strict": 2.05}
    for durability, most in targets.items():
        few, many = (_traced(room, durability, 1, steps) for steps in (200, 400))
        add(Line(GROUP, f"{durability}: syncs per step", "", (many - few) / 200, most=most, note="by strace"))
    few, many = (_traced(room, "step", 200, steps) for steps in (10, 20))
    name = "step, 200 runs at once: syncs for ten steps"
    add(Line(GROUP, name, "", (many - few) / 200, most=1.0, note="by strace"))


def _traced(room: Room, durability: Durability, runs: int, steps: int) -> int:
    """How many fsync and fdatasync calls a process made for so many runs of so many steps."""
    told = room.path().with_suffix(".strace")
    plan = [durability, str(runs), str(steps), str(room.path())]
    trace = ["strace", "-f", "--seccomp-bpf", "-e", "trace=fsync,fdatasync", "-o", str(told)]
    subprocess.run([*trace, sys.executable, "-m", "bench.child", *plan], check=True, cwd=HERE.parent)
    return len(re.findall(r"\bf(?:data)?sync\(", told.read_text()))
