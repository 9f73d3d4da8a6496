"""A refund run as a history written out: what the tests of every face look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure import codec
from perdure.clock import SECOND
from perdure.state import events as e
from perdure.state.fold import fold_all
from perdure.state.record import RunRecord

START = 1_796_047_391 * SECOND


def head(name: str, effect: e.Effect, **args: Any) -> e.CallHead:
    """The head of a call with these arguments."""
    recorded = tuple((key, codec.encode(value)) for key, value in args.items())
    return e.CallHead(name, effect, recorded, codec.digest(name.encode()))


REFUND = head("refund", "irreversible", order_id="o-77", cents=1200)

STARTED = e.RunStarted("refund-desk", "7", 1, codec.encode("Refund o-77"), codec.encode({}), codec.encode({}))

CRASHED: tuple[e.AnyBody, ...] = (
    STARTED,
    e.RunResumed("w-1"),
    e.CallSettled("1/0", "done", codec.encode("look"), head("chat", "read", n=1), usage=(120, 30)),
    e.CallSettled("1/1", "done", codec.encode({"cents": 1200}), head("order", "read", order_id="o-77")),
    e.StepCommitted(1, (e.Set(("found",), codec.encode(True)),)),
    e.CallSettled("2/0", "done", codec.encode("pay"), head("chat", "read", n=2)),
    e.CallIntended("2/1", REFUND, "k-1", 1, START + 90 * SECOND),
    e.RunResumed("w-2", ("2/1",), ("description of refund changed",)),
    e.CallUnknown("2/1", "crash", START + 90 * SECOND),
)
"""Killed inside `refund`, taken over, its outcome unknown."""

RECONCILED: tuple[e.AnyBody, ...] = (
    *CRASHED,
    e.CallReconciled("2/1", "done", "hook", codec.encode("rf-1"), "found by key"),
    e.StepCommitted(2),
    e.RunFinished("succeeded", codec.encode("paid back")),
)
"""… found at the bank, and ended well."""

HELD: tuple[e.AnyBody, ...] = (
    *CRASHED,
    e.RunHeld(
        "unknown-outcome",
        "refund was called and its reply never came",
        ("perdure resolve order-1042 2/1 --done RESULT", "perdure resolve order-1042 2/1 --not-done"),
        "2/1",
    ),
)
"""… held for a person, because the tool has no reconcile hook."""


def events(bodies: Sequence[e.AnyBody], every: int = SECOND) -> list[e.Event]:
    """The bodies as numbered events, `every` microseconds apart; the epoch rises with each claim."""
    made, epoch = [], 0
    for seq, body in enumerate(bodies, 1):
        epoch += isinstance(body, e.RunResumed)
        made.append(e.Event(seq, START + seq * every, epoch, body))
    return made


def record(bodies: Sequence[e.AnyBody]) -> RunRecord:
    """The folded run."""
    return fold_all(RunRecord(), events(bodies), codec.decode)
