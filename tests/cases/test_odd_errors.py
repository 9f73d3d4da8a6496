"""What user code raises is told of its own run, whatever it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Agent, NotDone, tool
from tests.unit.runtime.stage import RUN, Stage, agent


class Mute(Exception):
    """It fails even at saying what happened."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


ODD = {"stop": StopIteration(4), "exit": SystemExit(2), "mute": Mute()}
WHERE = ("step", "branch", "read", "act", "async", "hook", "transaction")


def _raising(where: str, odd: BaseException) -> Agent[Any, Any, Any]:
    """An agent whose code raises this there."""

    def out(place: str) -> None:
        if place == where:
            raise odd

    @tool(effect="read")
    def read() -> None:
        out("read")

    @tool(effect="irreversible")
    def act() -> None:
        out("act")

    @tool(effect="irreversible")
    async def later() -> None:
        out("async")
        if where == "hook":
            raise ConnectionError("the reply never came")

    @later.reconcile
    def look() -> NotDone:
        out("hook")
        return NotDone()

    @tool(effect="transactional")
    def within() -> None:
        out("transaction")

    async def step(run: Any) -> None:
        out("step")

        async def branch() -> None:
            out("branch")

        await run.gather(branch(), run.call(read))
        await run.call(act)
        if where == "transaction":
            await run.call(within)
        await later()
        run.finish("whole")

    return agent(step, read, act, later, within, name=f"{where}-raises")


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("odd", ODD)
async def test_whatever_user_code_raises_holds_its_own_run(sqlite: Stage, odd: str, where: str) -> None:
    """A plain function that raised StopIteration (a `next` that found nothing) hung its run for good: no
    future carries that. A library's exit ended every run of the process where it left a step, and an error
    that fails even at its text left its run as it was, to be claimed and to fail again and again.
    """
    made = _raising(where, ODD[odd])

    async def step(run: Any) -> None:
        run.finish("unharmed")

    async with asyncio.timeout(20), sqlite.runtime(made) as place:
        held: Any = await place.run(made, RUN, "go")
    assert held.status == "held", held
    reasons = {"act": "unknown-outcome", "async": "tool-error", "hook": "unknown-outcome"}
    assert held.reason == reasons.get(where, "step-error"), held
    row = await sqlite.store.row(RUN)
    assert (row.status, row.worker) == ("held", None)
    assert (await sqlite.run(agent(step), run_id="beside")).unwrap() == "unharmed"


async def test_a_hold_tells_what_a_person_can_read(memory: Stage) -> None:
    """An error with twenty megabytes of text was kept in the hold whole, and `why` never came to an end."""
    made = _raising("step", ValueError("e" * 5_000_000))
    held: Any = await memory.run(made)
    assert held.reason == "step-error"
    assert held.detail.startswith("ValueError: eee")
    assert ".py:" in held.detail
    assert len(held.detail) < 3_000
