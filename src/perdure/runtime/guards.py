"""What must hold before anything is asked of the outside, in one order (DESIGN: the life of a call).

Asked again whenever time has passed: after a wait for a place, after a message, after a refused fence. Keeps
law 17: no call acts whose intent follows an accepted cancel or denial. Whether the principal may make the
call is for `rights` to find out.
"""

from __future__ import annotations

from perdure.codec.redaction import secrets_in
from perdure.codec.secret import KNOWN
from perdure.errors import SecretMissing
from perdure.runtime import approvals, premises, rights
from perdure.runtime.holds import out_of_reach
from perdure.runtime.identity import identity
from perdure.runtime.resolved import unknown_hold
from perdure.runtime.wanted import NO_GROUNDS, Grounds, Wanted
from perdure.state import events as e


def to_ask(wanted: Wanted) -> bool:
    """Whether there is anything to ask about a call, beside whether its run goes on."""
    execution, drive = wanted.execution, wanted.drive
    return (
        wanted.tool.guarded
        or execution.undoing
        or KNOWN.any_named
        or drive.agent.authorize_fn is not None
        or bool(drive.journal.record.approvals)
        or drive.has_not_looked()
    )


async def guard(wanted: Wanted) -> None:
    """Ask every guard; afterwards `wanted.grounds` says what the act rests on. Unwinds where one says no.

    A guard may also settle the call (a premise changed, it was denied): then nothing is acted. An undo is
    only kept back by a hold.
    """
    execution, options = wanted.execution, wanted.tool.options
    if execution.drive.has_not_looked():
        await execution.drive.glance()
    execution.forbid(wanted.branch)
    wanted.grounds = NO_GROUNDS
    if wanted.undoing:  # whoever cancels has asked for it
        return
    if execution.journal.record.approvals:
        approvals.apply_edit(wanted)
    if KNOWN.any_named:
        _resolvable(wanted)
    if execution.drive.agent.authorize_fn is not None:
        await _authorize(wanted)
    until: int | None = None
    if options.premises:
        until = await premises.rest(wanted)
        if wanted.settled:
            return
    if options.approval is not None:
        permission = await approvals.permission(wanted)
        if approvals.apply_edit(wanted):
            await guard(wanted)
            return
        ends = [end for end in (until, permission.not_after) if end is not None]
        wanted.grounds = Grounds(permission.facts, min(ends, default=None))
    elif until is not None:
        wanted.grounds = Grounds(not_after=until)
    execution.forbid(wanted.branch)


def holds(wanted: Wanted) -> bool:
    """Whether what the guards found is still so. Asked where fences are taken, with no await between."""
    return approvals.holds(wanted) and premises.hold(wanted)


# ------------------------------------------------------------------------ are the secrets that it names here?


def _resolvable(wanted: Wanted) -> None:
    """Hold the run while a Secret among the arguments has no value here: before the intent, so that no act is
    left unknown for want of a variable.
    """
    try:
        for value in wanted.args.values():
            for secret in secrets_in(value):
                secret.reveal()
    except SecretMissing as error:
        wanted.execution.hold(wanted.branch, out_of_reach(wanted.drive.run_id, error, wanted.path))


# ------------------------------------------------------------------------------- is the principal permitted?


async def _authorize(wanted: Wanted) -> None:
    """Ask the agent's function about the call as it would run now; hold the run unless it says yes."""
    execution, drive = wanted.execution, wanted.drive
    why = await rights.refusal(drive, identity(wanted, 0.0))
    execution.forbid(wanted.branch)  # a message may have come while it was asked
    if why and not wanted.settled:
        execution.hold(wanted.branch, not_permitted(wanted, why))


def not_permitted(wanted: Wanted, why: str) -> e.RunHeld:
    """The hold of a call that its principal may not make."""
    run_id, call = wanted.drive.run_id, wanted.call
    detail = f"{wanted.tool.name} ({wanted.path}) was not called: {why}"
    remedies = rights.ways_out(run_id)
    if call is not None and call.effect != "read" and call.standing in ("open", "unknown"):
        detail = f"{wanted.tool.name} ({wanted.path}) may have happened and is not sent again: {why}"
        remedies += unknown_hold(run_id, call, "").remedies
    return e.RunHeld("not-permitted", detail, remedies, wanted.path)
