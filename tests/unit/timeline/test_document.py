"""A run's past as documents for programs: JSON all through, no object of a user's, nothing lost silently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import codec
from perdure.state import events as e
from perdure.state.amount import Amount, Limits
from perdure.store.protocol import NEVER, StoreStats
from perdure.timeline import document
from perdure.timeline.condition import condition
from perdure.timeline.reason import why
from perdure.timeline.view import lines
from tests.unit.timeline.past import HELD, RECONCILED, REFUND, START, STARTED, events, head, record
from tests.unit.timeline.test_condition import NOW, row


def test_a_run_names_its_status_and_what_was_stored() -> None:
    held = row(status="held", due_at=NEVER)
    written = document.run_document(held, condition(held, NOW, note="over-budget"))
    assert (written["status"], written["stored_status"], written["because"]) == (
        "held",
        "held",
        "over-budget",
    )
    assert written["due_at"] is None
    assert written["lease_until"] is None
    assert written["created_at"] == "1970-01-12T13:45:40.000000Z"
    json.dumps(written, allow_nan=False)


def test_a_line_of_a_call_holds_the_whole_call() -> None:
    written = [document.line_document(line) for line in lines(events(RECONCILED))]
    call = next(line["call"] for line in written if line["text"] == "refund" and "call" in line)
    assert call["args"] == {"order_id": "o-77", "cents": 1200}
    assert (call["value"], call["verdict"], call["by"], call["receipt"]) == ("rf-1", "done", "hook", 10)
    json.dumps(written, allow_nan=False)


def test_a_record_has_a_result_or_an_error_or_a_hold() -> None:
    done = document.record_document(record(RECONCILED))
    assert (done["result"], done["error"], done["held"]) == ("paid back", None, None)
    held = document.record_document(record(HELD))
    assert (held["result"], held["held"]["reason"], held["held"]["path"]) == (None, "unknown-outcome", "2/1")
    fault = codec.encode(codec.encode_error(LookupError("no order")))
    failed = document.record_document(record((STARTED, e.RunFinished("failed", fault))))
    assert failed["error"]["message"] == "no order"


def test_why_is_written_as_it_is_drawn() -> None:
    answer = why(row(status="held"), record(HELD), NOW)
    written = document.why_document(answer)
    assert written["facts"][0] == {"label": "agent", "text": "refund-desk, state version 1"}
    assert written["remedies"] == list(answer.remedies)


def test_stats_are_plain_numbers() -> None:
    written = document.stats_document(StoreStats({"ready": 2}, 10, 900, 0, 0, 4096, 0, 3, {"schema": "1"}))
    assert written["runs"] == {"ready": 2}
    assert written["facts"] == {"schema": "1"}


ODD = e.OddKey(codec.encode((1, 2)))
EVERYTHING: tuple[e.AnyBody, ...] = (
    *HELD,
    e.RunReleased("ada", "resolve"),
    e.CallReconciled("2/1", "not_done", "ada"),
    e.CallLate("2/1", 1, "done", codec.encode(b"\xff"), used=False),
    e.WaitOpened("2/2", "sleep", START),
    e.WaitClosed("2/2", "due"),
    e.WaitOpened("2/9", "Which size?", START, "answer", codec.encode({"choices": ["S"]})),
    e.WaitClosed("2/9", "answer", codec.encode("S"), by="ana", id="a-1"),
    e.AnswerRefused("2/9", "no longer"),
    e.SignalReceived("paid", "s-1", codec.encode({"cents": 5}), "bank", START),
    e.ApprovalRequested(
        "2/5",
        "r~0a",
        REFUND,
        b"\x01",
        START,
        premises=(e.Premised("order", b"\x02", codec.encode("open")),),
    ),
    e.ApprovalGranted("2/5", "r~0a", "ada", "", (("cents", codec.encode(4)),), ("finance",), 1, START),
    e.ApprovalUsed("2/5", "r~0a"),
    e.ApprovalRequested("2/6", "r~0b", REFUND, b"", START),
    e.ApprovalDenied("2/6", "r~0b", "eve", "no", 2),
    e.ApprovalRequested("2/7", "r~0c", REFUND, b"", START),
    e.ApprovalExpired("2/7", "r~0c"),
    e.ApprovalRequested("2/7", "r~0d", REFUND, b"", START),
    e.ApprovalVoided("2/7", "r~0d", "its arguments changed"),
    e.FactRead("2/5", head("order", "read", id="o-1"), codec.encode("paid"), START),
    e.FactChanged("2/5", "order", codec.encode({"id": "o-1"}), codec.encode("open"), codec.encode("paid")),
    e.RunMigrated(
        1,
        2,
        (e.Delete(("b",)),),
        (("2/9", (("cents", codec.encode(5)),)),),
        lossy=True,
        original=codec.encode({"b": b"\xff"}),
    ),
    e.CancelRequested("ada", compensate=True),
    e.UndoPlanned((e.Owed("2/5", "refund", 20),), (e.Owed("2/6", "refund", 22),)),
    e.BudgetRaised("ada", Amount(usd=1_000_000_000), "more"),
    e.RunForked(
        "desk-0",
        "ab" * 16,
        "ada",
        "ask",
        goal=codec.encode(b"\xff"),
        patch=(e.Delete(("b",)),),
        models=(("chat", "large"),),
        budget=Limits(usd=5),
        acts=(
            e.OriginAct(
                "2/1", "pay", "irreversible", b"\x03", "done", codec.encode(b"\xfe"), (), "desk-0", 9, START
            ),
        ),
        seen=12,
    ),
    e.EffectAsked("2/8", 0, b"\x03"),
    e.EffectDecided("2/8", "simulate", "ada", codec.encode(float("nan")), "it is paid"),
    e.CallSettled("2/3", "done", codec.encode(1), e.CallHead("chat", "read", (("all", e.Omitted(9)),), b"")),
    e.CallSettled("2/4", "done", codec.encode(1), head("chat", "read", odd=float("nan"))),
    e.StepCommitted(
        2,
        (
            e.Set(("a", ODD), codec.encode(1 << 70)),
            e.Set(("b",), e.Ref(6, 0, 4)),
            e.Delete(("c",)),
            e.Splice(("d",), 1, 0, (codec.encode("x"), e.Ref(6, 0, 4))),
        ),
    ),
    e.StepRestarted("why", keep=3),
    e.RunFinished("succeeded", codec.encode(None)),
)


def test_every_event_can_be_written() -> None:
    written = [document.event_document(event) for event in events(EVERYTHING)]
    json.dumps(written, allow_nan=False)
    assert [one["seq"] for one in written] == list(range(1, len(EVERYTHING) + 1))
    patch = next(
        one["body"]["patch"] for one in written if one["kind"] == "step.committed" and one["seq"] > 10
    )
    assert patch == [
        {"set": ["a", [1, 2]], "value": {"$int": str(1 << 70)}},
        {"set": ["b"], "value": {"$ref": {"seq": 6, "start": 0, "length": 4}}},
        {"delete": ["c"]},
        {
            "splice": ["d"],
            "start": 1,
            "count": 0,
            "values": ["x", {"$ref": {"seq": 6, "start": 0, "length": 4}}],
        },
    ]


@pytest.mark.parametrize("kind", e.AnyBody.__args__)
def test_the_history_above_has_every_kind(kind: Any) -> None:
    assert any(isinstance(body, kind) for body in EVERYTHING)
