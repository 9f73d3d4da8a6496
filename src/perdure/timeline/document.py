"""A run's past as documents for programs: the shapes that `--json` prints and that pages serve as `.json`.

Each function returns data in JSON's own types; docs/cli.md names every field. User values pass through
`plain.jsonable`, so a document never holds an object of a user's. Moments are ISO 8601, UTC, with
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from perdure.errors import at_store
from perdure.recovery.deploys import RunKey
from perdure.state import events as e
from perdure.state.record import ForkRecord, Hold, RunRecord
from perdure.state.undo import progress
from perdure.store.protocol import NEVER, RunRow, StoreStats
from perdure.timeline.amounts import stamp
from perdure.timeline.audit import MEANING, Act
from perdure.timeline.condition import Condition, fork_of
from perdure.timeline.plain import jsonable
from perdure.timeline.spending import noted_spending, spending, spending_document
from perdure.timeline.view import Call, Line, Reference, argument, place, plain

if TYPE_CHECKING:
    from perdure.timeline.reason import Why


def run_document(row: RunRow, state: Condition) -> dict[str, Any]:
    """A run as lists show it. `status` is the derived word, `stored_status` the last one that was written."""
    key = RunKey.read(row.version)
    return {
        "run_id": jsonable(row.run_id),
        "agent": jsonable(row.agent),
        "version": jsonable(key.version),
        "state_version": key.state,
        "pinned": key.pinned,
        "status": state.word,
        "stored_status": jsonable(row.status),
        "because": state.because,
        "needs": state.needs,
        "since": stamp(state.since),
        "terminal": row.terminal,
        "seq": row.seq,
        "epoch": row.epoch,
        "worker": jsonable(row.worker),
        "lease_until": stamp(row.lease_until) if row.lease_until else None,
        "due_at": stamp(row.due_at) if 0 < row.due_at < NEVER else None,
        "claims": row.claims,
        "pending_messages": row.pending,
        "parent": jsonable(row.parent),
        "fork_of": jsonable(fork_of(row)) or None,
        "queue": jsonable(row.placement.queue),
        "tags": jsonable(list(row.placement.tags)),
        "priority": row.placement.priority,
        "limit_key": jsonable(row.placement.limit_key or None),
        "key_limit": row.placement.key_limit,
        "budget": spending_document(noted_spending(row)),
        "created_at": stamp(row.created_at),
        "updated_at": stamp(row.updated_at),
    }


def record_document(record: RunRecord, store: str | None = None) -> dict[str, Any]:
    """What a run is about and what it has used.

    `result` is there when it succeeded, `error` when it failed. The remedies of a hold name `store`.
    """
    ended = jsonable(plain(record.value))
    return {
        "goal": jsonable(plain(record.goal)),
        "result": ended if record.ended == "succeeded" else None,
        "error": ended if record.ended == "failed" else None,
        "step": record.step,
        "state_version": record.state_version,
        "started_at": stamp(record.started_at),
        "resumes": record.resumes,
        "spent": _fields(record.spent),
        "budget": spending_document(spending(record)),
        "held": _held(record.held, store),
        "cancel_requested_by": jsonable(record.cancel),
        "undo": _undo(record) if record.compensate else None,
        "fork": None if record.fork is None else _fork(record.fork),
    }


def _fork(fork: ForkRecord) -> dict[str, Any]:
    """Where a fork comes from, and what it knows of what its origin did since."""
    asked = [one.path for one in fork.asked.values() if not one.how]
    return {
        "origin": jsonable(fork.run),
        "at": fork.at,
        "by": jsonable(fork.by),
        "effects": fork.effects,
        "acts_of_origin": [origin_act_document(act) for act in fork.acts],
        "asked": asked,
    }


def _act_listed(act: e.OriginAct | e.Owed) -> Any:
    return origin_act_document(act) if isinstance(act, e.OriginAct) else jsonable(act)


def origin_act_document(act: e.OriginAct) -> dict[str, Any]:
    """An act that a fork's origin made after the point."""
    return {
        "run_id": jsonable(act.run),
        "path": act.path,
        "name": jsonable(act.name),
        "effect": act.effect,
        "args": {jsonable(name): jsonable(plain(value)) for name, value in act.args if value},
        "outcome": act.outcome,
        "value": jsonable(plain(act.value)),
        "seq": act.seq,
        "child": jsonable(act.child) or None,
        "acts": act.acts,
        "undone": act.undone,
    }


def _undo(record: RunRecord) -> dict[str, Any]:
    """How far a compensating cancel has come, by the paths of the calls that it takes back."""
    if record.ended is not None:
        told = plain(record.value)
        return {"undone": told.get("undone", []), "not_undone": told.get("left", []), "to_undo": []}
    now = progress(record)
    kept = [*now.kept, *record.unsure]
    parts = {"undone": now.undone, "not_undone": kept, "to_undo": now.left}
    return {name: [act.path for act in acts] for name, acts in parts.items()}


def _held(held: Hold | None, store: str | None) -> dict[str, Any] | None:
    if held is None:
        return None
    return {
        "reason": jsonable(held.reason),
        "detail": jsonable(held.detail),
        "remedies": [jsonable(at_store(remedy, store)) for remedy in held.remedies],
        "path": held.path or None,
        "at": stamp(held.at),
    }


def stats_document(numbers: StoreStats) -> dict[str, Any]:
    """Counts and sizes of a store, in bytes."""
    return jsonable(asdict(numbers))  # type: ignore[no-any-return]


def why_document(reason: Why) -> dict[str, Any]:
    """Why a run does not move."""
    return {
        "run_id": jsonable(reason.run_id),
        "status": reason.condition.word,
        "needs": reason.condition.needs,
        "headline": reason.headline,
        "facts": [{"label": fact.label, "text": fact.text} for fact in reason.facts],
        "remedies": list(reason.remedies),
    }


def line_document(line: Line) -> dict[str, Any]:
    """One line of a timeline; `call` is there for a call."""
    document: dict[str, Any] = {
        "seq": line.seq,
        "at": stamp(line.at),
        "step": line.step,
        "kind": line.kind,
        "text": jsonable(line.text),
        "detail": jsonable(line.detail),
        "until": stamp(line.until) if 0 < line.until < NEVER else None,
    }
    if line.call is not None:
        document["call"] = call_document(line.call)
    return document


def act_document(act: Act) -> dict[str, Any]:
    """One act, which guarantee held for it, and who permitted it; the newest request first."""
    return {
        "seq": act.seq,
        "at": stamp(act.at),
        "step": act.step,
        "guarantee": act.guarantee,
        "undo": act.undo or None,
        "undone_at": act.undone_at or None,
        "because": MEANING[act.guarantee],
        "permits": [
            {
                "id": jsonable(permit.id),
                "ended": permit.ended,
                "agreed": [{"by": jsonable(who), "note": jsonable(note)} for who, note in permit.agreed],
                "edit": {jsonable(name): jsonable(value) for name, value in permit.edit},
                "by": jsonable(permit.by),
                "note": jsonable(permit.note),
            }
            for permit in act.permits
        ],
        "call": call_document(act.call),
    }


def call_document(call: Call) -> dict[str, Any]:
    """One call, with everything that is known of it."""
    return {
        "path": call.path,
        "name": jsonable(call.name),
        "effect": call.effect,
        "model": jsonable(call.model) or None,
        "args": {name: _shown(value) for name, value in call.args.items()},
        "key": call.key,
        "standing": call.standing,
        "attempts": call.attempts,
        "began": stamp(call.began) if call.began else None,
        "ended": stamp(call.ended) if call.ended else None,
        "intent": call.intent or None,
        "receipt": call.receipt or None,
        "premises": list(call.premises),
        "value": jsonable(call.value),
        "cause": call.cause or None,
        "verdict": call.verdict or None,
        "by": jsonable(call.by) or None,
        "evidence": jsonable(call.evidence) or None,
        "undoes": call.undoes or None,
        "usage": None if not call.usage else {"input_tokens": call.usage[0], "output_tokens": call.usage[1]},
    }


def _shown(value: Any) -> Any:
    return {"$ref": value.where} if isinstance(value, Reference) else jsonable(value)


def event_document(event: e.Event) -> dict[str, Any]:
    """One event as it is in the journal, its values decoded to plain data."""
    fields = {name: _field(name, getattr(event.body, name)) for name in event.body.__struct_fields__}
    return {"seq": event.seq, "at": stamp(event.at), "epoch": event.epoch, "kind": event.kind, "body": fields}


def _fields(value: Struct) -> dict[str, Any]:
    return {name: jsonable(getattr(value, name)) for name in value.__struct_fields__}


def _field(name: str, value: Any) -> Any:
    if (reader := _FIELDS.get(name)) is not None and value is not None:
        return reader(value)
    return jsonable(value)


def _head(head: e.CallHead) -> dict[str, Any]:
    return {
        "name": jsonable(head.name),
        "effect": head.effect,
        "args": {name: _shown(argument(value, {})) for name, value in head.args},
        "digest": head.digest.hex(),
    }


def _op(op: e.Op) -> dict[str, Any]:
    path = [jsonable(place(key)) for key in op.path]
    match op:
        case e.Set(value=value):
            return {"set": path, "value": _stored(value)}
        case e.Delete():
            return {"delete": path}
        case e.Splice(start=start, count=count, values=values):
            return {
                "splice": path,
                "start": start,
                "count": count,
                "values": [_stored(value) for value in values],
            }


def _stored(value: e.Value) -> Any:
    if isinstance(value, e.Ref):
        return {"$ref": {"seq": value.seq, "start": value.start, "length": value.length}}
    return jsonable(plain(value))


def _value(value: bytes) -> Any:
    return jsonable(plain(value))


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "value": _value,
    "detail": lambda detail: _value(detail) if isinstance(detail, bytes) else jsonable(detail),
    "was": _value,
    "now": _value,
    "args": _value,
    "goal": _value,
    "original": _value,
    "code": bytes.hex,
    "heads": lambda heads: {
        path: {name: _shown(argument(value, {})) for name, value in args} for path, args in heads
    },
    "state": _value,
    "manifest": _value,
    "principal": lambda who: _value(who) if isinstance(who, bytes) else jsonable(who),
    "edit": lambda edit: {name: _value(value) for name, value in edit},
    "schema": bytes.hex,
    "premises": lambda facts: [
        {"name": fact.name, "digest": fact.digest.hex(), "value": _value(fact.value)} for fact in facts
    ],
    "head": _head,
    "budget": asdict,
    "reserved": asdict,
    "more": asdict,
    "models": lambda models: {jsonable(name): jsonable(model) for name, model in models},
    "acts": lambda acts: [_act_listed(act) for act in acts],
    "patch": lambda patch: [_op(op) for op in patch],
}
"""How the fields that hold value bytes, or structures of them, are read;

Every other field is plain already.
"""
