"""What a run asks people to permit, as they see it: in an outcome, in an inbox, on a page.

Pure: it reads the record and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.agent import ApprovalRequest
from perdure.clock import SECOND
from perdure.codec.naming import written
from perdure.journal import Retold, resolve
from perdure.runtime import decisions
from perdure.state import events as e
from perdure.state.fold import fold, recorded_values
from perdure.state.record import ApprovalRecord, RunRecord


def request_of(run_id: str, record: RunRecord, asked: ApprovalRecord) -> ApprovalRequest:
    """A request as people see it, with the arguments that would run now, as plain data."""
    values = recorded_values(record)
    args = {name: resolve(record.state, value, values) for name, value in asked.head.args}
    args |= {name: codec.decode(value) for name, value in asked.edit}
    expires = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=min(asked.deadline, LAST_MOMENT))
    return ApprovalRequest(asked.id, run_id, asked.head.name, args, expires)


LAST_MOMENT = 253_402_300_799 * SECOND
"""The end of the calendar: what has no end is shown as this."""


NOTED = 10
"""So many requests are noted in a run's row; more are counted."""


def noted(record: RunRecord) -> list[dict[str, Any]]:
    """The pending requests as a run's row tells of them: short texts, moments in microseconds."""
    return [
        {
            "id": asked.id,
            "tool": asked.head.name,
            "args": {name: written(value, 120) for name, value in request_of("", record, asked).args.items()},
            "deadline": asked.deadline,
            "by": asked.by,
            "quorum": asked.quorum,
            "agreed": [grant.principal for grant in asked.grants],
        }
        for asked in islice(_pending(record), NOTED)
    ]


def requests(run_id: str, record: RunRecord) -> tuple[ApprovalRequest, ...]:
    """What a run asks people to permit now, oldest first."""
    return tuple(request_of(run_id, record, asked) for asked in _pending(record))


def summary(record: RunRecord) -> str:
    """The same in a few words; empty if it asks for nothing."""
    names = [asked.head.name for asked in _pending(record)]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"approval of {', '.join(names[:3])}{more}" if names else ""


def _pending(record: RunRecord) -> Iterator[ApprovalRecord]:
    """The requests that nobody has decided yet, oldest first."""
    pending = [asked for asked in record.approvals.values() if asked.standing == "pending"]
    return iter(sorted(pending, key=lambda one: one.seq))


_OF_REQUESTS = (
    e.ApprovalRequested
    | e.ApprovalGranted
    | e.ApprovalDenied
    | e.ApprovalExpired
    | e.ApprovalVoided
    | e.ApprovalUsed
)


def asked_before(told: Retold, approval_id: str) -> ApprovalRecord | None:
    """A request of a step whose events were compacted, as it stood last."""
    record, seq = RunRecord(), 0
    for event in told.events:
        body = event.body
        if event.seq > told.base.seq:
            break
        if isinstance(body, _OF_REQUESTS) and body.id == approval_id:
            seq = seq or event.seq
            record = fold(record, replace(event, seq=record.seq + 1), codec.decode)
    asked = decisions.find(record, approval_id)
    return None if asked is None else replace(asked, seq=seq)
