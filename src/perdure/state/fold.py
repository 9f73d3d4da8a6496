"""run + event -> run: the only place where a run changes. Law 5: pure, and it never calls user code.

`read` turns value bytes into plain data; it is passed in, so that this room knows no encoding. Facts that
cannot
follow each other (a receipt without a call, anything after the end) raise `Damaged`: such a journal was not
written
by perdure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from msgspec.structs import replace

from perdure.errors import Damaged
from perdure.state import events as e
from perdure.state import fork as forks
from perdure.state import interruption
from perdure.state.amount import NOTHING, Amount
from perdure.state.facts import remember
from perdure.state.ledger import reserve, settle, settle_all
from perdure.state.patch import Work
from perdure.state.record import (
    NOT_INTERRUPTED,
    ApprovalRecord,
    CallRecord,
    Grant,
    Hold,
    Ledger,
    Pause,
    RunRecord,
    SignalRecord,
    Spent,
    WaitRecord,
)

Read: TypeAlias = Callable[[bytes], Any]
"""Value bytes to plain data."""

Changes: TypeAlias = dict[str, Any]
"""What an event changes in a run: fields of `RunRecord`."""


def fold(record: RunRecord, event: e.Event, read: Read) -> RunRecord:
    """The run after one more event."""
    return _after(record, event, Work(read))


def fold_all(record: RunRecord, events: Iterable[e.Event], read: Read) -> RunRecord:
    """The run after several events. Costs what they changed, however large the state is."""
    work = Work(read)
    for event in events:
        record = _after(record, event, work)
    return record


def fold_each(
    record: RunRecord, events: Iterable[e.Event], read: Read
) -> Iterator[tuple[RunRecord, e.Event]]:
    """Each event with the run before it, whose state is changed when the next one is asked for."""
    work = Work(read)
    for event in events:
        yield record, event
        record = _after(record, event, work)


def _after(record: RunRecord, event: e.Event, work: Work) -> RunRecord:
    if event.seq != record.seq + 1:
        raise Damaged(f"event {event.seq} follows event {record.seq}", seq=event.seq)
    if record.ended is not None:
        raise Damaged(f"event {event.seq} follows the end of the run", seq=event.seq)
    if record.ledger is not None and event.epoch != record.ledger.epoch:
        record = _new_lease(record, record.ledger, event)
    changes = _FOLDS[type(event.body)](record, event, event.body, work)
    return replace(record, seq=event.seq, updated_at=event.at, **changes)


def _new_lease(record: RunRecord, ledger: Ledger, event: e.Event) -> RunRecord:
    """Executing time is what lies between the first and the last event of a lease: waits lie outside."""
    ran = max(record.updated_at - ledger.since, 0) if ledger.since else 0
    spent = replace(record.spent, micros=record.spent.micros + ran)
    return replace(record, spent=spent, ledger=replace(ledger, since=event.at, epoch=event.epoch))


def recorded_values(record: RunRecord) -> dict[int, bytes]:
    """The values that the open step has recorded, by event: what a patch or an argument may refer to."""
    values: dict[int, bytes] = {}
    for call in record.calls.values():
        if call.seq:
            values[call.seq] = call.value
    for wait in record.waits.values():
        if wait.signal is not None:
            values[wait.signal.seq] = wait.value
        elif wait.value:
            values[wait.closed] = wait.value
    return values


def _started(record: RunRecord, event: e.Event, body: e.RunStarted, work: Work) -> Changes:
    if record.seq:
        raise Damaged("run.started twice", seq=event.seq)
    return {
        "agent": body.agent,
        "version": body.version,
        "state_version": body.state_version,
        "goal": body.goal,
        "manifest": body.manifest,
        "principal": body.principal,
        "parent": body.parent,
        "path": body.path,
        "trace": body.trace,
        "ledger": None if body.budget is None else Ledger(body.budget),
        "started_at": event.at,
        "begun": event.seq,
        "state": work.read(body.state),
        "doubt": body.doubt,
    }


def _resumed(record: RunRecord, event: e.Event, body: e.RunResumed, work: Work) -> Changes:
    pause = Pause(record.updated_at, event.at, body.open_calls, body.differences)
    # An execution of the open step that has left records must see again what it saw.
    about = "interrupted" if record.calls or record.waits else "interruption"
    known = interruption.paused(getattr(record, about), pause)
    changes: Changes = {"resumes": record.resumes + 1, about: known}
    if body.ran:
        changes["spent"] = replace(record.spent, micros=record.spent.micros + body.ran)
    if body.manifest:
        changes |= {"manifest": body.manifest, "version": body.version, "accepted": b""}
    return changes


def _migrated(record: RunRecord, event: e.Event, body: e.RunMigrated, work: Work) -> Changes:
    if body.from_version != record.state_version or body.to_version <= body.from_version:
        what = f"a state of version {record.state_version} is migrated from {body.from_version}"
        raise Damaged(f"{what} to {body.to_version}", seq=event.seq)
    args = dict(body.heads)
    calls = {
        path: replace(call, args=args[path]) if path in args else call for path, call in record.calls.items()
    }
    approvals = {
        path: replace(asked, head=replace(asked.head, args=args[path])) if path in args else asked
        for path, asked in record.approvals.items()
    }
    state = work.apply(record.state, body.patch, {})
    return {"state": state, "state_version": body.to_version, "calls": calls, "approvals": approvals}


def _intended(record: RunRecord, event: e.Event, body: e.CallIntended, work: Work) -> Changes:
    before = record.calls.get(body.path)
    if before is not None and before.settled:
        raise Damaged(f"call {body.path} is intended after it was settled", seq=event.seq)
    known = before is not None and before.key == body.key  # the other side remembers a key from its first use
    call = CallRecord(
        body.path,
        body.head.name,
        body.head.effect,
        body.head.args,
        body.head.digest,
        body.key,
        "open",
        body.attempt,
        round=before.round if before else 0,
        intent=before.intent if before and before.intent else event.seq,
        deadline=body.deadline,
        intended_at=before.intended_at if before is not None and known else event.at,
        intended_epoch=event.epoch,
    )
    spent = replace(record.spent, calls=record.spent.calls + 1)
    changes: Changes = {"calls": {**record.calls, body.path: call}, "spent": spent}
    if record.ledger is not None:  # what an earlier attempt had reserved is spent: nobody knows what it used
        ledger, changes["spent"] = settle(record.ledger, spent, body.path, None)
        changes["ledger"] = ledger if body.reserved is None else reserve(ledger, body.path, body.reserved)
    return changes


def _settled(record: RunRecord, event: e.Event, body: e.CallSettled, work: Work) -> Changes:
    before, head = record.calls.get(body.path), body.head
    outcome, spent = body.outcome, record.spent
    again = not body.final and outcome != "done"
    standing = _standing(outcome, again=again)
    round_ = 1 if again and outcome == "failed" else 0
    if before is None:
        if head is None:
            raise Damaged(f"a receipt for call {body.path}, which was never made", seq=event.seq)
        what = (body.path, head.name, head.effect, head.args, head.digest, body.key)
        call = CallRecord(*what, standing, body.attempt, round_, 0, event.seq, body.value)
    elif before.settled:
        raise Damaged(f"call {body.path} is settled twice", seq=event.seq)
    else:
        told: Changes = {"standing": standing, "attempt": body.attempt, "round": before.round + round_}
        call = replace(before, **told, seq=event.seq, value=body.value)
    if head is not None and head.name not in e.DRAWN:
        spent = replace(spent, calls=spent.calls + 1)
    if body.usage:
        spent = _used(spent, body.usage)
    changes: Changes = {"calls": {**record.calls, body.path: call}, "spent": spent}
    if record.ledger is not None:
        used = None if body.usage is not None and not body.usage else NOTHING
        changes["ledger"], changes["spent"] = settle(record.ledger, spent, body.path, used)
    return changes


def _used(spent: Spent, usage: e.Usage) -> Spent:
    used_in, used_out, *cost = usage
    return replace(
        spent,
        input_tokens=spent.input_tokens + used_in,
        output_tokens=spent.output_tokens + used_out,
        usd=spent.usd + (cost[0] if cost else 0),
        unpriced=spent.unpriced + (0 if cost else 1),
    )


def _ended(record: RunRecord, path: str, used: Amount | None) -> Changes:
    """A call's reservation ends without a receipt of its own."""
    if record.ledger is None or path not in record.ledger.reserved:
        return {}
    ledger, spent = settle(record.ledger, record.spent, path, used)
    return {"ledger": ledger, "spent": spent}


def _standing(outcome: e.Outcome, *, again: bool) -> Any:
    if again:
        return "retrying"
    return "failed" if outcome == "not_done" else outcome


def _open_call(record: RunRecord, event: e.Event, path: str) -> CallRecord:
    call = record.calls.get(path)
    if call is None or call.settled:
        raise Damaged(f"event {event.seq} speaks of call {path}, which is not open", seq=event.seq)
    return call


def _unknown(record: RunRecord, event: e.Event, body: e.CallUnknown, work: Work) -> Changes:
    call = replace(
        _open_call(record, event, body.path),
        standing="unknown",
        cause=body.cause,
        over_at=body.over_at,
        detail=body.detail,
    )
    if body.cause == "restored" and record.doubt is not None:  # the other side may know its key since then
        call = replace(call, intended_at=min(call.intended_at, record.doubt.since))
    return {"calls": {**record.calls, body.path: call}}


def _reconciled(record: RunRecord, event: e.Event, body: e.CallReconciled, work: Work) -> Changes:
    call = _open_call(record, event, body.path)
    call = replace(
        call, standing=body.verdict, seq=event.seq if body.verdict != "not_done" else 0, value=body.value
    )
    used = NOTHING if body.verdict in ("not_done", "failed") else None
    return {"calls": {**record.calls, body.path: call}, **_ended(record, body.path, used)}


def _late(record: RunRecord, event: e.Event, body: e.CallLate, work: Work) -> Changes:
    if not body.used:
        return {}
    call = _open_call(record, event, body.path)
    call = replace(call, standing=_standing(body.outcome, again=False), seq=event.seq, value=body.value)
    spent = _used(record.spent, body.usage) if body.usage else record.spent
    used = None if body.outcome == "done" and not body.usage else NOTHING
    record = replace(record, spent=spent)
    changes: Changes = {"calls": {**record.calls, body.path: call}, "spent": spent}
    return {**changes, **_ended(record, body.path, used)}


def _wait_opened(record: RunRecord, event: e.Event, body: e.WaitOpened, work: Work) -> Changes:
    wait = WaitRecord(body.path, body.name, body.deadline, event.seq, kind=body.kind, detail=body.detail)
    changes: Changes = {"waits": {**record.waits, body.path: wait}}
    if record.ledger is not None and body.reserved is not None:
        changes["ledger"] = reserve(record.ledger, body.path, body.reserved)
    return changes


def _wait_closed(record: RunRecord, event: e.Event, body: e.WaitClosed, work: Work) -> Changes:
    wait = record.waits.get(body.path)
    if wait is None or wait.closed:
        raise Damaged(f"event {event.seq} closes wait {body.path}, which is not open", seq=event.seq)
    wait = replace(wait, closed=event.seq, how=body.how, value=body.value, by=body.by)
    if not body.signal:
        changes: Changes = {"waits": {**record.waits, body.path: wait}}
        if record.ledger is not None and body.used is not None:
            changes["ledger"], changes["spent"] = settle(record.ledger, record.spent, body.path, body.used)
        return changes
    taken = next((signal for signal in record.signals if signal.seq == body.signal), None)
    if taken is None:
        raise Damaged(f"event {event.seq} takes signal {body.signal}, which is not there", seq=event.seq)
    wait = replace(wait, value=taken.value, by=taken.by, signal=taken)
    left = tuple(signal for signal in record.signals if signal is not taken)
    return {"waits": {**record.waits, body.path: wait}, "signals": left}


def _refused(record: RunRecord, event: e.Event, body: e.AnswerRefused, work: Work) -> Changes:
    wait = record.waits.get(body.path)
    if wait is None or wait.how != "answer":
        raise Damaged(f"event {event.seq} refuses an answer to {body.path}, which has none", seq=event.seq)
    wait = replace(wait, closed=0, how="", value=b"", by="", refused=body.why)
    return {"waits": {**record.waits, body.path: wait}}


def _signal(record: RunRecord, event: e.Event, body: e.SignalReceived, work: Work) -> Changes:
    signal = SignalRecord(event.seq, body.name, body.id, body.value, body.by, body.accepted)
    return {"signals": (*record.signals, signal)}


def _asked(record: RunRecord, event: e.Event, body: e.ApprovalRequested, work: Work) -> Changes:
    before = record.approvals.get(body.path)
    if before is not None and before.open:
        raise Damaged(f"approval {body.id} is asked for while {before.id} is open", seq=event.seq)
    asked = ApprovalRecord(
        body.path,
        body.id,
        body.head,
        body.schema,
        body.deadline,
        body.by,
        body.quorum,
        body.round,
        body.premises,
        event.seq,
        event.at,
    )
    return {"approvals": {**record.approvals, body.path: asked}, "asked": record.asked + 1}


def _approval(record: RunRecord, event: e.Event, body: Any, *standings: str) -> ApprovalRecord:
    """The approval that an event speaks of, which must stand so."""
    asked = record.approvals.get(body.path)
    if asked is None or asked.id != body.id or asked.standing not in standings:
        raise Damaged(
            f"event {event.seq} speaks of approval {body.id}, which does not stand so", seq=event.seq
        )
    return asked


def _granted(record: RunRecord, event: e.Event, body: e.ApprovalGranted, work: Work) -> Changes:
    asked = _approval(record, event, body, "pending")
    grant = Grant(body.principal, body.roles, body.note, event.at)
    # Who agreed before somebody put other arguments in has not agreed to those.
    kept = asked.grants if asked.edit == body.edit else ()
    if any(one.principal == body.principal for one in kept):
        raise Damaged(f"approval {body.id} is granted twice by {body.principal}", seq=event.seq)
    grants = (*kept, grant)
    standing = "granted" if len(grants) >= asked.quorum else "pending"
    asked = replace(asked, standing=standing, grants=grants, edit=body.edit, until=body.until)
    return _decided(record, event, asked, body.principal, body.note)


def _denied(record: RunRecord, event: e.Event, body: e.ApprovalDenied, work: Work) -> Changes:
    asked = replace(_approval(record, event, body, "pending", "granted"), standing="denied")
    return _decided(record, event, asked, body.principal, body.note)


def _expired(record: RunRecord, event: e.Event, body: e.ApprovalExpired, work: Work) -> Changes:
    asked = replace(_approval(record, event, body, "pending"), standing="expired")
    return _decided(record, event, asked, "", "")


def _voided(record: RunRecord, event: e.Event, body: e.ApprovalVoided, work: Work) -> Changes:
    asked = replace(_approval(record, event, body, "pending", "granted", "used"), standing="voided")
    return _decided(record, event, asked, "", body.why)


def _used_up(record: RunRecord, event: e.Event, body: e.ApprovalUsed, work: Work) -> Changes:
    asked = replace(_approval(record, event, body, "granted"), standing="used")
    return {"approvals": {**record.approvals, body.path: asked}}


def _decided(record: RunRecord, event: e.Event, asked: ApprovalRecord, by: str, note: str) -> Changes:
    asked = replace(asked, decided_by=by, decided_at=event.at, note=note)
    return {"approvals": {**record.approvals, asked.path: asked}}


def _fact_read(record: RunRecord, event: e.Event, body: e.FactRead, work: Work) -> Changes:
    facts = remember(record.facts, event, body)
    if body.check:
        return {"facts": facts}
    receipt = e.CallSettled(body.path, "done", body.value, body.head, attempt=body.attempt)
    return {"facts": facts, **_settled(record, event, receipt, work)}


def _fact_changed(record: RunRecord, event: e.Event, body: e.FactChanged, work: Work) -> Changes:
    return {"interrupted": interruption.changed(record.interrupted, event.at, body)}


def _cancel(record: RunRecord, event: e.Event, body: e.CancelRequested, work: Work) -> Changes:
    first = record.cancel is None
    return {
        "cancel": body.by if first else record.cancel,
        "cancel_note": body.note if first else record.cancel_note,
        "compensate": record.compensate or body.compensate,
    }


def _planned(record: RunRecord, event: e.Event, body: e.UndoPlanned, work: Work) -> Changes:
    if not record.compensate or record.undo is not None:
        raise Damaged(f"event {event.seq} plans undos, and nobody asked for that", seq=event.seq)
    return {"undo": body.acts, "unsure": body.unsure}


def _raised(record: RunRecord, event: e.Event, body: e.BudgetRaised, work: Work) -> Changes:
    if record.ledger is None:
        raise Damaged(f"event {event.seq} raises a budget that there is not", seq=event.seq)
    return {"ledger": replace(record.ledger, raised=record.ledger.raised + body.more)}


def _committed(record: RunRecord, event: e.Event, body: e.StepCommitted, work: Work) -> Changes:
    if body.number != record.step + 1:
        raise Damaged(f"step {body.number} is committed after step {record.step}", seq=event.seq)
    values = recorded_values(record)
    state = work.apply(record.state, body.patch, values)
    return {
        "state": state,
        "step": body.number,
        "restart": 0,
        "failures": 0,
        "calls": {},
        "waits": {},
        "approvals": {},
        "spent": replace(record.spent, steps=record.spent.steps + 1),
        "begun": event.seq,
        "interruption": interruption.of_step(record.interrupted, record.calls, values),
        "interrupted": NOT_INTERRUPTED,
        "fork": forks.committed(record.fork),
    }


def _restarted(record: RunRecord, event: e.Event, body: e.StepRestarted, work: Work) -> Changes:
    calls = {path: call for path, call in record.calls.items() if _first_seq(call) <= body.keep}
    waits = {path: wait for path, wait in record.waits.items() if wait.seq <= body.keep}
    approvals = {
        path: asked if asked.seq <= body.keep else _dropped(asked) for path, asked in record.approvals.items()
    }
    failed = body.keep >= record.seq  # nothing is forgotten: the step raised, and is executed again as it is
    return {
        **_forgotten(record, [path for path in record.calls if path not in calls]),
        "calls": calls,
        "waits": waits,
        "signals": _given_back(record, waits),
        "approvals": approvals,
        "restart": record.restart + (1 if body.fresh else 0),
        "failures": record.failures + (1 if failed else 0),
        "fork": forks.restarted(record.fork, body.keep),
    }


def _given_back(record: RunRecord, waits: dict[str, WaitRecord]) -> tuple[SignalRecord, ...]:
    """The signals that are free when only these waits are left: what the others took is free again."""
    free = [
        wait.signal for wait in record.waits.values() if wait.signal is not None and wait.path not in waits
    ]
    return tuple(sorted((*record.signals, *free), key=lambda signal: signal.seq)) if free else record.signals


def _forgotten(record: RunRecord, paths: Iterable[str]) -> Changes:
    """Calls that are forgotten have spent what they had reserved."""
    if record.ledger is None or not record.ledger.reserved:
        return {}
    ledger, spent = settle_all(record.ledger, record.spent, paths)
    return {"ledger": ledger, "spent": spent}


def _dropped(asked: ApprovalRecord) -> ApprovalRecord:
    """A request that was forgotten with the calls around it: whoever answers it is told so."""
    if not asked.open and asked.standing != "used":
        return asked
    return replace(asked, standing="voided", note="the step was begun anew")


def _first_seq(call: CallRecord) -> int:
    return call.intent or call.seq


def _held(record: RunRecord, event: e.Event, body: e.RunHeld, work: Work) -> Changes:
    changes: Changes = {"held": Hold(body.reason, body.detail, body.remedies, body.path, event.at, body.code)}
    if not body.doubt:
        return changes
    since = record.updated_at if record.doubt is None else record.doubt.since
    return {**changes, "doubt": e.Doubt(since, event.at)}


def _released(record: RunRecord, event: e.Event, body: e.RunReleased, work: Work) -> Changes:
    asked = b"" if record.held is None else record.held.code
    changes: Changes = {"held": None, "failures": 0, **({"accepted": asked} if asked else {})}
    return {**changes, "doubt": None} if body.sure else changes


def _finished(record: RunRecord, event: e.Event, body: e.RunFinished, work: Work) -> Changes:
    return {
        **_forgotten(record, () if record.ledger is None else record.ledger.reserved),
        "ended": body.status,
        "value": body.value,
        "held": None,
        "calls": {},
        "waits": {},
        "approvals": {},
    }


def _forked(record: RunRecord, event: e.Event, body: e.RunForked, work: Work) -> Changes:
    if record.ledger is not None:  # the time since the origin's last event is nobody's
        record = _new_lease(record, record.ledger, event)
    return {"spent": record.spent, **forks.forked(record, event, body, work)}


def _effect_asked(record: RunRecord, event: e.Event, body: e.EffectAsked, work: Work) -> Changes:
    return {"fork": forks.asked(record, event, body)}


def _effect_decided(record: RunRecord, event: e.Event, body: e.EffectDecided, work: Work) -> Changes:
    return {"fork": forks.decided(record, event, body)}


_FOLDS: dict[type, Callable[[RunRecord, e.Event, Any, Work], Changes]] = {
    e.RunStarted: _started,
    e.RunResumed: _resumed,
    e.RunMigrated: _migrated,
    e.CallIntended: _intended,
    e.CallSettled: _settled,
    e.CallUnknown: _unknown,
    e.CallReconciled: _reconciled,
    e.CallLate: _late,
    e.WaitOpened: _wait_opened,
    e.WaitClosed: _wait_closed,
    e.AnswerRefused: _refused,
    e.SignalReceived: _signal,
    e.ApprovalRequested: _asked,
    e.ApprovalGranted: _granted,
    e.ApprovalDenied: _denied,
    e.ApprovalExpired: _expired,
    e.ApprovalVoided: _voided,
    e.ApprovalUsed: _used_up,
    e.FactRead: _fact_read,
    e.FactChanged: _fact_changed,
    e.CancelRequested: _cancel,
    e.UndoPlanned: _planned,
    e.BudgetRaised: _raised,
    e.StepCommitted: _committed,
    e.StepRestarted: _restarted,
    e.RunHeld: _held,
    e.RunReleased: _released,
    e.RunFinished: _finished,
    e.RunForked: _forked,
    e.EffectAsked: _effect_asked,
    e.EffectDecided: _effect_decided,
}
