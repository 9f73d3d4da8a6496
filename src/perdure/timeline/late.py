"""Results that came after their run had ended: no event can hold them, so they lie in its inbox.

`late_lines` gives them the form of the lines of a timeline, to be shown after the last event. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from perdure.runtime.messages import Late, late_of
from perdure.store.protocol import Inbound
from perdure.timeline.view import Line


def late_results(inbox: Iterable[Inbound]) -> Iterator[tuple[int, Late]]:
    """The late results among messages that were not taken, each with the moment when it came."""
    for message in inbox:
        if message.kind == "late":
            yield message.at, late_of(message.data)


def late_lines(lines: Sequence[Line], inbox: Iterable[Inbound]) -> list[Line]:
    """A line for each late result, at the point of the last event. `lines`: of the whole run, in order."""
    last = lines[-1] if lines else Line(0, 0, 1, "finished", "")
    return [
        Line(last.seq, at, last.step, "late", late.name, _detail(lines, late))
        for at, late in late_results(inbox)
    ]


def _detail(lines: Sequence[Line], late: Late) -> tuple[str, ...]:
    calls = [line.call for line in lines if line.call is not None and line.call.path == late.path]
    again = late.outcome == "done" and any(call.attempts > late.attempt for call in calls)
    twice = ("it was made again: it may have happened twice",) if again and late.effect != "read" else ()
    return (late.outcome, "not used", f"attempt {late.attempt}, after the run had ended", *twice)
