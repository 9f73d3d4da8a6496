"""Removing what is over: what was lost, half removed or came back elsewhere."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import apsw
import pytest

from perdure.state import events as e
from tests.cases.field import Field
from tests.processes import said, until

GATED = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool(effect="irreversible", approval=Approval())
async def pay(n: int) -> str:
    book("paid", f"no {n}")
    return f"paid {n}"


@agent.step
async def step(run):
    run.finish(await run.gather(*(pay(n) for n in range(3))))
"""

SHORT = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool(effect="irreversible")
async def work(goal: str) -> str:
    book("worked", goal)
    return goal


@agent.step
async def step(run):
    run.finish(await work(run.goal))
"""


@pytest.mark.crash
async def test_what_an_open_run_still_needs_is_never_pruned(field: Field) -> None:
    """O-017: three gated calls side by side, one permitted and made. Whatever is pruned, the one made is not
    made again, and the two others can still be answered; it is said what stayed and why.
    """
    field.program(GATED)
    run = ("run", "app.py", "go", "--id", "r", "--store", str(field.store))
    assert field.perdure(*run)[0] == 4
    asked = await field.facts(e.ApprovalRequested)
    field.asked("approve", asked[0].id)
    assert field.perdure(*run)[0] == 4
    assert len(field.lines("paid")) == 1
    told = field.asked("prune", "--yes")
    assert (told["runs"], told["removed"]) == ([], 0)
    code, refused, _ = field.perdure("prune", "r", "--yes", "--store", str(field.store))
    assert code == 1
    assert "stays: r, it has not ended: waiting" in refused
    for one in asked[1:]:
        field.asked("approve", one.id)
    assert field.perdure(*run)[0] == 0
    assert sorted(field.lines("paid")) == ["no 0", "no 1", "no 2"]


KILLED = """
import sys
from perdure.store import open_store
from perdure.timeline import pruning

async def main():
    store = open_store(str(HERE / "runs.db"))
    await store.open()
    plan = await pruning.planned(store, pruning.Rule())
    def each(row):
        book("removed", row.run_id)
        if booked("removed") == 5:
            die()
    await pruning.prune(store, plan.rows, each=each)

asyncio.run(main())
"""


def _rows(path: Path) -> dict[str, int]:
    """How many rows each table has for runs that the run table does not know."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    orphan = "NOT IN (SELECT run_no FROM perdure_run)"
    try:
        return {
            table: connection.execute(f"SELECT count(*) FROM perdure_{table} WHERE {column} {orphan}").get
            for table, column in (
                ("event", "key >> 32"),
                ("snapshot", "key >> 32"),
                ("inbox", "run_no"),
                ("blob", "run_no"),
            )
        }
    finally:
        connection.close()


@pytest.mark.crash
def test_an_id_has_one_life_and_a_killed_collector_is_carried_on(field: Field) -> None:
    """O-018: a collector that is killed leaves runs that are whole and runs that are gone, nothing between.
    The next one finishes. A removed id is refused to a new run, which could else be given a former life's
    results.
    """
    field.program(SHORT)
    app = (field.folder / "app.py").read_text()
    (field.folder / "make.py").write_text(
        app + '\nfor n in range(20):\n    run_here(agent, f"r{n}", f"g{n}")\n'
    )
    (field.folder / "collect.py").write_text(app + KILLED)
    said(field.process("make.py"))
    assert said(field.process("collect.py")) == "killed"
    left = [run["run_id"] for run in field.asked("runs")["runs"]]
    assert 0 < len(left) <= 15
    assert set(_rows(field.file).values()) == {0}
    assert field.asked("verify")["ok"]
    field.asked("prune", "--yes")
    assert field.asked("runs")["runs"] == []
    again = ("run", "app.py", "another goal", "--id", "r1", "--store", str(field.store))
    code, _, complaint = field.perdure(*again)
    assert (code, "S113" in complaint) == (3, True), complaint
    assert "another goal" not in field.lines("worked")
    assert len(field.lines("worked")) == 20


SLOW = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool(effect="irreversible")
async def work() -> str:
    book("begun")
    while not is_open("go on"):
        time.sleep(0.01)  # it keeps the loop: who wakes up hears of the lost lease when the act is over
    book("worked")
    return "done"


@agent.step
async def step(run):
    run.finish(await work())


if __name__ == "__main__":
    run_here(agent, lease=1.0)
"""


@pytest.mark.crash
async def test_a_step_that_ends_after_its_run_was_removed_leaves_no_row(field: Field) -> None:
    """O-019: its worker stood still, a person settled the call and the run was removed. What the act came
    to is refused as an event and kept as a tombstone, and the log says that it may have happened.
    """
    field.program(SLOW)
    worker = field.process("app.py")
    until(lambda: field.lines("begun"), worker)
    worker.send_signal(signal.SIGSTOP)
    await asyncio.sleep(1.0)  # the lease runs out
    store = ("--store", str(field.store))
    assert field.perdure("run", "app.py", "go", "--id", "r", *store)[0] == 4
    field.asked("resolve", "r", "--failed", "nobody knows")
    field.asked("cancel", "r")
    field.perdure("run", "app.py", "go", "--id", "r", *store)
    assert field.asked("prune", "r", "--yes")["removed"] == 1
    field.open("go on")
    worker.send_signal(signal.SIGCONT)
    complaint = worker.communicate(timeout=30)[1]
    assert "was pruned before it was told that attempt 1" in complaint
    assert set(_rows(field.file).values()) == {0}
    assert field.lines("worked")


BUSY = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool(effect="irreversible")
async def work(goal: str) -> str:
    book("worked", goal)
    return goal


@agent.tool(effect="irreversible")
async def hold(goal: str) -> str:
    await opened("go on")
    return goal


@agent.step
async def step(run):
    run.finish(await (hold if run.goal.startswith("hold") else work)(run.goal))


if __name__ == "__main__":
    async def main():
        async with Runtime(str(HERE / "runs.db"), [agent], workers=60) as runtime:
            for n in range(47):
                await runtime.start(agent, f"r{n}", f"g{n}")
            for n in range(3):
                await runtime.start(agent, f"hold{n}", "hold")
            n = 0
            while not is_open("stop"):
                await runtime.start(agent, f"more{n}", f"more {n}")
                n += 1
                await asyncio.sleep(0.002)
    asyncio.run(main())
"""


@pytest.mark.crash
def test_each_of_many_runs_that_are_to_go_has_a_result_of_its_own(field: Field) -> None:
    """O-090: fifty runs are to go while a worker writes, and three are at work. Each of the fifty has a
    result: gone, or why not; the exit code says that not all went, and nothing is said to be locked.
    """
    field.program(BUSY)
    worker = field.process("app.py")
    until(lambda: len(field.lines("worked")) >= 60, worker)
    names = [f"r{n}" for n in range(47)] + [f"hold{n}" for n in range(3)]

    def all_ended() -> bool:
        runs = field.asked("runs", "--limit", "100000")["runs"]
        return all(run["status"] == "succeeded" for run in runs if run["run_id"] in names[:47])

    until(all_ended, worker)
    code, out, complaint = field.perdure("prune", *names, "--yes", "--json", "--store", str(field.store))
    assert code == 1, complaint
    told = json.loads(out)
    assert sorted(told["runs"]) == sorted(names[:47])
    assert told["removed"] == 47
    assert sorted(told["refused"]) == names[47:]
    assert all(why.startswith("it has not ended") for why in told["refused"].values())
    assert "locked" not in out + complaint
    worker.kill()
