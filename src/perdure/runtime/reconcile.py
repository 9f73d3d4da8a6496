"""Finding out what became of an unknown call: the tool's own hook is asked, through a grace window.

Used at resume, before the open step is executed again, and live, when a reply did not come.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from msgspec.structs import replace as evolve

from perdure import codec
from perdure.agent import Call, Done, NotDone, Tool, Unknown, call_scope
from perdure.clock import SECOND
from perdure.errors import PerdureError
from perdure.recovery.verdicts import Again, Ask, CallPolicy, LeaveUnknown, Person, after_unknown
from perdure.runtime.boundary import reached
from perdure.runtime.drive import Drive
from perdure.state import events as e
from perdure.state.record import CallRecord

RESENDS = 8
"""How often an idempotent call is sent with one key before a person is asked."""

LONG_WAIT_SECONDS = 5.0
"""A wait for the next question longer than this frees the worker at resume."""


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
    cancelled run it may not be sent any more: what became of it is found out as for another act, or left
    unknown.
    """
    policy, judged = policy_of(tool), call
    if drive.record.cancel is not None and call.effect == "idempotent":
        policy, judged = replace(policy, unknown="raise"), evolve(call, effect="irreversible")
    action = after_unknown(judged, policy, drive.host.clock.now())
    match action:
        case Again():
            return None
        case LeaveUnknown():
            await drive.journal.append(e.CallReconciled(call.path, "left-unknown", "policy"))
            return None
        case Person(why):
            return unknown_hold(drive, call, f"{call.name}: {why}")
        case Ask():
            return await _ask(drive, call, tool, action)


def unknown_hold(drive: Drive, call: CallRecord, detail: str) -> e.RunHeld:
    """The hold of a call that only a person can settle."""
    remedies = (
        f"perdure resolve {drive.run_id} {call.path} --done RESULT",
        f"perdure resolve {drive.run_id} {call.path} --not-done",
        f"perdure resolve {drive.run_id} {call.path} --failed MESSAGE",
    )
    return e.RunHeld("unknown-outcome", detail, remedies, call.path)


async def _ask(drive: Drive, call: CallRecord, tool: Tool[..., Any], ask: Ask) -> e.RunHeld | None:
    clock, tries = drive.host.clock, 0
    while True:
        reached("reconcile.ask")
        verdict, evidence = await _hook(drive, call, tool)
        reached("reconcile.answered")
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
            return unknown_hold(drive, call, f"{call.name}: the reconcile hook could not tell ({evidence})")
        wait = backoff_seconds(tries)
        if isinstance(verdict, NotDone):
            wait = min(wait, max((ask.trust_from - now) / SECOND, 0.0))
        tries += 1
        await clock.sleep(wait)
        await drive.read_inbox()
        current = drive.record.calls.get(call.path)
        if current is None or current.standing not in ("open", "unknown"):
            return None


async def _hook(drive: Drive, call: CallRecord, tool: Tool[..., Any]) -> tuple[object, str]:
    """The hook's answer; an exception in it is an Unknown that says so."""
    identity = Call(
        key=call.key,
        run_id=drive.run_id,
        path=call.path,
        attempt=call.attempt,
        args=tool.restore(drive.arguments(call)),
        model=tool.model_name,
        principal=drive.principal,
        deadline=None,
        tx=None,
        effect="read",
        tool=tool.name,
    )
    hook, providers = tool.reconcile_hook, drive.host.providers
    assert hook is not None
    token = call_scope.set(identity)
    try:
        answer = hook.thunk(identity.args, await hook.inject(identity, providers))()
        verdict = await answer if isawaitable(answer) else answer
        if isinstance(verdict, Done):  # a receipt that the step could not be given is none
            codec.encode(verdict.result, where="$.result")
            tool.result_shape.restore(codec.plain(verdict.result), where="$.result")
        return verdict, ""
    except (NotDone, Unknown) as verdict:
        return verdict, str(verdict)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001  (whatever a hook raises is an Unknown that says so)
        what = error.what if isinstance(error, PerdureError) else str(error)
        return Unknown(), f"{type(error).__name__}: {what}"[:300]
    finally:
        call_scope.reset(token)
        await providers.call_ended(identity)
