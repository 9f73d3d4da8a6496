"""Cancelling a run that nobody drives, from a process that does not know its agent."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure import Agent, Cancelled, Held, Run, Runtime, Waiting
from perdure.journal import history, verify
from perdure.state.events import CallReconciled
from perdure.testing.clock import MovableClock

sleeper = Agent("sleeper", state=dict, result=int)


@sleeper.step
async def step(run: Run[dict[str, Any], str, int]) -> None:
    """Pay, unless the goal is to sleep only, then wait for a day."""
    if run.goal == "pay":
        await pay(5)
    await run.sleep(timedelta(days=1))
    run.finish(1)


@sleeper.tool(effect="irreversible")
async def pay(cents: int) -> str:
    """Lose the reply."""
    raise ConnectionError("the bank hung up")


async def _run(store: Path, goal: str) -> Any:
    async with Runtime(str(store), [sleeper]) as runtime:
        return await runtime.run(sleeper, "r-1", goal, patience=timedelta(0))


async def test_a_waiting_run_ends_at_once(tmp_path: Path) -> None:
    """Nothing in it is open, so its agent is not needed."""
    store = tmp_path / "runs.db"
    assert isinstance(await _run(store, "sleep"), Waiting)
    async with Runtime(str(store)) as stranger:
        await stranger.cancel("r-1", by="ana", note="no longer needed")
        assert await stranger.outcome("r-1") == Cancelled("ana", "no longer needed", run_id="r-1")
        assert [event.kind for event in await history(stranger.store, "r-1")][-2:] == [
            "cancel.requested",
            "run.finished",
        ]
        assert (await verify(stranger.store, "r-1")).ok


async def test_an_open_call_is_left_to_a_worker(tmp_path: Path) -> None:
    """A run whose call has no known outcome does not end before somebody says what became of it."""
    store = tmp_path / "runs.db"
    assert isinstance(await _run(store, "pay"), Held)
    async with Runtime(str(store)) as stranger:
        await stranger.cancel("r-1", by="ana")
        assert not (await stranger.store.row("r-1")).terminal
        await stranger.resolve("r-1", "1:0", not_done=True, by="ana")
    async with Runtime(str(store), [sleeper]) as runtime:
        assert isinstance(await runtime.resume("r-1"), Cancelled)


@sleeper.tool(effect="idempotent")
async def note(text: str) -> str:
    """Lose the reply."""
    raise ConnectionError("the wiki hung up")


stuck = Agent("stuck", state=dict, result=int, tools=[note])


@stuck.step
async def stuck_step(run: Run[dict[str, Any], str, int]) -> None:
    """Raise after an idempotent call whose reply never comes."""
    await run.gather(note("x"), _fault())


async def _fault() -> None:
    raise RuntimeError("a fault in the step")


async def test_a_cancelled_run_is_not_kept_by_its_hold(tmp_path: Path) -> None:
    """Held or not, it ends; an idempotent call that may not be sent again is left unknown, and says so."""
    store, clock = str(tmp_path / "runs.db"), MovableClock(hurried=True)
    async with Runtime(store, [stuck], clock=clock) as runtime:
        assert isinstance(await runtime.run(stuck, "r-1", "go"), Held)
        await runtime.cancel("r-1", by="ana")
        assert isinstance(await runtime.resume("r-1"), Cancelled)
        [verdict] = [
            event.body for event in await history(runtime.store, "r-1") if event.kind == "call.reconciled"
        ]
        assert isinstance(verdict, CallReconciled)
        assert verdict.verdict == "left-unknown"
