"""Servers that are killed and restarted, or fail over to a standby, under a load that goes on.

    python -m tests.crash.servers kills COUNT SEED
    python -m tests.crash.servers failovers COUNT SEED

Both stand on `tests.cluster` and `tests.load`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import asdict

from tests.cluster import Server, address, servers
from tests.load import MOVED, Found, Load

PATIENCE_SECONDS = 60.0


class Report(Struct):
    """What so many kills or failovers came to. `resumed`: seconds until the next acknowledged write, each."""

    rounds: int
    seed: int
    runs: int
    acknowledged: int
    acts: int
    resumed: list[float]
    offences: list[str]

    def add(self, found: Found) -> None:
        """Count one more load."""
        self.runs += found.runs
        self.acknowledged += found.acknowledged
        self.acts += found.acts
        self.offences += found.offences


def kills(count: int, seed: int, more: str = "") -> Report:
    """One server, killed so many times under load: by SIGKILL, and at once in its own way, in turn.

    `more`: settings of the server.
    """
    report = Report(count, seed, 0, 0, 0, [], [])
    with servers("a") as (server,):
        server.make(more).start()
        _table(server)

        async def happens(load: Load) -> None:
            with server.connect() as sql:
                sql.execute("CHECKPOINT")  # the tables are there whatever comes
            for number in range(count):
                await asyncio.sleep(load.chance.uniform(0.1, 0.6))
                await asyncio.to_thread(server.kill if number % 2 else server.stop)
                await asyncio.sleep(load.chance.uniform(0, 0.3))
                await asyncio.to_thread(server.start)
                report.resumed.append(await _resumed(load))

        report.add(asyncio.run(Load(server.url, seed).during(happens)))
    return report


def failovers(count: int, seed: int) -> Report:
    """So many clusters of a primary and a synchronous standby: the primary goes, the standby takes over."""
    report = Report(count, seed, 0, 0, 0, [], [])
    chance = random.Random(seed)
    for number in range(count):
        with servers("one", "two") as (primary, standby):
            primary.make().start()
            standby.standby_of(primary).start()
            primary.follow_in_sync(standby)
            _table(primary)

            async def happens(load: Load, number: int = number) -> None:
                await asyncio.sleep(load.chance.uniform(0.3, 1.0))
                await asyncio.to_thread(primary.kill if number % 2 else primary.stop)
                await asyncio.sleep(load.chance.uniform(0, 0.5))
                await asyncio.to_thread(standby.promote)
                report.resumed.append(await _resumed(load))
                await asyncio.sleep(0.3)

            load = Load(address(primary, standby), chance.getrandbits(32))
            report.add(asyncio.run(load.during(happens)))
    return report


def _table(server: Server) -> None:
    with server.connect() as sql:
        sql.execute(MOVED)


async def _resumed(load: Load) -> float:
    """Seconds from now until something is acknowledged again."""
    began = time.monotonic()
    while load.store.last < began:
        assert time.monotonic() < began + PATIENCE_SECONDS, "nothing is acknowledged any more"
        await asyncio.sleep(0.005)
    return round(load.store.last - began, 3)


def main() -> None:
    """Print the report as one line of JSON."""
    what, count, seed = sys.argv[1:]
    sweep: Callable[[int, int], Report] = {"kills": kills, "failovers": failovers}[what]
    print(json.dumps(asdict(sweep(int(count), int(seed)))))


if __name__ == "__main__":
    main()
