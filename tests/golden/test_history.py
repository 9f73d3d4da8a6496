"""A golden history: one run with every kind of event, as the frames that the first release writes.

`history-v1.json` holds the frames and the chain digests in hex. They must be written the same, read the same,
and fold to the same run for ever; a changed format gets a new file beside this one.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.state import events as e
from perdure.state.amount import Amount, Limits
from perdure.state.fold import fold_all
from perdure.state.record import RunRecord

FILE = pathlib.Path(__file__).parent / "history-v1.json"
AT = 1_795_000_000_000_000
HEAD = e.CallHead(
    "pay", "irreversible", (("to", codec.encode("o-77")), ("cents", codec.encode(1200))), b"d" * 16
)
PAY = e.CallHead("pay", "irreversible", (("cents", codec.encode(900)),), b"p" * 16)
CHAT = e.CallHead(
    "chat", "read", (("messages", e.StateList(("messages",), 1)), ("tools", e.Omitted(512))), b"c" * 16
)
REPLY = codec.encode({"message": {"role": "assistant", "content": "I shall pay it back now."}})
ORDER = e.CallHead("order", "read", (("order_id", codec.encode("o-77")),), b"o" * 16)
PAID = codec.encode("paid")
ERROR = codec.encode({"type": "Refused", "message": "no funds"})


def permissions() -> list[e.AnyBody]:
    """Requests for a permission, and what becomes of them."""
    return [
        e.ApprovalRequested(
            "1:4",
            "desk-1~00d2f6c1b7a4",
            PAY,
            b"s" * 16,
            AT + 90_000_000,
            "role:finance",
            2,
            0,
            (e.Premised("order", b"o" * 16, codec.encode("open")),),
        ),
        e.ApprovalGranted(
            "1:4", "desk-1~00d2f6c1b7a4", "ana", "fine", (("cents", codec.encode(700)),), ("finance",), 1, AT
        ),
        e.ApprovalGranted(
            "1:4", "desk-1~00d2f6c1b7a4", "bob", "", (("cents", codec.encode(700)),), ("finance",), 2, AT
        ),
        e.ApprovalUsed("1:4", "desk-1~00d2f6c1b7a4"),
        e.ApprovalRequested("1:5", "desk-1~1b0e97d2a511", PAY, b"s" * 16, AT + 90_000_000),
        e.ApprovalVoided("1:5", "desk-1~1b0e97d2a511", "its arguments changed"),
        e.ApprovalRequested("1:5", "desk-1~2c1fa8e3b622", PAY, b"s" * 16, AT + 90_000_000, "function", 1, 2),
        e.ApprovalDenied("1:5", "desk-1~2c1fa8e3b622", "eve", "no", 3),
        e.ApprovalRequested("1:6", "desk-1~3d20b9f4c733", PAY, b"s" * 16, AT + 1, "", 1, 3),
        e.ApprovalExpired("1:6", "desk-1~3d20b9f4c733"),
    ]


def forking() -> list[e.AnyBody]:
    """It becomes a fork, and meets what its origin has done."""
    return [
        e.RunForked(
            "desk-0",
            "ab" * 16,
            "ana",
            "ask",
            goal=codec.encode("another order"),
            patch=(e.Set(("cents",), codec.encode(900)),),
            models=(("chat", "large"),),
            budget=Limits(usd=2_000_000_000, own=("usd",)),
            acts=(
                e.OriginAct(
                    "3:0",
                    "pay",
                    "irreversible",
                    b"\x07" * 16,
                    "done",
                    codec.encode("r-9"),
                    (("cents", codec.encode(1200)),),
                    "desk-0",
                    41,
                    AT,
                ),
            ),
            seen=50,
        ),
        e.EffectAsked("3:0", 0, b"\x07" * 16),
        e.EffectDecided("3:0", "reuse", "ana", note="it is paid"),
    ]


def bodies() -> list[e.AnyBody]:
    """Every kind of event, in an order that can happen."""
    goal, state = (
        codec.encode("refund o-77"),
        codec.encode({"messages": [{"role": "user", "content": "refund o-77"}]}),
    )
    start = REPLY.index(codec.encode({"role": "assistant", "content": "I shall pay it back now."}))
    append = e.Splice(
        ("messages",), 1, 0, (e.Ref(2, start, len(REPLY) - start), codec.encode({"role": "tool"}))
    )
    return [
        e.RunStarted(
            "desk",
            "1",
            1,
            goal,
            state,
            codec.encode({"agent": "desk"}),
            codec.encode({"id": "ana"}),
            None,
            Limits(usd=500_000_000, steps=30, own=("steps",)),
            "",
            "0123456789abcdef0123456789abcdef",
        ),
        e.CallSettled("1:0", "done", REPLY, CHAT, usage=(120, 30, 90_000)),
        e.CallIntended("1:1.0.0", HEAD, "k1", 1, AT + 20_000_000, 0, Amount(usd=7_000, tokens=70)),
        e.RunResumed("w-2", ("1:1.0.0",), ()),
        e.CallUnknown("1:1.0.0", "crash", AT + 5, "the worker died"),
        e.CallReconciled("1:1.0.0", "not_done", "hook"),
        e.CallIntended("1:1.0.0", HEAD, "k1", 2, 0, 1),
        e.CallUnknown("1:1.0.0", "timeout", AT + 9),
        e.CallLate("1:1.0.0", 2, "done", codec.encode("r-1"), used=True, usage=(3, 4, 5_000)),
        e.CallSettled("1:1.1.0", "failed", ERROR, replace(HEAD, effect="read"), final=False),
        e.StepRestarted("the code asks for another read", 9),
        e.WaitOpened("1:2", "sleep", AT + 60_000_000),
        e.WaitClosed("1:2", "due"),
        e.SignalReceived("paid", "s-1", codec.encode({"cents": 1200}), "bank", AT + 130_000),
        e.WaitOpened("1:3", "paid", AT + 60_000_000, "signal", codec.encode({"expiry": "raise"})),
        e.WaitClosed("1:3", "signal", signal=14),
        *permissions(),
        e.WaitOpened("1:4", "Which size?", AT + 60_000_000, "answer", codec.encode({"choices": ["S", "M"]})),
        e.WaitClosed("1:4", "answer", codec.encode("S"), by="ana", id="a-1"),
        e.AnswerRefused("1:4", "$ should be one of 'L'"),
        e.FactRead("1:3?0", ORDER, PAID, AT + 100_000, 1, changed=True, check=True),
        e.FactChanged("1:3", "order", codec.encode({"order_id": "o-77"}), PAID, codec.encode("cancelled")),
        e.StepCommitted(
            1, (append, e.Set(("done",), codec.encode(True)), e.Set((e.OddKey(codec.encode(7)),), b"\x01"))
        ),
        e.RunHeld("step-error", "KeyError: 'x'", ("perdure retry desk-1",)),
        e.RunReleased("ana", "retry", "mended"),
        e.BudgetRaised("ana", Amount(usd=1_000_000_000), "one more try"),
        e.StepCommitted(2, (e.Delete(("done",)),)),
        *forking(),
        e.RunResumed(
            "w-3", (), ("tool-removed chat: tool",), 0, codec.encode({"agent": "desk", "version": "2"}), "2"
        ),
        e.RunMigrated(
            1,
            3,
            (e.Set(("currency",), codec.encode("usd")),),
            (("3:0", (("cents", codec.encode(900)),)),),
            lossy=True,
            original=codec.encode({"messages": []}),
        ),
        e.CancelRequested("ana", "no longer needed", compensate=True),
        e.UndoPlanned((e.Owed("1:1.0.0", "pay", 10),), (e.Owed("2:0", "mail", 31),)),
        e.RunFinished("cancelled", codec.encode({"by": "ana"})),
    ]


FORKED = next(n for n, body in enumerate(bodies(), 1) if isinstance(body, e.RunForked))
"""Where the run became another one."""


def history() -> list[e.Event]:
    """The run, an event each 10 ms."""
    return [e.Event(n, AT + n * 10_000, 1 if n < 4 else 2, body) for n, body in enumerate(bodies(), 1)]


def written() -> list[dict[str, Any]]:
    """The history as it would be stored now."""
    digest, rows = codec.GENESIS, []
    for event in history():
        frame = codec.pack(event)
        digest = codec.chain(digest, frame)
        rows.append({"kind": event.kind, "frame": frame.hex(), "digest": digest.hex()})
    return rows


def golden() -> list[dict[str, str]]:
    """The history as it was stored by the first release."""
    rows: list[dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return rows


def test_the_history_has_every_kind() -> None:
    """No kind of event is without golden bytes."""
    assert {event.kind for event in history()} == {
        str(c.__struct_config__.tag) for c in e.Body.__subclasses__()
    }


def test_events_are_written_as_ever() -> None:
    """The same facts give the same frames and the same chain."""
    assert written() == golden()


def test_events_are_read_as_ever() -> None:
    """The stored frames give the same facts."""
    assert [codec.unpack(bytes.fromhex(row["frame"]), e.Event) for row in golden()] == history()


def test_the_run_is_the_same_as_ever() -> None:
    """The stored frames fold to the same run."""
    events = [codec.unpack(bytes.fromhex(row["frame"]), e.Event) for row in golden()]
    run = fold_all(RunRecord(), events, codec.decode)
    assert run.state == {
        "messages": [
            {"role": "user", "content": "refund o-77"},
            {"role": "assistant", "content": "I shall pay it back now."},
            {"role": "tool"},
        ],
        7: 1,
        "cents": 900,
        "currency": "usd",
    }
    assert run.fork is not None
    assert (run.fork.run, run.fork.at, run.fork.used, run.models) == (
        "desk-0",
        FORKED - 1,
        (),
        {"chat": "large"},
    )
    assert (run.fork.asked["3:0"].how, run.fork.acts[0].path, codec.decode(run.goal)) == (
        "reuse",
        "3:0",
        "another order",
    )
    assert (run.ended, run.step, run.cancel, run.resumes) == ("cancelled", 2, "ana", 2)
    assert (run.version, run.state_version) == ("2", 3)
    assert (run.spent.calls, run.spent.steps, run.spent.input_tokens, run.spent.output_tokens) == (
        4,
        2,
        123,
        34,
    )
    assert (run.compensate, run.undo, run.unsure) == (
        True,
        (e.Owed("1:1.0.0", "pay", 10),),
        (e.Owed("2:0", "mail", 31),),
    )
    open_step = fold_all(RunRecord(), events[:9], codec.decode)
    call = open_step.calls["1:1.0.0"]
    assert (call.standing, call.attempt, call.key, codec.decode(call.value)) == ("done", 2, "k1", "r-1")
    assert run.ledger is not None
    assert (run.ledger.now.usd, run.ledger.now.steps, run.ledger.reserved) == (2_000_000_000, None, {})
    assert run.spent.usd == 95_000, (
        "what the act had reserved came back when it was said not to have happened"
    )
    asked = fold_all(RunRecord(), events[:26], codec.decode)
    assert {path: one.standing for path, one in asked.approvals.items()} == {
        "1:4": "used",
        "1:5": "denied",
        "1:6": "expired",
    }
    agreed = asked.approvals["1:4"]
    assert ([grant.principal for grant in agreed.grants], codec.decode(agreed.edit[0][1])) == (
        ["ana", "bob"],
        700,
    )
    assert (asked.asked, run.asked, run.approvals) == (4, 4, {})


if __name__ == "__main__":  # python -m tests.golden.test_history: only while no release has written the file
    lines = ",\n  ".join(json.dumps(row) for row in written())
    FILE.write_text(f"[\n  {lines}\n]\n", encoding="utf-8")
