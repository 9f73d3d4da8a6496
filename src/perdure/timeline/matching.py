"""A call against the calls that another run recorded: the same call, a changed one, a new one.

Two calls are the same if they have the same name and the same arguments. Pure; it serves nothing and knows
neither store nor agent. Simulations ask it; a fork is stricter, and has a rule of its own (`state.fork`):
there an act of the same tool with other arguments may be the same act.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from perdure.journal import resolve
from perdure.state import events as e
from perdure.state.fold import recorded_values
from perdure.state.fork import NOTICE
from perdure.state.record import SETTLED, CallRecord, RunRecord, Standing
from perdure.state.undo import undone_path
from perdure.timeline.steps import past_steps


class Recorded(Struct, frozen=True):
    """A call as a run recorded it. `digest` covers its name and its arguments; `args` are plain data.

    `step` counts from 1. `seq`: the event that settled it, 0 if its outcome was never known; `value`: its
    result or its error, as value bytes.
    """

    path: str
    step: int
    name: str
    effect: e.Effect
    digest: bytes
    args: dict[str, Any]
    standing: Standing
    seq: int = 0
    value: bytes = b""
    usage: e.Usage | None = None

    @property
    def settled(self) -> bool:
        """Whether its outcome is known."""
        return self.standing in SETTLED


def recorded_calls(events: Sequence[e.Event], after: int = -1) -> list[Recorded]:
    """Every call that a run's steps recorded, in the order of their first events; no undos, no requests.

    Of a step that was begun anew, what its last execution rests on. Only those that were settled later than
    event `after`: a list of the state that each call was given is as long as the run so far.
    """
    usages = {
        (event.body.path, event.seq): event.body.usage
        for event in events
        if isinstance(event.body, e.CallSettled | e.CallLate)
    }
    found: list[Recorded] = []
    for step in past_steps(events):
        calls = [call for call in step.record.calls.values() if call.seq > after and _is_asked_for(call)]
        calls.sort(key=lambda call: call.intent or call.seq)
        found += [_recorded(step.record, call, usages.get((call.path, call.seq))) for call in calls]
    return found


def _is_asked_for(call: CallRecord) -> bool:
    """Whether the step asks for it: undos, and telling people of a request, are made beside it."""
    return not undone_path(call.path) and NOTICE not in call.path


def _recorded(record: RunRecord, call: CallRecord, usage: e.Usage | None) -> Recorded:
    values = recorded_values(record)
    asked = record.approvals.get(call.path)  # people may have put other arguments in: the code asks for these
    args = call.args if asked is None else asked.head.args
    return Recorded(
        call.path,
        record.step + 1,
        call.name,
        call.effect,
        call.digest if asked is None else asked.head.digest,
        {name: resolve(record.state, value, values) for name, value in args},
        call.standing,
        call.seq,
        call.value,
        usage,
    )


class Matcher:
    """Gives for each call the recorded one that is the same, as often as that was made."""

    def __init__(self, recorded: Iterable[Recorded]) -> None:
        self._left: dict[bytes, list[Recorded]] = defaultdict(list)
        self._last: dict[bytes, Recorded] = {}
        for call in recorded:
            self._left[call.digest].append(call)

    def take(self, digest: bytes, path: str = "", *, again: bool = False) -> Recorded | None:
        """The recorded call of this digest that was not taken yet: that at the same path, else the first.

        `again`: if all were taken, the last one once more. So a read may be asked for more often than it was;
        an act that is made once more than it was recorded is another act.
        """
        left = self._left.get(digest)
        if not left:
            return self._last.get(digest) if again else None
        at = next((index for index, call in enumerate(left) if call.path == path), 0)
        taken = self._last[digest] = left.pop(at)
        return taken

    def left(self) -> list[Recorded]:
        """What was not taken, in order."""
        return sorted((call for calls in self._left.values() for call in calls), key=lambda call: call.seq)


Sameness: TypeAlias = Literal["same", "changed", "new", "missing"]
"""What a call is beside those that were recorded: `changed` has other arguments, `missing` is not made."""


class Pair(Struct, frozen=True):
    """A recorded call, the call made in its place, or both. `made` is an index into the calls made."""

    sameness: Sameness
    recorded: Recorded | None
    made: int | None


def paired(recorded: Sequence[Recorded], made: Sequence[tuple[str, bytes, str]]) -> list[Pair]:
    """Calls made (name, digest and path of each) against those recorded: in the order in which they were
    made, the missing ones where they would have been.

    Calls that are not the same are held against the recorded ones of their name, in order.
    """
    matcher = Matcher(recorded)
    same = [matcher.take(digest, path) for _, digest, path in made]
    used = {id(taken) for taken in same}
    left: dict[str, list[Recorded]] = defaultdict(list)
    for call in recorded:
        if id(call) not in used:
            left[call.name].append(call)
    pairs: list[Pair] = []
    for index, ((name, _, _), taken) in enumerate(zip(made, same, strict=True)):
        if taken is not None:
            pairs.append(Pair("same", taken, index))
        elif left[name]:
            pairs.append(Pair("changed", left[name].pop(0), index))
        else:
            pairs.append(Pair("new", None, index))
    return list(_with_missing(recorded, pairs))


def _with_missing(recorded: Sequence[Recorded], pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Put what was not made behind the last call that was recorded before it."""
    place = {id(call): index for index, call in enumerate(recorded)}
    told = {place[id(pair.recorded)] for pair in pairs if pair.recorded is not None}
    missing = [index for index in range(len(recorded)) if index not in told]
    for pair in pairs:
        at = None if pair.recorded is None else place[id(pair.recorded)]
        while at is not None and missing and missing[0] < at:
            yield Pair("missing", recorded[missing.pop(0)], None)
        yield pair
    for index in missing:
        yield Pair("missing", recorded[index], None)
