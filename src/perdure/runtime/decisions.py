"""What people decide about a request, as events: who comes first, who comes too late, who may not.

Pure: a decision is judged by its place in the inbox and by the moment at which the store accepted it, never
by when somebody looks. The same words tell the person who lost why. Keeps law 8 where it concerns people.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from perdure import codec
from perdure.errors import (
    AlreadyDecided,
    ApprovalError,
    ApprovalExpired,
    ApprovalVoided,
    LookAgain,
    NotYours,
)
from perdure.state import events as e
from perdure.state.record import ApprovalRecord, Grant, RunRecord
from perdure.store.protocol import NEVER, Inbound

Verdict: TypeAlias = Literal["approve", "deny"]
"""What a person says."""

ANYONE, FUNCTION, ROLE = "", "function", "role:"
"""Who may decide, as it is recorded: anyone, whom the tool's own function admits, or who has a role."""

_ID_DIGITS = 12


class Decision(Struct, frozen=True):
    """One person's word on one request.

    `edit`: arguments, as value bytes, in the place of those asked; None: as they are. `seen` is the version
    of the request that the person looked at.
    """

    id: str
    verdict: Verdict
    principal: str
    roles: tuple[str, ...]
    note: str
    edit: tuple[tuple[str, bytes], ...] | None
    seen: bytes

    @property
    def message_id(self) -> str:
        """The same for the same word of the same person on the same thing."""
        parts = (self.id, self.verdict, self.principal, repr(self.edit), self.seen.hex())
        return f"{self.verdict}:{codec.digest(*(codec.encode(part) for part in parts)).hex()}"

    @property
    def data(self) -> bytes:
        """What its message carries."""
        told = {"id": self.id, "by": self.principal, "roles": list(self.roles), "note": self.note}
        edit = None if self.edit is None else [[name, value] for name, value in self.edit]
        return codec.encode({**told, "edit": edit, "seen": self.seen})


def decision_of(verdict: Verdict, data: dict[str, Any]) -> Decision:
    """A decision as its message tells it."""
    edit = data["edit"]
    return Decision(
        id=str(data["id"]),
        verdict=verdict,
        principal=str(data["by"]),
        roles=tuple(str(role) for role in data["roles"]),
        note=str(data["note"]),
        edit=None if edit is None else tuple((str(name), value) for name, value in edit),
        seen=data["seen"],
    )


def approval_id(run_id: str, path: str, digest: bytes, round_: int) -> str:
    """The id of a request: it names its run, so that the run is found without an index."""
    made = codec.digest(run_id.encode(), path.encode(), digest, str(round_).encode())
    return f"{run_id}~{made.hex()[:_ID_DIGITS]}"


def run_of(approval: str) -> str | None:
    """The run that an approval id names; None if it is no such id."""
    run_id, mark, digits = approval.rpartition("~")
    fine = mark and run_id and len(digits) == _ID_DIGITS and all(c in "0123456789abcdef" for c in digits)
    return run_id if fine else None


def find(record: RunRecord, approval: str) -> ApprovalRecord | None:
    """The request with this id, if the open step knows it."""
    return next((asked for asked in record.approvals.values() if asked.id == approval), None)


def version(asked: ApprovalRecord) -> bytes:
    """A digest of what would be permitted now: other once somebody has put other arguments in."""
    return codec.digest(
        asked.head.digest, *(part for name, value in asked.edit for part in (name.encode(), value))
    )


def no_use(record: RunRecord, asked: ApprovalRecord) -> ApprovalVoided | None:
    """Why no decision on this request counts any more, whatever it is: the run acts no more."""
    if record.cancel is None or not asked.open:
        return None
    what = f"approval {asked.id} is void: {record.cancel} has cancelled its run"
    return ApprovalVoided(what, approval_id=asked.id, tool=asked.head.name)


def refusal(asked: ApprovalRecord, decision: Decision, at: int) -> ApprovalError | None:
    """Why a decision that the store accepted at `at` does not count; None if it does."""
    facts = {"approval_id": asked.id, "tool": asked.head.name}
    if asked.standing == "voided":
        return ApprovalVoided(f"approval {asked.id} is void: {asked.note}", **facts)
    if asked.standing == "expired" or (asked.standing == "pending" and at >= asked.deadline):
        return ApprovalExpired(
            f"approval {asked.id} of {asked.head.name} expired; nobody decided in time", **facts
        )
    if asked.standing == "denied":
        return _decided(asked, "denied", asked.decided_by, asked.decided_at)
    if asked.standing == "used":
        last = asked.grants[-1]
        return _decided(asked, "used", last.principal, last.at)
    if asked.by.startswith(ROLE) and asked.by.removeprefix(ROLE) not in decision.roles:
        role = asked.by.removeprefix(ROLE)
        what = f"{decision.principal} may not decide {asked.id}: it takes the role {role}"
        way = f"perdure {'deny' if decision.verdict == 'deny' else 'approve'} {asked.id} --role {quote(role)}"
        return NotYours(what, remedy=f"somebody who has the role says: {way}", **facts, role=role)
    if decision.verdict == "deny":
        return None
    if asked.standing == "granted":
        last = asked.grants[-1]
        return _decided(asked, "granted", last.principal, last.at)
    if decision.seen != version(asked):
        return LookAgain(f"approval {asked.id} was edited by {asked.decided_by} meanwhile", **facts)
    known = _own(asked, decision)
    return None if known is None else _decided(asked, "granted", known.principal, known.at)


def _own(asked: ApprovalRecord, decision: Decision) -> Grant | None:
    """This person's earlier yes to the same thing."""
    if decision.edit is not None and decision.edit != asked.edit:
        return None
    return next((one for one in asked.grants if one.principal == decision.principal), None)


_WORDS = {
    "granted": "was granted",
    "denied": "was denied",
    "used": "was granted and is used: the act has begun,",
}


def _decided(asked: ApprovalRecord, how: str, by: str, at: int) -> AlreadyDecided:
    when = f"{datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at):%Y-%m-%d %H:%M:%SZ}"
    return AlreadyDecided(
        f"approval {asked.id} of {asked.head.name} {_WORDS[how]} by {by} at {when}",
        approval_id=asked.id,
        tool=asked.head.name,
        decision=how,
        by=by,
        at=at,
    )


def concerning(inbox: Iterable[Inbound], approval_id: str) -> list[Inbound]:
    """The messages that can matter to one request: all but the decisions on others, of which there may be
    hundreds, and each is a fold of the run.
    """
    name = approval_id.encode()
    return [one for one in inbox if one.kind not in ("approve", "deny") or name in one.data]


def decision_events(record: RunRecord, message: Inbound, data: dict[str, Any]) -> tuple[e.AnyBody, ...]:
    """The events that a decision makes of a run; none if it does not count."""
    verdict: Verdict = "approve" if message.kind == "approve" else "deny"
    decision = decision_of(verdict, data)
    asked = find(record, decision.id)
    if asked is None or no_use(record, asked) or refusal(asked, decision, message.at) is not None:
        return ()
    who, note = decision.principal, decision.note
    if verdict == "deny":
        return (e.ApprovalDenied(asked.path, asked.id, who, note, message.position),)
    edit = asked.edit if decision.edit is None else decision.edit
    until = min(message.at + max(asked.deadline - asked.asked_at, 0), NEVER)
    return (
        e.ApprovalGranted(asked.path, asked.id, who, note, edit, decision.roles, message.position, until),
    )
