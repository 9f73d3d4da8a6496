"""One word for how a run stands: six ways not to be finished, and never finished without a terminal event."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.clock import SECOND
from perdure.store.protocol import NEVER, RunRow
from perdure.timeline.condition import MEANING, condition

NOW = 1_000_000 * SECOND


def row(**changes: Any) -> RunRow:
    """A run's row that was written ten seconds ago, ready, owned by nobody."""
    fields: dict[str, Any] = {
        "run_id": "order-1042",
        "agent": "refund-desk",
        "version": "",
        "status": "ready",
        "terminal": False,
        "epoch": 1,
        "worker": None,
        "lease_until": 0,
        "due_at": 0,
        "claims": 0,
        "seq": 3,
        "inbox": 0,
        "pending": 0,
        "info": b"",
        "parent": None,
        "created_at": NOW - 60 * SECOND,
        "updated_at": NOW - 10 * SECOND,
    }
    return RunRow(**(fields | changes))


LIVE = {"status": "running", "worker": "w-1", "lease_until": NOW + 20 * SECOND}


@pytest.mark.parametrize(
    ("changes", "word", "needs"),
    [
        ({}, "ready", "worker"),
        (LIVE, "running", "nothing"),
        ({"status": "running", "lost": "w-1", "died": True}, "interrupted", "worker"),
        ({"lost": "w-1", "died": True}, "interrupted", "worker"),
        ({"lost": "w-1"}, "silent", "worker"),
        ({"status": "waiting", "lost": "w-1", "pending": 1}, "silent", "worker"),
        (LIVE | {"lease_until": NOW - SECOND}, "silent", "worker"),
        ({"status": "waiting", "due_at": NOW + SECOND}, "waiting", "time"),
        ({"status": "waiting", "due_at": NEVER}, "waiting", "person"),
        ({"status": "waiting", "due_at": NOW - SECOND}, "overdue", "worker"),
        ({"status": "waiting", "due_at": NEVER, "pending": 2}, "overdue", "worker"),
        ({"status": "held", "due_at": NEVER}, "held", "person"),
        ({"status": "held", "due_at": NEVER, "pending": 1}, "overdue", "worker"),
        ({"status": "held", "due_at": NEVER, "pending": 1, "version": "1 unfit-ab"}, "held", "person"),
        ({"status": "running"}, "ready", "worker"),
        ({"status": "succeeded", "terminal": True}, "succeeded", "nothing"),
        ({"status": "failed", "terminal": True}, "failed", "nothing"),
        ({"status": "cancelled", "terminal": True}, "cancelled", "nothing"),
        ({"status": "retired", "terminal": True}, "retired", "nothing"),
    ],
)
def test_each_way_to_stand_has_its_own_word(changes: Any, word: str, needs: str) -> None:
    stands = condition(row(**changes), NOW)
    assert (stands.word, stands.needs) == (word, needs)
    assert stands.word in MEANING


@pytest.mark.parametrize("status", ["succeeded", "failed", "done", "completed"])
def test_no_run_is_shown_as_ended_without_its_terminal_event(status: str) -> None:
    stands = condition(row(status=status, terminal=False), NOW)
    assert stands.word not in ("succeeded", "failed", "cancelled", "retired")


def test_an_end_with_an_unknown_word_is_damage_and_is_said() -> None:
    stands = condition(row(status="done", terminal=True), NOW)
    assert (stands.word, stands.needs) == ("held", "person")
    assert "damaged" in stands.because


def test_the_reason_says_how_long_and_who() -> None:
    assert condition(row(lost="w-1", died=True), NOW).because == "worker w-1 died; no other has taken it over"
    assert condition(row(lost="w-1"), NOW).because.startswith("worker w-1 let its lease run out;")
    assert condition(row(), NOW).because == "no worker has claimed it for 10 s"
    assert condition(row(status="held"), NOW, note="over-budget").because == "over-budget"


def test_notes_and_names_from_the_store_cannot_act_on_a_terminal() -> None:
    assert condition(row(status="held"), NOW, note="\x1b[2J").because == r"\x1b[2J"
    assert "\x1b" not in condition(row(lost="\x1b[2J"), NOW).because
