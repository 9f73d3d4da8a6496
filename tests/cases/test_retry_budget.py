"""Tries and limits that are counted wrongly, or not at all."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import perdure
from perdure.agent import Done, NotDone
from perdure.runtime.holds import POISON_CLAIMS
from tests.cases.field import Field
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
    code, _, complaint = field.perdure(
        "run", "app.py", "go", "--id", "r", "--detach", "--store", str(field.store)
    )
    assert code in (0, 4), complaint
    held: Any = None
    for _ in range(POISON_CLAIMS + 3):
        pair = [field.worker(), field.worker()]
        while held is None and any(worker.poll() is None for worker in pair):
            held = (await field.told())[1].held
        if held is not None:
            break
    assert held is not None
    assert (held.reason, len(field.lines("tries"))) == ("poison", POISON_CLAIMS)
    assert "died: its process is gone, in step 1" in held.detail
    assert any(remedy.startswith("perdure retry") for remedy in held.remedies)
    assert "poison" in str(field.asked("why", "r"))


class Death(Crash, GeneratorExit):
    """The same inside a body: what a body raises by itself is a fact of its call, this is not."""


def _deadly(where: str) -> Any:
    """An agent that ends its process at one place, always."""

    def die(*places: str) -> None:
        if where in places:
            raise Death(where)

    @perdure.tool(effect="read")
    async def look() -> str:
        die("read")
        return "seen"

    @perdure.tool(effect="idempotent")
    async def book() -> str:
        die("idempotent")
        return "booked"

    @perdure.tool(effect="irreversible")
    async def pay() -> str:
        die("hook", "irreversible")
        return "paid"

    if where == "hook":

        @pay.reconcile
        async def paid() -> Done[str] | NotDone:
            raise Death("hook")

    async def dying() -> None:
        die("branch")

    async def step(run: Any) -> None:
        run.now(), run.random()
        await look()
        die("draws")
        await book()
        await run.gather(look(), dying())
        await run.sleep(0)
        die("wait")
        await pay()
        die("end")

    return agent(step, look, book, pay)


@pytest.mark.parametrize(
    "where", ["read", "idempotent", "hook", "irreversible", "draws", "branch", "wait", "end"]
)
async def test_wherever_a_run_kills_its_worker_it_is_given_up(stage: Stage, where: str) -> None:
    """O-064: in a body of each class, in a hook, after draws, in a branch, behind a wait that has ended."""
    made = _deadly(where)
    for _ in range(3 * POISON_CLAIMS + 4):  # a draw that a slow process wrote in time is progress, once
        with suppress(Crash):
            outcome = await stage.run(made)
            break
        stage.clock.advance(LEASE + 1)
    else:
        raise AssertionError("it was tried for ever")
    assert outcome.status == "held", outcome
    assert outcome.reason == ("unknown-outcome" if where in ("irreversible", "end") else "poison")
