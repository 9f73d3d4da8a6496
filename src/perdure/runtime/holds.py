"""The holds of a run whose own step cannot go on, in the words in which a person reads them.

Decides nothing: whoever drives or rehearses a step finds out, and both say it alike.
"""

from __future__ import annotations

from perdure.errors import PerdureError, SignalSwallowed
from perdure.runtime.caller import line_of_error
from perdure.state import events as e


def ways(run_id: str) -> tuple[str, str]:
    """What can be done about a step that was mended, or that nobody can mend."""
    return (f"perdure retry {run_id}", f"perdure cancel {run_id}")


def step_error(run_id: str, error: BaseException) -> e.RunHeld:
    """An exception left the step."""
    place = line_of_error(error)
    what = error.what if isinstance(error, PerdureError) else str(error)
    code = f"[{error.code}] " if isinstance(error, PerdureError) else ""
    detail = f"{code}{type(error).__name__}: {what}" + (f" ({place})" if place else "")
    return e.RunHeld("step-error", detail, ways(run_id))


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
