"""The sums of a budget: a reservation ends exactly once, whatever ends it; what is spent never falls."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import codec
from perdure.state import events as e
from perdure.state.amount import NOTHING, Amount, Limits, billionths
from perdure.state.fold import fold_all
from perdure.state.ledger import reserve, reserved_of, settle, settle_all, spent_of
from perdure.state.record import Ledger, RunRecord, Spent
from perdure.state.wording import money, told

START = e.RunStarted(
    "a", "1", 1, b"", codec.encode({}), b"", budget=Limits(usd=1000, tokens=100, micros=10**12)
)
HEAD = e.CallHead("chat", "read", (), b"d")
ASKED = Amount(usd=70, tokens=7)
VALUE = codec.encode(None)


def intended(attempt: int = 1) -> e.CallIntended:
    return e.CallIntended("1:0", HEAD, "k", attempt, 0, 0, ASKED)


def settled(
    outcome: Any = "done", usage: Any = None, *, final: bool = True, attempt: int = 1
) -> e.CallSettled:
    return e.CallSettled("1:0", outcome, VALUE, None, final, attempt, usage=usage)


def folded(*bodies: e.AnyBody, at: list[int] | None = None, epochs: list[int] | None = None) -> RunRecord:
    """The run after these facts, a second apart, in one lease, unless said otherwise."""
    events = [
        e.Event(
            seq,
            at[seq - 1] if at else seq * 1_000_000,
            epochs[seq - 1] if epochs else min(seq - 1, 1),
            body,
        )
        for seq, body in enumerate(bodies, 1)
    ]
    return fold_all(RunRecord(), events, codec.decode)


UNKNOWN = e.CallUnknown("1:0", "crash", 0)
LOST = settled("failed", (), final=False)


@pytest.mark.parametrize(
    ("after", "usd", "tokens", "left"),
    [
        ((), 0, 0, ASKED),
        ((UNKNOWN,), 0, 0, ASKED),
        ((settled(usage=(3, 2, 50)),), 50, 5, NOTHING),
        ((settled(usage=(30, 20, 500)),), 500, 50, NOTHING),
        ((settled(usage=()),), 70, 7, NOTHING),
        ((settled("failed"),), 0, 0, NOTHING),
        ((settled("failed", ()),), 70, 7, NOTHING),
        ((settled("failed", final=False), intended(2)), 0, 0, ASKED),
        (
            (settled("failed", (), final=False), intended(2), settled(usage=(1, 1, 9), attempt=2)),
            79,
            9,
            NOTHING,
        ),
        ((UNKNOWN, intended(2)), 70, 7, ASKED),
        ((UNKNOWN, intended(2), UNKNOWN, intended(3), settled(usage=(), attempt=3)), 210, 21, NOTHING),
        ((UNKNOWN, e.CallReconciled("1:0", "done", "hook", VALUE)), 70, 7, NOTHING),
        ((UNKNOWN, e.CallReconciled("1:0", "left-unknown", "policy")), 70, 7, NOTHING),
        ((UNKNOWN, e.CallReconciled("1:0", "failed", "hook", VALUE)), 0, 0, NOTHING),
        ((UNKNOWN, e.CallReconciled("1:0", "not_done", "hook")), 0, 0, NOTHING),
        ((UNKNOWN, e.CallReconciled("1:0", "not_done", "hook"), intended(2)), 0, 0, ASKED),
        ((UNKNOWN, e.CallLate("1:0", 1, "done", VALUE, used=True)), 70, 7, NOTHING),
        ((UNKNOWN, e.CallLate("1:0", 1, "failed", VALUE, used=True)), 0, 0, NOTHING),
        ((UNKNOWN, e.CallLate("1:0", 1, "done", VALUE, used=True, usage=(2, 3, 40))), 40, 5, NOTHING),
        ((UNKNOWN, e.CallLate("1:0", 1, "done", VALUE, used=False)), 0, 0, ASKED),
        ((e.StepRestarted("begun anew", 0, fresh=True),), 70, 7, NOTHING),
        ((e.StepRestarted("it raised", 2),), 0, 0, ASKED),
        ((e.RunFinished("cancelled", VALUE),), 70, 7, NOTHING),
        ((settled(usage=(3, 2, 50)), e.RunFinished("succeeded", VALUE)), 50, 5, NOTHING),
        ((settled(usage=(3, 2)),), 0, 5, NOTHING),
    ],
)
def test_how_a_reservation_ends(after: tuple[e.AnyBody, ...], usd: int, tokens: int, left: Amount) -> None:
    record = folded(START, intended(), *after)
    spent = spent_of(record)
    assert (spent.usd, spent.tokens, reserved_of(record)) == (usd, tokens, left)
    assert spent.calls == 1 + sum(isinstance(body, e.CallIntended) for body in after)


def test_settling_twice_changes_nothing_more() -> None:
    book, spent = reserve(Ledger(Limits(usd=9)), "a", Amount(usd=5)), Spent()
    book, spent = settle(book, spent, "a", None)
    assert (book.reserved, spent.usd) == ({}, 5)
    assert settle(book, spent, "a", None) == (book, spent)
    assert settle_all(book, spent, ["a", "b"]) == (book, spent)


def test_what_nobody_reserved_can_be_booked() -> None:
    """A child may bring back what it used without having been promised anything."""
    _, spent = settle(Ledger(Limits()), Spent(calls=1), "child", Amount(2, 3, 4, 5, 6))
    assert (spent.usd, spent.input_tokens, spent.calls, spent.steps, spent.micros) == (2, 3, 5, 5, 6)


def test_a_run_without_a_budget_keeps_no_ledger() -> None:
    record = folded(
        e.RunStarted("a", "1", 1, b"", codec.encode({}), b""), intended(), settled(usage=(1, 2, 3))
    )
    assert record.ledger is None
    assert spent_of(record) == Amount(usd=3, tokens=3, calls=1)
    assert reserved_of(record) == NOTHING


def test_time_is_what_lies_within_a_lease() -> None:
    """A pause between two leases is no executing time; what a dead owner may have done is."""
    waits: list[e.AnyBody] = [e.WaitOpened("1:1", "sleep", 5), e.WaitClosed("1:1", "due")]
    record = folded(
        START,
        e.RunResumed("w-1"),
        waits[0],
        e.RunResumed("w-2", ran=500),
        waits[1],
        at=[0, 10, 30, 86_400_000_000, 86_400_000_007],
        epochs=[0, 1, 1, 2, 2],
    )
    assert spent_of(record).micros == 20 + 500 + 7
    assert spent_of(record, now=86_400_000_100).micros == 20 + 500 + 100


def test_a_clock_that_jumps_back_takes_nothing_back() -> None:
    bodies = (START, e.RunResumed("w-1"), intended(), e.RunResumed("w-2"), UNKNOWN, e.RunResumed("w-3"))
    ats = [0, 7_200_000_000, 7_200_000_050, 100, 160, 90]
    before, record = 0, folded(START)
    for count in range(2, len(bodies) + 1):
        record = folded(*bodies[:count], at=ats, epochs=[0, 1, 1, 2, 2, 3])
        assert record.spent.micros >= before
        before = record.spent.micros
    assert spent_of(record).micros == 50 + 60


def test_amounts_are_exact_and_told_exactly() -> None:
    assert [billionths(usd) for usd in (0.1, 0.15, 1, 1e-9, 12345.678901234)] == [
        100_000_000,
        150_000_000,
        1_000_000_000,
        1,
        12_345_678_901_234,
    ]
    assert sum([billionths(0.1)] * 10) == billionths(1)
    assert [money(amount) for amount in (0, 70_000_000, 125_000, 1_234_500_000_000, -5_000_000)] == [
        "$0.00",
        "$0.07",
        "$0.000125",
        "$1,234.50",
        "-$0.005",
    ]
    assert told("calls", 1) == "1 call"
    assert told("tokens", 1204) == "1,204 tokens"
    assert told("micros", 12_500_000) == "12.5 s"
