"""What a message from the inbox means for a run, as events.

Pure. A message that no longer fits anything means nothing, and is taken all the same: each is applied once
(law 10).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.recovery.verdicts import DropTail, after_mismatch, first_seq, may_have_acted
from perdure.runtime.decisions import decision_events
from perdure.runtime.lineage import child_events
from perdure.runtime.origin import effect_events
from perdure.runtime.questions import answer_events, signal_events
from perdure.runtime.raising import raising_events
from perdure.runtime.resolved import resolvable
from perdure.state import events as e
from perdure.state.fold import fold
from perdure.state.record import CallRecord, RunRecord
from perdure.store.protocol import Inbound

log = logging.getLogger("perdure.run")


class Late(Struct, frozen=True):
    """A late result as its message tells it: of which call, and what it came to. `value`: value bytes."""

    path: str
    attempt: int
    key: str
    outcome: e.Outcome
    final: bool
    value: bytes
    name: str = ""
    effect: str = ""
    usage: e.Usage | None = None

    @property
    def receipt(self) -> e.CallSettled:
        """The receipt that the run could not be given."""
        return e.CallSettled(
            self.path,
            self.outcome,
            self.value,
            final=self.final,
            attempt=self.attempt,
            key=self.key,
            usage=self.usage,
        )

    @property
    def words(self) -> str:
        """Which attempt it is of, and what came of it."""
        came = {"done": "had happened", "failed": "had failed", "not_done": "had not happened"}[self.outcome]
        return f"attempt {self.attempt} of call {self.path} ({self.name or '?'}) {came}"


def late_of(data: bytes) -> Late:
    """Read the data of a message of kind `late`, or of a tombstone."""
    told: dict[str, Any] = codec.decode(data)
    return Late(**{field: told[field] for field in Late.__struct_fields__ if field in told})


def message_events(record: RunRecord, message: Inbound, run_id: str) -> tuple[e.AnyBody, ...]:
    """The events that a message makes of a run."""
    data: dict[str, Any] = codec.decode(message.data)
    by = str(data.get("by", ""))
    match message.kind:
        case "cancel":
            compensate = bool(data.get("compensate", False))
            return (e.CancelRequested(by, str(data.get("note", "")), compensate),)
        case "resolve":
            return _resolved(record, data, by)
        case "release" | "retry":
            return _released(record, message.kind, data, by)
        case "effect":
            return effect_events(record, data, by)
        case "budget":
            return raising_events(record, data, by)
        case "approve" | "deny":
            return decision_events(record, message, data)
        case "signal":
            return signal_events(message, data)
        case "answer":
            return answer_events(record, message, data)
        case "migrate":
            return ()  # it only had the run taken up
        case "child":
            return child_events(record, data)
        case "late":
            return late_events(record, run_id, late_of(message.data).receipt, str(data["key"]))
        case "retire":
            return ()  # who sent it ends the run, unless a worker drives it
        case _:
            log.error("run %s: a message of the unknown kind %r was passed over", run_id, message.kind)
            return ()


def foreseen(record: RunRecord, inbox: Iterable[Inbound], run_id: str) -> RunRecord:
    """The run as it will be once these messages are taken, as far as they alone decide."""
    for message in inbox:
        for body in message_events(record, message, run_id):
            record = fold(record, e.Event(record.seq + 1, message.at, 0, body), codec.decode)
    return record


def _resolved(record: RunRecord, data: dict[str, Any], by: str) -> tuple[e.AnyBody, ...]:
    call = record.calls.get(str(data["path"]))
    if call is None or not resolvable(call):
        return ()
    if data.get("attempt", call.attempt) != call.attempt:
        return ()  # it speaks of an earlier attempt
    value = data.get("value", b"")
    verdict = e.CallReconciled(call.path, data["verdict"], f"person:{by}", value, str(data.get("note", "")))
    if record.held is not None and record.held.path == call.path:
        return (verdict, e.RunReleased(by, "resolve", str(data.get("note", ""))))
    return (verdict,)


def _released(record: RunRecord, kind: str, data: dict[str, Any], by: str) -> tuple[e.AnyBody, ...]:
    if record.held is None:
        return ()
    if data.get("sure"):
        note = str(data.get("note", ""))
        return (*_never_made(record, by, note), e.RunReleased(by, kind, note, sure=True))
    released = e.RunReleased(by, kind, str(data.get("note", "")))
    if data.get("restart"):
        return (released, e.StepRestarted(f"asked for by {by}", 0, fresh=True))
    if kind == "retry" and (first := min(_fruitless(record), default=0)):
        decision = after_mismatch(record, first)
        if isinstance(decision, DropTail):  # else something that acts came after it
            return (released, e.StepRestarted("what failed and did not act is made again", decision.keep))
    return (released,)


def _never_made(record: RunRecord, by: str, note: str) -> Iterator[e.CallReconciled]:
    """A person knows that no other incarnation has gone on: none of the calls in doubt was made."""
    for call in record.calls.values():
        if call.standing == "unknown" and call.cause == "restored":
            yield e.CallReconciled(call.path, "not_done", f"person:{by}", b"", note)


def _fruitless(record: RunRecord) -> Iterator[int]:
    """The first events of what came to nothing and did not act: calls that failed, requests that expired."""
    for call in record.calls.values():
        if call.standing == "failed" and not may_have_acted(call):
            yield first_seq(call)
    for asked in record.approvals.values():
        if asked.standing == "expired":
            yield asked.seq


def late_events(record: RunRecord, run_id: str, receipt: e.CallSettled, key: str) -> tuple[e.AnyBody, ...]:
    """A receipt that came when its call may have been settled otherwise, or made again.

    It settles the call if that is still open. If an irreversible call was made again meanwhile, or was said
    to have failed, a person must look: it may have happened twice, or against what the agent was told.
    """
    call = record.calls.get(receipt.path)
    if call is None:
        return (_late(receipt, used=False),)
    if receipt.outcome == "not_done" and not receipt.final:
        return _not_done(record, call, receipt)
    used = call.key == key and not call.settled and call.standing != "retrying"
    late: tuple[e.AnyBody, ...] = (_late(receipt, used=used),)
    if used and record.held is not None and record.held.path == receipt.path:
        late = (*late, e.RunReleased("late result", "resolve"))
    if receipt.outcome != "done" or call.effect != "irreversible":
        return late
    if call.attempt != receipt.attempt:
        return (*late, conflict(run_id, receipt, call.name, "it was made again"))
    if call.standing == "failed":
        return (*late, conflict(run_id, receipt, call.name, "it counts as failed"))
    return late


def _not_done(record: RunRecord, call: CallRecord, receipt: e.CallSettled) -> tuple[e.AnyBody, ...]:
    """A late word that an attempt certainly did not act, and may be made again: a verdict, no failure."""
    if call.standing not in ("open", "unknown") or call.attempt != receipt.attempt:
        return (_late(receipt, used=False),)
    verdict = e.CallReconciled(call.path, "not_done", "late result")
    if record.held is not None and record.held.path == call.path:
        return (verdict, e.RunReleased("late result", "resolve"))
    return (verdict,)


def _late(receipt: e.CallSettled, *, used: bool) -> e.CallLate:
    what = (receipt.path, receipt.attempt, receipt.outcome, receipt.value)
    return e.CallLate(*what, used=used, usage=receipt.usage)


def conflict(run_id: str, receipt: e.CallSettled, name: str, but: str) -> e.RunHeld:
    """The hold of an act that happened against what the run knew."""
    detail = f"attempt {receipt.attempt} of call {receipt.path} ({name}) had happened after all, and {but}"
    remedies = (f"perdure release {run_id}", f"perdure cancel {run_id}")
    return e.RunHeld("conflict", detail, remedies, receipt.path)


def made_again(events: Iterable[e.Event], receipt: e.CallSettled) -> str | None:
    """The name of the irreversible call that this receipt of an earlier step is of, if it was made again."""
    for event in events:
        body = event.body
        if (
            isinstance(body, e.CallIntended)
            and body.path == receipt.path
            and body.attempt > receipt.attempt
            and body.head.effect == "irreversible"
        ):
            return body.head.name
    return None
