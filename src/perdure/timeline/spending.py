"""What a run has spent of what it was given, kind by kind: for lists from its row, else from its record.

Pure. Amounts are whole numbers (billionths of a US dollar, microseconds); `words` says them as a person does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.codec import decode
from perdure.state.amount import DOLLAR, KINDS, Kind
from perdure.state.ledger import reserved_of, spent_of
from perdure.state.record import RunRecord
from perdure.state.wording import told
from perdure.store.protocol import RunRow

NAMES: dict[Kind, str] = {
    "usd": "usd",
    "tokens": "tokens",
    "calls": "calls",
    "steps": "steps",
    "micros": "seconds",
}
"""Each kind as `Budget` names it."""


@dataclass(frozen=True, slots=True)
class Spending:
    """One kind: what is spent, what calls without a known outcome have reserved, and the limit.

    `source`: where the limit comes from, with what was added since; empty where that is not known.
    """

    kind: Kind
    spent: int
    reserved: int
    limit: int
    source: str = ""

    @property
    def left(self) -> int:
        """What is neither spent nor reserved."""
        return max(self.limit - self.spent - self.reserved, 0)

    @property
    def words(self) -> str:
        """Such as `$0.07 of $1.00, $0.15 reserved`."""
        reserved = f", {told(self.kind, self.reserved)} reserved" if self.reserved else ""
        return f"{told(self.kind, self.spent)} of {told(self.kind, self.limit)}{reserved}"


def spending(record: RunRecord) -> tuple[Spending, ...]:
    """Every kind that the run has a limit of."""
    ledger = record.ledger
    if ledger is None:
        return ()
    limits, spent, reserved = ledger.now, spent_of(record), reserved_of(record)
    lines = []
    for kind in limits.limited:
        source = "the run's own" if kind in ledger.limits.own else "the agent's"
        if more := ledger.raised.of(kind):
            first = told(kind, ledger.limits.of(kind) or 0)
            source += f" {first}, {'raised' if more > 0 else 'lowered'} by {told(kind, abs(more))}"
        lines.append(Spending(kind, spent.of(kind), reserved.of(kind), limits.of(kind) or 0, source))
    return tuple(lines)


def noted_spending(row: RunRow) -> tuple[Spending, ...]:
    """The same as the run noted it when it was last left, for lists that load no run."""
    noted = decode(row.info) if row.info else {}
    kept = noted.get("budget") if isinstance(noted, dict) else None
    if not isinstance(kept, dict):
        return ()
    return tuple(Spending(kind, *kept[kind]) for kind in KINDS if kind in kept)


def tightest(lines: tuple[Spending, ...]) -> str:
    """Of which kind the most is gone, in words; money first where there is any. Empty without a budget."""
    if not lines:
        return ""
    usd = [line for line in lines if line.kind == "usd"]
    gone = max(lines, key=lambda line: (line.spent + line.reserved) / max(line.limit, 1))
    return (usd[0] if usd and gone.left else gone).words


def spending_document(lines: tuple[Spending, ...]) -> dict[str, dict[str, Any]]:
    """For programs: by the names of `Budget`, in dollars and seconds where those are meant."""
    return {NAMES[line.kind]: _one(line) for line in lines}


def _one(line: Spending) -> dict[str, Any]:
    unit = {"usd": DOLLAR, "micros": 1_000_000}.get(line.kind)

    def shown(amount: int) -> float:
        return amount if unit is None else amount / unit

    return {
        "spent": shown(line.spent),
        "reserved": shown(line.reserved),
        "limit": shown(line.limit),
        "left": shown(line.left),
        "source": line.source or None,
    }
