"""Is the principal permitted? The agent's own `authorize` is asked, and only a clear yes is a yes.

Knows no roles and no guards: who asks, and when, is `guards` for calls and `children` for spawned runs.
"""

from __future__ import annotations

import asyncio
import inspect

from msgspec.structs import replace

from perdure.agent import Authorize, Call, Principal, call_scope
from perdure.errors import said_by
from perdure.runtime.boundary import reached
from perdure.runtime.drive import Drive

ANSWER_SECONDS = 30.0
"""How long an authorize function may take; one that takes longer has not permitted anything."""

SHOWN = 300
"""Characters of an error in a hold."""


async def refusal(drive: Drive, call: Call) -> str:
    """Why the call may not be made as it would be now; empty if it may, or if the agent asks for no right."""
    fn = drive.agent.authorize_fn
    if fn is None:
        return ""
    if drive.principal is None:
        return "the run was started without a principal"
    reached("authorize.ask")
    why = await _refusal(fn, drive.principal, call)
    reached("authorize.answered")
    return why


async def _refusal(fn: Authorize, who: Principal, call: Call) -> str:
    # What it calls is no call of the step, and only reads.
    token = call_scope.set(replace(call, effect="read"))
    patience = asyncio.timeout(ANSWER_SECONDS)
    try:
        async with patience:
            answer: object = fn(who, call)
            if inspect.isawaitable(answer):
                answer = await answer
    except Exception as error:  # noqa: BLE001  (whatever it raises is no permission, and the hold says so)
        if patience.expired():
            return f"authorize gave no answer for {who.id} within {ANSWER_SECONDS:g} s"
        what = said_by(error)
        return f"authorize failed for {who.id}: {type(error).__name__}: {what}"[:SHOWN]
    finally:
        call_scope.reset(token)
    if answer is True:
        return ""
    said = "" if answer is False else f" (authorize gave {answer!r:.60}, and only True permits)"
    return f"{who.id} may not make this call{said}"


def ways_out(run_id: str) -> tuple[str, ...]:
    """What a person can do about a run that is held for want of a right."""
    return f"perdure release {run_id}    asks again", f"perdure cancel {run_id}"
