"""A step that does not match its record: both sides in words, where they differ, and what follows from it.

What is said is bounded, whatever the size of the values. What may be dropped is judged in `recovery`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.errors import Diverged, PerdureError
from perdure.journal import resolve
from perdure.recovery.verdicts import DropTail, after_mismatch, first_seq, records
from perdure.runtime.difference import Sides, differences, same_end, shown, told, told_end
from perdure.runtime.drive import Drive
from perdure.state import events as e
from perdure.state.fold import recorded_values
from perdure.state.record import CallRecord, WaitRecord

ARGUMENTS = 6
"""Arguments that are shown of a call."""

HINT = "run.now(), run.random() and run.new_id() are recorded"
"""What to use in place of the usual causes."""


def decide(drive: Drive, seq: int, detail: str, reason: str = "diverged") -> e.StepRestarted | e.RunHeld:
    """What becomes of a step whose code asks for something else than event `seq` recorded: the reads from
    there on are dropped, or the run is held for the `reason`, with what can be done.
    """
    decision = after_mismatch(drive.record, seq)
    if isinstance(decision, DropTail):
        return e.StepRestarted(detail, decision.keep)
    remedies = [f"deploy the code that the run was recorded with, then perdure retry {drive.run_id}"]
    if decision.may_restart:
        remedies.append(f"perdure retry {drive.run_id} --restart")
    remedies.append(f"perdure cancel {drive.run_id}")
    return e.RunHeld(reason, f"[{Diverged.code}] {detail}", tuple(remedies))


def of_call(
    drive: Drive, call: CallRecord, head: e.CallHead, args: Mapping[str, Any], kept: Mapping[str, bytes]
) -> Sides:
    """A call is recorded, and the code asks for another one in its place, with `args`.

    `kept`: value bytes of the recorded call's arguments that the journal does not keep, if they are at hand.
    """
    asked = drive.record.approvals.get(call.path)
    recorded = _recorded(drive, call.args if asked is None else asked.head.args)
    recorded.update((name, codec.decode(data)) for name, data in kept.items())
    now = {name: _plain(value) for name, value in args.items()}
    digests = (call.digest.hex(), head.digest.hex())
    sides = Sides(call.path, call_words(call.name, recorded), call_words(head.name, now), digests=digests)
    if call.name == head.name:
        found = differences(recorded, now, "")
        names = [(_named(at), one, other) for at, one, other in found]
        if names:
            words = told(names, "recorded", "now")
            return replace(sides, words=f"at {call.path} the arguments of {call.name} differ: {words}")
    return sides


def never_asked(drive: Drive, seq: int) -> Sides:
    """The code has gone by what event `seq` recorded."""
    item = next((item for item in records(drive.record) if first_seq(item) == seq), None)
    if item is None:
        words = f"event {seq} recorded something that the code no longer asks for"
        return Sides("", f"event {seq}", "nothing", words)
    if isinstance(item, WaitRecord):
        what = "a sleep" if item.kind == "sleep" else f"{item.kind} {item.name!r:.60}"
    else:
        what = call_words(item.name, _recorded(drive, item.args))
    words = f"at {item.path} recorded {what}, which the code no longer asks for"
    return Sides(item.path, what, "nothing", words)


def of_state(first: Any, second: Any) -> str:
    """Two executions of a step left these states."""
    found = differences(_plain(first), _plain(second), "$.state")
    where = told(found, "first", "replayed") if found else "its parts are in another order"
    return f"the replayed step left another state: {where}"


def of_ending(first: tuple[str, bytes] | None, second: tuple[str, bytes] | None) -> str:
    """Two executions of a step ended the run so: status and value bytes each, or not at all.

    Empty if they are alike.
    """

    def words(ending: tuple[str, bytes] | None) -> str:
        return "did not end the run" if ending is None else f"ended it as {ending[0]}"

    if same_end(first, second):
        return ""
    if first is not None and second is not None and first[0] == second[0]:
        found = differences(told_end(*first)[1], told_end(*second)[1], "$.result")
        return f"the replayed step ended the run with something else: {told(found, 'first', 'replayed')}"
    return f"the first execution of the step {words(first)}, the replayed one {words(second)}"


def _recorded(drive: Drive, args: tuple[tuple[str, e.Argument], ...]) -> dict[str, Any]:
    record = drive.record
    values = recorded_values(record)
    return {name: resolve(record.state, value, values) for name, value in args}


def _plain(value: Any) -> Any:
    try:
        return codec.plain(value)
    except PerdureError:  # it is told apart by its own words then
        return value


def call_words(name: str, args: Mapping[str, Any]) -> str:
    """A call in a few words: its name and its arguments."""
    inside = [f"{key}={shown(value)}" for key, value in list(args.items())[:ARGUMENTS]]
    return f"{name}({', '.join([*inside, *(['…'] if len(args) > ARGUMENTS else [])])})"


def _named(at: str) -> str:
    """`['cents'][0]`, as the argument is written: `cents[0]`."""
    name, bracket, rest = at.removeprefix("['").partition("']")
    return name + rest if bracket else at
