"""A person changes what a run may use: what may be asked for, and what becomes of it when it is applied.

Pure. A run that is held because its budget was used up goes on once it has more.
"""

from __future__ import annotations

from typing import Any

from perdure.clock import SECOND
from perdure.errors import BadSetting, BudgetBelowSpent, NoSuchLimit, OtherBudget, PartOfAnother
from perdure.state import events as e
from perdure.state.amount import KINDS, Amount, Kind, Limits, billionths
from perdure.state.ledger import reserved_of, spent_of
from perdure.state.record import RunRecord
from perdure.state.wording import told

_KIND: dict[str, Kind] = {
    "usd": "usd",
    "tokens": "tokens",
    "calls": "calls",
    "steps": "steps",
    "seconds": "micros",
}
"""A limit's name in `Budget`, and the kind that it limits."""


def more_of(given: dict[str, Any]) -> Amount:
    """What is to be added, by the names of `Budget`; negative to take something back.

    Raises BadSetting for a name that is no limit and a value that is no number, NoSuchLimit for nothing.
    """
    sums: dict[str, int] = {}
    for name, value in given.items():
        if name not in _KIND:
            raise BadSetting(f"a budget has no {name!r}", remedy=f"its limits: {', '.join(_KIND)}")
        whole = name not in ("usd", "seconds")
        number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
        if not number or (whole and value != int(value)):
            raise BadSetting(f"{name}={value!r} is not a number that a budget can be raised by")
        sums[_KIND[name]] = (
            billionths(value) if name == "usd" else round(value * SECOND) if name == "seconds" else int(value)
        )
    if not any(sums.values()):
        raise NoSuchLimit("nothing is to be added", remedy="such as usd=1, or --add usd=1")
    return Amount(**sums)


def check_raise(run_id: str, record: RunRecord, more: Amount) -> None:
    """Raises NoSuchLimit where the run has no limit of a kind, BudgetBelowSpent if too much is taken back."""
    limits = None if record.ledger is None else record.ledger.now
    taken = spent_of(record) + reserved_of(record)
    for kind in KINDS:
        if not (added := more.of(kind)):
            continue
        limit = None if limits is None else limits.of(kind)
        if limit is None:
            have = ", ".join(limits.limited) if limits is not None else "none"
            raise NoSuchLimit(
                f"run {run_id} has no limit of {kind}, so it cannot be raised; its limits: {have}",
                run_id=run_id,
            )
        if added < 0 and limit + added < taken.of(kind):
            raise BudgetBelowSpent(
                f"run {run_id} has spent or reserved {told(kind, taken.of(kind))};"
                f" {told(kind, limit + added)} would be below that",
                run_id=run_id,
            )


def check_part(run_id: str, parent: RunRecord, more: Amount) -> None:
    """Raises PartOfAnother where a child is to get more of what its parent has only so much of (law 7)."""
    limits = None if parent.ledger is None or parent.ended is not None else parent.ledger.now
    for kind in KINDS:
        if limits is not None and limits.of(kind) is not None and more.of(kind) > 0:
            raise PartOfAnother(
                f"what run {run_id} may use of {kind} is a part of its parent's budget", run_id=run_id
            )


def raising_events(record: RunRecord, data: dict[str, Any], by: str) -> tuple[e.AnyBody, ...]:
    """What the message makes of a run. What was spent meanwhile is not taken back."""
    ledger = record.ledger
    if ledger is None:
        return ()
    limits, taken = ledger.now, spent_of(record) + reserved_of(record)
    sums: dict[str, int] = {}
    for kind in KINDS:
        added = int(data["more"].get(kind, 0))
        if (limit := limits.of(kind)) is not None and added:
            sums[kind] = added if added > 0 else max(added, min(taken.of(kind) - limit, 0))
    why = str(data.get("note", ""))
    raised = e.BudgetRaised(by, Amount(**sums), why)
    if record.held is not None and record.held.reason == "over-budget":
        return (raised, e.RunReleased(by, "budget", why))
    return (raised,)


def message_of(more: Amount, by: str, why: str) -> dict[str, Any]:
    """The message's data."""
    return {"by": by, "note": why, "more": {kind: more.of(kind) for kind in KINDS if more.of(kind)}}


def check_same(run_id: str, record: RunRecord, wanted: Limits | None) -> None:
    """Refuse to carry a run on with other limits of its own than it was started with.

    Raises BudgetBelowSpent if it is below what is spent, else OtherBudget.
    """
    started = None if record.ledger is None else record.ledger.limits
    mine = () if started is None else started.own
    spent = spent_of(record)
    for kind in KINDS:
        limit = None if wanted is None else wanted.of(kind)
        had = started.of(kind) if started is not None and kind in mine else None
        if limit == had:
            continue
        if limit is not None and limit < spent.of(kind):
            raise BudgetBelowSpent(
                f"run {run_id} has spent {told(kind, spent.of(kind))}, more than {told(kind, limit)}",
                run_id=run_id,
            )
        now, then = (_said(kind, value) for value in (limit, had))
        raise OtherBudget(
            f"run {run_id} was started with {then} as its own limit, not with {now}", run_id=run_id
        )


def _said(kind: Kind, limit: int | None) -> str:
    return f"no {kind}" if limit is None else told(kind, limit)
