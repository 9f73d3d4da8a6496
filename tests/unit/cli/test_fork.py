"""`perdure fork` and `perdure effect`: what they say before and after, and what they refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent
from perdure.host import Runtime
from tests.unit.cli.conftest import Command

APP = """
from perdure import Agent

desk = Agent("desk", state=dict, goal=str, start=lambda goal: {"order": goal})


@desk.tool(effect="read")
async def price(order: str) -> int:
    return 700


@desk.model("small")
async def think(cents: int) -> str:
    return "pay"


@desk.tool(effect="irreversible")
async def refund(order: str, cents: int) -> str:
    return f"rf-{cents}"


@desk.step
async def step(run):
    if "cents" not in run.state:
        run.state["cents"] = await price(run.state["order"])
        await think(run.state["cents"])
    else:
        run.finish(await refund(run.state["order"], run.state["cents"]))
"""


@pytest.fixture
def bad(place: Path) -> Path:
    """./app.py and ./perdure.db with the run `bad`, which has paid."""
    (place / "app.py").write_text(APP)
    names: dict[str, Any] = {}
    exec(compile(APP, "app.py", "exec"), names)

    async def main() -> None:
        desk: Agent[Any, Any, Any] = names["desk"]
        async with Runtime("perdure.db", [desk]) as runtime:
            assert (await runtime.run(desk, "bad", "o-77")).unwrap() == "rf-700"

    asyncio.run(main())
    return place


def test_a_dry_run_says_what_would_be_and_writes_nothing(perdure: Command, bad: Path) -> None:
    before = (bad / "perdure.db").read_bytes()
    answer = perdure("fork", "bad@4", "--set", "cents=70", "--dry-run")
    assert answer.code == 0
    assert "New run from bad at event 4, in step 2. 1 change" in answer.out
    assert "state cents  700 -> 70" in answer.out
    assert '2:0 refund(order="o-77", cents=700) irreversible' in answer.out
    assert "HELD: reuse, act or simulate" in answer.out
    assert "Nothing written" in answer.out
    told = perdure("fork", "bad", "--at", "4", "--set", "cents=70", "--dry-run", "--json").document
    assert (told["run_id"], told["fresh"], told["at"]) == (None, False, 4)
    assert told["changes"] == [{"what": "state", "place": "cents", "was": 700, "now": 70}]
    assert [(act["name"], act["effect"], act["in_fork"]) for act in told["acts"]] == [
        ("refund", "irreversible", "asked")
    ]
    assert perdure("runs", "--json").document["runs"][0]["run_id"] == "bad"
    assert (bad / "perdure.db").read_bytes() == before


def test_a_fork_is_made_carried_on_and_decided_about(perdure: Command, bad: Path) -> None:
    made = perdure("fork", "bad@4", "--set", "cents=70", "--id", "f", "--by", "ada")
    assert made.out.splitlines()[0] == "f from bad at event 4, in step 2. 1 change"
    assert "perdure run FILE:AGENT --id f" in made.out
    again = perdure("fork", "bad@4", "--set", "cents=70", "--id", "f")
    assert "It was there already; nothing was written." in again.out
    assert perdure("fork", "bad@4", "--id", "f").code == 5
    assert perdure("run", "app.py", "--id", "f").code == 4
    why = perdure("why", "f")
    assert "origin-acted" in why.out
    assert "of bad at event 4, by ada" in why.out
    assert "perdure effect f 2:0 --reuse" in why.out
    assert perdure("effect", "f").code == 2
    assert perdure("effect", "f", "--reuse", "--act").code == 2
    assert perdure("effect", "bad", "--act").code == 5
    told = perdure("effect", "f", "--reuse", "--json").document
    assert (told["accepted"], told["call"], told["how"]) == ("effect", "2:0", "reuse")
    assert perdure("run", "app.py", "--id", "f").code == 0
    shown = perdure("show", "f", "--json").document
    assert (shown["result"], shown["fork"]["origin"], shown["run"]["fork_of"]) == ("rf-700", "bad", "bad@4")
    assert "forked from bad@4" in perdure("show", "f").out
    assert [act["guarantee"] for act in perdure("audit", "f", "--json").document["acts"]] == ["stand-in"]
    assert "FORK OF" in perdure("runs").out


def test_other_changes_as_they_are_typed(perdure: Command, bad: Path) -> None:
    told = perdure(
        *(
            "fork",
            "bad@2",
            "--result",
            "1:0=5",
            "--model",
            "large",
            "--budget",
            "calls=9",
            "--dry-run",
            "--json",
        )
    ).document
    assert [(one["what"], one["now"]) for one in told["changes"]] == [
        ("model", "large"),
        ("result", 5),
        ("budget", "9 calls"),
    ]
    assert told["served"] == [{"path": "1:0", "name": "price"}]
    goal = perdure("fork", "bad@1", "--goal", "o-1", "--app", "app.py", "--dry-run", "--json").document
    assert [one["now"] for one in goal["changes"]] == ["o-1"]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("bad@99",), 3, "U703"),
        (("bad@4", "--at", "5"), 3, "U703"),
        (("bad@8",), 5, "R230"),
        (("bad@4", "--set", "no.place=1"), 3, "U710"),
        (("bad@3", "--set", "cents=1"), 5, "U720"),
        (("bad@1", "--goal", "x"), 5, "U720"),
        (("bad@4", "--model", "fly=large"), 5, "U720"),
        (("bad@4", "--budget", "calls=1"), 5, "B503"),
        (("nobody@4",), 3, "S112"),
        (("bad@4", "--id", "a b"), 2, "S118"),
    ],
)
def test_what_is_refused(perdure: Command, bad: Path, words: tuple[str, ...], code: int, error: str) -> None:
    answer = perdure("fork", *words, "--json")
    assert (answer.code, answer.document["error"]["code"]) == (code, error)


def test_a_command_line_that_is_not_right(perdure: Command, bad: Path) -> None:
    assert perdure("fork", "bad@4", "--set", "cents").code == 2
    assert perdure("fork", "bad@4", "--result", "=1").code == 2
    assert perdure("fork", "bad@4", "--budget", "calls").code == 2


def test_the_id_of_a_run_that_was_pruned_is_never_the_beginning_of_its_forks(
    perdure: Command, bad: Path
) -> None:
    made = perdure("fork", "bad@4", "--json").document
    assert made["run_id"].startswith("bad-")
    assert perdure("prune", "bad", "--yes").code == 0
    for look in ("show", "why", "state", "fork", "export"):
        answer = perdure(look, "bad")
        assert (answer.code, "S113" in answer.err, "perdure audit" in answer.err) == (3, True, True), look
    assert perdure("show", "bad-").code == 0, "a beginning that was nobody's id is one as before"


def test_what_cannot_be_meant_is_refused_with_what_can(perdure: Command, bad: Path) -> None:
    wrong = perdure("fork", "bad@4", "--budget", "cals=3")
    assert (wrong.code, "its kinds: usd" in wrong.err) == (2, True)
    wrong = perdure("fork", "bad@2", "--result", "price=3")
    assert (wrong.code, "1:0 (price)" in wrong.err) == (5, True)
    wrong = perdure("fork", "bad@4", "--set", "order=5", "--goal", "7", "--model", "larg=x")
    assert (wrong.code, "it has: think" in wrong.err, "--model NAME=MODEL" in wrong.err) == (5, True, True)
