"""Several processes on one store: PostgreSQL with one and with two, one SQLite file with four that write.

The floor on PostgreSQL is a loop that does nothing but INSERT + COMMIT on one connection: one row, and one
commit, for each event that the journals of the measured runs hold. What the server itself uses of the
processors, which it shares with them here, is told beside, and the same over a network (`bench.distance`).
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from bench.desks import Plan, desk
from bench.distance import distant
from bench.floor import ROW_BYTES
from bench.room import Room
from bench.table import HERE, Line
from perdure import Runtime
from perdure.lab.server import Server, postgres
from perdure.store import SQLiteStore, open_store
from perdure.store.protocol import Store

GROUP = "200 runs of ten steps at once on PostgreSQL, every step durable"
SQLITE = "Four processes that write one SQLite file at full load"
RUNS, STEPS = 200, 10

AWAY_SECONDS = 0.0005
"""How far away a server in another building is, each way."""


@dataclass(frozen=True)
class Told:
    """What the processes of one measurement came to. `process`: seconds of processor time, all of them."""

    seconds: float
    process: float
    worst: float
    commits: int


async def started(store: Store, hands: int, runs: int, steps: int) -> None:
    """Runs that exist and wait, as many for each of the processes."""
    agents = [desk(Plan(steps, durability="step", every=0, name=f"hand-{hand}")) for hand in range(hands)]
    async with Runtime(store, agents) as runtime:
        begun = (runtime.start(agents[number % hands], f"run-{number}", "go") for number in range(runs))
        await asyncio.gather(*begun)
    await store.close()


def driven(url: str, hands: int, runs: int, steps: int) -> Told:
    """So many processes drive so many runs between them."""
    share = runs // hands
    command = [sys.executable, "-m", "bench.hand", url]
    began = [
        subprocess.Popen(
            [*command, f"hand-{number}", str(share), str(steps)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE.parent,
        )
        for number in range(hands)
    ]
    for hand in began:
        assert hand.stdout is not None
        assert hand.stdout.readline() == "ready\n"
    for hand in began:
        assert hand.stdin is not None
        hand.stdin.write("go\n")
        hand.stdin.flush()
    told: list[dict[str, Any]] = [json.loads(hand.communicate()[0]) for hand in began]
    return Told(
        max(one["ended"] for one in told) - min(one["begun"] for one in told),
        sum(one["process"] for one in told),
        max(one["worst"] for one in told),
        sum(one["commits"] for one in told),
    )


class Bare:
    """One INSERT of 400 bytes per transaction, on one connection."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("CREATE TABLE bare (key bigserial PRIMARY KEY, data bytea NOT NULL)")
        self._row = os.urandom(ROW_BYTES)

    def commits(self, count: int) -> list[float]:
        """So many commits, one after the other; seconds each."""
        took = []
        for _ in range(count):
            begun = time.perf_counter()
            self._connection.execute("INSERT INTO bare (data) VALUES (%b)", (self._row,), prepare=True)
            took.append(time.perf_counter() - begun)
        return took

    def served(self) -> float:
        """Seconds of processor time that the server's processes have used, those that have ended included;
        NaN where they are not seen: on another machine.
        """
        try:
            server = _ticks(self._connection.info.backend_pid)[0]
            if not server:
                return math.nan
            found = [_ticks(int(name)) for name in os.listdir("/proc") if name.isdigit()]
            own = sum(used for parent, used, _ in found if parent == server)
            return (own + sum(_ticks(server)[1:])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            return math.nan

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _ticks(pid: int) -> tuple[int, int, int]:
    """A process's parent, its own processor time, and that of its children which have ended."""
    with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as file:
        told = file.read().rpartition(")")[2].split()
        return int(told[1]), int(told[11]) + int(told[12]), int(told[13]) + int(told[14])
    return 0, 0, 0


@contextmanager
def _bare(url: str) -> Iterator[Bare]:
    bare = Bare(url)
    try:
        yield bare
    finally:
        bare.close()


async def measure(room: Room) -> None:
    """PostgreSQL, if there is a server, then SQLite."""
    with postgres() as server:
        if server is not None:
            await asyncio.to_thread(_postgres, room, server)
    await _sqlite(room)


async def _events(store: Store) -> int:
    """How many events all journals of a store hold."""
    await store.open()
    events = (await store.stats()).events
    await store.close()
    return events


def _once(server: Server, hands: int, seconds: float = 0.0) -> tuple[float, float, Told]:
    """Steps by the second that a bare loop comes to which commits each of these runs' events alone; the
    server's processor time for a step (s); and what so many processes made. `seconds`: how far away the
    server is, for the loop and for them.
    """
    with (
        server.database() as database,
        distant(database.url, seconds) if seconds else nullcontext(database.url) as url,
        _bare(url) as bare,
    ):
        asyncio.run(started(open_store(database.url), hands, RUNS, STEPS))
        beside = bare.commits(200)
        before = bare.served()
        told = driven(url, hands, RUNS, STEPS)
        served = bare.served() - before
        beside += bare.commits(200)
        events = asyncio.run(_events(open_store(database.url))) / (RUNS * STEPS)
    return 1 / statistics.median(beside) / events, served / (RUNS * STEPS), told


def _postgres(room: Room, server: Server) -> None:
    """One process and two, in turn."""
    ones: list[tuple[float, float]] = []
    used: list[float] = []
    served: list[float] = []
    pairs: list[float] = []
    paces: list[float] = []
    away: list[tuple[float, float]] = []
    for _ in range(room.rounds):
        before = room.pace.look()
        floor, serving, one = _once(server, 1)
        paces.append((before + room.pace.look()) / 2)
        _, _, two = _once(server, 2)
        slow, _, far = _once(server, 1, AWAY_SECONDS)
        away.append((RUNS * STEPS / far.seconds, slow))
        rate = RUNS * STEPS / one.seconds
        ones.append((rate, floor))
        used.append(one.process / (RUNS * STEPS) * 1e6)
        served.append(serving * 1e6)
        pairs.append(one.seconds / two.seconds)
    add = room.lines.append
    _compare(room, "one process", ones, least=3.0)
    _compare(room, f"a server {AWAY_SECONDS * 1000:g} ms away, each way, one process", away)
    quiet = room.scaled(used, paces)
    add(Line(GROUP, "its processor time for a step", "µs", statistics.median(used), quiet))
    name = "the server's processor time for a step"
    add(Line(GROUP, name, "µs", statistics.median(served), room.scaled(served, paces)))
    name = "two processes, divided by one"
    add(Line(GROUP, name, "x", statistics.median(pairs), least=1.5, note=f"best {max(pairs):.2f}"))


def _compare(room: Room, what: str, found: list[tuple[float, float]], least: float | None = None) -> None:
    """Steps by the second, and how many times a bare loop's they are."""
    rates, floors = zip(*found, strict=True)
    steps, floor = statistics.median(rates), statistics.median(floors)
    room.lines.append(Line(GROUP, f"{what}: steps", "1/s", steps, floor=floor))
    ratios = sorted(rate / floor for rate, floor in found)
    name, note = f"{what}: steps divided by a bare loop's", f"best {ratios[-1]:.2f}"
    room.lines.append(Line(GROUP, name, "x", statistics.median(ratios), least=least, note=note))


async def _sqlite(room: Room) -> None:
    """Four processes with ten runs each."""
    worst: list[float] = []
    for _ in range(max(room.rounds // 2, 2)):
        path = room.path()
        await started(SQLiteStore(path), 4, 40, 25)
        told = await asyncio.to_thread(driven, f"sqlite:///{path}", 4, 40, 25)
        worst.append(told.worst * 1000)
    room.lines.append(
        Line(
            SQLITE,
            "the longest wait for a commit",
            "ms",
            statistics.median(worst),
            most=250.0,
            note=f"worst of all {max(worst):.0f}; 1,000 steps each time",
        )
    )
