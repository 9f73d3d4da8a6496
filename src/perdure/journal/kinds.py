"""What kinds of facts the journal tells apart: what is progress, what a full disk must still take.

It knows their kinds alone, and nothing of what they do to a run.
"""

from __future__ import annotations

from perdure.state import events as e

_PROGRESS = frozenset({e.CallSettled, e.CallReconciled, e.CallLate, e.WaitClosed, e.StepCommitted})


def is_progress(body: e.AnyBody) -> bool:
    """Whether the run has got on by this. A premise that is read again is no progress: each claim does so."""
    return type(body) in _PROGRESS or (isinstance(body, e.FactRead) and not body.check)


VITAL = frozenset(
    {
        e.CallUnknown,
        e.CallReconciled,
        e.CallLate,
        e.CancelRequested,
        e.RunHeld,
        e.RunReleased,
        e.RunFinished,
    }
)
"""Beside the receipts of acts: what is written even where new intents have no room any more."""

ENDS_ACT = (e.CallSettled, e.CallUnknown, e.CallReconciled, e.CallLate, e.FactRead)
"""What an act ends with."""
