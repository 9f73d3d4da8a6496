"""A history cut into its steps: what each recorded, and how it ended."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from perdure import Agent, Runtime
from perdure.journal import history
from perdure.state import events as e
from perdure.store.memory import MemoryStore
from perdure.timeline.matching import recorded_calls
from perdure.timeline.steps import PastStep, past_steps

desk: Agent[Any, Any, Any] = Agent("desk", state=dict, start=lambda goal: {"seen": []})


@desk.tool(effect="read")
async def look(at: int) -> str:
    """Read."""
    return f"page {at}"


@desk.step
async def step(run: Any) -> None:
    at = len(run.state["seen"])
    run.state["seen"].append(await look(at))
    if at == 1:
        run.state["seen"].append(await run.wait("go"))
    if at > 1:
        run.finish("done")


async def _events(*, go: bool, cancel: bool = False) -> list[e.Event]:
    async with Runtime(MemoryStore(), [desk]) as place:
        await place.run(desk, "r", "goal", patience=timedelta(0))
        if go:
            await place.signal("r", "go", "went", id="1")
            await place.resume("r")
        if cancel:
            await place.cancel("r", by="ada")
            await place.resume("r")
        return await history(place.store, "r")


def events(*, go: bool, cancel: bool = False) -> list[e.Event]:
    """Of a run that waits in its second step, is let go, or is cancelled there."""
    return asyncio.run(_events(go=go, cancel=cancel))


def shape(steps: list[PastStep]) -> list[tuple[int, int, int, bool, str]]:
    """Of each step: number, calls, waits, whether it was committed, and how it ended the run."""
    return [
        (
            step.number,
            len(step.record.calls),
            len(step.record.waits),
            step.commit is not None,
            step.ending[0] if step.ending else "",
        )
        for step in steps
    ]


def test_committed_steps_and_the_end_of_the_run() -> None:
    found = list(past_steps(events(go=True)))
    assert shape(found) == [(1, 1, 0, True, ""), (2, 1, 1, True, ""), (3, 1, 0, True, "succeeded")]
    assert [step.after.state["seen"] for step in found if step.after] == [
        ["page 0"],
        ["page 0", "page 1", "went"],
        ["page 0", "page 1", "went", "page 3"],
    ]
    assert [step.record.state["seen"] for step in found][1:] == [
        step.after.state["seen"] for step in found[:-1] if step.after
    ]


def test_an_open_step_comes_last() -> None:
    assert shape(list(past_steps(events(go=False)))) == [(1, 1, 0, True, ""), (2, 1, 1, False, "")]


def test_a_step_that_was_cut_off_by_a_cancel_is_open() -> None:
    assert shape(list(past_steps(events(go=False, cancel=True)))) == [
        (1, 1, 0, True, ""),
        (2, 1, 1, False, ""),
    ]


def test_a_history_may_be_cut_anywhere() -> None:
    whole = events(go=True)
    for seq in range(1, len(whole)):
        steps = list(past_steps(whole[:seq]))
        assert all(step.seq <= seq for step in steps)
        assert all(step.commit is not None for step in steps[:-1])


def test_the_calls_that_were_recorded() -> None:
    found = recorded_calls(events(go=True))
    assert [(call.path, call.step, call.name, call.args, call.standing) for call in found] == [
        ("1:0", 1, "look", {"at": 0}, "done"),
        ("2:0", 2, "look", {"at": 1}, "done"),
        ("3:0", 3, "look", {"at": 3}, "done"),
    ]
