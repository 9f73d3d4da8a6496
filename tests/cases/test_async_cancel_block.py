"""Interrupts, cancellations and blocked loops: what they did elsewhere, they must not do here."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.journal import history
from perdure.runtime.boundary import set_hook
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.sqlite import SQLiteStore
from tests.cases.field import Field
from tests.processes import ended_by, said, until
from tests.unit.runtime.stage import RUN, Lagging, Stage, World, agent

# ------------------------------------------------------------------------------------------------- Ctrl+C

RETRYING = """
HOW = (HERE / "how").read_text()


class Uneven(Retry):
    # The second wait does not end by itself, until the test says so.
    def delay(self, attempt):
        return 600.0 if attempt == 2 and not is_open("quick") else 0.01


policy = Uneven(attempts=4)
agent = Agent("agent", state=dict, start=lambda goal: {}, retry=policy if HOW == "step" else None)


@agent.tool(effect=HOW if HOW != "step" else "read", retry=policy if HOW != "step" else None)
async def fetch() -> str:
    book("tries")
    if HOW != "step" and booked("tries") < 4:
        raise (NotDone("not yet") if HOW != "read" else ConnectionError("the line broke"))
    return "fetched"


@agent.step
async def step(run):
    got = await fetch()
    if HOW == "step":
        book("steps")
        if booked("steps") < 4:
            raise ValueError("a bug that goes away")
    run.finish(got)


if __name__ == "__main__":
    run_here(agent)
"""


def _in_the_second_wait(row: Any, record: Any, facts: list[Any]) -> bool:
    """Whether two tries are durable, of the call or of the step."""
    restarts = sum(isinstance(fact, e.StepRestarted) for fact in facts)
    return restarts == 2 or sum(isinstance(fact, e.CallSettled) for fact in facts) == 2


@pytest.mark.crash
@pytest.mark.parametrize("how", ["read", "idempotent", "irreversible", "step"])
async def test_an_interrupt_in_a_retry_wait_keeps_the_tries(field: Field, how: str) -> None:
    """O-043: Ctrl+C in the second wait for another try ruined the later recovery. The tries that were made
    count, the run goes on at the next start, and nothing says that it has failed.
    """
    (field.folder / "how").write_text(how)
    field.program(RETRYING)
    process = field.process("app.py")
    until(lambda: field.file.exists() and field.lines("tries"), process)
    await field.until("r", _in_the_second_wait)
    complaint = ended_by(process, signal.SIGINT)
    assert process.returncode != 0, complaint
    _, record, _ = await field.told()
    assert (record.ended, record.held) == (None, None)
    field.open("quick")
    assert said(field.process("app.py")) == "succeeded"
    assert len(field.lines("steps" if how == "step" else "tries")) == 4
    if how != "step":
        assert [receipt.attempt for receipt in await field.settled()] == [1, 2, 3, 4]


# ------------------------------------------------------------------------------------- the client's patience


@pytest.mark.parametrize("worker", ["same", "other", "nobody"])
@pytest.mark.parametrize("effect", ["read", "irreversible"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_client_that_stops_waiting_does_not_stop_the_run(
    tmp_path: Path, kind: str, effect: Any, worker: str
) -> None:
    """O-044: a client that gave up waiting for the result hung the run itself. The run ends, whoever drives
    it, and whoever asks again gets the result.
    """
    gate, began, acts = asyncio.Event(), asyncio.Event(), list[str]()

    @perdure.tool(effect=effect)
    async def pay() -> str:
        began.set()
        await gate.wait()
        acts.append(perdure.current_call().key)
        return "paid"

    @pay.reconcile
    async def paid() -> Any:
        return perdure.Done("paid") if perdure.current_call().key in acts else perdure.NotDone()

    async def step(run: Any) -> None:
        run.finish(await pay())

    made = agent(step, pay)
    store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "runs.db")
    await store.open()
    async with (
        perdure.Runtime(store, [made], workers=worker == "same") as place,
        perdure.Runtime(store, [made], workers=worker == "other"),
    ):
        await place.start(made, RUN, "go")
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(place.run(made, RUN, "go"), 0.1)
        await began.wait()
        gate.set()
        assert (await asyncio.wait_for(place.run(made, RUN, "go"), 20)).unwrap() == "paid"
        assert (await place.run(made, RUN, "go")).unwrap() == "paid"
        assert "cancel.requested" not in [event.kind for event in await history(store, RUN)]
    await store.close()
    assert len(acts) == 1


# ------------------------------------------------------------------------------------ cancelled during a save

SAVES = (
    "run.create",
    "run.created",
    "run.claimed",
    "intent.write",
    "receipt.queued",
    "step.commit",
    "step.queued",
    "run.suspend",
    "wait.opened",
    "approval.request",
    "run.hold",
    "run.finish",
)


class _Once:
    """Calls back the first time that a boundary is reached."""

    def __init__(self, boundary: str, then: Any) -> None:
        self.boundary, self.then, self.seen = boundary, then, Counter[str]()

    def __call__(self, name: str) -> None:
        self.seen[name] += 1
        if name == self.boundary and self.seen[name] == 1:
            self.then()


async def _cancelled(way: str, boundary: str, running: Coroutine[Any, Any, Any]) -> None:
    """Run it and cancel it when the boundary is reached; the cancellation must come out."""
    loop, due = asyncio.get_running_loop(), asyncio.Event()
    task: asyncio.Task[Any] | None = None

    def twice() -> None:
        assert task is not None
        task.cancel()
        loop.call_later(0.005, task.cancel)

    set_hook(_Once(boundary, due.set if way != "twice" else lambda: loop.call_soon(twice)))
    try:
        if way == "twice":
            task = asyncio.create_task(running)
            await asyncio.wait([task])
            assert task.cancelled() or task.exception() is None
        elif way == "timeout":
            with pytest.raises(TimeoutError):
                await _timed(running, due)
        else:
            with pytest.raises(ExceptionGroup):
                await _grouped(running, due)
    finally:
        set_hook(None)


async def _timed(running: Coroutine[Any, Any, Any], due: asyncio.Event) -> None:
    async with asyncio.timeout(None) as patience:
        task = asyncio.ensure_future(due.wait())
        task.add_done_callback(lambda _: patience.reschedule(asyncio.get_running_loop().time()))
        await running
        await asyncio.sleep(1)


async def _grouped(running: Coroutine[Any, Any, Any], due: asyncio.Event) -> None:
    async def fails() -> None:
        await due.wait()
        raise ValueError("a sibling failed")

    async with asyncio.TaskGroup() as group:
        group.create_task(running)
        group.create_task(fails())


@pytest.mark.parametrize("way", ["twice", "timeout", "group"])
@pytest.mark.parametrize("boundary", SAVES)
async def test_cancelled_twice_during_a_save_it_is_saved_or_not(
    memory: Stage, boundary: str, way: str
) -> None:
    """O-045: a second cancellation during the save that a first one had caused lost the checkpoint. Each save
    is there as a whole or not at all, the cancellation goes up, and the run goes on.
    """
    world = World()

    @perdure.tool(effect="irreversible")
    async def pay(n: int) -> str:
        return str(world.act(f"paid {n}"))

    @pay.reconcile
    async def paid(n: int) -> Any:
        found = world.find(perdure.current_call().key)
        return perdure.Done(found) if found else perdure.NotDone()

    @perdure.tool(effect="irreversible", approval=perdure.Approval())
    async def gift(n: int) -> str:
        return str(world.act(f"given {n}"))

    async def step(run: Any) -> None:
        log = run.state["log"]
        log.append(await pay(len(log)))
        if len(log) == 1:
            await run.sleep(5)
        elif boundary == "run.hold" and len(log) == 2 and not world.lose:
            world.lose = -1
            raise ValueError("a bug")
        elif boundary == "approval.request" and len(log) == 2:
            log.append(await gift(2))
        else:
            run.finish(log)

    made = agent(step, pay, gift)
    memory.wrap(Lagging(memory.store, seconds=0.004))
    await _cancelled(way, boundary, memory.run(made))
    outcome: Any = None
    for _ in range(4):
        outcome = await memory.run(made)
        if outcome.status == "held":
            world.lose = 0
            async with memory.runtime(made) as place:
                await place.retry(RUN, by="ana")
                world.lose = -1
        for request in getattr(outcome, "approvals", ()):
            async with memory.runtime(made) as place:
                await place.approve(request.id, by=perdure.Principal("ana"))
    world.lose = 0
    assert outcome.status == "succeeded", outcome
    assert len(world) == len(outcome.result)
    await memory.blameless(world)


# ------------------------------------------------------------------------------------ a loop that is blocked

BLOCKING = """
agent = Agent("agent", state=dict, start=lambda goal: {})
LEASE = 0.5


@agent.tool(effect="irreversible")
async def pay(what: str) -> str:
    book("paid", current_call().key)
    return what


@agent.step
async def step(run):
    await pay("before")
    if run.goal == "block":
        book("blocks")
        time.sleep(0.9 if booked("blocks") == 1 else 0.0)
    run.finish(await pay("after"))


async def serve():
    async with Runtime(str(HERE / "runs.db"), [agent], lease_seconds=LEASE, workers=1) as runtime:
        if sys.argv[1] == "first":
            await runtime.start(agent, "r", "block")
            await runtime.start(agent, "other", "go")
        print("serving", flush=True)
        await opened("stop")


if __name__ == "__main__":
    asyncio.run(serve())
"""


@pytest.mark.crash
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_step_that_blocks_its_loop_loses_no_slot(field: Field, workers: int) -> None:
    """O-046: blocking code kept a worker's slot for good. Its lease runs out, which is seen; what it did is
    done once, a warning shows the line that blocks, and the other run of the same worker ends.
    """
    field.program(BLOCKING)
    places = [field.process("app.py", "first")]
    until(lambda: field.lines("blocks"), places[0])
    places += [field.process("app.py", "second") for _ in range(workers - 1)]
    assert await field.until_ended("r", "other") == ["succeeded", "succeeded"]
    field.open("stop")
    complaints = [place.communicate(timeout=30)[1] for place in places]
    assert [place.returncode for place in places] == [0] * workers, complaints
    assert len(field.lines("paid")) == len(set(field.lines("paid"))) == 4
    assert "time.sleep(0.9" in complaints[0], complaints[0]
