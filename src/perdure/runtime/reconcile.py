"""Finding out what became of an unknown call: the tool's own hook is asked, through a grace window.

Used at resume, before the open step is executed again, and live, when a reply did not come.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.agent import Call, Done, NotDone, Tool, Unknown
from perdure.clock import SECOND
from perdure.errors import PerdureError, said_by
from perdure.recovery.verdicts import Again, Ask, CallPolicy, LeaveUnknown, Person, after_unknown
from perdure.runtime.boundary import reached
from perdure.runtime.drive import Drive
from perdure.runtime.resolved import unknown_hold
from perdure.state import events as e
from perdure.state.record import CallRecord
from perdure.state.undo import undone_path

RESENDS = 8
"""How often an idempotent call is sent with one key before a person is asked."""

HOOK_SECONDS = 30.0
"""How long a hook may take to answer; one that takes longer could not tell, and is asked again."""


def backoff_seconds(tries: int) -> float:
    """0.1 s, doubled each time, 30 s at most."""
    return float(min(0.1 * 2**tries, 30.0))


def policy_of(tool: Tool[..., Any]) -> CallPolicy:
    """What the tool declared about unknown outcomes."""
    options = tool.options
    return CallPolicy(
        has_hook=tool.reconcile_hook is not None,
        unknown=options.unknown,
        timeout_seconds=options.timeout.total_seconds() if options.timeout else None,
        key_ttl_seconds=options.key_ttl.total_seconds() if options.key_ttl else None,
    )


async def settle(drive: Drive, call: CallRecord, tool: Tool[..., Any]) -> e.RunHeld | None:
    """Bring an open or unknown call to a verdict, or say why a person is needed.

    An idempotent call stays unknown: its verdict is to be sent again, by the step that made it. In a
    cancelled run it may not be sent any more, unless it undoes another: what became of it is found out as for
    another act, or left unknown; where it would have to be undone, a person is asked.
    """
    policy, judged = policy_of(tool), call
    if drive.record.cancel is not None and call.effect == "idempotent" and not undone_path(call.path):
        judged = replace(call, effect="irreversible")
        if not (drive.record.compensate and tool.undo_hook is not None):
            policy = replace(policy, unknown="raise")
    action = after_unknown(judged, policy, drive.host.clock.now())
    match action:
        case Again():
            return None
        case LeaveUnknown():
            await drive.journal.append(e.CallReconciled(call.path, "left-unknown", "policy"))
            return None
        case Person(why):
            return unknown_hold(drive.run_id, call, f"{call.name}: {why}")
        case Ask():
            return await _ask(drive, call, tool, action)


async def _ask(drive: Drive, call: CallRecord, tool: Tool[..., Any], ask: Ask) -> e.RunHeld | None:
    clock, tries = drive.host.clock, 0
    try:
        identity = _identity(drive, call, tool)
    except PerdureError as error:
        return unknown_hold(drive.run_id, call, f"{call.name}: its hook cannot be asked: {error.what}")
    while True:
        reached("reconcile.ask")
        verdict, evidence = await _heard_hook(drive, identity, tool)
        reached("reconcile.answered")
        if _told_meanwhile(drive, call):
            return None
        now = clock.now()
        if isinstance(verdict, Done):
            value = codec.encode(verdict.result, where="$.result")  # `_hook` has seen that this works
            await drive.journal.append(e.CallReconciled(call.path, "done", "hook", value, evidence))
            reached("reconcile.queued")
            return None
        if isinstance(verdict, NotDone) and now >= ask.trust_from:
            await drive.journal.append(e.CallReconciled(call.path, "not_done", "hook", b"", evidence))
            reached("reconcile.queued")
            return None
        if not isinstance(verdict, NotDone) and now >= ask.until:
            return unknown_hold(
                drive.run_id, call, f"{call.name}: the reconcile hook could not tell ({evidence})"
            )
        wait = backoff_seconds(tries)
        if isinstance(verdict, NotDone):
            wait = min(wait, max((ask.trust_from - now) / SECOND, 0.0))
        tries += 1
        await clock.sleep(wait)
        await drive.read_inbox()
        if _told_meanwhile(drive, call):
            return None


def _told_meanwhile(drive: Drive, call: CallRecord) -> bool:
    """Whether a message has said what became of the call while its hook was asked."""
    current = drive.record.calls.get(call.path)
    return current is None or current.standing not in ("open", "unknown")


def _identity(drive: Drive, call: CallRecord, tool: Tool[..., Any]) -> Call:
    """The call as its hook sees it. Raises ShapeMismatch if today's tool does not take its arguments."""
    return Call(
        key=call.key,
        run_id=drive.run_id,
        path=call.path,
        attempt=call.attempt,
        args=tool.restore(drive.arguments(call)),
        model=drive.model_of(tool),
        principal=drive.principal,
        deadline=None,
        tx=None,
        effect="read",
        tool=tool.name,
    )


async def _heard_hook(drive: Drive, identity: Call, tool: Tool[..., Any]) -> tuple[object, str]:
    if drive.ears is None:
        return await _hook(drive, identity, tool)
    over = drive.ears.acting(identity, tool, "reconcile")
    try:
        return await _hook(drive, identity, tool)
    finally:
        over(None)


async def _hook(drive: Drive, identity: Call, tool: Tool[..., Any]) -> tuple[object, str]:
    """The hook's answer; an exception in it, or none in time, is an Unknown that says so."""
    patience = asyncio.timeout(HOOK_SECONDS)
    try:
        async with patience:
            verdict = await tool.ask_hook(identity, drive.host.providers)
        if isinstance(verdict, Done):  # a receipt that the step could not be given is none
            codec.encode(verdict.result, where="$.result")
            tool.result_shape.restore(codec.plain(verdict.result), where="$.result")
        return verdict, ""
    except (NotDone, Unknown) as verdict:
        return verdict, str(verdict)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a hook raises is an Unknown)
        if patience.expired():
            return Unknown(), f"no answer within {HOOK_SECONDS:g} s"
        what = said_by(error)
        return Unknown(), f"{type(error).__name__}: {what}"[:300]
