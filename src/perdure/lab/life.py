"""One run that dies again and again: a warm process forks a life, which kills itself with SIGKILL where it
was told to, and the next life carries the run on, until one brings it to its end.

`python -m perdure.lab.life FOLDER` reads the case from FOLDER/case.json and leaves FOLDER/lives, one line of
JSON for each life, written before it died. Each message is a text of common words, so that it compresses as
talk does. Knows no tables and no paper.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias, cast

from perdure import Run, codec
from perdure.agent import Agent, Hybrid
from perdure.agent.policy import Durability
from perdure.agent.policy import Storage as StorageModel
from perdure.host import Runtime
from perdure.journal import history, load, read_all
from perdure.runtime.boundary import set_hook
from perdure.store import open_store
from perdure.store.protocol import Appended, Batch, Loaded, NewRun, RunRow, Store
from perdure.testing.crash.life import be_alone

RUN_ID = "run"
"""The run that dies."""

LIFE_SECONDS = 120
"""A life that lasts longer is stuck, and is ended."""

Place: TypeAlias = Literal["asked", "answered", "ended", "kept"]
"""Where in a step a process dies: before its model call, after the reply, after the step function, after the
step was kept."""

Kill: TypeAlias = tuple[int, Place]
"""The step in which a process dies, and where in it."""

PLACES: dict[Place, str] = {
    "asked": "call.act",
    "answered": "call.acted",
    "ended": "step.commit",
    "kept": "step.committed",
}
"""The engine's boundary at each place."""


@dataclass(frozen=True)
class Case:
    """What one run does and where it dies. `keep`: log, snapshot, every K or within MILLISECONDS.

    `kills`: steps (from 1, rising) and places in them. `url`: of a store that is no file in the folder.
    """

    store: str
    keep: str
    durability: Durability = "step"
    steps: int = 200
    message: int = 300
    kills: tuple[Kill, ...] = ()
    url: str = ""

    @property
    def storage(self) -> StorageModel:
        """As an agent declares it."""
        if self.keep in ("log", "snapshot"):
            return cast(StorageModel, self.keep)
        kind, _, number = self.keep.partition(" ")
        if kind == "every":
            return Hybrid(every=int(number))
        return Hybrid(resume_within=timedelta(milliseconds=float(number)))


@dataclass
class Life:
    """What one life did, in its own counts.

    `handed`: bytes of events, snapshots and large values given to the store. `written`: to any file, as the
    kernel counts it (None where it does not tell). `opened`: seconds that opening the store took. Of all
    lives but the first, which resumes nothing: `loaded`, events that were replayed; `folded`, seconds that
    reading, verifying and folding the run took; `resumed`, seconds from the open store until the run's next
    model call was made. `kinds`, of the last: count and bytes of the events.
    """

    died: tuple[int, str] | None = None
    asked: int = 0
    handed: int = 0
    snapshots: int = 0
    commits: int = 0
    written: int | None = None
    opened: float = 0.0
    loaded: int | None = None
    folded: float | None = None
    resumed: float | None = None
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    snapshot_bytes: int = 0
    state_bytes: int = 0


# ------------------------------------------------------------------------------------------- the talk


def _vocabulary() -> list[str]:
    random = Random(300)
    return [
        "".join(random.choice("aeiourstlnmdkpbg") for _ in range(random.randint(2, 9))) for _ in range(900)
    ]


_WORDS = _vocabulary()
_WEIGHTS = [1 / (rank + 2) for rank in range(len(_WORDS))]


def talk(number: int, size: int) -> str:
    """The text of a message: common words are common, as in any language."""
    words = Random(number).choices(_WORDS, _WEIGHTS, k=size // 3 + 1)
    return " ".join(words)[:size]


# ------------------------------------------------------------------------------------------- one life


def _bytes_of(parts: Batch | NewRun) -> int:
    return sum(len(one.data) for one in parts.events) + sum(len(one.data) for one in parts.blobs)


class Scales:
    """A store that weighs what it is given."""

    def __init__(self, inner: Store, life: Life) -> None:
        self._inner = inner
        self._life = life

    def __getattr__(self, name: str) -> Any:
        """Everything else is the inner store's."""
        return getattr(self._inner, name)

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """As the inner store's."""
        snapshot = len(batch.snapshot.data) if batch.snapshot else 0
        self._life.handed += snapshot + _bytes_of(batch)
        self._life.snapshots += batch.snapshot is not None
        self._life.snapshot_bytes = snapshot or self._life.snapshot_bytes
        self._life.commits += 1
        return self._inner.append(batch)

    async def create(self, run: NewRun) -> tuple[RunRow, bool]:
        """As the inner store's."""
        self._life.handed += _bytes_of(run)
        return await self._inner.create(run)

    async def load(self, run_id: str) -> Loaded:
        """As the inner store's; counts the events that the engine is about to replay."""
        loaded = await self._inner.load(run_id)
        self._life.loaded = len(loaded.events)
        return loaded


class Diary:
    """Where lives leave what they did, and each model call as it is made: files that outlive them."""

    def __init__(self, folder: Path) -> None:
        self._lives, self._asked = folder / "lives", folder / "asked"
        self.own = 0

    def ask(self) -> None:
        """A model call is made: one byte."""
        self._write(self._asked, b".")

    def asked(self) -> int:
        """Model calls of all lives."""
        return self._asked.stat().st_size if self._asked.exists() else 0

    def close(self, life: Life) -> None:
        """This life is over."""
        life.written = written(self.own)
        if not self._lives.exists():
            life.loaded = life.folded = life.resumed = None
        self._write(self._lives, json.dumps(asdict(life)).encode() + b"\n")

    def lives(self) -> list[Life]:
        """All that were written down."""
        lines = self._lives.read_text(encoding="utf-8").splitlines() if self._lives.exists() else []
        return [Life(**json.loads(line)) for line in lines]

    def _write(self, path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self.own += os.write(fd, data)
        finally:
            os.close(fd)


def written(own: int) -> int | None:
    """Bytes that this process has handed to write calls, less `own`; None where the kernel does not tell."""
    told = Path("/proc/self/io")
    found = re.search(r"^wchar: (\d+)", told.read_text(), re.MULTILINE) if told.exists() else None
    return int(found[1]) - own if found else None


class Fate:
    """When this life ends: at a place in a step. `step` is the one that is under way."""

    def __init__(self, kill: Kill | None, life: Life, diary: Diary) -> None:
        self.step = 0
        self._kill = kill
        self._life, self._diary = life, diary
        self._began = time.perf_counter()

    def opened(self) -> None:
        """The store is open."""
        now = time.perf_counter()
        self._life.opened, self._began = now - self._began, now

    def ask(self) -> None:
        """A model call is made."""
        self._life.asked += 1
        self._diary.ask()
        if self._life.resumed is None:
            self._life.resumed = time.perf_counter() - self._began

    def at(self, place: Place) -> None:
        """The run is at this place; may be the end."""
        if self._kill == (self.step, place):
            self._life.died = self._kill
            self._diary.close(self._life)
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Message:
    """A message that never changes."""

    role: str
    content: str


@dataclass
class Talk:
    """The agent's state."""

    messages: list[Message] = field(default_factory=list)


def agent(case: Case, fate: Fate) -> Agent[Talk, str, str]:
    """Asks its model with the whole conversation, adds the reply, and again."""
    talker: Agent[Talk, str, str] = Agent(
        "talker",
        state=Talk,
        goal=str,
        result=str,
        start=lambda goal: Talk(),
        durability=case.durability,
        storage=case.storage,
    )

    @talker.model("model")
    async def chat(messages: list[Message]) -> Message:
        fate.ask()
        return Message("assistant", talk(len(messages), case.message))

    @talker.step
    async def step(run: Run[Talk]) -> None:
        fate.step = len(run.state.messages) + 1
        run.state.messages.append(await chat(run.state.messages))
        if len(run.state.messages) >= case.steps:
            run.finish("done")

    return talker


def _hook(fate: Fate, life: Life) -> Callable[[str], None]:
    by_name = {name: place for place, name in PLACES.items()}
    claimed = 0.0

    def hook(name: str) -> None:
        nonlocal claimed
        if name == "run.claimed":
            claimed = time.perf_counter()
        elif name == "run.loaded" and life.folded is None:
            life.folded = time.perf_counter() - claimed
        if (place := by_name.get(name)) is not None:
            fate.at(place)

    return hook


def _store(case: Case, folder: Path) -> Store:
    if case.url:
        from perdure.store.postgres import PostgresStore

        return PostgresStore(case.url, grace_seconds=0.0)  # so that a death is noticed at once, as on a file
    return open_store("memory:" if case.store == "memory" else str(folder / "run.db"))


async def live(case: Case, folder: Path, kill: Kill | None, life: Life, diary: Diary) -> None:
    """Start or resume the run, and go on until it has ended or this process has."""
    fate = Fate(kill, life, diary)
    inner = _store(case, folder)
    set_hook(_hook(fate, life))
    try:
        async with Runtime(cast(Store, Scales(inner, life))) as runtime:
            fate.opened()
            outcome = await runtime.run(agent(case, fate), RUN_ID, "talk")
            assert outcome.unwrap() == "done"
            await _weigh(inner, life)
    finally:
        set_hook(None)
        await inner.close()


async def _weigh(store: Store, life: Life) -> None:
    """What the ended run is made of."""
    stored = await read_all(store, RUN_ID)
    for event, item in zip(await history(store, RUN_ID), stored, strict=True):
        kind = str(event.body.__struct_config__.tag)
        count, size = life.kinds.get(kind, (0, 0))
        life.kinds[kind] = (count + 1, size + len(item.data))
    life.state_bytes = len(codec.encode((await load(store, RUN_ID)).record.state))


# ------------------------------------------------------------------------------------------- all lives


Living: TypeAlias = Callable[[Case, Path, Kill | None, Life, Diary], None]
"""One life of a case, in a folder, that dies as it is told to or ends the run."""


def lives(folder: Path, one: Living) -> None:
    """Fork a life for each kill, and one that ends the run. Raises RuntimeError if a life ends otherwise."""
    told = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    case = Case(**{**told, "kills": tuple((step, place) for step, place in told["kills"])})
    for kill in (*case.kills, None):
        be_alone()
        pid = os.fork()
        if pid == 0:
            _child(case, folder, kill, one)
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if killed != (kill is not None) or (not killed and status):
            raise RuntimeError(f"a life that was to die at {kill} ended with status {status}")


def _child(
    case: Case,
    folder: Path,
    kill: Kill | None,
    one: Living,
) -> None:
    """The child's whole life; never returns."""
    signal.alarm(LIFE_SECONDS)
    code = 1
    try:
        life, diary = Life(), Diary(folder)
        one(case, folder, kill, life, diary)
        diary.close(life)
        code = 0
    except BaseException:  # noqa: BLE001  (told on standard error; the exit code says the rest)
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _ours(case: Case, folder: Path, kill: Kill | None, life: Life, diary: Diary) -> None:
    asyncio.run(live(case, folder, kill, life, diary))


def warm() -> None:
    """Live once in memory, so that no later life has anything to import. Leaves no thread behind."""
    import tempfile

    import perdure.store.sqlite

    with contextlib.suppress(ImportError):
        import perdure.store.postgres  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        _ours(Case("memory", "snapshot", steps=2), Path(folder), None, Life(), Diary(Path(folder)))


if __name__ == "__main__":
    warm()
    lives(Path(sys.argv[1]), _ours)
