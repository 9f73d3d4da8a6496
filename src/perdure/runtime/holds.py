"""The holds of a run whose own step cannot go on, in the words in which a person reads them.

Decides nothing: whoever drives or rehearses a step finds out, and both say it alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.codec import decode
from perdure.codec.redaction import redacted
from perdure.errors import (
    CallFailed,
    PerdureError,
    Poisoned,
    SecrecyError,
    SecretLeaked,
    SignalSwallowed,
    said_by,
)
from perdure.recovery.verdicts import first_seq, may_have_acted, records
from perdure.runtime.caller import line_of_error
from perdure.state import events as e
from perdure.state.record import CallRecord, RunRecord

POISON_CLAIMS = 5
"""A run that was claimed so often without progress, and never given back, is held."""


RESTORED, RESTORED_ENDING = "restored", "restored-cancelled"
"""Why runs of a store that was brought back are held; the second, where a cancel was under way, which settles
and undoes nothing before a person lets it go on.
"""


def ways(run_id: str) -> tuple[str, str]:
    """What can be done about a step that was mended, or that nobody can mend."""
    return (f"perdure retry {run_id}", f"perdure cancel {run_id}")


def brought_back(run_id: str, *, cancelled: bool) -> e.RunHeld:
    """The store was brought back from a backup."""
    detail = "the store was brought back from a backup, which does not know what was done after it was made"
    ways = let_go(run_id)
    if cancelled:
        return e.RunHeld(RESTORED_ENDING, detail, ways[:2], doubt=True)
    return e.RunHeld(RESTORED, detail, ways, doubt=True)


def carried_in(run_id: str) -> e.RunHeld:
    """The run was imported from another store."""
    detail = "it was imported, and its original may still be at work elsewhere"
    return e.RunHeld("imported", detail, let_go(run_id), doubt=True)


def let_go(run_id: str) -> tuple[str, str, str]:
    """What can be done about a run that another incarnation may have carried on."""
    return (
        f"perdure release {run_id}    looks up each act before it is made, or asks you",
        f"perdure release {run_id} --sure    nothing was done that this store does not know",
        f"perdure cancel {run_id}",
    )


SAID_MOST = 2_000
"""How much of what an error says a hold tells."""


def step_error(run_id: str, error: BaseException, record: RunRecord) -> e.RunHeld:
    """An exception left the step; if it is the recorded failure of an act, a retry gets it again.

    Of a group (a task group raises one) the first is told.
    """
    raised, (error, of) = error, first_of(error)
    if isinstance(error, SecrecyError):
        return out_of_reach(run_id, error)
    place = line_of_error(error) or line_of_error(raised)
    what = said_by(error)
    code = f"[{error.code}] " if isinstance(error, PerdureError) else ""
    said = redacted(f"{code}{type(error).__name__}: {what}")[:SAID_MOST]
    detail = said + (f" ({place})" if place else "") + of
    act = _failed_act(error, record)
    if act is None:
        return e.RunHeld("step-error", detail, (*_mending(run_id, error), *ways(run_id)))
    mend = f"handle the failure of {act.name} in the step, and deploy it: a retry gets it from the record"
    return e.RunHeld("step-error", detail, (mend, *ways(run_id)), act.path)


def _mending(run_id: str, error: BaseException) -> tuple[str, ...]:
    """What comes before a retry: the error's own remedy. A call that failed may go well another time, and of
    the user's own exceptions nothing is known.
    """
    if not isinstance(error, PerdureError) or isinstance(error, CallFailed) or not error.remedy:
        return ()
    return (redacted(re.sub(r"\bRUN\b", run_id, error.remedy)),)


def first_of(error: BaseException) -> tuple[BaseException, str]:
    """What a group of exceptions came from, and how many there were in words; else the exception itself."""
    if not isinstance(error, BaseExceptionGroup):
        return error, ""
    inside = list(_leaves(error))
    return inside[0], f", the first of {len(inside)} in a group" if len(inside) > 1 else ""


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def _failed_act(error: BaseException, record: RunRecord) -> CallRecord | None:
    """The act whose recorded failure this is, as far as its type tells: the newest one."""
    kind = error.type_name if isinstance(error, CallFailed) else type(error).__name__
    failed = (call for call in record.calls.values() if call.standing == "failed" and may_have_acted(call))
    alike = [call for call in failed if _type_of(call) == kind]
    return max(alike, key=lambda call: call.seq, default=None)


def _type_of(call: CallRecord) -> str:
    told = decode(call.value) if call.value else None
    return str(told.get("type", "")) if isinstance(told, dict) else ""


def out_of_reach(run_id: str, error: SecrecyError, path: str = "") -> e.RunHeld:
    """A secret or a key is missing, or the step would have written one down: nothing that a retry mends."""
    place = line_of_error(error) if not path else ""
    detail = f"[{error.code}] {error.what}" + (f" ({place})" if place else "")
    reason = "secret-leaked" if isinstance(error, SecretLeaked) else "secret-missing"
    return e.RunHeld(reason, redacted(detail), ways(run_id), path)


def no_progress(run_id: str) -> e.RunHeld:
    """The step has done nothing at all."""
    detail = "the step made no call, changed no state and did not finish: it would do so for ever"
    return e.RunHeld("no-progress", detail, ways(run_id))


def signal_swallowed(run_id: str) -> e.RunHeld:
    """The step went on although it was to unwind."""
    detail = (
        f"[{SignalSwallowed.code}] the step caught the signal by which it should have unwound"
        " (except BaseException, or return in finally)"
    )
    return e.RunHeld("signal-swallowed", detail, ways(run_id))


def poisoned(run_id: str, claims: int, how: str, record: RunRecord) -> e.RunHeld | None:
    """The hold of a run that was claimed too often without progress; None if it was not.

    `how`: in words, what became of the last owner. `record`: the run as that owner left it.
    """
    if claims <= POISON_CLAIMS:
        return None
    detail = f"[{Poisoned.code}] claimed {claims} times since the last progress; {how}, {_last(record)}"
    return e.RunHeld("poison", detail, ways(run_id))


def poison_of(run_id: str, claims: int, error: Exception) -> e.RunHeld:
    """The hold of a run that its agent's code fails to take up, time and again."""
    place = line_of_error(error)
    what = said_by(error)
    told = redacted(f"{type(error).__name__}: {what}")[:500] + (f" ({place})" if place else "")
    detail = f"[{Poisoned.code}] claimed {claims} times since the last progress, and not taken up: {told}"
    return e.RunHeld("poison", detail, ways(run_id))


def how_it_died(worker: str | None, *, died: bool) -> str:
    """What became of the last owner of a run."""
    who = f"worker {worker}" if worker else "the last worker"
    return f"{who} died: its process is gone" if died else f"{who} fell silent: its lease ran out"


def _last(record: RunRecord) -> str:
    """Where a run was when its owner was lost, as far as the record tells."""
    step = f"in step {record.step + 1}"
    items = list(records(record))
    if not items:
        return f"{step} before anything was recorded in it"
    open_ = [item for item in items if isinstance(item, CallRecord) and not item.settled]
    if open_:
        last = open_[-1]
        raised = f", which had raised {last.detail}" if last.detail else ""
        return f"{step} while {last.name} ({last.path}) was under way{raised}"
    last_item = max(items, key=lambda item: item.closed if not isinstance(item, CallRecord) else item.seq)
    return f"{step} after {last_item.name} ({last_item.path}, event {first_seq(last_item)})"
