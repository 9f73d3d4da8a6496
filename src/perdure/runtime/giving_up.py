"""What the step itself gave up: a call or a gather under a timeout of the step's own (`asyncio.timeout`).

Time is no input of a step, so the moment is recorded, and a replay gives up at the same place: it raises the
TimeoutError that the timeout made of the cancellation. Only what certainly did not act can be given up; an
act that was under way is unknown instead, and the step is executed again once its outcome is known.
"""

from __future__ import annotations

from typing import Any

from perdure import codec
from perdure.runtime.difference import Sides
from perdure.runtime.execution import Branch, Execution
from perdure.state import events as e
from perdure.state.record import CallRecord

GATHER = "run.gather"
"""The name under which a gather is recorded that was given up."""


class GivenUp(TimeoutError):
    """How it is recorded."""


_NAME = GivenUp.__qualname__


def give_up(execution: Execution, place: str, head: e.CallHead) -> None:
    """Record that the step gave up what it asked for at `place`, and that nothing of it acted."""
    if execution.checking or execution.replay.replaying:
        return  # the record will not match, and says so
    before = execution.record.calls.get(place)
    error = GivenUp(f"{head.name} was given up: a timeout in the step ended it")
    value = codec.encode(codec.encode_error(error))
    attempt = before.attempt if before is not None else 1
    usage: e.Usage | None = (
        () if before is not None and before.standing == "open" else None
    )  # it was under way
    own = None if before is not None else head
    body = e.CallSettled(place, "failed", value, own, True, attempt, usage=usage)
    execution.drive.journal.append_soon(body)


def gather_head() -> e.CallHead:
    """Which call a gather is."""
    return e.CallHead(GATHER, "read", (), codec.digest(GATHER.encode()))


def gave_up_gather(execution: Execution, branch: Branch, place: str) -> bool:
    """Whether the gather at `place` is recorded as given up; anything else recorded there is a divergence."""
    call = execution.record.calls.get(place)
    other = execution.record.waits.get(place) if call is None else call
    if other is None:
        return False
    if call is None or call.name != GATHER:
        seq = other.seq if call is None else call.intent or call.seq
        words = f"at {place} recorded {other.name}; the code gathers branches"
        execution.diverge(branch, seq, Sides(place, other.name, "gathers branches", words))
    execution.replay.asked(place)
    return True


def told(stored: Any) -> TimeoutError | None:
    """The TimeoutError that a stored failure stands for, if the step gave up."""
    return TimeoutError(stored["message"]) if stored["type"] == _NAME else None


def served(call: CallRecord) -> TimeoutError:
    """The TimeoutError of a gather that was given up."""
    return TimeoutError(codec.decode(call.value)["message"])
