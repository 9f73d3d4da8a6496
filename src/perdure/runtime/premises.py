"""What an act rests on is true when it is made: each fact is read again before the call, unless it is fresh.

Fresh is what was read under this claim of the run (so after any suspension, crash or hold it is read again)
and not longer ago than the fact's `fresh_for`, by the store's clock. A fact that is no longer the same as
what the agent knew when it asked for the call settles that call as failed (`PremiseChanged`), in the commit
that records the new value; a call asked for after that was told rests on the new one. Knows no permissions
and no budgets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.agent import Call, Premise, Tool
from perdure.agent.recovery import called
from perdure.clock import SECOND
from perdure.codec.naming import written
from perdure.errors import NotStorable, PremiseChanged, PremiseUnread, ShapeMismatch, said_by
from perdure.journal import retold
from perdure.runtime.body import run_body
from perdure.runtime.boundary import reached
from perdure.runtime.execution import Execution
from perdure.runtime.head import check_size, head_of
from perdure.runtime.resolved import unknown_hold
from perdure.runtime.wanted import Wanted, may_retry
from perdure.state import events as e
from perdure.state.facts import fact_key
from perdure.state.record import FactRecord, RunRecord

PATIENCE_SECONDS = 10.0
"""An intent may take at least so long to become durable, however short `fresh_for` is: else a slow disk would
have the fact read for ever and the call made never."""

SHOWN = 500
"""Characters of a value in a message."""


class _Found(Struct, frozen=True):
    """A premise of a call as it is now. `body`: it was read just now, and that is to be recorded."""

    fact: Tool[..., Any]
    args: dict[str, Any]
    key: str
    digest: bytes
    was: bytes | None
    now: bytes
    as_of: int
    body: e.FactRead | None
    same: bool


def recall(wanted: Wanted) -> None:
    """Remember what the agent knows of the facts when it asks for a call that rests on them."""
    wanted.known = {}
    for premise in wanted.tool.options.premises:
        fact, args = bound(wanted, premise)
        key = fact_key(fact.name, head_of(wanted.execution, fact, args).digest)
        if (record := wanted.execution.record.facts.kept.get(key)) is not None:
            wanted.known[key] = _learned(wanted.execution, record)


async def rest(wanted: Wanted) -> int | None:
    """Look at every premise of a call; afterwards `wanted.premises` says what it rests on.

    Settles the call if one has changed or cannot be read. The agent is told of one fact at a time, so the
    look ends at the first that has changed: what it was not told of stays unread. Returns the moment
    (microseconds, by the store's clock) from which on its intent may not be written any more; None for a call
    that does not act.
    """
    found: list[_Found] = []
    try:
        for number, premise in enumerate(wanted.tool.options.premises):
            found.append(await _look(wanted, number, premise))
            if not found[-1].same:
                break
    except PremiseUnread as error:
        await _refuse(wanted, [one.body for one in found if one.body is not None], error)
        return None
    bodies = [one.body for one in found if one.body is not None]
    if found and not found[-1].same:
        await _changed(wanted, bodies, found[-1])
        return None
    if bodies:
        await wanted.drive.journal.append(*bodies)
        reached("premise.same")
    kept = wanted.execution.record.facts.kept
    wanted.premises = tuple(
        e.Premised(one.fact.name, one.digest, one.now, kept[one.key].seq) for one in found
    )
    if wanted.head.effect == "read":
        return None
    patience = int(PATIENCE_SECONDS * SECOND)
    ends = (
        one.as_of + max(_span(one.fact), patience) + 1 for one in found
    )  # a fact of just that age is fresh
    return min(ends, default=None)


def hold(wanted: Wanted) -> bool:
    """Whether nobody has found a premise changed since this call looked at it."""
    kept = wanted.execution.record.facts.kept
    for premise in wanted.premises:
        record = kept.get(fact_key(premise.name, premise.digest))
        if record is None or record.changed > premise.seq:
            return False
    return True


def stale(wanted: Wanted) -> list[tuple[str, timedelta, timedelta]]:
    """The facts that a call rests on and that are older than they may be: name, age, and what is allowed."""
    found = []
    for premise in wanted.tool.options.premises:
        fact, args = bound(wanted, premise)
        key = fact_key(fact.name, head_of(wanted.execution, fact, args).digest)
        if (record := wanted.execution.record.facts.kept.get(key)) is not None:
            age = wanted.drive.host.store.now() - record.as_of
            if age > _span(fact):
                micros = timedelta(microseconds=1)
                found.append((fact.name, age * micros, _span(fact) * micros))
    return found


def still(tool: Tool[..., Any], name: str, was: bytes, now: bytes) -> bool:
    """Whether the fact of this name, on which a call of the tool rests, is as it was."""
    facts = [premise.fact for premise in tool.options.premises if premise.fact.name == name]
    return was == now or any(isinstance(fact, Tool) and _same_or_not(fact, was, now) for fact in facts)


def receipt(wanted: Wanted, settled: e.CallSettled) -> tuple[e.AnyBody, ...]:
    """What the journal says when the step itself has read a fact."""
    fact, head = wanted.tool, wanted.head
    before = wanted.execution.record.facts.kept.get(fact_key(fact.name, head.digest))
    changed = before is not None and not _same_or_not(fact, before.value, settled.value)
    body = e.FactRead(wanted.path, head, settled.value, wanted.as_of, settled.attempt, changed=changed)
    if before is None or not changed:
        return (body,)
    return (body, e.FactChanged(wanted.path, fact.name, _args(wanted.args), before.value, settled.value))


def as_declared(tool: Tool[..., Any], error: PremiseChanged) -> None:
    """Give a recorded error its values as the fact declares them; plain data where today's fact does not."""
    for premise in tool.options.premises:
        if premise.fact.name == error.fact:
            shape = premise.fact.parameters.result
            try:
                values = {
                    name: shape.restore(error.facts[name], where=f"$.{name}") for name in ("was", "now")
                }
            except ShapeMismatch:
                return
            error.facts.update(values)


# ------------------------------------------------------------------------------------------------- one fact


async def _look(wanted: Wanted, number: int, premise: Premise) -> _Found:
    """What a premise is now: as it was read under this claim if that is fresh, else read."""
    fact, args = bound(wanted, premise)
    head = head_of(wanted.execution, fact, args)
    key = fact_key(fact.name, head.digest)
    if key not in wanted.known:
        wanted.known[key] = await _from_the_past(wanted, key)
    lock = wanted.drive.reading.setdefault(key, asyncio.Lock())
    async with lock:  # several branches that rest on one fact read it once
        record = wanted.execution.record.facts.kept.get(key)
        was = wanted.known[key]
        if record is not None and _fresh(wanted, fact, record):
            same = _unchanged(fact, was, record.value)
            return _Found(fact, args, key, head.digest, was, record.value, record.as_of, None, same)
        as_of = wanted.drive.host.store.now()
        now = await _read(wanted, f"{wanted.path}?{number}", fact, args)
        same = _unchanged(fact, was, now)
        moved = not same if record is None else not _unchanged(fact, record.value, now)
        body = e.FactRead(f"{wanted.path}?{number}", _kept(head, args), now, as_of, changed=moved, check=True)
        return _Found(fact, args, key, head.digest, was, now, as_of, body, same)


def bound(wanted: Wanted, premise: Premise) -> tuple[Tool[..., Any], dict[str, Any]]:
    """A premise's fact and its arguments, taken from the call's by name."""
    fact = premise.fact
    assert isinstance(fact, Tool), f"the premise {fact!r} is no declared fact"
    defaults, bindings = fact.parameters.defaults, premise.bindings
    return fact, {
        name: wanted.args[bindings[name]] if name in bindings else defaults[name]
        for name in fact.parameters.names
    }


def _kept(head: e.CallHead, args: dict[str, Any]) -> e.CallHead:
    """The head with its arguments in place: they are looked at when the step that they came from is over."""
    kept = []
    for name, recorded in head.args:
        data = codec.encode(args[name]) if isinstance(recorded, e.Ref) else recorded
        kept.append((name, data))
    return e.CallHead(head.name, head.effect, tuple(kept), head.digest)


def _span(fact: Tool[..., Any]) -> int:
    fresh_for = fact.options.fresh_for
    assert fresh_for is not None, f"{fact.name} was declared without fresh_for"
    return fresh_for // timedelta(microseconds=1)


def _fresh(wanted: Wanted, fact: Tool[..., Any], record: FactRecord) -> bool:
    """Read under this claim, not in the future (a clock went back), and not too long ago."""
    age = wanted.drive.host.store.now() - record.as_of
    return record.epoch == wanted.drive.journal.epoch and 0 <= age <= _span(fact)


def _learned(execution: Execution, record: FactRecord) -> bytes:
    """What the step that is executed knows of a fact: the value before its last change if it was not told of
    that yet; empty if that is not known any more.
    """
    told = record.changed <= execution.record.begun or record.told in execution.told
    return record.value if told else record.was


async def _from_the_past(wanted: Wanted, key: str) -> bytes | None:
    """The newest value of a fact that the run has forgotten, or that the call did not rest on when it was
    asked for (a person has changed its arguments). None: it was never read.
    """
    drive, facts = wanted.drive, wanted.execution.record.facts
    if (record := facts.kept.get(key)) is not None:
        return _learned(wanted.execution, record)
    if not facts.forgotten:
        return None
    await drive.journal.barrier()
    read = (event.body for event in reversed((await retold(drive.host.store, drive.run_id)).events))
    return next(
        (b.value for b in read if isinstance(b, e.FactRead) and fact_key(b.head.name, b.head.digest) == key),
        None,
    )


async def _read(wanted: Wanted, path: str, fact: Tool[..., Any], args: dict[str, Any]) -> bytes:
    """Read a fact; its value bytes. Raises PremiseUnread."""
    drive = wanted.drive
    call = Call(
        key=codec.digest(drive.run_id.encode(), path.encode()).hex(),
        run_id=drive.run_id,
        path=path,
        args=args,
        principal=drive.principal,
        effect="read",
        tool=fact.name,
    )
    reached("premise.read")
    end = await run_body(drive, call, fact)
    if end.cancelled is not None:
        raise end.cancelled
    reached("premise.found")
    if end.error is not None:
        raise _unread(wanted, fact, args, end.error) from end.error
    try:
        value = codec.encode(end.result, where="$.result")
        check_size(drive, value, end.result, "$.result")
        fact.result_shape.restore(codec.decode(value), where=f"$.{fact.name}")
    except (NotStorable, ShapeMismatch) as error:
        raise _unread(wanted, fact, args, error) from error
    return value


def _unread(
    wanted: Wanted, fact: Tool[..., Any], args: dict[str, Any], error: BaseException
) -> PremiseUnread:
    why = f"{type(error).__name__}: {getattr(error, 'what', error)}"[:SHOWN]
    return PremiseUnread(
        f"{called(fact.name, args)} could not be read before {wanted.tool.name}: {why}",
        fact=fact.name,
        path=wanted.path,
    )


# -------------------------------------------------------------------------------------------------- the same


def _unchanged(fact: Tool[..., Any], was: bytes | None, now: bytes) -> bool:
    """Whether a fact is as it was; if nothing is known of it, it is. Raises PremiseUnread if `same` fails."""
    if was is None or was == now:
        return True
    if not was:
        return False
    plain_was, plain_now = codec.decode(was), codec.decode(now)
    key = fact.options.same
    if key is None:
        return bool(plain_was == plain_now)
    try:
        known = fact.result_shape.restore(plain_was, where="$.was")
    except ShapeMismatch:
        return False  # what other code recorded says nothing of today's fact
    try:
        return bool(key(known) == key(fact.result_shape.restore(plain_now, where="$.now")))
    except Exception as error:
        what = f"the same= of the fact {fact.name} failed: {type(error).__name__}: {said_by(error)}"[:SHOWN]
        raise PremiseUnread(
            what, fact=fact.name, remedy="let its key function take every value that the fact may have"
        ) from error


def _same_or_not(fact: Tool[..., Any], was: bytes, now: bytes) -> bool:
    """The same where nobody can be told of a `same` that fails: then the value counts as changed."""
    try:
        return _unchanged(fact, was, now)
    except PremiseUnread:
        return False


# ------------------------------------------------------------------------------------------------- refusals


async def _changed(wanted: Wanted, bodies: list[e.FactRead], one: _Found) -> None:
    name, was, now = one.fact.name, one.was or b"", one.now
    room = wanted.drive.host.store.value_bytes // 2
    error = PremiseChanged(
        f"{wanted.tool.name} was not called, because what it rests on has changed: "
        f"{called(name, one.args)} was {_value(was)}, now it is {_value(now)}",
        fact=name,
        was=_fitting(was, room // 2),
        now=_fitting(now, room // 2),
        path=wanted.path,
    )
    await _refuse(wanted, bodies, error, [e.FactChanged(wanted.path, name, _args(one.args), was, now)])


async def _refuse(
    wanted: Wanted,
    bodies: list[e.FactRead],
    error: PremiseChanged | PremiseUnread,
    found: Sequence[e.FactChanged] = (),
) -> None:
    """Settle the call as not made, with what was found, in one append.

    A call whose earlier send may have happened is not settled by that: a person tells, and the run goes on
    knowing what it knew.
    """
    drive, call = wanted.drive, wanted.call
    if call is not None and call.standing in ("open", "unknown"):
        await drive.journal.append(*found)
        detail = f"{call.name} may have happened and is not sent again: {error.what}"
        wanted.execution.hold(wanted.branch, unknown_hold(drive.run_id, call, detail))
    value = codec.encode(codec.encode_error(error))
    attempt = 1 if call is None else call.attempt + 1
    again = isinstance(error, PremiseUnread) and may_retry(wanted.tool, attempt)
    settled = e.CallSettled(wanted.path, "not_done", value, wanted.head, not again, attempt)

    def refuse(record: RunRecord) -> tuple[e.AnyBody, ...]:
        void = () if again else _void(record, wanted.path, error)
        return (*bodies, *found, settled, *void)

    await drive.journal.decide(refuse)
    reached("premise.changed")


def _void(record: RunRecord, path: str, error: PremiseChanged | PremiseUnread) -> tuple[e.AnyBody, ...]:
    """The end of the permission of a call that ends: in the same commit, or a crash would leave it open."""
    asked = record.approvals.get(path)
    if asked is None or not asked.open:
        return ()
    return (e.ApprovalVoided(path, asked.id, f"the call ended without an act: {type(error).__name__}"),)


def _args(args: dict[str, Any]) -> bytes:
    return codec.encode(args)


def _fitting(value: bytes, room: int) -> Any:
    """A value for the error that the step gets; None for one that is not known, or too long to be told."""
    return codec.decode(value) if value and len(value) <= room else None


def _value(value: bytes) -> str:
    return written(codec.decode(value), SHOWN) if value else "something else"
