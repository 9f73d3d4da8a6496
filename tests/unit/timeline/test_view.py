"""A run's events as the lines that every face shows."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import codec
from perdure.clock import SECOND
from perdure.state import events as e
from perdure.state.amount import Amount
from perdure.timeline.view import Call, Line, Reference, lines
from tests.unit.timeline.past import CRASHED, HELD, RECONCILED, REFUND, START, STARTED, events, head, record


def shown(*bodies: e.AnyBody) -> list[Line]:
    return lines(events(bodies))


def the_call(shown_lines: list[Line], name: str) -> Call:
    [call] = [line.call for line in shown_lines if line.call is not None and line.call.name == name]
    return call


def test_a_crashed_and_reconciled_run_reads_from_top_to_bottom() -> None:
    assert [(line.seq, line.step, line.kind, line.text) for line in lines(events(RECONCILED))] == [
        (1, 1, "started", "refund-desk 7"),
        (2, 1, "interrupted", "w-1"),
        (3, 1, "call", "chat"),
        (4, 1, "call", "order"),
        (5, 1, "step", "1 change of state"),
        (6, 2, "call", "chat"),
        (7, 2, "call", "refund"),
        (8, 2, "interrupted", "w-2"),
        (9, 2, "unknown", "refund"),
        (10, 2, "reconciled", "refund"),
        (11, 2, "step", "0 changes of state"),
        (12, 3, "finished", "succeeded"),
    ]


def test_a_call_line_holds_everything_that_became_of_it() -> None:
    call = the_call(lines(events(RECONCILED)), "refund")
    assert call == Call(
        path="2/1",
        name="refund",
        effect="irreversible",
        args={"order_id": "o-77", "cents": 1200},
        key="k-1",
        standing="done",
        attempts=1,
        began=START + 7 * SECOND,
        ended=START + 10 * SECOND,
        intent=7,
        receipt=10,
        value="rf-1",
        cause="crash",
        verdict="done",
        by="hook",
        evidence="found by key",
    )


def test_a_read_has_an_outcome_and_no_intent() -> None:
    call = the_call(lines(events(CRASHED[:4])), "order")
    assert (call.intent, call.began, call.receipt, call.ended) == (0, 0, 4, START + 4 * SECOND)


def test_a_takeover_names_what_was_found_open_and_what_changed() -> None:
    [_, taken] = [line for line in lines(events(CRASHED)) if line.kind == "interrupted"]
    assert taken.detail == ("inside refund", "changed: description of refund changed")


MOVED = e.RunMigrated(1, 2)
RAISED = e.BudgetRaised("ana", Amount(calls=1))


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        ((e.RunHeld("over-budget", "", ()), e.RunReleased("ana", "budget"), RAISED), "resumed"),
        ((e.RunResumed("w-1"), MOVED, e.ApprovalVoided("1:0", "a-1", "renamed")), "resumed"),
        ((e.CallIntended("2/1", REFUND, "k-1", 1, 0), RAISED), "interrupted"),
        ((RAISED,), "interrupted"),
    ],
)
def test_what_comes_beside_a_pause_makes_no_interruption_of_it(
    before: tuple[e.AnyBody, ...], kind: str
) -> None:
    """Only a run that was at work is interrupted: not one that was held, or brought over while it waited."""
    assert shown(STARTED, *before, e.RunResumed("w-2"))[-1].kind == kind


@pytest.mark.parametrize("bodies", [CRASHED, HELD, RECONCILED[:10]])
def test_the_open_calls_stand_as_the_fold_has_them(bodies: tuple[e.AnyBody, ...]) -> None:
    folded = {path: call.standing for path, call in record(bodies).calls.items()}
    drawn = {line.call.path: line.call.standing for line in lines(events(bodies)) if line.call is not None}
    assert {path: drawn[path] for path in folded} == folded


FAULT = codec.encode(codec.encode_error(ValueError("no money")))


def test_a_retried_call_is_one_line_with_its_attempts() -> None:
    bodies = (
        STARTED,
        e.CallIntended("1/0", REFUND, "k-1", 1, 0),
        e.CallSettled("1/0", "failed", FAULT, final=False),
        e.CallIntended("1/0", REFUND, "k-2", 2, 0),
        e.CallSettled("1/0", "done", codec.encode("rf-2"), attempt=2),
    )
    call = the_call(shown(*bodies), "refund")
    assert (call.standing, call.attempts, call.intent, call.receipt, call.value) == ("done", 2, 2, 5, "rf-2")
    halfway = the_call(shown(*bodies[:3]), "refund")
    assert (halfway.standing, halfway.value["message"]) == ("retrying", "no money")


def test_not_done_is_no_outcome_and_a_late_result_is_shown_as_such() -> None:
    bodies = (
        *CRASHED,
        e.CallReconciled("2/1", "not_done", "ada", evidence="asked the bank"),
        e.CallLate("2/1", 1, "done", codec.encode("rf-9"), used=True),
    )
    drawn = shown(*bodies)
    assert drawn[-2].detail == ("not_done", "ada", "asked the bank")
    assert drawn[-1].detail == ("done", "used")
    call = the_call(drawn, "refund")
    assert (call.standing, call.value, call.receipt, call.verdict) == ("done", "rf-9", 11, "not_done")


def test_a_restart_keeps_the_lines_of_what_it_drops() -> None:
    bodies = (
        STARTED,
        e.CallSettled("1/0", "done", codec.encode(1), head("chat", "read")),
        e.CallSettled("1/1", "done", codec.encode(2), head("order", "read")),
        e.StepRestarted("other arguments", keep=2),
        e.CallSettled("1/1", "done", codec.encode(3), head("order", "read")),
    )
    drawn = shown(*bodies)
    assert [line.call.value for line in drawn if line.call is not None] == [1, 2, 3]
    assert (drawn[3].kind, drawn[3].detail) == ("restarted", ("records up to @2 kept",))


def test_a_call_that_a_restart_keeps_stays_one_line() -> None:
    bodies = (
        STARTED,
        e.CallIntended("1/0", REFUND, "k-1", 1, 0),
        e.CallSettled("1/1", "done", codec.encode(2), head("order", "read")),
        e.StepRestarted("other arguments", keep=2),
        e.CallUnknown("1/0", "timeout", 0),
        e.CallReconciled("1/0", "done", "hook", codec.encode("rf-1")),
    )
    drawn = shown(*bodies)
    assert [line.kind for line in drawn] == ["started", "call", "call", "restarted", "unknown", "reconciled"]
    assert the_call(drawn, "refund").value == "rf-1"
    assert drawn[4].text == drawn[5].text == "refund"


def test_waits_holds_and_cancellation() -> None:
    bodies = (
        STARTED,
        e.WaitOpened("1/0", "sleep", START + 60 * SECOND),
        e.WaitClosed("1/0", "due"),
        e.RunHeld("step-error", "ValueError: x", ()),
        e.RunReleased("ada", "retry", "mended"),
        e.CancelRequested("ada", "enough"),
        e.RunFinished("cancelled", b""),
    )
    assert shown(*bodies)[1].until == START + 60 * SECOND
    assert [(line.kind, line.text, line.detail) for line in shown(*bodies)[1:]] == [
        ("wait", "sleep", ()),
        ("woke", "due", ()),
        ("held", "step-error", ("ValueError: x",)),
        ("released", "ada", ("retry", "mended")),
        ("cancel", "ada", ("enough",)),
        ("finished", "cancelled", ()),
    ]


def test_arguments_that_the_journal_holds_elsewhere_are_found_or_named() -> None:
    reply = codec.encode({"messages": ["hello"]})
    inner = codec.encode(["hello"])
    start = reply.index(inner)
    arguments: dict[str, e.Argument] = {
        "again": e.Ref(2, start, len(inner)),
        "goal": e.Ref(1, 0, len(STARTED.goal)),
        "gone": e.Ref(99, 0, 4),
        "talk": e.StateList(("messages",), 3, (codec.encode("new"),)),
        "all": e.StateList((), 2),
    }
    called = e.CallHead("chat", "read", tuple(arguments.items()), b"")
    drawn = shown(
        STARTED,
        e.CallSettled("1/0", "done", reply, head("look", "read")),
        e.CallSettled("1/1", "done", codec.encode(None), called),
    )
    assert the_call(drawn, "chat").args == {
        "again": ["hello"],
        "goal": "Refund o-77",
        "gone": Reference("event 99"),
        "talk": Reference("state.messages[:3] + 1 new"),
        "all": Reference("state[:2]"),
    }


def test_a_history_that_begins_in_the_middle_is_shown_as_far_as_it_goes() -> None:
    drawn = lines(events(RECONCILED)[7:])
    assert [(line.kind, line.text) for line in drawn[:2]] == [("interrupted", "w-2"), ("call", "?")]


def test_every_kind_of_event_has_a_reader() -> None:
    kinds: Any = e.AnyBody
    from perdure.timeline import view

    assert set(view._READERS) == set(kinds.__args__)
