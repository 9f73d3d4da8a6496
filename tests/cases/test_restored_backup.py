"""A store brought back from a backup, while the world remembers what was done after it was made.

The lost incarnation went on: it paid, told people, spawned a child. Whoever releases its runs may know
nothing of that; the tools' hooks do.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.agent import Agent, Done, NotDone, current_call
from perdure.clock import SYSTEM
from perdure.errors import BadArguments
from perdure.host import Runtime
from perdure.journal import history, load, verify
from perdure.runtime.idle import hold
from perdure.state import events as e
from perdure.store import open_store
from perdure.store.protocol import Store
from perdure.testing.oracle import Act, offences
from perdure.timeline.audit import audit
from perdure.timeline.bundle import adopt, bundled
from perdure.timeline.restoring import begin_anew


class Bank:
    """What is outside, and remembers: acts by their keys, in their order."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.done: dict[str, str] = {}
        self.book: list[Act] = []
        self.asked = 0

    def act(self, what: str) -> str:
        """Do it, once more if it was done."""
        call = current_call()
        self.acts.append(what)
        self.done[call.key] = what
        self.book.append(Act.of(len(self.book), call, what))
        return what

    async def find(self) -> Done[str] | NotDone:
        """What became of the call that is asked about."""
        self.asked += 1
        found = self.done.get(current_call().key)
        return NotDone() if found is None else Done(found)


def desk(bank: Bank) -> tuple[Agent[Any, Any, Any], Agent[Any, Any, Any]]:
    """An agent that waits and then acts as its goal says, and one that helps it."""
    agent: Agent[Any, Any, Any] = Agent("desk", state=dict, goal=str, start=lambda goal: {"goal": goal})

    @agent.tool(effect="irreversible")
    async def pay(cents: int) -> str:
        return bank.act(f"pay {cents}")

    @pay.reconcile
    async def paid(cents: int) -> Done[str] | NotDone:
        return await bank.find()

    @agent.tool(effect="irreversible")
    async def mail(text: str) -> str:
        return bank.act(f"mail {text}")

    @agent.tool(effect="irreversible", unknown="raise")
    async def shell(line: str) -> str:
        return bank.act(f"shell {line}")

    @agent.tool(effect="idempotent")
    async def put(text: str) -> str:
        return bank.act(f"put {text}")

    @agent.tool(effect="idempotent", key_ttl=timedelta(milliseconds=1))
    async def ship(text: str) -> str:
        return bank.act(f"ship {text}")

    helper: Agent[Any, Any, Any] = Agent(
        "helper", state=dict, goal=str, start=lambda goal: {"goal": goal}, tools=[pay]
    )
    tools: dict[str, Callable[[str], Any]] = {"mail": mail, "shell": shell, "put": put, "ship": ship}

    @helper.step
    async def help_out(run: Any) -> None:
        run.finish(await pay(9))

    @agent.step
    async def step(run: Any) -> None:
        await run.wait("go")
        if run.goal == "pays":
            run.finish([await pay(cents) for cents in (1, 2)])
        elif run.goal == "asks for help":
            run.finish(await run.spawn(helper, "help"))
        else:
            run.finish(await tools[run.goal]("a"))

    return agent, helper


class Backup:
    """A store of which a copy is taken while its run waits, and put back after the run has gone on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bank = Bank()
        self.agent, self.helper = desk(self.bank)

    @asynccontextmanager
    async def working(self, workers: int = 2) -> AsyncIterator[Runtime]:
        """A runtime over the file, which is whole once that is closed."""
        agents = [self.agent, self.helper]
        async with Runtime(str(self.folder / "runs.db"), agents, workers=workers) as runtime:
            yield runtime

    async def lost(self, goal: str, *, acted: bool = True) -> None:
        """Take a backup of a run, let it go on and act unless that is not to be; bring the backup back."""
        async with self.working() as runtime:
            await runtime.start(self.agent, "r", goal)
            await stands(runtime.store, waiting)
        shutil.copy(self.folder / "runs.db", self.folder / "backup.db")
        if acted:
            async with self.working() as runtime:
                await runtime.signal("r", "go")
                await stands(runtime.store, ended)
        for name in ("runs.db", "runs.db-wal", "runs.db-shm"):
            (self.folder / name).unlink(missing_ok=True)
        shutil.copy(self.folder / "backup.db", self.folder / "runs.db")
        store = open_store(str(self.folder / "runs.db"))
        await store.open()
        try:
            assert (await begin_anew(store)).held == ("r",)
        finally:
            await store.close()

    async def goes_on(self, runtime: Runtime, until: Callable[[str, str], bool]) -> None:
        """Release the run, and wait for what comes of it."""
        await runtime.release("r", by="ada")
        await runtime.signal("r", "go")
        await stands(runtime.store, until)

    async def sound(self, store: Store) -> None:
        """The journal is whole and tells of nothing that should not be."""
        assert (await verify(store, "r")).ok
        assert offences(await history(store, "r"), self.bank.book) == []


async def stands(store: Store, holds: Callable[[str, str], bool], run_id: str = "r") -> None:
    """Wait until it holds of the run's status and the reason of its hold, and nobody drives it."""
    found = None
    for _ in range(1000):
        row, held = await store.row(run_id), (await load(store, run_id)).record.held
        found = row.worker, row.status, held
        if row.worker is None and holds(row.status, "" if held is None else held.reason):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"it stands at {found}")


def waiting(status: str, why: str) -> bool:
    """It waits."""
    return status == "waiting"


def ended(status: str, why: str) -> bool:
    """It is over."""
    return status == "succeeded"


def asks(status: str, why: str) -> bool:
    """A person is asked what became of a call."""
    return why == "unknown-outcome"


async def test_what_was_done_after_the_backup_is_looked_up_and_not_done_again(tmp_path: Path) -> None:
    place = Backup(tmp_path)
    await place.lost("pays")
    async with place.working() as runtime:
        await place.goes_on(runtime, ended)
        assert (place.bank.acts, place.bank.asked) == (["pay 1", "pay 2"], 2)
        assert [act.guarantee for act in audit(await history(runtime.store, "r"))] == ["reconciled"] * 2
        assert (await verify(runtime.store, "r")).ok


async def test_what_was_not_done_is_done_once_the_hook_has_said_so(tmp_path: Path) -> None:
    """The lost incarnation was stopped before it acted."""
    place = Backup(tmp_path)
    await place.lost("pays", acted=False)
    async with place.working() as runtime:
        await place.goes_on(runtime, ended)
        assert place.bank.acts == ["pay 1", "pay 2"]
        assert place.bank.asked >= 2
        await place.sound(runtime.store)


@pytest.mark.parametrize("tool", ["mail", "shell", "ship"])
async def test_where_no_hook_can_tell_a_person_is_asked(tmp_path: Path, tool: str) -> None:
    place = Backup(tmp_path)
    await place.lost(tool)
    async with place.working() as runtime:
        await place.goes_on(runtime, asks)
        record = (await load(runtime.store, "r")).record
        assert place.bank.acts == [f"{tool} a"]
        assert record.held is not None
        assert record.held.remedies[-1].startswith("perdure release r --sure")
        await runtime.resolve("r", record.held.path, by="ada", done=f"{tool} a")
        await stands(runtime.store, ended)
        assert place.bank.acts == [f"{tool} a"]


async def test_who_is_sure_is_not_asked(tmp_path: Path) -> None:
    place = Backup(tmp_path)
    await place.lost("mail", acted=False)
    async with place.working() as runtime:
        await place.goes_on(runtime, asks)
        await runtime.release("r", by="ada", sure=True)
        await stands(runtime.store, ended)
        assert place.bank.acts == ["mail a"]
        await place.sound(runtime.store)


async def test_what_its_receiver_knows_by_its_key_is_sent_again(tmp_path: Path) -> None:
    place = Backup(tmp_path)
    await place.lost("put")
    async with place.working() as runtime:
        await place.goes_on(runtime, ended)
    assert (place.bank.acts, len(place.bank.done)) == (["put a", "put a"], 1)


async def test_a_child_is_in_doubt_with_its_parent(tmp_path: Path) -> None:
    place = Backup(tmp_path)
    await place.lost("asks for help")
    async with place.working() as runtime:
        await place.goes_on(runtime, ended)
    assert (place.bank.acts, place.bank.asked) == (["pay 9"], 1)


async def test_only_who_was_brought_back_can_be_sure(tmp_path: Path) -> None:
    place = Backup(tmp_path)
    async with place.working(workers=0) as runtime:
        await runtime.start(place.agent, "r", "mail")
        await hold(runtime.store, "r", SYSTEM, e.RunHeld("step-error", "broken", ()))
        with pytest.raises(BadArguments, match="nothing to be sure of"):
            await runtime.release("r", by="ada", sure=True)


async def test_an_imported_run_looks_up_what_its_original_may_have_done(tmp_path: Path) -> None:
    place = Backup(tmp_path)
    async with place.working() as runtime:
        await runtime.start(place.agent, "r", "pays")
        await stands(runtime.store, waiting)
        taken = await bundled(runtime.store, "r")
        await runtime.signal("r", "go")
        await stands(runtime.store, ended)
    (tmp_path / "elsewhere").mkdir()
    place.folder = tmp_path / "elsewhere"
    async with place.working() as runtime:
        await adopt(runtime.store, taken)
        await place.goes_on(runtime, ended)
    assert (place.bank.acts, place.bank.asked) == (["pay 1", "pay 2"], 2)
