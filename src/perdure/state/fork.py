"""What being forked makes of a run, and how a fork comes to terms with what its origin has done since.

Pure. Law 13 begins here: nothing that the origin was promised, asked or owed is the fork's. It has no
approval, no message, no open wait or child, no reservation and no key of its origin; what is settled in the
open step stays, and is served. Which call of a fork is one that its origin made is decided here as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from perdure.errors import Damaged
from perdure.state import events as e
from perdure.state.patch import Work
from perdure.state.record import (
    ApprovalRecord,
    AskedEffect,
    CallRecord,
    ForkRecord,
    Ledger,
    RunRecord,
    WaitRecord,
)

NOTICE = "~"
"""In the path of a call by which people are told of a request for a permission."""


def kept(record: RunRecord, given: Iterable[str] = ()) -> list[CallRecord | WaitRecord]:
    """What of the open step a fork would have: what is settled, and what is given an outcome."""
    there = frozenset(given)
    calls = [call for call in record.calls.values() if _stays(record, call, there)]
    return [*calls, *(wait for wait in record.waits.values() if wait.closed or wait.path in there)]


def own_events(events: Sequence[e.Event]) -> Sequence[e.Event]:
    """The events that are the run's own: of a fork those from `run.forked` on, else all."""
    for index in range(len(events) - 1, -1, -1):
        if isinstance(events[index].body, e.RunForked):
            return events[index:]
    return events


def forked(record: RunRecord, event: e.Event, body: e.RunForked, work: Work) -> dict[str, Any]:
    """What changes in a run that is now another one, with a life of its own."""
    if not record.seq or record.undo is not None:
        raise Damaged("run.forked before a run began, or after its undos", seq=event.seq)
    given = frozenset(body.given)
    calls = {path: _call(call, given) for path, call in record.calls.items() if _stays(record, call, given)}
    waits = {path: _wait(wait, given) for path, wait in record.waits.items() if wait.closed or path in given}
    state = work.apply(record.state, body.patch, {})
    return {
        "goal": body.goal or record.goal,
        "state": state,
        "calls": calls,
        "waits": waits,
        "approvals": _approvals(record, calls),
        "signals": (),
        "ledger": _ledger(record, event, body),
        "parent": None,
        "path": "",
        "trace": body.trace,
        "started_at": event.at,
        "held": None,
        "cancel": None,
        "cancel_note": "",
        "compensate": False,
        "unsure": (),
        "failures": 0,
        "accepted": b"",
        "doubt": None,
        "models": {**record.models, **dict(body.models)},
        "fork": ForkRecord(
            body.run, record.seq, body.by, body.effects, body.given, body.acts, trace=body.origin_trace
        ),
    }


def _stays(record: RunRecord, call: CallRecord, given: Iterable[str]) -> bool:
    """Whether a call of the open step is the fork's too: it is settled, or is settled by what follows."""
    base, notice, _ = call.path.partition(NOTICE)
    if notice:
        return call.settled and base in record.calls and record.calls[base].settled
    return call.settled or call.path in given


def _call(call: CallRecord, given: Iterable[str]) -> CallRecord:
    if call.path not in given:
        return call
    return replace(call, standing="open", seq=0, value=b"")


def _wait(wait: WaitRecord, given: Iterable[str]) -> WaitRecord:
    if wait.path not in given:
        return wait
    return replace(wait, closed=0, how="", value=b"", by="", signal=None)


def _approvals(record: RunRecord, calls: dict[str, CallRecord]) -> dict[str, ApprovalRecord]:
    """Only what a settled call rested on: it tells which call the code had asked for, and permits nothing."""
    return {path: asked for path, asked in record.approvals.items() if path in calls and not asked.open}


def _ledger(record: RunRecord, event: e.Event, body: e.RunForked) -> Ledger | None:
    """The limits, with nothing reserved; no time runs until a worker takes the fork up."""
    if body.budget is not None:
        return Ledger(body.budget, epoch=event.epoch)
    if record.ledger is None:
        return None
    return replace(record.ledger, reserved={}, since=0)


# ------------------------------------------------------------------------------------------- its effects


def asked(record: RunRecord, event: e.Event, body: e.EffectAsked) -> ForkRecord:
    """The fork, with one call more that waits for a decision; another one at its place gives way."""
    fork = _fork(record, event)
    if not -1 <= body.act < len(fork.acts):
        raise Damaged(f"event {event.seq} speaks of an act that there is not", seq=event.seq)
    one = AskedEffect(body.path, body.act, body.digest, event.seq)
    return replace(fork, asked={**fork.asked, body.path: one})


def decided(record: RunRecord, event: e.Event, body: e.EffectDecided) -> ForkRecord:
    """The fork, with one decision more."""
    fork = _fork(record, event)
    one = fork.asked.get(body.path)
    if one is None or one.how:
        raise Damaged(f"event {event.seq} decides of {body.path}, which nobody asked for", seq=event.seq)
    one = replace(one, how=body.how, value=body.value, by=body.by)
    return replace(fork, asked={**fork.asked, body.path: one})


def _fork(record: RunRecord, event: e.Event) -> ForkRecord:
    if record.fork is None:
        raise Damaged(f"event {event.seq} speaks of an origin that there is not", seq=event.seq)
    return record.fork


def committed(fork: ForkRecord | None) -> ForkRecord | None:
    """The fork after a step: what was decided in it stays so."""
    if fork is None or not fork.asked:
        return fork
    used = tuple(one.act for one in fork.asked.values() if one.how and one.act >= 0)
    return replace(fork, used=(*fork.used, *used), asked={})


def restarted(fork: ForkRecord | None, keep: int) -> ForkRecord | None:
    """The fork when its open step begins anew: what was asked after event `keep` was not asked."""
    if fork is None or not fork.asked:
        return fork
    return replace(fork, asked={path: one for path, one in fork.asked.items() if one.seq <= keep})


# ------------------------------------------------------------------------------------------- the same call


def left(fork: ForkRecord, but: str = "") -> Iterator[tuple[int, e.OriginAct]]:
    """The origin's acts that no call of the fork has been matched with, that at the path `but` apart."""
    taken = {*fork.used, *(one.act for one in fork.asked.values() if one.path != but)}
    return ((index, act) for index, act in enumerate(fork.acts) if index not in taken)


def matching(fork: ForkRecord, path: str, name: str, digest: bytes, *, child: bool = False) -> int | None:
    """Which of the origin's acts a call of the fork would repeat (its place in `acts`); None: none of them.

    The same tool with the same arguments, wherever it was called; and also the same tool with others, as long
    as one of its acts is left: a text that is worded anew is no reason to send it twice.
    """
    found = [
        (_likeness(act, path, digest), -index, index)
        for index, act in left(fork, path)
        if act.name == name and bool(act.child) == child
    ]
    return max(found)[2] if found else None


def _likeness(act: e.OriginAct, path: str, digest: bytes) -> int:
    return 2 * (act.digest == digest) + (act.path == path)


def unmatched(record: RunRecord) -> tuple[e.OriginAct, ...]:
    """What a fork of this fork has to know of: acts of the origin that this one has not come to yet."""
    fork = record.fork
    if fork is None:
        return ()
    settled = {path for path, call in record.calls.items() if call.settled}
    settled |= {path for path, wait in record.waits.items() if wait.closed}
    taken = {*fork.used, *(one.act for path, one in fork.asked.items() if path in settled)}
    return tuple(act for index, act in enumerate(fork.acts) if index not in taken)
