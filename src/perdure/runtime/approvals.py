"""A call that needs a person's permission: asked for, waited for, used once, or refused (law 8).

A permission holds for exactly one call: its arguments, its tool's schema, its premises, and who may decide.
What drifts from that voids it, and people are asked anew. It is used in the commit of the intent, which the
store refuses from its end on, or when a message has come that was not read. What messages mean is
`decisions`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.agent import Approval, ApprovalRequest, Call, Forever, Principal, Tool
from perdure.clock import SECOND
from perdure.codec.naming import written
from perdure.errors import (
    ApprovalDenied,
    ApprovalError,
    ApprovalExpired,
    BadSetting,
    InboxMoved,
    NotStorable,
    ShapeMismatch,
)
from perdure.journal import Fences, resolve
from perdure.runtime import premises
from perdure.runtime.body import run_body
from perdure.runtime.boundary import reached
from perdure.runtime.decisions import ANYONE, FUNCTION, ROLE, approval_id
from perdure.runtime.execution import Execution
from perdure.runtime.head import head_of
from perdure.runtime.requests import request_of
from perdure.runtime.rowinfo import asks_people, row_info
from perdure.runtime.wanted import Wanted
from perdure.state import events as e
from perdure.state.fold import recorded_values
from perdure.state.record import ApprovalRecord, CallRecord, RunRecord
from perdure.store.protocol import NEVER, RowChange

log = logging.getLogger("perdure.run")

TELLS = 3
"""How often a `notify` tool is tried; after that the request waits in the inbox alone."""

TELL_PAUSE = 0.5
"""Seconds between tries, doubled each time."""


class Permission(Struct, frozen=True):
    """What an act may rest on: facts for the commit of its intent, and the moment before which that is."""

    facts: tuple[e.AnyBody, ...] = ()
    not_after: int | None = None


_NONE_NEEDED = Permission()


async def permission(wanted: Wanted) -> Permission:
    """The permission that a call needs. Unwinds the branch while there is none; may settle the call.

    What `when=` and a function in `by=` raise passes through.
    """
    execution, drive, branch = wanted.execution, wanted.drive, wanted.branch
    await _forget_notices(wanted)
    while True:
        asked = execution.record.approvals.get(wanted.path)
        if (call := wanted.call) is not None and call.settled:
            return _NONE_NEEDED
        if asked is not None and asked.standing == "used":
            return _NONE_NEEDED  # it permits this call, however often that must be sent
        if not wanted.tool.needs_approval(wanted.first_args):
            if asked is not None and asked.open:
                await _void(wanted, asked, "the call no longer needs an approval")
            return _NONE_NEEDED
        execution.forbid(branch)
        if asked is None or asked.standing in ("voided", "expired"):
            await _ask(wanted)
        elif asked.standing == "denied":
            _tell_lists(wanted)
            await _deny(wanted, asked)
        elif why := drift(wanted, asked):
            await _void(wanted, asked, why)
        elif asked.standing == "granted":
            if drive.host.store.now() < asked.until:
                _tell_lists(wanted)
                return Permission((e.ApprovalUsed(asked.path, asked.id),), asked.until)
            await _void(wanted, asked, "the permission was not used in time")
        elif drive.host.store.now() >= asked.deadline:
            await _expire(wanted, asked)
        elif await _told(wanted, asked):
            execution.suspend(branch, asked.deadline, f"waits for approval {asked.id}")


def holds(wanted: Wanted) -> bool:
    """Whether the permission that was found is still there. No await may lie between this and the intent."""
    for fact in wanted.grounds.facts:
        if isinstance(fact, e.ApprovalUsed):
            asked = wanted.execution.record.approvals.get(fact.path)
            return asked is not None and asked.id == fact.id and asked.standing == "granted"
    return True


# ------------------------------------------------------------------------------------------------- asking


async def _ask(wanted: Wanted) -> None:
    """Write the request. It is shown to people only once it is durable, since they read it from the store."""
    drive, record, policy = wanted.drive, wanted.execution.record, policy_of(wanted.tool)
    head = wanted.first_head
    span = policy.expires or drive.agent.wait_limit
    deadline = NEVER
    if not isinstance(span, Forever):
        deadline = min(drive.host.store.now() + span // timedelta(microseconds=1), NEVER)
    made = approval_id(drive.run_id, wanted.path, head.digest, record.asked)
    reached("approval.request")
    await drive.journal.append(
        e.ApprovalRequested(
            wanted.path,
            made,
            head,
            wanted.tool.schema_digest,
            deadline,
            _by(policy),
            policy.quorum,
            record.asked,
            wanted.premises,
        )
    )
    _tell_lists(wanted)
    reached("approval.requested")


def _tell_lists(wanted: Wanted) -> None:
    """Lists show what the run asks for now, though it may go on with something else for long."""
    record = wanted.execution.record
    change = RowChange(info=row_info(record, ""), asks=asks_people(record))
    wanted.drive.journal.tell(change)


def policy_of(tool: Tool[..., Any]) -> Approval:
    """What a tool that needs an approval has declared about it."""
    policy = tool.options.approval
    assert policy is not None, f"{tool.name} needs no approval"
    return policy


def _by(policy: Approval) -> str:
    if policy.by is None:
        return ANYONE
    return f"{ROLE}{policy.by}" if isinstance(policy.by, str) else FUNCTION


async def _void(wanted: Wanted, asked: ApprovalRecord, why: str) -> None:
    log.info("run %s: approval %s is void: %s", wanted.drive.run_id, asked.id, why)

    def void(record: RunRecord) -> tuple[e.AnyBody, ...]:
        now = record.approvals[asked.path]
        return (e.ApprovalVoided(asked.path, asked.id, why),) if now.id == asked.id and now.open else ()

    await wanted.drive.journal.decide(void)
    reached("approval.voided")


async def drop(wanted: Wanted) -> None:
    """The call ended without an act, perhaps for a fact that changed: nothing is left to permit, and lists
    show so at once, though the step may go on for long.
    """
    asked, call = wanted.execution.record.approvals.get(wanted.path), wanted.call
    if asked is None or call is None:
        return
    if asked.open:
        error = codec.decode(call.value) if call.standing == "failed" else {}
        kind = error.get("type", call.standing) if isinstance(error, dict) else call.standing
        await _void(wanted, asked, f"the call ended without an act: {kind}")
    _tell_lists(wanted)


# ---------------------------------------------------------------------------------------------- refusals


async def _deny(wanted: Wanted, asked: ApprovalRecord) -> None:
    await wanted.drive.journal.append(denial(wanted, asked))
    reached("approval.refused")


def denial(wanted: Wanted, asked: ApprovalRecord) -> e.CallSettled:
    """The outcome of a call that somebody has denied."""
    told = f": {asked.note}" if asked.note else ""
    error = ApprovalDenied(
        f"{asked.decided_by} denied {asked.head.name} (approval {asked.id}){told}",
        approval_id=asked.id,
        by=asked.decided_by,
        note=asked.note,
    )
    return _refused(wanted, error)


def expiry_facts(wanted: Wanted, asked: ApprovalRecord) -> tuple[e.AnyBody, ...]:
    """What it means that nobody has decided in time, as the tool declares it."""
    what = f"nobody decided on {asked.head.name} (approval {asked.id}) in time"
    expired = e.ApprovalExpired(asked.path, asked.id)
    match policy_of(wanted.tool).expiry:
        case "deny":
            return (expired, _refused(wanted, ApprovalExpired(what, approval_id=asked.id)))
        case "hold":
            run_id = wanted.drive.run_id
            remedies = (f"perdure release {run_id}    asks again", f"perdure cancel {run_id}")
            return (expired, e.RunHeld("approval-expired", what, remedies, asked.path))
        case "ask":
            return (expired,)


async def _expire(wanted: Wanted, asked: ApprovalRecord) -> None:
    """Nobody decided in time, unless a decision that came in time has not been read yet."""
    drive = wanted.drive
    await drive.read_inbox()
    if wanted.execution.record.approvals.get(wanted.path) is not asked:
        return
    bodies = expiry_facts(wanted, asked)
    reached("approval.expire")
    try:
        await drive.journal.intend(bodies, Fences(inbox_seen=drive.inbox_seen))
        reached("approval.expired")
    except InboxMoved:
        await drive.read_inbox()


def _refused(wanted: Wanted, error: ApprovalError) -> e.CallSettled:
    """The outcome of a call that was not permitted: recorded, so that a replay raises the same."""
    call = wanted.call
    value = codec.encode(codec.encode_error(error))
    return e.CallSettled(
        wanted.path, "failed", value, wanted.first_head, attempt=1 if call is None else call.attempt
    )


# ------------------------------------------------------------------------------------------------- drift


def drift(wanted: Wanted, asked: ApprovalRecord) -> str:
    """What has changed since the request; empty if it is still for this very call."""
    tool, head = wanted.tool, wanted.first_head
    if asked.head.name != head.name:
        return f"the call is of {head.name} now, not of {asked.head.name}"
    if asked.schema != tool.schema_digest:
        return f"the types of {tool.name} changed"
    if asked.head.digest != head.digest:
        return f"its arguments changed: {_changed(wanted.execution.record, asked.head, head)}"
    policy = policy_of(tool)
    if (asked.by, asked.quorum) != (_by(policy), policy.quorum):
        return "who must agree changed"
    if why := _premise_drift(wanted, asked):
        return why
    return _grant_drift(wanted, asked, policy) if asked.standing == "granted" else ""


def _changed(record: RunRecord, then: e.CallHead, now: e.CallHead) -> str:
    values = recorded_values(record)
    old = {name: resolve(record.state, value, values) for name, value in then.args}
    new = {name: resolve(record.state, value, values) for name, value in now.args}
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    sides = [f"{name} {written(old.get(name), 60)} -> {written(new.get(name), 60)}" for name in names]
    return ", ".join(sides) or "their form"


def _premise_drift(wanted: Wanted, asked: ApprovalRecord) -> str:
    then = {(one.name, one.digest): one.value for one in asked.premises}
    now = {(one.name, one.digest): one.value for one in wanted.premises}
    for key, value in now.items():
        if key in then and not premises.still(wanted.tool, key[0], then[key], value):
            return f"the fact {key[0]} that it rests on changed"
    # With other arguments it rests on other facts, which were read just now.
    return "" if asked.edit or then.keys() == now.keys() else "it rests on other facts"


def _grant_drift(wanted: Wanted, asked: ApprovalRecord, policy: Approval) -> str:
    """Whoever agreed must still be allowed to, and their arguments must still fit."""
    if why := wanted.misfit:
        return f"the edited arguments no longer fit: {why}"
    request = request_of(wanted.drive.run_id, wanted.execution.record, asked)
    for grant in asked.grants:
        who = Principal(grant.principal, frozenset(grant.roles))
        if not may_decide(policy, who, request):
            return f"{grant.principal} may no longer decide"
    return ""


def may_decide(policy: Approval, who: Principal, request: ApprovalRequest) -> bool:
    """Whether the tool lets this person decide. Raises what the tool's own function raises."""
    if policy.by is None:
        return True
    if isinstance(policy.by, str):
        return policy.by in who.roles
    answer: object = policy.by(who, request)
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise BadSetting("Approval(by=) gives something to await, which would always count as yes")
    return bool(answer)


# --------------------------------------------------------------------------------------- edited arguments


def apply_edit(wanted: Wanted) -> bool:
    """Put the arguments that people agreed to in the place of those that the code asks for, once.

    True: that was done just now, so that every guard must look at them.
    """
    asked = wanted.execution.record.approvals.get(wanted.path)
    if asked is None or not asked.edit or asked.standing not in ("granted", "used"):
        return False
    if wanted.edited_for == asked.id or asked.head.digest != wanted.first_head.digest:
        return False
    wanted.edited_for, shapes = asked.id, wanted.tool.parameters.shapes
    args = dict(wanted.first_args)
    try:
        for name, value in asked.edit:
            if name not in shapes:
                raise ShapeMismatch(f"{wanted.tool.name} has no parameter {name!r}")
            args[name] = shapes[name].restore(codec.decode(value), where=f"$.{name}")
    except ShapeMismatch as error:
        wanted.misfit = error.what
        return True
    wanted.coded = wanted.coded or (wanted.args, wanted.head)
    wanted.args, wanted.head = args, head_of(wanted.execution, wanted.tool, args)
    return True


def asked_digest(record: RunRecord, call: CallRecord) -> bytes:
    """The digest of the call that the code asked for when this one was recorded: an edit made it another."""
    asked = record.approvals.get(call.path)
    return call.digest if asked is None else asked.head.digest


# ------------------------------------------------------------------------------------------ telling people


def _notices(record: RunRecord, path: str) -> Iterator[CallRecord]:
    """The calls by which people were told of the requests at a path."""
    start = f"{path}~"
    return (call for call in list(record.calls.values()) if call.path.startswith(start))


def recall(execution: Execution, path: str) -> None:
    """What a replay must know of the calls made beside the one at this path: the code asks for none."""
    for call in _notices(execution.record, path):
        execution.replay.asked(call.path)
        if call.settled:
            execution.replay.passed(call.seq)


async def _forget_notices(wanted: Wanted) -> None:
    """Telling people of what is decided already helps nobody: whether it was told stays unknown."""
    record = wanted.execution.record
    if not record.asked:
        return
    asked = record.approvals.get(wanted.path)
    current = _notice_path(asked) if asked is not None and asked.standing == "pending" else ""
    for call in _notices(record, wanted.path):
        if not call.settled and call.path != current:
            await wanted.drive.journal.append(e.CallReconciled(call.path, "left-unknown", "policy"))


def _notice_path(asked: ApprovalRecord) -> str:
    return f"{asked.path}~{asked.round}"


async def _told(wanted: Wanted, asked: ApprovalRecord) -> bool:
    """Tell people of a request once. False: the run has changed meanwhile, look again."""
    tool, drive, record = policy_of(wanted.tool).notify, wanted.drive, wanted.execution.record
    if not isinstance(tool, Tool):
        return True
    path = _notice_path(asked)
    request = request_of(drive.run_id, record, asked)
    args = tool.bind((request,), {})
    head = head_of(wanted.execution, tool, args)
    tries = 0
    while (call := wanted.execution.record.calls.get(path)) is None or not call.settled:
        if tries == TELLS:
            await drive.journal.append(e.CallReconciled(path, "left-unknown", "policy"))
            break
        if tries:
            await drive.host.clock.sleep(TELL_PAUSE * 2 ** (tries - 1))
        tries += 1
        attempt = 1 if call is None else call.attempt + 1
        if not await _tell(wanted, tool, _notice(wanted, tool, asked, path, args, attempt), head):
            return False
    return wanted.execution.record.approvals.get(wanted.path) is asked


def _notice(
    wanted: Wanted, tool: Tool[..., Any], asked: ApprovalRecord, path: str, args: dict[str, Any], attempt: int
) -> Call:
    drive, timeout = wanted.drive, tool.options.timeout
    seconds = timeout.total_seconds() if timeout is not None else 0.0
    return Call(
        key=asked.id,
        run_id=drive.run_id,
        path=path,
        attempt=attempt,
        args=args,
        model="",
        principal=drive.principal,
        deadline=drive.host.clock.now() + int(seconds * SECOND) if seconds else None,
        tx=None,
        effect="idempotent",
        tool=tool.name,
    )


async def _tell(wanted: Wanted, tool: Tool[..., Any], call: Call, head: e.CallHead) -> bool:
    """One try. False: a message has come first."""
    drive = wanted.drive
    seconds = (tool.options.timeout or timedelta(0)).total_seconds()
    await drive.lease_outlasts(seconds)
    record = wanted.execution.record
    asked = record.approvals.get(wanted.path)
    if record.cancel is not None or record.held is not None or asked is None or asked.id != call.key:
        return False
    if asked.standing != "pending":
        return False
    intended = e.CallIntended(call.path, head, call.key, call.attempt, call.deadline or 0, drive.inbox_seen)
    try:
        await drive.journal.intend((intended,), Fences(inbox_seen=drive.inbox_seen))
    except InboxMoved:
        await drive.read_inbox()
        return False
    reached("approval.tell")
    await drive.lease_outlasts(seconds)
    end = await run_body(drive, call, tool)
    if end.error is None:
        value = _storable(end.result)
        await drive.journal.append(e.CallSettled(call.path, "done", value, attempt=call.attempt))
    else:
        kind = type(end.error).__name__
        log.warning("run %s: people could not be told of %s: %s", drive.run_id, call.key, kind)
        detail = f"{type(end.error).__name__}: {end.error}"[:500]
        now = drive.host.store.now()
        await drive.journal.append(e.CallUnknown(call.path, "error", now, detail))
    reached("approval.told")
    if end.cancelled is not None:
        raise end.cancelled
    return True


def _storable(result: Any) -> bytes:
    """What a `notify` tool gave, where it can be kept: nobody is given it."""
    try:
        return codec.encode(result, where="$.result")
    except NotStorable:
        return codec.encode(None)
