"""Tries and limits that are counted wrongly, or not at all."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import perdure
from perdure.agent import Done, NotDone
from perdure.runtime.runner import POISON_CLAIMS
from tests.cases.field import Field, until
from tests.unit.runtime.stage import LEASE, Crash, Stage, agent

DEADLY = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool(effect="read")
async def look() -> str:
    return "seen"


@agent.step
async def step(run):
    await look()
    book("tries")
    die()
"""


@pytest.mark.crash
async def test_a_step_that_kills_its_worker_is_given_up(field: Field) -> None:
    """O-064: the counter of tries was kept under an id that changed each time, so that the limit never took
    effect. Two workers are started again and again; after a fixed number of tries the run is held as poison,
    with the reason and a way out, and nobody tries again.
    """
    field.program(DEADLY)
    code, _, complaint = field.perdure("run", "app.py", "go", "--id", "r", "--detach", "--store", str(field.store))
    assert code in (0, 4), complaint
    for _ in range(POISON_CLAIMS + 3):
        pair = [field.worker(), field.worker()]
        tried = len(field.lines("tries"))
        while all(worker.poll() is None for worker in pair):
            row, record, _ = await field.told()
            if record.held is not None:
                break
        if record.held is not None:
            break
        until(lambda tried=tried: len(field.lines("tries")) > tried)  # type: ignore[misc]
        for worker in pair:
            worker.kill()
            worker.communicate()
    row, record, _ = await field.told()
    assert record.held is not None
    assert (row.status, record.held.reason, len(field.lines("tries"))) == ("held", "poison", POISON_CLAIMS)
    assert "claimed" in record.held.detail
    assert any(remedy.startswith("perdure retry") for remedy in record.held.remedies)
    why = field.asked("why", "r")
    assert "poison" in str(why)


def _deadly(where: str) -> Any:
    """An agent that ends its process at one place, always."""

    def die() -> None:
        raise Crash(where)

    @perdure.tool(effect="read")
    async def look() -> str:
        if where == "read":
            die()
        return "seen"

    @perdure.tool(effect="idempotent")
    async def book() -> str:
        if where == "idempotent":
            die()
        return "booked"

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        if where in ("hook", "irreversible"):
            die()
        return "paid"

    if where == "hook":

        @pay.reconcile
        async def paid() -> Done[str] | NotDone:
            raise Crash("hook")

    async def step(run: Any) -> None:
        run.now(), run.random()
        await look()
        if where == "draws":
            run.new_id()
            die()
        await book()
        if where == "branch":
            await run.gather(look(), _dying(die))
        if where == "wait":
            await run.sleep(0)
            die()
        await pay()
        die()

    async def _dying(how: Any) -> None:
        how()

    return agent(step, look, book, pay)


@pytest.mark.parametrize(
    "where", ["read", "idempotent", "hook", "irreversible", "draws", "branch", "wait", "end"]
)
async def test_wherever_a_run_kills_its_worker_it_is_given_up(stage: Stage, where: str) -> None:
    """O-064: in a body of each class, in a hook, after draws, in a branch, behind a wait that has ended."""
    made = _deadly(where)
    for _ in range(POISON_CLAIMS + 4):
        with suppress(Crash):
            outcome = await stage.run(made)
            break
        stage.clock.advance(LEASE + 1)
    else:
        raise AssertionError("it was tried for ever")
    assert outcome.status == "held", outcome
    assert outcome.reason == ("unknown-outcome" if where in ("irreversible", "end") else "poison")
