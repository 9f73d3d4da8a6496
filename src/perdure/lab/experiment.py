"""The storage models on the real stores: the run of the paper, killed with SIGKILL and resumed, and weighed.

Chooses where the run dies (in each of as many equal parts of it once, at a random step and a random place in
it), starts the warm process that lives it (`perdure.lab.life`), and adds up what its lives wrote down. Knows
no tables; what the paper says stands in `perdure.lab.model`.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import apsw

from perdure.agent.policy import Durability
from perdure.lab.life import PLACES, Case, Diary, Kill
from perdure.lab.report import Tick
from perdure.lab.server import Server, postgres

INSTALL = 'pip install "langgraph>=1.0" langgraph-checkpoint-sqlite'
"""What the comparison with LangGraph needs."""


STORES = ("memory", "sqlite", "postgres", "langgraph")
"""What can be measured, where it is installed."""


@dataclass(frozen=True)
class Measured:
    """What one case came to, over all its lives; bytes and seconds.

    `handed`: to the store; `written`: to any file (None where the kernel does not tell), of PostgreSQL to its
    write-ahead log; `file`: what is left after a checkpoint, of PostgreSQL what its tables and indexes grew
    by (None for memory). `replayed`, `folded`, `resumed`: one figure for each resume; `at`: how many steps
    were kept before it; `places`: where in the next one the run died. `again`: model calls that were
    made more than once.
    """

    store: str
    keep: str
    durability: str
    steps: int
    handed: int
    snapshots: int
    commits: int
    written: int | None
    file: int | None
    at: tuple[int, ...]
    places: tuple[str, ...]
    replayed: tuple[int, ...]
    folded: tuple[float, ...]
    resumed: tuple[float, ...]
    opened: float
    again: int
    kinds: dict[str, tuple[int, int]]
    snapshot_bytes: int
    state_bytes: int

    @property
    def survives(self) -> bool:
        """Whether a run outlives its process there."""
        return self.store != "memory"

    @property
    def mean_replayed(self) -> float:
        """Events replayed, on average of the resumes."""
        return statistics.fmean(self.replayed) if self.replayed else 0.0

    @property
    def events(self) -> int:
        """Events in the ended run."""
        return sum(count for count, _ in self.kinds.values())

    @property
    def event_bytes(self) -> int:
        """Their bytes."""
        return sum(size for _, size in self.kinds.values())


@dataclass(frozen=True)
class Plan:
    """What is measured: the run, and how often it dies."""

    steps: int
    message: int
    kills: int
    every: tuple[int, ...]
    within: float = 1.0
    stores: tuple[str, ...] = STORES


def cases(plan: Plan, seed: int, *, database: bool = False) -> Iterator[Case]:
    """Every storage model on every store; the same deaths in each. `database`: there is a PostgreSQL."""
    kills = deaths(plan.steps, plan.kills, seed)
    for store, keep, durability in _combinations(plan, database=database):
        if store in plan.stores:
            yield Case(store, keep, durability, plan.steps, plan.message, kills)
    for keep in ("snapshot", "log") if "sqlite" in plan.stores else ():
        yield Case("sqlite", keep, "step", plan.steps, plan.message)


def _combinations(plan: Plan, *, database: bool) -> Iterator[tuple[str, str, Durability]]:
    hybrids = [f"every {k}" for k in plan.every]
    yield "memory", "log", "step"
    for keep in ("snapshot", *hybrids, f"within {plan.within:g}", "log"):
        yield "sqlite", keep, "step"
    yield "sqlite", hybrids[len(hybrids) // 2] if hybrids else "log", "effects"
    for keep in ("snapshot", *hybrids[len(hybrids) // 2 :][:1], "log") if database else ():
        yield "postgres", keep, "step"
    if has_langgraph():
        yield "langgraph", "snapshot", "step"


def has_langgraph() -> bool:
    """Whether LangGraph and its SQLite saver are installed."""
    try:
        return importlib.util.find_spec("langgraph.checkpoint.sqlite") is not None and (
            importlib.util.find_spec("langgraph.graph") is not None
        )
    except ModuleNotFoundError:
        return False


def deaths(steps: int, count: int, seed: int) -> tuple[Kill, ...]:
    """Where the run dies: once in each of `count` equal parts, at a random place of a random step."""
    chance = random.Random(seed)
    count = min(count, max(steps - 1, 0))
    bounds = [1 + part * (steps - 1) // max(count, 1) for part in range(count + 1)]
    return tuple(
        (chance.randrange(low, high), chance.choice(list(PLACES))) for low, high in itertools.pairwise(bounds)
    )


def run(case: Case, server: Server | None = None) -> Measured:
    """Live one case through all its deaths to its end. Raises RuntimeError if it does not get there."""
    with tempfile.TemporaryDirectory(prefix="perdure-lab-") as name:
        folder = Path(name)
        if case.store != "postgres" or server is None:
            _live(case, folder)
            return _added_up(case, Diary(folder), _file_bytes(folder / "run.db"))
        with server.database() as database:
            log, size = database.log_position(), database.bytes()
            _live(replace(case, url=database.url), folder)
            found = _added_up(case, Diary(folder), database.bytes() - size)
            return replace(found, written=database.log_position() - log)


def _live(case: Case, folder: Path) -> None:
    module = "perdure.lab.saver" if case.store == "langgraph" else "perdure.lab.life"
    (folder / "case.json").write_text(json.dumps(asdict(case)), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", module, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{case.store}, {case.keep}: {done.stderr[-2000:]}")


def _file_bytes(path: Path) -> int | None:
    """The file's bytes once its write-ahead log has been brought home."""
    if not path.exists():
        return None
    connection = apsw.Connection(str(path))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return path.stat().st_size


def _added_up(case: Case, diary: Diary, file: int | None) -> Measured:
    lives = diary.lives()
    resumes = [life for life in lives if life.resumed is not None]
    written = [life.written for life in lives if life.written is not None]
    last = lives[-1]
    return Measured(
        case.store,
        case.keep,
        case.durability,
        case.steps,
        handed=sum(life.handed for life in lives),
        snapshots=sum(life.snapshots for life in lives),
        commits=sum(life.commits for life in lives),
        written=sum(written) if len(written) == len(lives) else None,
        file=file,
        at=tuple(step - (place != "kept") for step, place in case.kills[: len(resumes)]),
        places=tuple(place for _, place in case.kills[: len(resumes)]),
        replayed=tuple(life.loaded or 0 for life in resumes),
        folded=tuple(life.folded or 0.0 for life in resumes),
        resumed=tuple(life.resumed or 0.0 for life in resumes),
        opened=statistics.median(life.opened for life in lives),
        again=diary.asked() - case.steps,
        kinds={kind: (count, size) for kind, (count, size) in last.kinds.items()},
        snapshot_bytes=max(life.snapshot_bytes for life in lives),
        state_bytes=last.state_bytes,
    )


def measure(plan: Plan, seed: int, tick: Tick) -> tuple[Measured, ...]:
    """Every case, one after the other."""
    with postgres() if "postgres" in plan.stores else nullcontext() as server:
        todo = list(cases(plan, seed, database=server is not None))
        found: list[Measured] = []
        for number, case in enumerate(todo):
            tick(f"{case.store}, {case.keep}: {len(case.kills)} kills", number, len(todo))
            found.append(run(case, server))
        tick("done", len(todo), len(todo))
        return tuple(found)
