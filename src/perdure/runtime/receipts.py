"""What the journal says of an attempt that has ended: its receipt, or that its outcome is unknown.

What the step is given is what a replay would give it: results and errors pass the codec here, the first time
too. Appends nothing; knows nothing of how a call came to be made.
"""

from __future__ import annotations

import logging
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.agent import Call, NotDone, Tool
from perdure.codec.redaction import redacted, without_secrets
from perdure.codec.secret import KNOWN
from perdure.errors import (
    BlockingTool,
    CallOutsideStep,
    EffectRefused,
    ForeignTask,
    NoRun,
    NotStorable,
    SecretMissing,
    ShapeMismatch,
    StricterInside,
    ToolNotListed,
    said_by,
)
from perdure.runtime import budgets, premises, reconcile
from perdure.runtime.body import BodyEnd
from perdure.runtime.drive import Drive
from perdure.runtime.execution import NOTHING
from perdure.runtime.head import check_size
from perdure.runtime.holds import out_of_reach
from perdure.runtime.messages import late_events
from perdure.runtime.wanted import Wanted
from perdure.state import events as e

log = logging.getLogger("perdure.run")

UNFIT: tuple[type[Exception], ...] = (NotStorable, ShapeMismatch)
"""Why a result cannot be given to the step, however often it is asked for."""

_REFUSALS: tuple[type[Exception], ...] = (
    BlockingTool,
    CallOutsideStep,
    EffectRefused,
    ForeignTask,
    NoRun,
    StricterInside,
    ToolNotListed,
)
"""What perdure refuses to a body: an error of the code, which no further try mends."""


def facts_of(wanted: Wanted, call: Call, end: BodyEnd) -> tuple[e.AnyBody, ...]:
    """What the journal says of an attempt that has ended."""
    body = _outcome(wanted, call, end)
    before = wanted.drive.journal.record.calls.get(call.path)
    acted = wanted.head.effect != "read"  # a read writes no intent: its attempt is known by its receipt alone
    if before is not None and (before.settled or (acted and before.attempt != call.attempt)):
        # A message said what became of it while it was still going on.
        wanted.result = NOTHING
        if isinstance(body, e.CallUnknown):
            return ()
        return late_events(wanted.drive.record, wanted.drive.run_id, body, call.key)
    if wanted.tool.kind == "fact" and isinstance(body, e.CallSettled) and body.outcome == "done":
        return premises.receipt(wanted, body)
    return (body,)


def _outcome(wanted: Wanted, call: Call, end: BodyEnd) -> e.CallSettled | e.CallUnknown:
    tool, acting = wanted.tool, wanted.head.effect != "read"
    own = (
        None if acting or wanted.reserved is not None else wanted.head
    )  # it is in the intent, if there is one
    error = end.error
    if error is None:
        usage = budgets.used(wanted, end.result)
        try:
            value, wanted.result = checked_result(wanted.drive, tool, end.result)
            return e.CallSettled(call.path, "done", value, own, True, call.attempt, usage=usage)
        except UNFIT as unfit:
            if wanted.undoing:  # it is undone all the same, and nobody waits for what it returned
                log.warning("run %s: %s returned what is not kept: %s", call.run_id, tool.name, unfit)
                return e.CallSettled(call.path, "done", codec.encode(None), own, True, call.attempt)
            return replace(failed(call, own, unfit, final=True), usage=usage)
    if isinstance(error, SecretMissing) and not acting:  # nothing was sent by a call that promises so
        wanted.execution.hold(wanted.branch, out_of_reach(call.run_id, error, call.path))
    if isinstance(error, NotDone) or not end.called:
        return failed(call, own, error, final=wanted.ends(call.attempt), outcome="not_done")
    if isinstance(error, tool.options.raises):
        return failed(call, own, error, final=not wanted.undoing)
    refused = isinstance(error, _REFUSALS)
    if not acting:
        settled = failed(call, own, error, final=wanted.ends(call.attempt, refused=refused))
        return replace(settled, usage=budgets.used_by_failure(wanted, error))
    wanted.fruitless = reconcile.RESENDS if refused else wanted.fruitless + 1
    detail = redacted(f"{type(error).__name__}: {said_by(error)}")[:500]
    return e.CallUnknown(call.path, _cause(error), wanted.drive.host.store.now(), detail)


def checked_result(drive: Drive, tool: Tool[..., Any], result: Any) -> tuple[bytes, Any]:
    """A result's value bytes, and what the step gets: what the journal will give back.

    Raises NotStorable, ShapeMismatch.
    """
    value = codec.encode(result, where="$.result")
    if KNOWN.forms and KNOWN.found_in(value):  # live as replayed: the step never sees it in the clear
        value = codec.encode(without_secrets(codec.decode(value)))
    check_size(drive, value, result, "$.result")
    return value, tool.parameters.result.restore(codec.decode(value), where=f"$.{tool.name}")


def _cause(error: BaseException) -> Any:
    if isinstance(error, TimeoutError):
        return "timeout"
    return "connection" if isinstance(error, OSError) else "error"


def failed(
    call: Call, head: e.CallHead | None, error: BaseException, *, final: bool, outcome: e.Outcome = "failed"
) -> e.CallSettled:
    """The receipt of a definite failure. `final`: no further try follows."""
    value = codec.encode(codec.encode_error(error))
    key = call.key if head is not None and head.effect != "read" else ""
    return e.CallSettled(call.path, outcome, value, head, final, call.attempt, key)


def not_sent(path: str, attempt: int, why: str, usage: e.Usage | None = None) -> e.CallSettled:
    """The receipt of an attempt whose intent is written and which was then not made."""
    error = codec.encode_error(NotDone(f"{why} before anything was sent"))
    return e.CallSettled(path, "not_done", codec.encode(error), None, False, attempt, usage=usage)
