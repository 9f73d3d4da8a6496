"""What a step waits for without a process: a moment, a signal, an answer, a child.

Every wait opens, suspends and closes in one way (`wait_for`): its deadline is absolute and recorded before
the step unwinds, so that no restart begins it anew; what ended it is recorded before the step is given it. A
wait commits events and never a patch. Law 10 rests on the record: what has come is taken from it once. How a
call waits for its approval is not here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from msgspec import Struct

from perdure.clock import SECOND
from perdure.errors import BadArguments
from perdure.runtime.boundary import reached
from perdure.runtime.execution import Branch, Execution, here
from perdure.state import events as e
from perdure.state.record import RunRecord, WaitRecord
from perdure.store.protocol import NEVER

LAST_MOMENT = 253_402_300_799 * SECOND
"""The end of the calendar: 9999-12-31, 23:59:59 UTC, in microseconds."""

NAMED = 3
"""So many open waits are named where a list has one line for a run."""

SHOWN = 60
"""Characters of a name in such a line."""


class Awaited(Struct, frozen=True):
    """What a branch waits for. `seconds`: how long at most, from its opening on (None: for ever).

    `detail` makes the value bytes that are recorded with it; it is called when the wait opens.
    """

    name: str
    kind: e.WaitKind
    seconds: float | None
    detail: Callable[[], bytes] = bytes


Closing = Callable[[RunRecord, WaitRecord], e.WaitClosed | None]
"""What ends an open wait just now, by the record alone; None: nothing yet."""


def nothing(record: RunRecord, wait: WaitRecord) -> e.WaitClosed | None:
    """For a wait that a message closes, or only its deadline."""
    return None


async def wait_for(
    execution: Execution, awaited: Awaited, closing: Closing, expired: Callable[[str], e.WaitClosed]
) -> WaitRecord:
    """The wait of the running branch at its next place, once it is closed; unwinds until then.

    `closing` and `expired` (given the path) say how it is closed when what it waits for has come, and when
    its deadline has. What they say is recorded; a replay asks neither.
    """
    branch = here(execution)
    path = branch.next_path()
    _agrees(execution, branch, path, awaited)
    execution.replay.enter()
    given = False
    try:
        closed = await _closed(execution, branch, path, awaited, closing, expired)
        given = True
        await execution.given(branch, closed)
    finally:
        if not given:
            execution.replay.leave()
    return execution.record.waits[path]


def _agrees(execution: Execution, branch: Branch, path: str, awaited: Awaited) -> None:
    """The record may have something else at this place."""
    record = execution.record
    what = f"waits for {_words(awaited.kind, awaited.name)}" if awaited.kind != "sleep" else "sleeps"
    if (call := record.calls.get(path)) is not None:
        execution.diverge(branch, call.intent or call.seq, f"at {path} recorded {call.name}; the code {what}")
    wait = record.waits.get(path)
    if wait is None:
        return
    execution.replay.asked(path)
    if (wait.kind, wait.name) != (awaited.kind, awaited.name):
        execution.diverge(branch, wait.seq, f"at {path} recorded {words(wait)}; the code {what}")


async def _closed(
    execution: Execution,
    branch: Branch,
    path: str,
    awaited: Awaited,
    closing: Closing,
    expired: Callable[[str], e.WaitClosed],
) -> int:
    """The event that closed the wait; unwinds until there is one."""
    drive, now = execution.drive, execution.drive.host.store.now
    wait = execution.record.waits.get(path)
    if wait is not None and wait.closed:
        return wait.closed
    await execution.go_live(branch, path, _words(awaited.kind, awaited.name))
    if drive.record.cancel is not None or drive.record.held is not None:
        branch.unwind("cancelled" if drive.record.cancel is not None else "held")
    if wait is None:
        deadline = NEVER if awaited.seconds is None else now() + round(awaited.seconds * SECOND)
        opened = e.WaitOpened(path, awaited.name, deadline, awaited.kind, awaited.detail())
        await drive.journal.append(opened)
        reached("wait.opened")

    def close(record: RunRecord) -> tuple[e.AnyBody, ...]:
        open_ = record.waits[path]
        if open_.closed or record.cancel is not None:
            return ()
        by_record = closing(record, open_)
        if by_record is None and now() >= open_.deadline:
            by_record = expired(path)
        return () if by_record is None else (by_record,)

    await drive.journal.decide(close)
    wait = execution.record.waits[path]
    if not wait.closed:
        execution.suspend(branch, wait.deadline, f"waits for {words(wait)}")
    reached("wait.closed")
    return wait.closed


# -- how long


def seconds_of(duration: timedelta | float, now: int, what: str) -> float:
    """A duration in seconds. Raises BadArguments for one in the past or beyond the calendar.

    `now`: the store's clock. `what`: what lasts so long, as in "a run cannot sleep for".
    """
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if not 0 <= seconds <= (LAST_MOMENT - now) / SECOND:
        raise BadArguments(f"{what} {duration!r}; from 0 seconds to the end of the year 9999 it can")
    return seconds


# -- sleep


async def sleep(execution: Execution, duration: timedelta | float) -> None:
    """Wait for a moment. Raises BadArguments for a duration below 0 or beyond the calendar."""
    now = execution.drive.host.store.now()
    seconds = seconds_of(duration, now, "a run cannot sleep for")
    await wait_for(
        execution, Awaited("sleep", "sleep", seconds), nothing, lambda path: e.WaitClosed(path, "due")
    )


# -- in words


def words(wait: WaitRecord) -> str:
    """What a wait is for, in a few words."""
    return _words(wait.kind, wait.name)


def _words(kind: e.WaitKind, name: str) -> str:
    if kind == "sleep":
        return "a sleep"
    noun = {"signal": "signal", "answer": "an answer to", "child": "child run"}[kind]
    return f"{noun} {name!r}"


def reasons(record: RunRecord) -> list[str]:
    """What the run waits for, each open wait in a few words and with its place."""
    return [f"{_short(wait)} at {wait.path}" for wait in record.waits.values() if not wait.closed]


def summary(record: RunRecord) -> str:
    """The same in one line, for lists."""
    open_ = [wait for wait in record.waits.values() if not wait.closed]
    named = ", ".join(_short(wait) for wait in open_[:NAMED])
    return named + (f" and {len(open_) - NAMED} more" if len(open_) > NAMED else "")


def _short(wait: WaitRecord) -> str:
    name = wait.name if len(wait.name) <= SHOWN else f"{wait.name[: SHOWN - 1]}…"
    return "sleep" if wait.kind == "sleep" else _words(wait.kind, name)
