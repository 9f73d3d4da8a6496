"""What a step may know of the pauses before it, as data and as a note that a model can read.

The same whenever the step is executed again: it is made of the journal alone. Plain records; whoever fills
them is the runtime.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

NOTE_MOST = 2_000
"""Characters of the note."""


class Gap(Struct, frozen=True):
    """A time in which nobody drove the run (aware, UTC); `inside`: the calls that were open meanwhile;
    `differences`: what is other in the code since.
    """

    since: datetime
    until: datetime
    inside: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


class DoneCall(Struct, frozen=True):
    """A call that acts, of the step that was interrupted. `outcome`: `done`, `failed` or `left-unknown`.

    `lost`: its reply did not come at first. Arguments and results that are long are None.
    """

    path: str
    tool: str
    args: dict[str, Any]
    outcome: str
    result: Any
    lost: bool


class ChangedFact(Struct, frozen=True):
    """A fact that is no longer as the run knew it; long values are None. `found`: when (aware, UTC)."""

    fact: str
    args: dict[str, Any]
    was: Any
    now: Any
    found: datetime


class Recovery(Struct, frozen=True):
    """What happened around the pauses before this step. False if there was none.

    `str()` is a note for a model. `done`: what is known of the calls that act, `unknown`: those of which
    nobody knows whether they happened, `changed`: facts that were found changed. `left_out`: entries that
    were too many.
    """

    gaps: tuple[Gap, ...] = ()
    done: tuple[DoneCall, ...] = ()
    unknown: tuple[DoneCall, ...] = ()
    changed: tuple[ChangedFact, ...] = ()
    left_out: int = 0

    def __bool__(self) -> bool:
        return bool(self.gaps)

    def __str__(self) -> str:
        if not self.gaps:
            return ""
        lines = [f"This work was interrupted {len(self.gaps)} time(s)."]
        lines += [f"Nothing was done from {_moment(gap.since)} to {_moment(gap.until)}." for gap in self.gaps]
        lines += [f"Changed: the code ({difference})." for gap in self.gaps for difference in gap.differences]
        lines += [
            f"Changed: {called(one.fact, one.args)} was {one.was!r:.200}, now it is {one.now!r:.200}."
            for one in self.changed
        ]
        lines += [
            f"Unknown: whether {called(call.tool, call.args)} happened. Look before doing it again."
            for call in self.unknown
        ]
        lines += [f"Done, do not repeat: {_outcome(call)}" for call in self.done if call.outcome == "done"]
        lines += [f"Failed: {called(call.tool, call.args)}." for call in self.done if call.outcome != "done"]
        note = "\n".join(lines)
        return note if len(note) <= NOTE_MOST else note[: NOTE_MOST - 20].rstrip() + "\n(and more)"


def _outcome(call: DoneCall) -> str:
    return f"{called(call.tool, call.args)} = {call.result!r:.200}."


def called(name: str, args: dict[str, Any]) -> str:
    """A call in one line, as in `refund(order_id='o-77', cents=1200)`; long values are cut."""
    return f"{name}({', '.join(f'{key}={value!r:.60}' for key, value in args.items())})"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
