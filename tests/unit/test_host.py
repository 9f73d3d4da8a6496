"""A Runtime: how runs are started, carried, followed, told things, and how the place is closed."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Cancelled, Finished, Held, Principal, Run, Runtime, Waiting, tool, use
from perdure.errors import (
    BadArguments,
    BadPoint,
    BadSetting,
    NoSuchRun,
    NothingToResolve,
    NotServed,
    NotStorable,
    OtherGoal,
    RunEnded,
    ShapeMismatch,
    StoreClosed,
)
from perdure.host import PATIENCE
from perdure.journal import load
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Claim
from perdure.store.sqlite import SQLiteStore
from perdure.testing.clock import MovableClock
from tests.unit.runtime.desk import LEASE, Outside, agent_of, in_memory
from tests.unit.worker.test_worker import until


def napper(seconds: float = 3600.0) -> Any:
    """An agent that sleeps once, and ends."""

    async def step(run: Run[Any]) -> None:
        run.state["log"].append("awake")
        await run.sleep(seconds)
        run.finish("rested")

    return agent_of(step)


# ----------------------------------------------------------------------------------------------------- start


async def test_a_first_state_that_no_step_could_read_starts_no_run() -> None:
    made: Agent[Any, Any, Any] = Agent("clerk", state=dict[str, int], start=lambda goal: {"n": goal})
    async with Runtime(MemoryStore(), [made]) as runtime:
        with pytest.raises(ShapeMismatch, match=r"\$\.state\.n should be int") as caught:
            await runtime.start(made, "r", "five")
        assert "a start that returns" in (caught.value.remedy or "")
        assert "No run was started" in str(caught.value.safe)
        with pytest.raises(NoSuchRun):
            await runtime.store.row("r")


async def test_a_started_run_is_durable_before_start_returns(tmp_path: Path) -> None:
    """Law 9: another process finds it, with its goal and its principal."""
    made = napper()
    async with Runtime(str(tmp_path / "runs.db"), [made]) as runtime:
        row = await runtime.start(made, "r", "go", principal=Principal("ada", frozenset({"b", "a"})))
        assert (row.status, row.worker, row.seq, row.agent) == ("ready", None, 1, "clerk")
        other = SQLiteStore(tmp_path / "runs.db")
        await other.open()
        [found] = await other.claim(Claim("other", 5.0, {"clerk": frozenset()}))
        assert found.row.run_id == "r"
        await other.close()


async def test_starting_twice_is_once_and_starting_at_once_too() -> None:
    desk, made = in_memory(), napper()
    async with desk.runtime(made) as runtime:
        rows = await asyncio.gather(*(runtime.start(made, "r", "go") for _ in range(8)))
        assert {(row.run_id, row.seq) for row in rows} == {("r", 1)}
        await runtime.start(made, "r", "go")
        assert len(await desk.events()) == 1


async def test_an_ended_run_is_started_no_second_time() -> None:
    desk, made = in_memory(), napper(0.0)
    async with desk.runtime(made) as runtime:
        assert (await runtime.run(made, "r", "go")).unwrap() == "rested"
        before = await desk.events()
        row = await runtime.start(made, "r", "go")
        assert (row.status, row.terminal) == ("succeeded", True)
        with pytest.raises(OtherGoal, match="was started for 'go', not for 'else'"):
            await runtime.start(made, "r", "else")
        assert await desk.events() == before


async def test_a_goal_that_cannot_be_kept_starts_nothing() -> None:
    desk, made = in_memory(), napper()
    async with desk.runtime(made) as runtime:
        goals: list[Any] = [object(), 5]
        with pytest.raises(NotStorable):
            await runtime.start(made, "r", goals[0])
        with pytest.raises(ShapeMismatch):
            await runtime.start(made, "r", goals[1])
        with pytest.raises(NoSuchRun):
            await desk.store.row("r")


# ------------------------------------------------------------------------------------------------ run, resume


async def test_a_short_wait_is_sat_through_and_a_longer_one_is_told() -> None:
    """`run` returns what the run waits for, and until when; the lease is given back meanwhile."""
    desk = in_memory()
    made = napper(PATIENCE.total_seconds() + 60)
    async with desk.runtime(made) as runtime:
        began = desk.store.now()
        waiting = await runtime.run(made, "r", "go")
        assert isinstance(waiting, Waiting)
        assert waiting.until is not None
        assert waiting.until.timestamp() * 1e6 == pytest.approx(began + 120e6, abs=1e6)
        assert waiting.reasons == ("sleep at 1:0",)
        row = await desk.store.row("r")
        assert (row.status, row.worker) == ("waiting", None)
        desk.clock.advance(119)
        assert (await runtime.run(made, "r", "go", patience=timedelta(0))).status == "waiting"
        desk.clock.advance(1)
        assert (await runtime.run(made, "r", "go", patience=timedelta(0))).unwrap() == "rested"


async def test_a_message_wakes_a_runtime_that_sits_through_a_wait() -> None:
    """At once: on this clock no time passes at all."""
    clock, made = MovableClock(), napper(3600.0)
    store = MemoryStore(clock=clock)
    async with Runtime(store, [made], clock=clock) as runtime:
        sitting = asyncio.create_task(runtime.run(made, "r", "go", patience=timedelta(days=1)))
        await until(lambda: _status(store) == "waiting")
        for _ in range(50):  # it has settled down to wait
            await asyncio.sleep(0)
        await runtime.cancel("r", by="ada")
        await until(sitting.done)
        assert sitting.result() == Cancelled("ada", run_id="r")


def _status(store: MemoryStore) -> str:
    """The run's status, without letting anybody go on."""
    found = store._runs.get("r")
    return "" if found is None else str(found.standing.status)


async def test_resume_carries_on_what_is_there_and_served() -> None:
    desk, made = in_memory(), napper(0.0)
    async with desk.runtime() as stranger, desk.runtime(made) as runtime:
        with pytest.raises(NoSuchRun):
            await runtime.resume("r")
        await runtime.start(made, "r", "go")
        with pytest.raises(NotServed, match="needs agent clerk"):
            await stranger.resume("r")
        assert (await runtime.resume("r")).unwrap() == "rested"
        with pytest.raises(NotServed):
            await stranger.resume("r")


async def test_to_ask_for_an_outcome_drives_nothing_and_writes_nothing() -> None:
    """Law 14; also of an agent that is not served here, whose result comes as plain data."""
    desk, made = in_memory(), napper()
    async with desk.runtime() as stranger, desk.runtime(made) as runtime:
        with pytest.raises(NoSuchRun):
            await stranger.outcome("r")
        await runtime.start(made, "r", "go")
        row = await desk.store.row("r")
        assert (await stranger.outcome("r")).status == "waiting"
        assert await desk.store.row("r") == row
        await runtime.run(made, "r", "go")
        desk.clock.advance(3600)
        row = await desk.store.row("r")
        assert (await runtime.outcome("r")).status == "waiting"
        assert await desk.store.row("r") == row
        await runtime.run(made, "r", "go")
        assert await stranger.outcome("r") == Finished("rested", run_id="r")


async def test_the_state_at_a_point_is_that_of_the_last_commit_before_it() -> None:
    async def step(run: Run[Any]) -> None:
        run.state["n"] = run.state.get("n", 0) + 1
        if run.state["n"] == 3:
            run.finish()

    async with Runtime(MemoryStore(), [agent := agent_of(step)]) as runtime:
        await runtime.run(agent, "r", "go")
        commits = [event.seq async for event in runtime.follow("r") if event.kind == "step.committed"]
        assert [(await runtime.state_at("r", seq))["n"] for seq in commits] == [1, 2, 3]
        assert "n" not in await runtime.state_at("r", commits[0] - 1)
        assert (await runtime.state_at("r"))["n"] == 3
        with pytest.raises(BadPoint):
            await runtime.state_at("r", 99)


async def test_many_who_run_one_run_in_one_process_drive_it_once() -> None:
    """One claims it, the others follow; all have the same outcome."""
    desk, outside = in_memory(), Outside()

    @tool()
    async def pay(cents: int) -> str:
        await asyncio.sleep(0.01)
        return str(outside.act("paid"))

    async def step(run: Run[Any]) -> None:
        run.finish(await pay(5))

    made = agent_of(step, pay)
    async with desk.runtime(made) as one, desk.runtime(made) as other:
        places = [one, other] * 4
        outcomes = await asyncio.gather(*(place.run(made, "r", "go") for place in places))
        assert outcomes == [Finished("paid", run_id="r")] * 8
    assert outside.done == ["paid"]
    assert (await desk.record()).resumes == 0


# --------------------------------------------------------------------------------------------- told by people


async def test_messages_to_runs_that_are_not_there_or_have_ended_are_refused() -> None:
    desk, made = in_memory(), napper(0.0)
    async with desk.runtime(made) as runtime:
        verbs: list[Any] = [
            lambda: runtime.cancel("r", by="ada"),
            lambda: runtime.release("r", by="ada"),
            lambda: runtime.retry("r", by="ada"),
        ]
        for verb in verbs:
            with pytest.raises(NoSuchRun):
                await verb()
        with pytest.raises(NoSuchRun):
            await runtime.resolve("r", "1:0", by="ada", not_done=True)
        await runtime.run(made, "r", "go")
        before = await desk.events()
        for verb in verbs:
            with pytest.raises(RunEnded, match="has ended as succeeded"):
                await verb()
        with pytest.raises(NothingToResolve):
            await runtime.resolve("r", "1:0", by="ada", not_done=True)
        assert await desk.events() == before
        assert (await desk.store.row("r")).pending == 0


@pytest.mark.parametrize(
    "verdicts", [{}, {"done": 1, "not_done": True}, {"not_done": True, "failed": "no"}, {"not_done": False}]
)
async def test_exactly_one_verdict_is_taken(verdicts: dict[str, Any]) -> None:
    desk, made = in_memory(), napper()
    async with desk.runtime(made) as runtime:
        await runtime.start(made, "r", "go")
        with pytest.raises(BadArguments, match="exactly one"):
            await runtime.resolve("r", "1:0", by="ada", **verdicts)


async def test_a_cancelled_run_that_nobody_drives_ends_at_once_and_a_second_cancel_is_refused() -> None:
    desk, made = in_memory(), napper()
    async with desk.runtime(made) as runtime, desk.runtime() as stranger:
        await runtime.run(made, "r", "go")
        assert await stranger.cancel("r", by="ada", note="enough")
        assert await stranger.outcome("r") == Cancelled("ada", "enough", run_id="r")
        with pytest.raises(RunEnded):
            await stranger.cancel("r", by="bob")
        assert [fact.by for fact in await desk.facts(e.CancelRequested)] == ["ada"]


async def test_a_run_that_was_only_started_can_be_cancelled_and_its_step_never_runs() -> None:
    desk, made = in_memory(), napper()
    async with desk.runtime(made) as runtime:
        await runtime.start(made, "r", "go")
        assert await runtime.cancel("r", by="ada")
        assert await runtime.run(made, "r", "go") == Cancelled("ada", run_id="r")
        assert (await desk.record()).state == {"log": []}


async def test_a_retry_from_the_start_of_the_step_is_refused_where_something_acts() -> None:
    """Only a step of reads may forget what it recorded."""
    desk, outside, broken = in_memory(), Outside(), [True]

    @tool()
    async def pay(cents: int) -> str:
        return str(outside.act("paid"))

    async def step(run: Run[Any]) -> None:
        run.state["log"].append(await pay(5))
        if broken:
            raise ValueError("wrong")
        run.finish("well")

    made = agent_of(step, pay)
    async with desk.runtime(made) as runtime:
        assert isinstance(await runtime.run(made, "r", "go"), Held)
        with pytest.raises(NothingToResolve, match="cannot begin anew: a call in it acts"):
            await runtime.retry("r", by="ada", restart=True)
        broken.clear()
        await runtime.retry("r", by="ada", note="mended")
        assert (await runtime.run(made, "r", "go")).unwrap() == "well"
    assert outside.done == ["paid"]
    assert [(fact.by, fact.how, fact.note) for fact in await desk.facts(e.RunReleased)] == [
        ("ada", "retry", "mended")
    ]


# ---------------------------------------------------------------------------------------------------- closing


class Failing(MemoryStore):
    """A store in memory whose `due` has a fault that is no StoreError."""

    async def due(self, agents: Any = None) -> int:
        """Fail."""
        raise ZeroDivisionError("a fault")


async def test_what_ended_the_worker_is_raised_when_the_place_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And said at once: a server with no worker looks well otherwise."""
    made = napper()
    store = Failing()
    with caplog.at_level(logging.CRITICAL, "perdure.host"), pytest.raises(ZeroDivisionError):
        async with Runtime(store, [made], workers=2):
            await until(lambda: caplog.records)
            assert "the worker has ended" in caplog.text
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]


async def test_a_server_ends_with_its_worker_or_when_it_is_told() -> None:
    """A command that serves must not stand there with a dead worker."""
    made, stop = napper(), asyncio.Event()
    with pytest.raises(ZeroDivisionError):
        async with Runtime(Failing(), [made], workers=1) as runtime:
            await runtime.serve(stop)
    for workers in (0, 1):
        stop.clear()
        async with Runtime(MemoryStore(), [made], workers=workers) as runtime:
            serving = asyncio.create_task(runtime.serve(stop))
            await asyncio.sleep(0.01)
            assert not serving.done()
            stop.set()
            await serving


async def test_an_error_of_the_body_comes_first_and_tells_of_the_workers() -> None:
    made = napper()
    with pytest.raises(LookupError, match="of the body") as caught:
        async with Runtime(Failing(), [made], workers=1):
            await asyncio.sleep(0.01)
            raise LookupError("of the body")
    assert caught.value.__notes__ == ["meanwhile the worker had ended: ZeroDivisionError('a fault')"]


@pytest.mark.parametrize("fault", [False, True])
async def test_a_place_closes_what_it_opened_and_nothing_else(fault: bool) -> None:
    """Providers and the store that it made; a store that it was given stays open; also if a worker failed."""
    closed: list[str] = []

    async def bank() -> Any:
        yield "the bank"
        closed.append("bank")

    @tool(effect="read")
    async def look(at: str, bank: str = use(bank)) -> str:
        return f"{at} at {bank}"

    async def step(run: Run[Any]) -> None:
        run.finish(await look("money"))

    made = agent_of(step, look)
    store = Failing() if fault else MemoryStore()
    try:
        async with Runtime(store, [made], workers=1 if fault else 0) as runtime:
            assert (await runtime.run(made, "r", "go")).unwrap() == "money at the bank"
            assert closed == []
    except ZeroDivisionError:
        assert fault
    assert closed == ["bank"]
    assert (await store.row("r")).terminal
    async with Runtime("memory:", [made]) as own:
        await own.start(made, "r", "go")
    with pytest.raises(StoreClosed):
        await own.store.row("r")


async def test_a_place_that_closes_while_a_run_is_driven_gives_its_lease_back() -> None:
    """What is recorded is kept; the next process goes on without waiting for the lease to run out."""
    desk, outside, gate = in_memory(), Outside(), asyncio.Event()

    @tool(effect="idempotent")
    async def book(what: str) -> str:
        return str(outside.act(what))

    async def step(run: Run[Any]) -> None:
        await book("a")
        await gate.wait()
        run.finish(await book("b"))

    made = agent_of(step, book)
    async with desk.runtime(made) as runtime:
        driving = asyncio.create_task(runtime.run(made, "r", "go"))
        await until(lambda: outside.acts)
        driving.cancel()
        await asyncio.wait([driving])
    row = await desk.store.row("r")
    assert (row.worker, row.claims) == (None, 0)
    gate.set()
    assert (await desk.run(made)).unwrap() == "b"
    assert outside.done == ["a", "b"]
    assert desk.clock.monotonic() < LEASE
    assert (await load(desk.store, "r")).record.ended == "succeeded"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_place_that_was_closed_is_opened_again(tmp_path: Path, workers: int) -> None:
    """In its loop or another one, as another incarnation, with threads of its own."""

    @tool(effect="irreversible")
    def count(number: int) -> int:
        return number + 1

    async def step(run: Run[Any]) -> None:
        run.finish(str(await run.call(count, 1)))

    made = agent_of(step, count)
    place = Runtime(str(tmp_path / "runs.db"), [made], workers=workers)
    names = set()

    async def life(run_id: str) -> None:
        async with place:
            names.add(place.host.worker)
            assert await place.run(made, run_id, "go") == Finished("2", run_id=run_id)
            with pytest.raises(BadSetting, match="open already"):
                async with place:
                    pass
            assert await place.run(made, run_id, "go") == Finished("2", run_id=run_id)

    async def twice() -> None:
        await life("a")
        await life("b")

    asyncio.run(twice())
    asyncio.run(life("c"))
    assert len(names) == 3
