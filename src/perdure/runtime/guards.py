"""What must hold before anything is asked of the outside, in one order (DESIGN: the life of a call).

Asked again whenever time has passed: after a wait for a place, after a message, after a refused fence. Keeps
law 17: no call acts whose intent follows an accepted cancel.
"""

from __future__ import annotations

from perdure.runtime.wanted import Grounds, Wanted
from perdure.state import events as e


async def guard(wanted: Wanted) -> None:
    """Ask every guard; afterwards `wanted.grounds` says what the act rests on. Unwinds where one says no."""
    execution, branch, tool = wanted.execution, wanted.branch, wanted.tool
    if execution.drive.has_not_looked:
        await execution.drive.glance()
    forbid(wanted)
    wanted.grounds = Grounds()
    if tool.needs_approval(wanted.args):
        detail = f"{tool.name} needs an approval, and this release cannot ask for one; it was not called"
        execution.hold(
            branch, e.RunHeld("approval-needed", detail, (f"perdure cancel {execution.drive.run_id}",))
        )
    forbid(wanted)


def forbid(wanted: Wanted) -> None:
    """What a message may forbid. Where fences are taken this is asked again, with no await between: another
    branch may have read the message meanwhile, and then the fence would let the act pass.
    """
    record = wanted.execution.record
    if record.cancel is not None:
        wanted.branch.unwind("cancelled")
    if record.held is not None:
        wanted.branch.unwind("held")
