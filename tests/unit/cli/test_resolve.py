"""A call whose tool raised: what it raised is shown, and a person's result is checked before it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command
from tests.unit.cli.stores import messages

AGENT = """
from perdure import Agent, Run

desk = Agent("desk", state=dict)
other = Agent("other", state=dict)


@desk.tool(effect="irreversible")
async def pay(cents: int) -> int:
    raise ConnectionError("the bank hung up")


@desk.step
async def step(run: Run) -> None:
    run.finish(await pay(5) + 1)


@other.step
async def nothing(run: Run) -> None:
    run.finish()
"""


@pytest.fixture
def held(perdure: Command, place: Path) -> Path:
    """./perdure.db with run r-1, held because its tool raised."""
    (place / "agent.py").write_text(AGENT)
    ran = perdure("run", "agent.py:desk", "go", "--id", "r-1")
    assert ran.code == 4
    assert "it raised ConnectionError: the bank hung up" in ran.out
    return place / "perdure.db"


def test_what_a_tool_raised_is_shown_by_why_and_show(perdure: Command, held: Path) -> None:
    for looked in ("why", "show"):
        assert "ConnectionError: the bank hung up" in " ".join(perdure(looked, "r-1").out.split())
    facts = perdure("why", "r-1", "--json").document["why"]["facts"]
    [call] = [fact["text"] for fact in facts if fact["label"] == "call"]
    assert "outcome unknown (connection: ConnectionError: the bank hung up)" in call


def test_a_result_that_nobody_could_check_is_said_to_be_so(perdure: Command, held: Path) -> None:
    answer = perdure("resolve", "r-1", "--done", "7")
    assert answer.code == 0
    assert "was not checked by the tool's declared type" in answer.out
    assert perdure("run", "agent.py:desk", "--id", "r-1", "--json").document["result"] == 8


def test_an_unchecked_result_that_does_not_fit_leaves_the_call_unknown(perdure: Command, held: Path) -> None:
    assert perdure("resolve", "r-1", "--done", "a receipt", "--json").document["checked"] is False
    again = perdure("run", "agent.py:desk", "--id", "r-1", "--json")
    assert again.code == 4
    assert again.document["reason"] == "unknown-outcome"
    assert "[M301]" in again.document["detail"]
    assert "should be int, and is str" in again.document["detail"]
    assert any("--done" in remedy for remedy in again.document["remedies"])
    assert perdure("resolve", "r-1", "--done", "7").code == 0  # it can be answered again
    assert perdure("run", "agent.py:desk", "--id", "r-1").code == 0


def test_a_result_is_checked_by_the_agent_that_is_named(perdure: Command, held: Path) -> None:
    refused = perdure("resolve", "r-1", "--done", "a receipt", "--app", "agent.py:desk")
    assert refused.code == 5
    assert "error[M301]: this result is none that pay returns" in refused.err
    assert "declares to return: int" in refused.err
    assert messages(held, "r-1") == []
    taken = perdure("resolve", "r-1", "--done", "7", "--agent", "agent.py:desk", "--json").document
    assert taken["checked"] is True


def test_another_agent_cannot_check_it(perdure: Command, held: Path) -> None:
    refused = perdure("resolve", "r-1", "--done", "7", "--app", "agent.py:other")
    assert refused.code == 5
    assert "error[R204]" in refused.err
    assert "name where agent desk is: --app" in refused.err
    assert messages(held, "r-1") == []
