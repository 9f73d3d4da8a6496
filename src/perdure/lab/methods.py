"""Ways to get a task done although its process may die, and the receiver that they act on.

The task is the same for all: `STEPS` effects, one in each step. A `Receiver` writes down in a file what
reached it, and outlives every kill. The methods are a loop that begins again, a checkpoint after each act, a
checkpoint before each act, and perdure on each of its stores. Every one passes the same `POINTS` in every
step; a process that is to die at one dies there by SIGKILL. Knows no figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import apsw

from perdure.agent import Agent, Done, Held, NotDone, Tool, current_call
from perdure.host import Runtime
from perdure.journal import load
from perdure.runtime.boundary import set_hook
from perdure.store.protocol import Store
from perdure.store.sqlite import SQLiteStore
from perdure.testing.crash.clock import HurriedClock

STEPS = 4
"""Effects of one task."""

THINKING = 0.02
"""Seconds that perdure's model thinks before each act; real ones take longer. Meanwhile what came before is
written. To a method that writes only while everything waits the time makes no difference.
"""

POINTS = {
    "thinking": "between two acts, while the model thinks",
    "before": "the model has answered, nothing was sent",
    "sent": "the call has left, the receiver has not acted",
    "acted": "the receiver has acted, its answer has not arrived",
    "after": "the answer has arrived this very moment",
}
"""Where a process dies, and what holds there."""

Effects = Literal["read", "idempotent", "transactional", "reconciled", "opaque"]
"""Classes of effects: the engine's, irreversible ones apart by whether they can be looked up."""

EFFECTS: dict[Effects, str] = {
    "read": "read",
    "idempotent": "idempotent",
    "transactional": "transactional",
    "reconciled": "irreversible, can be looked up",
    "opaque": "irreversible, cannot be looked up",
}
"""What an effect is declared as, and in words."""

TIMEOUT = timedelta(seconds=30)
"""How long one call may take."""

LEASE_SECONDS = 60.0
"""Of the trial's clock, which is put forward after a death: nobody waits for it."""

DATABASE = "PERDURE_LAB_DATABASE"
"""The environment variable that names the PostgreSQL database which a killing process has for itself."""


@dataclass(slots=True)
class Fate:
    """Where this process dies: at the `hit`-th time that it is at `point`. None: it does not."""

    point: str | None = None
    hit: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    def at(self, point: str) -> None:
        """This process is here."""
        self.seen[point] += 1
        if point == self.point and self.seen[point] == self.hit:
            os.kill(os.getpid(), signal.SIGKILL)


class Receiver:
    """The other side: a bank, a shop, a mail server. Each line is one write, and survives its writer."""

    def __init__(self, folder: Path, fate: Fate) -> None:
        self.path = folder / "receiver"
        self._fate = fate

    def act(self, number: int, key: str | None = None) -> None:
        """The effect of this number happens; a `key` that is known already is answered, not acted on."""
        self._fate.at("sent")
        if key is None or self.find(key) is None:
            line = json.dumps({"effect": number, "key": key}).encode() + b"\n"
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.write(fd, line)
            os.close(fd)
        self._fate.at("acted")

    def find(self, key: str) -> int | None:
        """The effect that came under a key."""
        return next((line["effect"] for line in self._lines() if line["key"] == key), None)

    def effects(self) -> Counter[int]:
        """How often each effect happened."""
        return Counter(line["effect"] for line in self._lines())

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]


# --------------------------------------------------------------------------------- what people write by hand


def _by_hand(folder: Path, effects: Effects, fate: Fate) -> Callable[[int], None]:
    """How a hand-written task has one effect. Each try is a request of its own: nobody kept the last key."""
    receiver = Receiver(folder, fate)
    if effects == "transactional":
        return lambda number: _in_own_transaction(folder, number, fate)
    if effects == "idempotent":
        return lambda number: receiver.act(number, current_call().key)  # outside a run: a fresh one
    return receiver.act


def _in_own_transaction(folder: Path, number: int, fate: Fate) -> None:
    connection = sqlite3.connect(folder / "own.db")
    fate.at("sent")
    with connection:
        connection.execute("CREATE TABLE IF NOT EXISTS effects (number INTEGER)")
        connection.execute("INSERT INTO effects VALUES (?)", (number,))
    fate.at("acted")
    connection.close()


def retry_loop(folder: Path, effects: Effects, fate: Fate) -> None:
    """Begins at the beginning, however far it had come."""
    act = _by_hand(folder, effects, fate)
    for number in range(1, STEPS + 1):
        fate.at("thinking")
        fate.at("before")
        act(number)
        fate.at("after")


def saves_after(folder: Path, effects: Effects, fate: Fate) -> None:
    """Saves how far it has come after each act."""
    act = _by_hand(folder, effects, fate)
    for number in range(_saved(folder) + 1, STEPS + 1):
        fate.at("thinking")
        fate.at("before")
        act(number)
        fate.at("after")
        _save(folder, number)


def saves_before(folder: Path, effects: Effects, fate: Fate) -> None:
    """Saves how far it has come before each act."""
    act = _by_hand(folder, effects, fate)
    for number in range(_saved(folder) + 1, STEPS + 1):
        fate.at("thinking")
        fate.at("before")
        _save(folder, number)
        act(number)
        fate.at("after")


def _saved(folder: Path) -> int:
    path = folder / "checkpoint"
    return int(path.read_text(encoding="ascii")) if path.exists() else 0


def _save(folder: Path, number: int) -> None:
    """Durable and whole, as a careful checkpoint is."""
    path = folder / "checkpoint.new"
    with path.open("w", encoding="ascii") as file:
        file.write(str(number))
        file.flush()
        os.fsync(file.fileno())
    path.replace(folder / "checkpoint")


# ------------------------------------------------------------------------------------------------ and perdure


def _declared(
    receiver: Receiver, effects: Effects, fate: Fate, agent: Agent[Any, Any, Any]
) -> Tool[..., Any]:
    """The same effect, declared as what it is."""
    if effects == "transactional":

        @agent.tool(effect="transactional")
        def book(number: int) -> None:
            fate.at("sent")
            tx, table = current_call().tx, _table(current_call().run_id)
            tx.execute(f"CREATE TABLE IF NOT EXISTS {table} (number INTEGER)")
            tx.execute(f"INSERT INTO {table} VALUES ({number:d})")

        return book
    if effects == "idempotent":

        @agent.tool(effect="idempotent", timeout=TIMEOUT)
        async def put(number: int) -> None:
            receiver.act(number, current_call().key)

        return put
    if effects == "read":

        @agent.tool(effect="read", timeout=TIMEOUT)
        async def look(number: int) -> None:
            receiver.act(number)

        return look

    @agent.tool(effect="irreversible", timeout=TIMEOUT)
    async def pay(number: int) -> None:
        receiver.act(number, current_call().key if effects == "reconciled" else None)

    if effects == "reconciled":

        @pay.reconcile
        async def paid(number: int) -> Done[None] | NotDone:
            return NotDone() if receiver.find(current_call().key) is None else Done(None)

    return pay


def by_perdure(folder: Path, effects: Effects, fate: Fate) -> None:
    """Journals what it is about to do and what came of it."""
    clock = HurriedClock(folder, 1.0)
    store = SQLiteStore(folder / "perdure.db", clock=clock, reserve_bytes=0)
    asyncio.run(_carry(folder, effects, fate, store, clock))


def by_perdure_on_postgres(folder: Path, effects: Effects, fate: Fate) -> None:
    """The same, in the database of this process."""
    from perdure.store.postgres import PostgresStore

    clock = HurriedClock(folder, 1.0)
    store = PostgresStore(os.environ[DATABASE], clock=clock, grace_seconds=0.0)
    asyncio.run(_carry(folder, effects, fate, store, clock))


def _run_id(folder: Path) -> str:
    return f"task_{folder.name}"


def _table(run_id: str) -> str:
    return f"effects_of_{run_id}"


async def _carry(folder: Path, effects: Effects, fate: Fate, store: Store, clock: HurriedClock) -> None:
    receiver = Receiver(folder, fate)
    agent: Agent[Any, Any, Any] = Agent("clerk", state=dict, start=lambda goal: {"done": 0})
    act: Callable[[int], Awaitable[None]] = _declared(receiver, effects, fate, agent)

    @agent.model("thinker")
    async def think(number: int) -> None:
        await asyncio.sleep(THINKING / 2)
        fate.at("thinking")
        await asyncio.sleep(THINKING / 2)

    @agent.step
    async def step(run: Any) -> None:
        number = run.state["done"] + 1
        await think(number)
        fate.at("before")
        await run.call(act, number)
        fate.at("after")
        run.state["done"] = number
        if number == STEPS:
            run.finish(number)

    set_hook(lambda name: fate.at("acted") if name == "transact.committed" else None)
    try:
        async with Runtime(store, [agent], clock=clock, lease_seconds=LEASE_SECONDS) as runtime:
            await _to_its_end(folder, receiver, agent, runtime)
        await store.close()
    finally:
        set_hook(None)


async def _to_its_end(
    folder: Path, receiver: Receiver, agent: Agent[Any, Any, Any], runtime: Runtime
) -> None:
    run_id = _run_id(folder)
    outcome = await runtime.run(agent, run_id, "all of it")
    while isinstance(outcome, Held) and outcome.reason == "unknown-outcome":
        await _answer(runtime, receiver, folder)
        outcome = await runtime.run(agent, run_id, "all of it")
    outcome.unwrap()


async def _answer(runtime: Runtime, receiver: Receiver, folder: Path) -> None:
    """A person looks at the other side and says what became of the call."""
    run_id = _run_id(folder)
    record = (await load(runtime.store, run_id)).record
    assert record.held is not None
    with (folder / "questions").open("a", encoding="ascii") as file:
        file.write(f"{record.held.path}\n")
    number = record.step + 1
    if receiver.effects()[number]:
        await runtime.resolve(run_id, record.held.path, by="ada", done=None)
    else:
        await runtime.resolve(run_id, record.held.path, by="ada", not_done=True)


ON_POSTGRES = "perdure on PostgreSQL"
"""The method that needs a `DATABASE`."""

METHODS: dict[str, Callable[[Path, Effects, Fate], None]] = {
    "retry loop": retry_loop,
    "checkpoint after": saves_after,
    "checkpoint before": saves_before,
    "perdure": by_perdure,
    ON_POSTGRES: by_perdure_on_postgres,
}
"""Every method by its name."""


def tally(folder: Path, method: str, effects: Effects) -> dict[str, int]:
    """How many effects were `lost`, happened more than once (`doubled`), or were asked about (`unknown`)."""
    found = Receiver(folder, Fate()).effects()
    if effects == "transactional":
        found = Counter(_booked(folder, method))
    questions = folder / "questions"
    return {
        "lost": sum(not found[number] for number in range(1, STEPS + 1)),
        "doubled": sum(max(count - 1, 0) for count in found.values()),
        "unknown": len(questions.read_text(encoding="ascii").splitlines()) if questions.exists() else 0,
    }


def _booked(folder: Path, method: str) -> list[int]:
    """The numbers of the effects that a transaction had."""
    if method == ON_POSTGRES:
        import psycopg

        with psycopg.connect(os.environ[DATABASE]) as database:
            rows = database.execute(f"SELECT number FROM {_table(_run_id(folder))}".encode()).fetchall()
        return [number for (number,) in rows]
    name, table = ("perdure.db", _table(_run_id(folder))) if method == "perdure" else ("own.db", "effects")
    connection = apsw.Connection(str(folder / name), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return [number for (number,) in connection.execute(f"SELECT number FROM {table}")]
    finally:
        connection.close()
