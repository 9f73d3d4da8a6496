"""Verdicts about unknown calls and mismatches: pure."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import pytest

from perdure.agent import EFFECTS, Effect
from perdure.clock import SECOND
from perdure.recovery.verdicts import (
    ASK_SECONDS,
    GRACE_SECONDS,
    Again,
    Ask,
    CallPolicy,
    DropTail,
    HoldDiverged,
    LeaveUnknown,
    Person,
    after_mismatch,
    after_unknown,
    may_restart,
    records,
)
from perdure.state.record import CallRecord, RunRecord, Standing, WaitRecord

NOW = 1_000_000 * SECOND


def call(
    effect: Effect = "irreversible", path: str = "1:0", standing: Standing = "unknown", **facts: Any
) -> CallRecord:
    """A call of the open step."""
    facts = {"intended_at": NOW - 5 * SECOND, "over_at": NOW, "attempt": 1, **facts}
    return CallRecord(path, "pay", effect, (), b"d", "key", standing, **facts)


def wait(path: str, seq: int, closed: int = 0) -> WaitRecord:
    """A wait of the open step."""
    return WaitRecord(path, "sleep", NOW, seq, closed)


def run(*items: CallRecord | WaitRecord) -> RunRecord:
    """A run whose open step recorded these."""
    return RunRecord(
        calls={item.path: item for item in items if isinstance(item, CallRecord)},
        waits={item.path: item for item in items if isinstance(item, WaitRecord)},
    )


# ------------------------------------------------------------------------------------- after an unknown call

UNKNOWN: tuple[Literal["hold", "raise"], ...] = ("hold", "raise")

POLICIES = [
    CallPolicy(hook, unknown, timeout, ttl)
    for hook, unknown, timeout, ttl in itertools.product(
        (False, True), UNKNOWN, (None, 20.0), (None, 1.0, 60.0)
    )
]


@pytest.mark.parametrize("policy", POLICIES)
def test_only_a_read_or_a_call_whose_key_is_remembered_is_made_again_unasked(policy: CallPolicy) -> None:
    for effect in EFFECTS:
        again = after_unknown(call(effect), policy, NOW) == Again()
        remembered = policy.key_ttl_seconds in (None, 60.0)
        assert again == (effect == "read" or (effect == "idempotent" and remembered)), effect


@pytest.mark.parametrize("policy", POLICIES)
def test_an_irreversible_call_is_asked_about_where_there_is_a_hook(policy: CallPolicy) -> None:
    action = after_unknown(call(), policy, NOW)
    if policy.has_hook:
        assert isinstance(action, Ask)
    elif policy.unknown == "raise":
        assert action == LeaveUnknown()
    else:
        assert isinstance(action, Person)
        assert "reconcile" in action.why


def test_a_key_is_remembered_until_its_time_is_over_and_not_a_moment_longer() -> None:
    policy = CallPolicy(has_hook=False, key_ttl_seconds=60.0)
    sent = call("idempotent", intended_at=NOW)
    assert after_unknown(sent, policy, NOW + 60 * SECOND - 1) == Again()
    action = after_unknown(sent, policy, NOW + 60 * SECOND)
    assert isinstance(action, Person)
    assert "key_ttl" in action.why


def test_an_idempotent_call_whose_key_is_forgotten_is_asked_about_or_held_whatever_unknown_says() -> None:
    sent = call("idempotent", intended_at=NOW)
    late = NOW + 100 * SECOND
    for unknown in UNKNOWN:
        assert isinstance(after_unknown(sent, CallPolicy(False, unknown, None, 60.0), late), Person)
        assert isinstance(after_unknown(sent, CallPolicy(True, unknown, None, 60.0), late), Ask)


@pytest.mark.parametrize(
    ("timeout", "grace"), [(None, GRACE_SECONDS), (0.5, 0.5), (20.0, 20.0), (300.0, 300.0)]
)
def test_the_grace_window_begins_when_the_attempt_was_over(timeout: float | None, grace: float) -> None:
    over = NOW + 7 * SECOND
    action = after_unknown(call(over_at=over), CallPolicy(True, timeout_seconds=timeout), NOW)
    assert isinstance(action, Ask)
    assert action.trust_from == over + int(grace * SECOND)
    assert action.until == action.trust_from + int(max(timeout or 0.0, ASK_SECONDS) * SECOND)


def test_the_window_does_not_depend_on_when_it_is_asked_about() -> None:
    policy, unknown = CallPolicy(True, timeout_seconds=5.0), call()
    asked = {after_unknown(unknown, policy, NOW + seconds * SECOND) for seconds in (0, 10, 10_000)}
    assert len(asked) == 1


# ------------------------------------------------------------------------------------------ after a mismatch


def read(path: str, seq: int) -> CallRecord:
    """A settled read."""
    return call("read", path, "done", seq=seq)


def act(path: str, intent: int, seq: int = 0, effect: Effect = "irreversible") -> CallRecord:
    """A call that acts, settled if `seq`."""
    return call(effect, path, "done" if seq else "open", intent=intent, seq=seq)


def test_a_tail_of_reads_and_open_waits_is_dropped_from_the_mismatch_on() -> None:
    record = run(read("1:0", 2), read("1:1", 3), wait("1:2", 4))
    assert [after_mismatch(record, seq) for seq in (2, 3, 4)] == [DropTail(1), DropTail(2), DropTail(3)]


@pytest.mark.parametrize("effect", [effect for effect in EFFECTS if effect != "read"])
@pytest.mark.parametrize("settled", [0, 9])
def test_a_tail_with_an_act_holds_settled_or_not(effect: Effect, settled: int) -> None:
    record = run(read("1:0", 2), act("1:1", 4, settled, effect))
    for seq in (2, 3, 4):
        assert after_mismatch(record, seq) == HoldDiverged(may_restart=False)


def test_an_act_counts_from_its_intent_and_not_from_its_receipt() -> None:
    record = run(act("1:0.0.0", 2, 5), read("1:0.1.0", 3), read("1:1", 6))
    assert after_mismatch(record, 3) == DropTail(2)
    assert after_mismatch(record, 6) == DropTail(5)
    assert after_mismatch(record, 2) == HoldDiverged(may_restart=False)


def test_an_answered_wait_is_kept() -> None:
    record = run(wait("1:0", 2, closed=3), read("1:1", 4))
    assert after_mismatch(record, 4) == DropTail(3)
    assert after_mismatch(record, 2) == HoldDiverged(may_restart=True)


def test_a_step_may_begin_anew_only_if_nothing_in_it_acts() -> None:
    assert may_restart(run())
    assert may_restart(run(read("1:0", 2), wait("1:1", 3, closed=4)))
    for standing in ("open", "unknown", "done", "failed", "not_done", "retrying", "left-unknown"):
        assert not may_restart(run(read("1:0", 2), call(standing=standing, intent=3))), standing


def test_records_come_in_the_order_of_their_first_events() -> None:
    items: list[CallRecord | WaitRecord] = [wait("1:2", 6), read("1:1", 5), act("1:0", 2, 9)]
    assert [item.path for item in records(run(*items))] == ["1:0", "1:1", "1:2"]
