"""Commands that send a waiting run what it waits for, and the one that follows it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from perdure import FOREVER, Agent, Run, Runtime
from perdure.codec import decode, encode
from tests.unit.cli.conftest import Command
from tests.unit.cli.stores import messages

clerk: Agent[Any, Any, Any] = Agent("clerk", state=dict, start=lambda goal: {}, wait_limit=FOREVER)


@clerk.step
async def step(run: Run[Any, Any, Any]) -> None:
    """Ask, wait, finish."""
    if run.goal == "two":
        run.finish(list(await run.gather(run.ask("How many?", int), run.ask("Which?", choices=["S", "5"]))))
    elif run.goal == "ask":
        run.finish(await run.ask("Which?", choices=["S", "5"], expires=3600))
    else:
        run.finish(await run.wait("paid out", int))


def start(path: Path, goal: str) -> Any:
    """Start the run r-1, or carry it on."""

    async def run() -> Any:
        async with Runtime(str(path), [clerk]) as runtime:
            return await runtime.run(clerk, "r-1", goal)

    return asyncio.run(run())


def test_a_question_is_answered(perdure: Command, place: Path) -> None:
    path = place / "perdure.db"
    start(path, "ask")
    why = perdure("why", "r-1").out
    assert "an answer to 'Which?' at 1:0 ('S' | '5')" in why
    assert "then it raises WaitExpired" in why
    assert "perdure answer r-1 S" in why
    assert "an answer to 'Which?'" in perdure("runs").out
    bad = perdure("answer", "r-1", "L")
    assert (bad.code, "error[A415]" in bad.err) == (5, True)
    assert messages(path, "r-1") == []
    good = perdure("answer", "r-1", "5", "--by", "ana", "--id", "a-1")
    assert (good.code, good.out.splitlines()[0]) == (0, "recorded: answer r-1, by ana")
    assert perdure("answer", "r-1", "5", "--id", "a-1", "--json").document["fresh"] is False
    assert "error[A413]" in perdure("answer", "r-1", "S").err
    assert start(path, "ask").unwrap() == "5", "text where text is a choice, though it looks like a number"
    shown = perdure("show", "r-1").out
    assert "waits: answer Which?" in shown
    assert "wait ended: answer" in shown
    assert "by ana" in shown
    ended = perdure("answer", "r-1", "S")
    assert (ended.code, "error[S117]" in ended.err) == (5, True)


def test_one_of_several_questions_is_named(perdure: Command, place: Path) -> None:
    path = place / "perdure.db"
    start(path, "two")
    assert "error[A412]" in perdure("answer", "r-1", "5").err
    assert "perdure answer r-1 VALUE --question 1:0.0.0" in perdure("why", "r-1").out
    commands = [way for one in perdure("inbox", "--json").document["entries"] for way in one["commands"]]
    assert commands == [f"perdure answer r-1 ANSWER --question 1:0.{n}.0" for n in range(2)]
    assert perdure("answer", "r-1", "5", "--question", "1:0.1.0").code == 0
    said = [way for one in perdure("inbox", "--json").document["entries"] for way in one["commands"]]
    assert said == ["perdure why r-1"] * 2, "the row cannot tell which of them was answered"
    assert perdure("answer", "r-1", "5").code == 0
    assert start(path, "two").unwrap() == [5, "5"]


def test_a_negative_number_is_no_option(perdure: Command, place: Path) -> None:
    path = place / "perdure.db"
    start(path, "ask")
    assert "error[A415]" in perdure("answer", "r-1", "-1").err, "it came as far as the question"
    assert perdure("signal", "r-1", "level", "-1").code == 0
    assert [data["value"] for _, data in messages(path, "r-1")] == [encode(-1)]
    assert perdure("answer", "r-1", "--no-such").code == 5


def test_a_signal_is_sent(perdure: Command, place: Path) -> None:
    path = place / "perdure.db"
    start(path, "wait")
    assert "perdure signal r-1 'paid out' [PAYLOAD]" in perdure("why", "r-1").out
    assert perdure("signal", "r-1", "paid out", "many").code == 5
    for said in ("new", "known already"):
        sent = perdure("signal", "r-1", "paid out", "12", "--by", "bank", "--id", "s-1")
        assert sent.code == 0
        assert said in sent.out or "recorded: signal r-1, by bank" in sent.out
    assert "error[A416]" in perdure("signal", "r-1", "paid out", "13", "--id", "s-1").err
    assert perdure("signal", "r-1", "unheard").code == 0
    assert [(kind, data["name"], decode(data["value"])) for kind, data in messages(path, "r-1")] == [
        ("signal", "paid out", 12),
        ("signal", "unheard", None),
    ]
    assert start(path, "wait").unwrap() == 12
    assert "'unheard'" in perdure("why", "r-1").out
    assert "signal came: paid out" in perdure("show", "r-1").out
    assert perdure("signal", "nobody", "paid").code == 3


def test_tail_shows_each_event_until_the_end(perdure: Command, place: Path) -> None:
    path = place / "perdure.db"
    start(path, "wait")
    perdure("signal", "r-1", "paid out", "12")
    start(path, "wait")
    lines = perdure("tail", "r-1").out.splitlines()
    assert [line.split()[0] for line in lines] == [str(n) for n in range(1, len(lines) + 1)]
    assert "run.started" in lines[0]
    assert "run.finished" in lines[-1]
    after = [json.loads(line) for line in perdure("tail", "r-1@2", "--json").out.splitlines()]
    assert [event["seq"] for event in after] == list(range(3, len(lines) + 1))
    assert "error[U703]" in perdure("tail", "r-1@99").err


@pytest.mark.parametrize("command", ["answer", "signal"])
def test_what_is_missing_is_a_wrong_command_line(perdure: Command, place: Path, command: str) -> None:
    assert perdure(command, "r-1").code == 2
