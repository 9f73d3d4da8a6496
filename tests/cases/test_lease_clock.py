"""A worker that stands still, and one that goes on."""

from __future__ import annotations

import signal

import pytest

from perdure.state import events as e
from tests.cases.field import Field
from tests.processes import said, until

pytestmark = [pytest.mark.crash, pytest.mark.parametrize("field", ["sqlite", "postgres"], indirect=True)]

LONG = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool()
async def pay() -> str:
    book("paid")
    if is_open("block"):
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        for _ in range(9):
            await asyncio.sleep(0.5)
    return "paid"


@agent.step
async def step(run):
    run.finish(await pay())


if __name__ == "__main__":
    run_here(agent, lease=2.0)
"""


async def test_a_call_that_outlasts_its_lease_is_made_once_while_it_beats(field: Field) -> None:
    """O-006: calls that took long were dispatched again while the first was still running. A call of more
    than twice its lease, and another process that wants the run: one call, one owner.
    """
    field.program(LONG)
    first = field.process("app.py")
    until(lambda: field.lines("paid"), first)
    second = field.process("app.py")
    assert said(first) == said(second) == "succeeded"
    assert len(field.lines("paid")) == 1
    row, record, _ = await field.told()
    assert (row.epoch, record.spent.calls) == (1, 1)


async def test_a_call_whose_worker_stands_still_is_not_made_again(field: Field) -> None:
    """O-006, O-040: its lease ends while it cannot beat. The second process does not call the tool: the
    outcome is unknown, and the run held. What the first one brings when it wakes is refused under its old
    lease, and taken as a late result.
    """
    field.program(LONG)
    field.open("block")
    first = field.process("app.py")
    until(lambda: field.lines("paid"), first)
    (field.folder / "block").unlink()
    second = field.process("app.py")
    assert said(second) == "held"
    assert [fact.cause for fact in await field.facts(e.CallUnknown)] == ["crash"]
    first.send_signal(signal.SIGCONT)
    assert said(first) == "succeeded"
    _, record, facts = await field.told()
    assert record.ended == "succeeded"
    assert len(field.lines("paid")) == 1
    assert [fact.used for fact in facts if isinstance(fact, e.CallLate)] == [True]
    assert not [fact for fact in facts if isinstance(fact, e.CallSettled)]
