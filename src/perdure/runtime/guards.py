"""What must hold before anything is asked of the outside, in one order (DESIGN: the life of a call).

Asked again whenever time has passed: after a wait for a place, after a message, after a refused fence. Keeps
law 17: no call acts whose intent follows an accepted cancel or denial.
"""

from __future__ import annotations

from perdure.runtime import approvals, premises
from perdure.runtime.wanted import Grounds, Wanted


async def guard(wanted: Wanted) -> None:
    """Ask every guard; afterwards `wanted.grounds` says what the act rests on. Unwinds where one says no.

    A guard may also settle the call (a premise changed, it was denied): then nothing is acted.
    """
    execution, options = wanted.execution, wanted.tool.options
    if execution.drive.has_not_looked:
        await execution.drive.glance()
    forbid(wanted)
    wanted.grounds = Grounds()
    approvals.apply_edit(wanted)
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
    forbid(wanted)


def holds(wanted: Wanted) -> bool:
    """Whether what the guards found is still so. Asked where fences are taken, with no await between."""
    return approvals.holds(wanted) and premises.hold(wanted)


def forbid(wanted: Wanted) -> None:
    """What a message may forbid. Where fences are taken this is asked again, with no await between: another
    branch may have read the message meanwhile, and then the fence would let the act pass.
    """
    record = wanted.execution.record
    if record.cancel is not None:
        wanted.branch.unwind("cancelled")
    if record.held is not None:
        wanted.branch.unwind("held")
