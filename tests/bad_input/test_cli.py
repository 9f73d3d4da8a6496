"""The command line given what is not there, what is ambiguous, and files that cannot be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bad_input.bench import acts, journal_digest, perdure, told

TWO = "from perdure import Agent\none = Agent('one')\ntwo = Agent('two')\n"
TWICE = """
from perdure import Agent
desk = Agent("desk")

@desk.tool(effect="read", name="look")
async def first() -> str: ...

@desk.tool(effect="read", name="look")
async def second() -> str: ...
"""

FILES = {
    "a file with a syntax error": ("def broken(:\n", "C104", "agent.py:1"),
    "a file that raises": ("1 / 0\n", "C104", "ZeroDivisionError"),
    "a file that lacks a module": ("import no_such_module_here\n", "C104", "no_such_module_here"),
    "a file without an agent": ("x = 1\n", "C104", "no agent"),
    "an empty file": ("", "C104", "no agent"),
    "a file with two agents": (TWO, "C104", "one, two"),
    "an agent with two tools of one name": (TWICE, "C102", "'look'"),
    "bytes that are no text": ("\udcff\udcfe\n", "C104", "agent.py"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_cannot_be_run(place: Path, what: str) -> None:
    text, code, name = FILES[what]
    (place / "agent.py").write_bytes(text.encode("utf-8", "surrogateescape"))
    answer = perdure("run", "agent.py", "o-1", cwd=place)
    told(answer, code, 3 if code == "C104" else answer.code, name)
    assert answer.code in (1, 2, 3)
    assert not (place / "perdure.db").exists()


@pytest.mark.parametrize(
    "app", ["none.py", "no.such.module", "agent.py:nobody", "agent.py:step", "agent.py:desk.x"]
)
def test_an_agent_that_is_not_there(place: Path, app: str) -> None:
    told(perdure("run", app, "o-1", cwd=place), "C104", 3, app.rpartition(":")[2])
    assert not (place / "perdure.db").exists()


def test_a_command_that_is_mistyped(store: Path) -> None:
    for typed, meant in (("shw", "show"), ("approv", "approve"), ("state-of", "state")):
        answer = perdure(typed, "paid-1", cwd=store.parent)
        assert (answer.code, f"did you mean {meant}?" in answer.err) == (2, True)
    assert perdure("xyz", cwd=store.parent).code == 2
    answer = perdure("budget", "paid-1", "--add", "dollars=1", cwd=store.parent)
    assert (answer.code, "its kinds: usd, tokens, steps, calls, seconds" in answer.err) == (2, True)


def test_what_names_no_run(store: Path) -> None:
    place, before = store.parent, journal_digest(store)
    for command in ("show none", "why none", "verify none", "cancel none", "release none", "retry none"):
        told(perdure(*command.split(), cwd=place), "S112", 3, "none")
    told(perdure("show", "paid-1@999", cwd=place), "U703", 3, "999")
    told(perdure("show", "paid-1@x", cwd=place), "U703", 3, "paid-1@x")
    told(perdure("explain", "T999", cwd=place), "U704", 3, "T999")
    assert journal_digest(store) == before


def test_answers_that_do_not_fit(store: Path) -> None:
    place, before = store.parent, journal_digest(store)
    for command in ("release paid-1", "retry paid-1", "cancel paid-1"):
        told(perdure(*command.split(), cwd=place), "S117", 5, "paid-1", "succeeded")
    told(perdure("resolve", "paid-1", "--not-done", cwd=place), "R213", 5, "paid-1")
    told(perdure("resolve", "lost-1", "9:9", "--not-done", cwd=place), "R213", 5, "lost-1", "9:9")
    told(perdure("release", "nap-1", cwd=place), "R213", 5, "nap-1")
    both = perdure("resolve", "lost-1", "--not-done", "--failed", "no", cwd=place)
    assert (both.code, "exactly one" in both.err) == (2, True)
    assert journal_digest(store) == before


def test_an_ambiguous_beginning_lists_what_it_fits(place: Path) -> None:
    """Field case O-089."""
    for run_id in ("o-11", "o-12"):
        assert perdure("run", "agent.py", "x", "--id", run_id, "--detach", cwd=place).code == 0
    before = journal_digest(place / "perdure.db")
    for command in ("show o-1", "cancel o-1"):
        told(perdure(*command.split(), cwd=place), "U702", 3, "o-11", "o-12")
    document = perdure("why", "o-1", "--json", cwd=place).document
    assert sorted(document["error"]["facts"]["matches"]) == ["o-11", "o-12"]
    told(perdure("run", "agent.py", cwd=place), "U702", 3, "o-11", "o-12")
    assert (journal_digest(place / "perdure.db"), acts(place)) == (before, [])


GOALS = """
from dataclasses import dataclass
from perdure import Agent

@dataclass
class Order:
    id: str
    cents: int

desk = Agent("desk", state=dict, goal=Order, start=lambda goal: {})

@desk.step
async def step(run):
    run.finish()
"""


@pytest.mark.parametrize(
    "goal",
    ["{not json", '{"id": "o-1"}', '{"id": "o-1", "cents": "many"}', "[1]", "", '{"cents": NaN, "id": ""}'],
)
def test_a_goal_that_does_not_fit(place: Path, goal: str) -> None:
    (place / "agent.py").write_text(GOALS)
    told(perdure("run", "agent.py", goal, cwd=place), "U707", 2, "desk")
    assert not list(place.glob("*.db")), "what cannot be started makes no store"


def test_a_bad_id_on_the_command_line(place: Path) -> None:
    for run_id in ("a b", "run@41", "x" * 5000, ""):
        told(perdure("run", "agent.py", "o-1", "--id", run_id, cwd=place), "S118", 2)
    answer = perdure("run", "agent.py", "o-1", "--id", "a\udc81", "--json", cwd=place)
    assert (answer.code, answer.document["error"]["code"]) == (2, "S118")
    assert acts(place) == []


def test_another_goal_or_another_agent(store: Path) -> None:
    place, before = store.parent, journal_digest(store)
    told(perdure("run", "agent.py", "o-2", "--id", "paid-1", cwd=place), "R205", 5, "paid-1", "o-1", "o-2")
    (place / "other.py").write_text((place / "agent.py").read_text().replace('"desk"', '"other"'))
    told(perdure("run", "other.py", "o-1", "--id", "paid-1", cwd=place), "R204", 5, "paid-1", "desk", "other")
    assert journal_digest(store) == before
