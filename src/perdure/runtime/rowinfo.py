"""What a run notes about itself in its row, so that lists need not load it.

A small dict as value bytes: `step`, `calls`, and where there is something to tell `reason`, `detail`,
`budget`, `approvals`, `asks`, `fork` (RUN@SEQ), and `children` where it waits for nothing but these. Pure.
"""

from __future__ import annotations

from typing import Any

from perdure import codec
from perdure.runtime import budgets, questions, requests
from perdure.state import events as e
from perdure.state.ledger import reserved_of, spent_of
from perdure.state.record import RunRecord

REASON = 200
"""The longest part of a note, in characters."""


def row_info(record: RunRecord, why: str) -> bytes:
    """The note of a run that stands so because of `why`."""
    facts = _past(record)
    if why := "; ".join(part for part in (why, requests.summary(record)) if part):
        facts["reason"] = why
    waiting = [wait.kind for wait in record.waits.values() if not wait.closed]
    if waiting and set(waiting) == {"child"} and not asks_people(record):
        facts["children"] = len(waiting)
    if asked := questions.asked(record):
        facts["asks"] = asked
    if asked := requests.noted(record):
        facts["approvals"] = asked
    if record.held is not None:
        facts["detail"] = record.held.detail[:REASON]
    return codec.encode(facts)


def end_info(record: RunRecord, end: e.RunFinished, *, steps: int = 0) -> bytes:
    """The note of a run that has ended: nothing is open any more, whatever the record says until then.

    `steps`: those that the same write commits.
    """
    facts, value = _past(record, steps), codec.decode(end.value)
    if end.status == "failed":
        facts["reason"] = f"{value['type']}: {value['message']}"[:REASON]
    elif end.status != "succeeded":
        note = value.get("note")
        facts["reason"] = (f"by {value['by']}" + (f": {note}" if note else ""))[:REASON]
    return codec.encode(facts)


def _past(record: RunRecord, steps: int = 0) -> dict[str, Any]:
    facts: dict[str, Any] = {"step": record.step + steps, "calls": record.spent.calls}
    if record.fork is not None:
        facts["fork"] = f"{record.fork.run}@{record.fork.at}"
    if record.ledger is not None:
        facts["budget"] = budgets.shown(record.ledger, spent_of(record), reserved_of(record))
    return facts


def asks_people(record: RunRecord) -> bool:
    """Whether the run needs a person: it is held, or asks for a permission or an answer."""
    if record.held is not None:
        return True
    if questions.open_waits(record, "answer"):
        return True
    return any(asked.standing == "pending" for asked in record.approvals.values())
