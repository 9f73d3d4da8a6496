"""What a step waits for without a process: a moment, a signal, an answer, a child.

Every wait opens, suspends and closes in one way (`wait_for`): its deadline is absolute and recorded before
the step unwinds, so that no restart begins it anew; what ended it is recorded before the step is given it. A
wait commits events and never a patch. Law 10 rests on the record: what has come is taken from it once. How a
call waits for its approval is not here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NoReturn, TypeAlias

from msgspec import Struct

from perdure import codec
from perdure.agent import Expiry, Forever, Patience
from perdure.agent.policy import is_a
from perdure.clock import SECOND
from perdure.codec import Shape
from perdure.codec.naming import written
from perdure.errors import BadArguments, InboxMoved, ShapeMismatch, SignalUnfit, StoreError, WaitExpired
from perdure.journal import Fences, outlast
from perdure.recovery.verdicts import first_seq, records
from perdure.runtime.boundary import reached
from perdure.runtime.difference import Sides
from perdure.runtime.execution import Branch, Execution, here
from perdure.runtime.questions import Terms, moment_of, named, next_signal, one_of, words
from perdure.state import events as e
from perdure.state.amount import Amount
from perdure.state.record import RunRecord, WaitRecord
from perdure.store.protocol import NEVER

LAST_MOMENT = 253_402_300_799 * SECOND
"""The end of the calendar: 9999-12-31, 23:59:59 UTC, in microseconds."""

NO_DEFAULT: Any = object()
"""No default was declared: None is one."""


Begins: TypeAlias = Callable[[WaitRecord], Awaitable[None]]
"""Sets going what an open wait waits for."""


class Awaited(Struct, frozen=True):
    """What a branch waits for. `seconds`: how long at most, from its opening on (None: for ever).

    `detail` makes the value bytes that are recorded with it; it is called when the wait opens. `begins` sets
    going what is waited for: the wait is then opened durably, like an intent, and `begins` is called whenever
    the wait is found open, so it must be idempotent. `reserves` says what of the budget is set aside for it,
    before `detail` is made. `differs` says what else the record has at this place.
    """

    name: str
    kind: e.WaitKind
    seconds: float | None
    detail: Callable[[], bytes] = bytes
    begins: Begins | None = None
    reserves: Callable[[], Awaitable[Amount | None]] | None = None
    differs: Callable[[WaitRecord], Sides | None] | None = None


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
    what = f"waits for {named(awaited.kind, awaited.name)}" if awaited.kind != "sleep" else "sleeps"
    if (call := record.calls.get(path)) is not None:
        detail = f"at {path} recorded {call.name}; the code {what}"
        execution.diverge(branch, call.intent or call.seq, Sides(path, call.name, what, detail))
    wait = record.waits.get(path)
    if wait is None:
        return
    execution.replay.asked(path)
    # A child is told by its agent and goal (`differs`): that of a fork's origin has another id.
    if wait.kind != awaited.kind or (wait.kind != "child" and wait.name != awaited.name):
        detail = f"at {path} recorded {words(wait)}; the code {what}"
        execution.diverge(branch, wait.seq, Sides(path, words(wait), what, detail))
    if awaited.differs is not None and (sides := awaited.differs(wait)) is not None:
        execution.diverge(branch, wait.seq, sides)


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
    await execution.caught_up(branch)
    if wait is None or awaited.begins is not None:  # an open wait may be over by what is recorded: see below
        execution.only_live(branch, path, named(awaited.kind, awaited.name), awaited)
    execution.forbid(branch)
    opened = None
    if wait is None:
        deadline = NEVER if awaited.seconds is None else now() + round(awaited.seconds * SECOND)
        reserved = None if awaited.reserves is None else await awaited.reserves()
        opened = e.WaitOpened(path, awaited.name, deadline, awaited.kind, awaited.detail(), reserved)
        if awaited.begins is None:
            await drive.journal.append(opened)
            reached("wait.opened")
    if awaited.begins is not None:
        await _set_going(execution, branch, awaited.begins, opened, path)

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
        execution.only_live(branch, path, words(wait), awaited)
        execution.suspend(branch, wait.deadline, f"waits for {words(wait)}")
    reached("wait.closed")
    return wait.closed


async def _set_going(
    execution: Execution, branch: Branch, begins: Begins, opened: e.WaitOpened | None, path: str
) -> None:
    """Open the wait, if it is not, and set going what it waits for: both, whatever becomes of the step."""

    async def both() -> None:
        if opened is not None:
            await _intend(execution, branch, opened)
            reached("wait.opened")
        await begins(execution.record.waits[path])

    going = asyncio.ensure_future(both())
    cancelled = await outlast(going)
    try:
        going.result()
    except StoreError as error:  # no failure of the step: the drive ends with it
        execution.broken = execution.broken or error
        branch.unwind("the store failed")
    if cancelled is not None:
        if execution.drive.stopping:
            raise cancelled
        execution.suspend(branch, NEVER, "what it waits for is under way")  # a timeout of the step's own


async def _intend(execution: Execution, branch: Branch, opened: e.WaitOpened) -> None:
    """Make the wait durable before what it waits for is set going, and never after a cancel (law 17)."""
    drive = execution.drive
    while True:
        execution.forbid(branch)
        try:
            await drive.journal.intend((opened,), Fences(inbox_seen=drive.inbox_seen))
            return
        except InboxMoved:
            await drive.read_inbox()


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


# -- signals and answers


class Asked(Struct, frozen=True):
    """What a step waits for: `shape` of the value, `choices` if there are only these, `patience` at most.

    `default`: what an expiry gives, NO_DEFAULT for none; then `expiry` says what it does.
    """

    name: str
    shape: Shape[Any]
    patience: Patience
    expiry: Expiry = "raise"
    default: Any = NO_DEFAULT
    choices: tuple[Any, ...] | None = None


async def signalled(execution: Execution, asked: Asked) -> Any:
    """The payload of the next signal of this name. Raises WaitExpired, SignalUnfit."""
    _check_name(asked.name, "a signal's name")
    now = execution.drive.host.store.now

    def closing(record: RunRecord, wait: WaitRecord) -> e.WaitClosed | None:
        found = next_signal(record, wait, now())
        return None if found is None else e.WaitClosed(wait.path, "signal", signal=found.seq)

    wait = await wait_for(execution, _awaited(execution, asked, "signal"), closing, _expired(asked))
    if wait.how == "expired":
        return _after_expiry(asked, wait)
    try:
        return asked.shape.parse(codec.decode(wait.value), where="$.payload")
    except ShapeMismatch as error:
        what = f"signal {wait.name!r} came, and does not fit what the run waits for: {error.what}"
        safe = "It is taken: the next wait gets the next signal."
        raise SignalUnfit(
            what, safe=safe, name=wait.name, path=error.path, expected=error.expected
        ) from error


async def answered(execution: Execution, asked: Asked) -> Any:
    """The answer to a question. Raises WaitExpired. One that does not fit leaves the question open."""
    _check_name(asked.name, "a question")
    if asked.choices == ():
        raise BadArguments(f"{asked.name!r:.80} has nothing to choose from")
    wait = await wait_for(execution, _awaited(execution, asked, "answer"), nothing, _expired(asked))
    if wait.how == "expired":
        return _after_expiry(asked, wait)
    plain = codec.decode(wait.value)
    try:
        if asked.choices is not None:
            return _choice(asked.choices, plain)
        return asked.shape.parse(plain, where="$.answer")
    except ShapeMismatch as error:
        await _refuse(execution, wait, error.what)


def _choice(choices: tuple[Any, ...], plain: Any) -> Any:
    for choice in choices:
        if codec.encode(choice) == codec.encode(plain):
            return choice
    raise ShapeMismatch(f"$.answer should be {one_of(choices)}, and is {written(plain, 80)}")


async def _refuse(execution: Execution, wait: WaitRecord, why: str) -> NoReturn:
    """What only the code can judge: the answer is refused, and the question stays open.

    Where the step has gone on from that answer before, the code has changed: that is a divergence.
    """
    branch, record = here(execution), execution.record
    later = any(first_seq(item) > wait.closed for item in records(record))
    if later or execution.checking:
        recorded = f"at {wait.path} recorded an answer that no longer fits: {why}"
        sides = Sides(wait.path, f"an answer to {words(wait)}", f"refuses it: {why}", recorded)
        execution.diverge(branch, wait.seq, sides)
    await execution.drive.journal.append(e.AnswerRefused(wait.path, why))
    execution.suspend(branch, wait.deadline, "the answer was refused")


def _awaited(execution: Execution, asked: Asked, kind: e.WaitKind) -> Awaited:
    limit = execution.drive.agent.wait_limit if asked.patience is None else asked.patience
    now = execution.drive.host.store.now()
    seconds = None if isinstance(limit, Forever) else seconds_of(limit, now, "a run cannot wait for")
    terms = _terms(asked)
    return Awaited(asked.name, kind, seconds, lambda: terms.data)


def _terms(asked: Asked) -> Terms:
    choices = None if asked.choices is None else codec.plain(list(asked.choices), where="$.choices")
    schema = None if asked.choices is not None or asked.shape.type is Any else asked.shape.schema()
    if asked.default is not NO_DEFAULT:
        return Terms("default", codec.plain(asked.default, where="$.default"), schema, choices)
    if asked.expiry == "deny" and asked.shape.type is not bool:
        raise BadArguments(
            f'{asked.name!r:.80}: expiry="deny" answers False, so it is for a wait for bool',
            remedy="default=... says what an expiry gives",
        )
    return Terms(asked.expiry, None, schema, choices)


def _expired(asked: Asked) -> Callable[[str], e.WaitClosed]:
    def closed(path: str) -> e.WaitClosed:
        if asked.default is not NO_DEFAULT:
            return e.WaitClosed(path, "expired", codec.encode(asked.default, where="$.default"))
        return e.WaitClosed(path, "expired", codec.encode(False) if asked.expiry == "deny" else b"")

    return closed


def _after_expiry(asked: Asked, wait: WaitRecord) -> Any:
    """The default as it was recorded, of the declared type if it fits that."""
    if not wait.value:
        what = f"nothing came for {words(wait)} until {moment_of(wait.deadline)}"
        raise WaitExpired(what, path=wait.path, name=wait.name)
    plain = codec.decode(wait.value)
    try:
        return asked.shape.restore(plain)
    except ShapeMismatch:
        return plain


def _check_name(name: object, what: str) -> None:
    if not is_a(name, str) or not name:
        raise BadArguments(f"{what} is a text, not {name!r:.80}")
