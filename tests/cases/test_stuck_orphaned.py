"""Runs that a dead or a leaving worker took with it."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from perdure.state import events as e
from tests.cases.field import Field
from tests.processes import said, until

pytestmark = pytest.mark.parametrize("field", ["sqlite", "postgres"], indirect=True)

MANY = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool(effect="idempotent")
async def work(n: int) -> int:
    book("begun", f"{n} {os.getpid()}")
    await opened("open")
    return n


@agent.tool(effect="irreversible", approval=Approval(expires=timedelta(hours=9)))
async def pay(n: int) -> int:
    book("paid", f"{n}")
    return n


@agent.step
async def step(run):
    if run.goal.startswith("ask"):
        run.finish(await pay(1))
    else:
        run.finish(await work(int(run.goal)))


async def main(many):
    async with Runtime(STORE, [agent]) as runtime:
        for goal in many:
            await runtime.start(agent, f"r-{goal}", goal)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
"""


def _started(field: Field, *goals: str) -> None:
    field.program(MANY)
    assert said(field.process("app.py", *goals)) == ""


@pytest.mark.crash
async def test_no_run_vanishes_with_the_worker_that_took_it(field: Field) -> None:
    """O-003: a task was taken off the queue before it was done, so that a kill made it disappear. A worker
    takes five of twenty and is killed: the next one ends all twenty.
    """
    goals = [str(n) for n in range(20)]
    _started(field, *goals)
    worker = field.worker(concurrency=5)
    until(lambda: len(field.lines("begun")) == 5, worker)
    worker.kill()
    worker.communicate()
    field.open("open")
    field.worker()
    assert await field.until_ended(*(f"r-{goal}" for goal in goals)) == ["succeeded"] * 20
    begun = [line.split()[0] for line in field.lines("begun")]
    assert len(begun) == 25
    assert sorted(set(begun), key=int) == goals


@pytest.mark.crash
async def test_a_killed_workers_place_is_free_again(field: Field) -> None:
    """O-061: a killed worker's run stayed `running` and took up a place for good. One place, a kill in the
    middle of a step, one more run: both end at the next worker, which has one place too.
    """
    _started(field, "1", "2")
    worker = field.worker(concurrency=1)
    until(lambda: field.lines("begun"), worker)
    worker.kill()
    worker.communicate()
    field.open("open")
    field.worker(concurrency=1)
    assert await field.until_ended("r-1", "r-2") == ["succeeded"] * 2


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_that_is_told_to_end_cancels_nothing(field: Field, number: signal.Signals) -> None:
    """O-062: an orderly stop marked waiting runs as cancelled. Three runs wait for a permission and one is in
    a step: those stay waiting, this one ends or is given back, and only a person's cancel says `cancelled`.
    """
    _started(field, "ask-1", "ask-2", "ask-3", "7")
    worker = field.worker()
    asking = [f"r-ask-{n}" for n in (1, 2, 3)]
    for run_id in asking:
        await field.until(run_id, lambda row, record, facts: row.status == "waiting")
    until(lambda: field.lines("begun"), worker)
    worker.send_signal(number)
    field.open("open")
    _, complaint = worker.communicate(timeout=30)
    assert worker.returncode in (0, 130), complaint
    for run_id in asking:
        row, record, facts = await field.told(run_id)
        assert (row.status, row.worker, record.cancel, record.held) == ("waiting", None, None, None)
        assert not _cancels(facts)
    row, record, facts = await field.told("r-7")
    assert row.worker is None
    assert not _cancels(facts)
    field.worker()
    assert await field.until_ended("r-7") == ["succeeded"]
    code, _, complaint = field.perdure("cancel", "r-ask-1", "--store", str(field.store))
    assert code == 0, complaint
    assert await field.until_ended("r-ask-1") == ["cancelled"]
    assert not field.lines("paid")


def _cancels(facts: list[Any]) -> list[Any]:
    return [
        fact
        for fact in facts
        if isinstance(fact, e.CancelRequested | e.RunFinished)
        and (isinstance(fact, e.CancelRequested) or fact.status == "cancelled")
    ]
