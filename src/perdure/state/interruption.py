"""What a step should know of the pauses before it: how long, what was done around them, what has changed.

Pure, and bounded: long values are left out, and the oldest entries make room for new ones. An execution of a
step that has left records is executed again with the very same knowledge, so whatever happens while a step is
open is told to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from perdure.state.events import Argument, FactChanged, Ref
from perdure.state.record import (
    NOT_INTERRUPTED,
    CallRecord,
    ChangeRecord,
    DoneRecord,
    Interruption,
    Pause,
)

MOST: Final = 20
"""So many entries of each kind are kept."""

LONG: Final = 512
"""A value of more bytes is left out."""

T = TypeVar("T")


def paused(known: Interruption, pause: Pause) -> Interruption:
    """After one more pause."""
    pauses, gone = _newest((*known.pauses, pause))
    return replace(known, pauses=pauses, left_out=known.left_out + gone)


def changed(known: Interruption, at: int, body: FactChanged) -> Interruption:
    """After a fact was found changed, at a moment in microseconds."""
    change = ChangeRecord(body.fact, _short(body.args), _short(body.was), _short(body.now), at)
    changes, gone = _newest((*known.changed, change))
    return replace(known, changed=changes, left_out=known.left_out + gone)


def of_step(
    known: Interruption, calls: Mapping[str, CallRecord], values: Mapping[int, bytes]
) -> Interruption:
    """What the next step is told of one that ended with these calls: nothing if it was not interrupted."""
    if not known.pauses:
        return NOT_INTERRUPTED
    acts = [call for call in calls.values() if call.effect != "read" and call.settled]
    done, gone = _newest(tuple(_done(call, values) for call in acts))
    return replace(known, done=done, left_out=known.left_out + gone)


def _done(call: CallRecord, values: Mapping[int, bytes]) -> DoneRecord:
    args = tuple((name, _bytes(value, values)) for name, value in call.args)
    return DoneRecord(call.path, call.name, args, call.standing, _short(call.value), lost=bool(call.cause))


def _bytes(argument: Argument, values: Mapping[int, bytes]) -> bytes:
    """A recorded argument's value bytes; empty if they are long or not at hand."""
    if isinstance(argument, Ref):
        if argument.length > LONG:
            return b""
        return values.get(argument.seq, b"")[argument.start : argument.start + argument.length]
    return _short(argument) if isinstance(argument, bytes) else b""


def _short(value: bytes) -> bytes:
    return value if len(value) <= LONG else b""


def _newest(entries: tuple[T, ...]) -> tuple[tuple[T, ...], int]:
    return entries[-MOST:], max(len(entries) - MOST, 0)
