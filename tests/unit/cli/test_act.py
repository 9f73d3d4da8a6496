"""Commands with which a person answers a run: one message each, or a refusal that writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.codec import decode
from tests.unit.cli.conftest import Command
from tests.unit.cli.stores import messages


@pytest.mark.parametrize(
    ("arguments", "verdict", "value"),
    [
        (("--done", '{"receipt": "rf-1"}'), "done", {"receipt": "rf-1"}),
        (("--done", "rf-1"), "done", "rf-1"),
        (("--done", "null"), "done", None),
        (("--done", "false"), "done", False),
        (("--not-done",), "not_done", b""),
        (("--failed", "no money"), "failed", "no money"),
    ],
)
def test_resolve(
    perdure: Command, store: Path, arguments: tuple[str, ...], verdict: str, value: object
) -> None:
    answer = perdure("resolve", "order-1043", "2/1", *arguments, "--by", "ada", "--note", "asked the bank")
    assert answer.code == 0
    assert "recorded: resolve order-1043 call 2/1, by ada" in answer.out
    [(kind, data)] = messages(store, "order-1043")
    assert (kind, data["by"], data["note"], data["path"], data["verdict"]) == (
        "resolve",
        "ada",
        "asked the bank",
        "2/1",
        verdict,
    )
    stored: Any = decode(data["value"]) if data["value"] else b""
    assert (stored["message"] if verdict == "failed" else stored) == value


def test_the_only_unknown_call_need_not_be_named(perdure: Command, store: Path) -> None:
    answer = perdure("resolve", "order-1043", "--not-done", "--json")
    assert answer.document["call"] == "2/1"
    assert answer.document["accepted"] == "resolve"


def test_resolve_wants_exactly_one_verdict(perdure: Command, store: Path) -> None:
    assert perdure("resolve", "order-1043").code == 2
    assert perdure("resolve", "order-1043", "--done", "1", "--not-done").code == 2
    assert messages(store, "order-1043") == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("resolve", "order-1043", "9/9", "--not-done"), "R213"),
        (("resolve", "fresh-1", "--not-done"), "R213"),
        (("release", "fresh-1"), "R213"),
        (("retry", "nap-7"), "R213"),
        (("retry", "order-1043", "--restart"), "R213"),
        (("cancel", "order-1042"), "S117"),
        (("release", "order-1042"), "S117"),
    ],
)
def test_what_a_run_cannot_take_is_refused(
    perdure: Command, store: Path, arguments: tuple[str, ...], code: str
) -> None:
    answer = perdure(*arguments)
    assert answer.code == 5
    assert f"error[{code}]" in answer.err
    assert all(messages(store, run) == [] for run in ("order-1043", "fresh-1", "nap-7"))


def test_a_waiting_run_is_cancelled_without_its_agent(perdure: Command, store: Path) -> None:
    answer = perdure("cancel", "nap-7", "--by", "ada")
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "it has ended as cancelled")
    assert "cancelled" in perdure("why", "nap-7").out.splitlines()[0]
    assert perdure("cancel", "nap-7").code == 5


@pytest.mark.parametrize("verb", ["cancel", "retire"])
@pytest.mark.parametrize("slip", ["", "nap", "n"])
def test_what_ends_a_run_takes_its_whole_id(perdure: Command, store: Path, verb: str, slip: str) -> None:
    """A slip, or a variable that the shell found empty, ends nothing."""
    answer = perdure(verb, slip)
    assert (answer.code, "error[S112]" in answer.err) == (3, True)
    assert messages(store, "nap-7") == []
    assert perdure("show", "").code == 3
    if slip:
        assert "so begins nap-7" in answer.err


def test_a_compensating_cancel_is_left_to_a_worker(perdure: Command, store: Path) -> None:
    """It needs the hooks of the agent; `why` says what is asked for."""
    answer = perdure("cancel", "order-1043", "--compensate", "--by", "ada", "--json")
    assert answer.document["compensate"] is True
    assert answer.document["ended"] is False
    why = perdure("why", "order-1043").out
    assert "what it has done is undone, newest first" in why
    assert perdure("show", "order-1043", "--json").document["undo"] == {
        "undone": [],
        "not_undone": [],
        "to_undo": [],
    }


def test_a_cancelled_run_with_an_open_call_is_left_to_a_worker(perdure: Command, store: Path) -> None:
    assert perdure("cancel", "order-1043", "--json").document["ended"] is False
    assert messages(store, "order-1043") == []
    assert "held" in perdure("why", "order-1043").out.splitlines()[0]


@pytest.mark.parametrize("verb", ["release", "retry"])
def test_answers_to_a_held_run(perdure: Command, store: Path, verb: str) -> None:
    assert perdure(verb, "order-1043", "--by", "ada").code == 0
    [(kind, data)] = messages(store, "order-1043")
    assert (kind, data["by"]) == (verb, "ada")


def test_the_user_answers_unless_someone_else_is_named(
    perdure: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "grace")
    assert perdure("release", "order-1043", "--json").document["by"] == "grace"

    def nobody() -> str:
        raise KeyError("no such user")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert perdure("release", "order-1043", "--json").document["by"] == "unknown"
