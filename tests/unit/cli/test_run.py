"""`perdure run` and `init`: an agent that runs at once, outcomes as exit codes, and what is carried on."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.demo.ledger import Ledger
from tests.unit.cli.conftest import Command

AGENT = """
from dataclasses import dataclass
from datetime import timedelta
from perdure import Agent, Run

desk = Agent("desk", state=dict)


@desk.step
async def step(run: Run) -> None:
    match run.goal:
        case "fail":
            run.fail(LookupError("no such order"))
        case "raise":
            raise KeyError("total")
        case "sleep":
            await run.sleep(timedelta(days=3))
            run.finish("rested")
        case _:
            run.finish({"goal": run.goal})
"""


@pytest.fixture
def agent(place: Path) -> Path:
    """./agent.py with an agent that does what its goal says."""
    path = place / "agent.py"
    path.write_text(AGENT)
    return path


def test_what_init_writes_runs_at_once(perdure: Command, place: Path) -> None:
    written = perdure("init")
    assert written.code == 0
    assert "next   perdure run agent.py" in written.out
    ran = perdure("run", "agent.py")
    assert ran.code == 0, ran.err
    assert "succeeded after" in ran.out
    assert "a kettle arrived broken, receipt rf-1" in ran.out
    assert [paid.order_id for paid in Ledger(place / "bank.db").entries()] == ["o-77"]
    other = perdure("run", "agent.py", '{"order_id": "o-78"}', "--json").document
    assert (other["status"], other["result"]) == (
        "succeeded",
        "paid back: a lamp arrived broken, receipt rf-2",
    )
    listed = perdure("runs", "--json").document["runs"]
    assert [run["status"] for run in listed] == ["succeeded", "succeeded"]


def test_init_overwrites_nothing(perdure: Command, place: Path) -> None:
    (place / "agent.py").write_text("mine")
    answer = perdure("init", "--json")
    assert answer.code == 5
    assert answer.document["error"]["code"] == "U706"
    assert (place / "agent.py").read_text() == "mine"
    assert perdure("init", "other.py").code == 0
    assert "perdure run other.py" in (place / "other.py").read_text()
    (place / "folder").mkdir()
    assert perdure("init", "folder", "--json").document["written"] == "folder/agent.py"


@pytest.mark.parametrize(
    ("goal", "code", "status", "more"),
    [
        ("o-77", 0, "succeeded", {"result": {"goal": "o-77"}}),
        ("fail", 1, "failed", {"error": {"type": "LookupError", "message": "no such order"}}),
        ("raise", 4, "held", {"reason": "step-error"}),
        ("sleep", 6, "waiting", {}),
    ],
)
def test_each_outcome_has_its_exit_code(
    perdure: Command, agent: Path, goal: str, code: int, status: str, more: dict[str, object]
) -> None:
    answer = perdure("run", agent, goal, "--id", "order-1", "--json")
    document = answer.document
    assert (answer.code, document["status"], document["run_id"], document["exit"]) == (
        code,
        status,
        "order-1",
        code,
    )
    assert {name: document[name] for name in more} == more
    assert perdure("runs", "--json").document["runs"][0]["status"] == status
    drawn = perdure("run", agent, "--id", "order-1")
    assert drawn.code == code
    assert status in drawn.out
    assert "look    perdure show order-1" in drawn.out


SHORT = """
from dataclasses import dataclass
from datetime import timedelta
import perdure
from perdure.agent import Approval

@dataclass
class Order:
    id: str
    cents: int

@perdure.tool(approval=Approval(expires=timedelta(seconds=2)))
async def pay(cents: int) -> str:
    return f"paid {cents}"

desk = perdure.Agent("desk", goal=Order, start=lambda goal: {}, result=str, tools=[pay])

@desk.step
async def step(run: perdure.Run) -> None:
    run.finish(await pay(run.goal.cents))
"""


def test_a_wait_that_is_sat_out_is_told(perdure: Command, place: Path) -> None:
    (place / "short.py").write_text(SHORT)
    ran = perdure("run", "short.py", '{"id": "o-1", "cents": 5}', "--id", "r-1")
    assert (ran.code, "held after" in ran.out) == (4, True)
    waiting, permit = ran.out.splitlines()[1:3]
    assert waiting.startswith("waiting, for approval r-1~")
    approval = waiting.split()[3]
    assert permit.split("perdure ")[1:] == [f"approve {approval}, or ", f"deny {approval} --note WHY"]


ASKING = """
import perdure
from perdure.agent import Approval

desk = perdure.Agent("desk", start=lambda goal: {}, result=str)

@desk.tool(approval=Approval(by="finance"))
async def pay(cents: int) -> str:
    return f"paid {cents}"

@desk.step
async def step(run: perdure.Run) -> None:
    if run.goal == "ask":
        return run.finish(await run.ask("Which one?"))
    run.finish(await pay(5))
"""


def test_what_is_said_of_a_run_that_asks_can_be_typed_as_it_stands(perdure: Command, place: Path) -> None:
    (place / "asking.py").write_text(ASKING)
    for goal, label, value in (("pay", "permit", "paid 5"), ("ask", "answer", "ANSWER")):
        ran = perdure("run", "asking.py", goal, "--id", goal)
        [line] = [line.split(maxsplit=1)[1] for line in ran.out.splitlines() if line.split()[0] == label]
        said = perdure(*shlex.split(line.split(", or ")[0])[1:])
        assert said.code == 0, said.err
        ended = perdure("run", "asking.py", "--id", goal)
        assert (ended.code, value in ended.out) == (0, True)
        assert "succeeded already" in perdure("run", "asking.py", "--id", goal).out


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (('{"id": 3}',), "$.goal.id should be str"),
        (('{"id: 3}',), "as JSON it cannot be read: Unterminated string"),
        ((), "needs a goal"),
        (('{"id": "o-1", "cents": 5}', "--id", "a b"), "cannot be a run id"),
    ],
)
def test_what_cannot_be_started_makes_no_store(
    perdure: Command, place: Path, order: tuple[str, ...], said: str
) -> None:
    (place / "short.py").write_text(SHORT)
    ran = perdure("run", "short.py", *order)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert (ran.out, list(place.glob("*.db"))) == ("", [])


def test_what_an_agent_prints_is_kept_out_of_the_document(perdure: Command, agent: Path) -> None:
    agent.write_text(
        "print('loading')\n"
        + AGENT.replace("    match run.goal:", "    print('a step')\n    match run.goal:")
    )
    answer = perdure("run", agent, "o-77", "--json")
    assert answer.document["status"] == "succeeded"
    assert "loading" in answer.err
    assert "a step" in answer.err
    assert "a step" in perdure("run", agent, "o-78").out


def test_the_same_id_means_the_same_run(perdure: Command, agent: Path) -> None:
    first = perdure("run", agent, "o-77", "--id", "order-1", "--json").document
    assert perdure("run", agent, "o-77", "--id", "order-1", "--json").document == first
    refused = perdure("run", agent, "o-78", "--id", "order-1")
    assert refused.code == 5
    assert "R205" in refused.err
    assert len(perdure("runs", "--json").document["runs"]) == 1


def test_a_run_may_be_given_limits_of_its_own(perdure: Command, agent: Path) -> None:
    """They are the run's from its start; for one that is there `perdure budget` is the way."""
    answer = perdure("run", "agent.py", "sleep", "--id", "s-1", "--budget", "usd=0.5,steps=20", "--json")
    assert answer.document["status"] == "waiting"
    shown = perdure("show", "s-1", "--json").document["budget"]
    assert "20 steps" in json.dumps(shown) or '"limit": 20' in json.dumps(shown)
    assert "--add" in perdure("run", "agent.py", "--id", "s-1", "--budget", "steps=30").err
    for bad in ("steps", "steps=many", "ducks=3"):
        assert perdure("run", "agent.py", "sleep", "--id", "s-2", "--budget", bad).code == 2
    assert perdure("run", "agent.py", "sleep", "--id", "s-2", "--budget", "steps=-1").code != 0
    assert perdure("show", "s-2").code != 0
    held = perdure("run", "agent.py", "sleep", "--id", "s-3", "--budget", "steps=0")
    assert "0 of 0 steps are left" in held.out + held.err


def test_without_a_goal_the_open_run_is_carried_on(perdure: Command, agent: Path) -> None:
    nothing = perdure("run", agent)
    assert nothing.code == 2
    assert "U707" in nothing.err
    assert perdure("run", agent, "sleep", "--id", "nap-1").code == 6
    assert perdure("run", agent, "--json").document["run_id"] == "nap-1"
    assert perdure("run", agent, "sleep", "--id", "nap-2").code == 6
    several = perdure("run", agent)
    assert several.code == 3
    assert "nap-1" in several.err
    assert "nap-2" in several.err


def test_a_held_run_is_mended_retried_and_carried_on(perdure: Command, agent: Path) -> None:
    held = perdure("run", agent, "raise", "--id", "order-1")
    assert held.code == 4
    assert "KeyError" in held.out
    assert f"{agent}:" in held.out
    assert "perdure retry order-1" in held.out
    assert "KeyError" in perdure("why", "order-1").out
    agent.write_text(AGENT.replace('raise KeyError("total")', 'run.finish("mended")'))
    assert perdure("retry", "order-1").code == 0
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "run", "agent.py", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["result"] == "mended"


def test_detached_runs_are_left_to_a_worker(perdure: Command, agent: Path) -> None:
    answer = perdure("run", agent, "o-77", "--id", "order-1", "--detach")
    assert answer.code == 0
    assert "perdure worker" in answer.out
    assert perdure("runs", "--json").document["runs"][0]["status"] == "ready"
    worker = subprocess.Popen([sys.executable, "-m", "perdure", "worker", "agent.py"], stdout=subprocess.PIPE)
    try:
        wait_for(lambda: perdure("runs", "--json").document["runs"][0]["status"] == "succeeded")
        worker.terminate()
        assert worker.wait(timeout=20) == 0
    finally:
        worker.kill()
        worker.wait()
        assert worker.stdout is not None
        worker.stdout.close()


def test_cancel_ends_a_waiting_run(perdure: Command, agent: Path) -> None:
    assert perdure("run", agent, "sleep", "--id", "nap-1").code == 6
    assert perdure("cancel", "nap-1", "--by", "ada", "--note", "enough").code == 0
    answer = perdure("run", agent, "--id", "nap-1")
    assert answer.code == 1
    assert "cancelled already by ada: enough" in answer.out
    assert "by ada" in answer.out


def test_a_list_says_how_a_run_ended_and_not_what_it_had_waited_for(perdure: Command, agent: Path) -> None:
    for goal in ("fail", "raise", "sleep", "well"):
        perdure("run", "agent.py", goal, "--id", goal)
    perdure("cancel", "sleep", "--by", "ana", "--note", "too late")
    perdure("cancel", "raise", "--by", "ana")
    rows = {row["run_id"]: row for row in perdure("runs", "--json").document["runs"]}
    told = {name: (row["status"], row["because"]) for name, row in rows.items()}
    assert told == {
        "fail": ("failed", "LookupError: no such order"),
        "raise": ("cancelled", "by ana"),
        "sleep": ("cancelled", "by ana: too late"),
        "well": ("succeeded", ""),
    }


def test_a_run_of_another_agent_is_refused(perdure: Command, agent: Path, place: Path) -> None:
    assert perdure("run", agent, "sleep", "--id", "nap-1").code == 6
    declared = "@till.step\nasync def step(run):\n    run.finish()\n"
    (place / "till.py").write_text(f"from perdure import Agent\n\ntill = Agent('till')\n\n{declared}")
    answer = perdure("run", "till.py", "--id", "nap-1")
    assert answer.code == 5
    assert "R204" in answer.err


def test_a_store_that_cannot_be_opened_starts_nothing(perdure: Command, agent: Path, place: Path) -> None:
    answer = perdure("run", agent, "o-77", "--store", "missing/perdure.db")
    assert answer.code == 1
    assert str(place / "missing") in answer.err
    assert not (place / "perdure.db").exists()


def wait_for(happened: object, seconds: float = 30.0) -> None:
    """Return once `happened()` is true."""
    assert callable(happened)
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def start(place: Path, *arguments: str) -> subprocess.Popen[str]:
    """`perdure run agent.py` in a process of its own, with a bank that answers late."""
    command = [sys.executable, "-m", "perdure", "run", "agent.py", *arguments]
    names = os.environ | {"PERDURE_BANK_PAUSE": "30"}
    return subprocess.Popen(
        command, cwd=place, env=names, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_leaves_the_run_where_it_is_and_says_how_to_go_on(perdure: Command, place: Path) -> None:
    perdure("init")
    running = start(place, "--id", "order-1")
    wait_for(lambda: (place / "bank.db").exists() and Ledger(place / "bank.db").entries())
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "Run order-1 is kept where it was." in said
    assert "perdure run agent.py --id order-1" in said
    assert "Traceback" not in said
    answer = perdure("run", "agent.py")
    assert answer.code == 0, answer.err
    assert len(Ledger(place / "bank.db").entries()) == 1


def test_kill_9_between_the_payment_and_its_receipt_pays_once(perdure: Command, place: Path) -> None:
    perdure("init")
    running = start(place)
    wait_for(lambda: (place / "bank.db").exists() and Ledger(place / "bank.db").entries())
    running.kill()
    running.communicate()
    assert perdure("runs", "--json").document["runs"][0]["status"] == "interrupted"
    answer = perdure("run", "agent.py")
    assert answer.code == 0, answer.err
    assert "carry on" in answer.out
    assert len(Ledger(place / "bank.db").entries()) == 1


def test_without_a_hook_a_person_answers_and_the_run_goes_on(perdure: Command, place: Path) -> None:
    perdure("init")
    source = (place / "agent.py").read_text()
    hook = source[source.index("@refund.reconcile") : source.index("@desk.step")]
    (place / "agent.py").write_text(source.replace(hook, ""))
    running = start(place, "--id", "order-1")
    wait_for(lambda: (place / "bank.db").exists() and Ledger(place / "bank.db").entries())
    running.kill()
    running.communicate()
    held = perdure("run", "agent.py")
    assert held.code == 4, held.out + held.err
    assert "perdure resolve order-1" in held.out
    why = perdure("why", "order-1").out
    assert "It needs a person" in why
    assert "outcome unknown (crash)" in why
    resolved = perdure("resolve", "order-1", "--done", "rf-1", "--by", "ada", "--note", "seen in the book")
    assert resolved.code == 0, resolved.err
    done = perdure("run", "agent.py", "--json")
    assert (done.code, done.document["result"]) == (0, "paid back: a kettle arrived broken, receipt rf-1")
    assert len(Ledger(place / "bank.db").entries()) == 1
    assert (
        "refund: it had happened; not repeated   as ada says · seen in the book"
        in perdure("show", "order-1").out
    )
