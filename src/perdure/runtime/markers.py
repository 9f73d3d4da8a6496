"""`run.since("name")`: has the code that this marker stands for been there since this step began?

The first answer in a step is recorded and is the answer of the whole step, however often it is executed
again. It takes no place among the step's calls, so that adding or removing a marker moves none of them.
"""

from __future__ import annotations

from perdure import codec
from perdure.agent.policy import is_a
from perdure.errors import BadArguments
from perdure.runtime.difference import Sides
from perdure.runtime.execution import Branch, Execution
from perdure.state import events as e
from perdure.state.record import RunRecord

_MARK = "since."

LONGEST = 80
"""Characters of a marker's name."""


def since(execution: Execution, branch: Branch, name: str) -> bool:
    """False in a step that had got further than this place before it came here; True in any other.

    Raises BadArguments for a name that could not be part of a path.
    """
    if not is_a(name, str) or not 0 < len(name) <= LONGEST or not name.isprintable() or " " in name:
        raise BadArguments(
            f"a marker's name has 1 to {LONGEST} printable characters and no space; not {name!r:.100}",
            remedy='run.since("fraud-check")',
        )
    path = f"{execution.prefix}{_MARK}{name}"
    recorded = execution.record.calls.get(path)
    if recorded is not None:
        return bool(codec.decode(recorded.value))
    if execution.committed:
        return False  # it never came to this marker: the code has it since
    if execution.checking:
        what = f"run.since({name!r})"
        words = f"it asked for {what}, which the first execution did not"
        execution.diverge(branch, 0, Sides(path, "nothing", what, words))
    new = execution.replay.never_asked() is None and not execution.awaiting
    head = e.CallHead(e.SINCE, "read", (), codec.digest(e.SINCE.encode(), name.encode()))
    execution.drive.journal.append_soon(e.CallSettled(path, "done", codec.encode(new), head))
    return new


def old_ways(record: RunRecord) -> list[str]:
    """The markers for which the open step was told that it began before them."""
    return [
        call.path.partition(_MARK)[2]
        for call in record.calls.values()
        if call.name == e.SINCE and not codec.decode(call.value)
    ]
