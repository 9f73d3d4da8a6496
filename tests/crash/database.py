"""Kills on PostgreSQL: some scenarios, each run unkilled, then killed at points drawn by a seed, and judged.

    python -m tests.crash.database ADDRESS FOLDER KILLS SEED [hasty]

Runs in a process that is alone, as `perdure.testing.crash` asks. The database is emptied before each trial.
Prints one line of JSON for each scenario.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Appended, Batch
from perdure.testing.crash.kill import ANY, Kill
from perdure.testing.crash.scenario import Scenario
from perdure.testing.crash.sweep import Learnt, warm
from perdure.testing.crash.trial import Trial, Verdict, run_trial
from tests.crash import scenarios
from tests.database import TABLES

NAMES = ("refunds", "transfers", "waits", "permits")


def emptied(address: str) -> str:
    """The same database without runs, whose last worker has gone."""
    with psycopg.connect(address) as connection:
        there = connection.execute("SELECT to_regclass('perdure_run')").fetchone()
        for table in TABLES if there and there[0] else ():
            connection.execute(f"DELETE FROM perdure_{table}")
        own = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            " AND relname !~ '^perdure_'"
        ).fetchall()
        for (name,) in own:
            connection.execute(f'DROP TABLE "{name}"')
    return address


def hasty() -> None:
    """Break the store: an append is acknowledged before it is there."""
    append = PostgresStore.append

    def at_once(self: PostgresStore, batch: Batch) -> asyncio.Future[Appended]:
        if batch.act is not None:
            return append(self, batch)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Appended] = loop.create_future()
        done.set_result(Appended(batch.after + len(batch.events), self.now()))
        loop.call_later(0.05, append, self, batch)
        return done

    PostgresStore.append = at_once  # type: ignore[method-assign]


@dataclass(frozen=True)
class Chosen:
    """How often a scenario is killed, and whether its store is broken first."""

    kills: int
    chance: random.Random
    breakage: Callable[[], None] | None = None


def tried(scenario: Scenario, address: str, folder: Path, chosen: Chosen) -> dict[str, object]:
    """What so many kills of a scenario came to."""
    began, chance = time.monotonic(), chosen.chance
    warm(scenario)
    unkilled = run_trial(Trial(scenario), folder / f"{scenario.name}-unkilled", emptied(address))
    assert unkilled.ending is not None, unkilled.offences
    points = Learnt(unkilled.ending, unkilled.reached).points()
    verdicts: list[Verdict] = []
    for number, point in enumerate(chance.sample(points, min(chosen.kills, len(points)))):
        pair = (point, Kill(ANY, chance.randint(1, len(points))))[: 1 + number % 2]
        trial = Trial(scenario, pair, chosen.breakage, unkilled.ending)
        verdicts.append(run_trial(trial, folder / f"{scenario.name}-{number}", emptied(address)))
    return {
        "scenario": scenario.name,
        "points": len(points),
        "trials": len(verdicts),
        "killed": sum(verdict.killed for verdict in verdicts),
        "unknowns": sum(verdict.unknowns for verdict in verdicts),
        "offences": [*unkilled.offences, *(what for verdict in verdicts for what in verdict.offences)],
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Try them all."""
    address, folder, kills, seed, *broken = sys.argv[1:]
    chosen = Chosen(int(kills), random.Random(int(seed)), hasty if broken == ["hasty"] else None)
    for scenario in scenarios.ALL:
        if scenario.name in (NAMES if chosen.breakage is None else NAMES[:1]):
            print(json.dumps(tried(scenario, address, Path(folder), chosen)), flush=True)


if __name__ == "__main__":
    main()
