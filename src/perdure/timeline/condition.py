"""The one word that says how a run stands, derived from its row.

A run's row holds the last status that was written; what is true now also depends on the lease and the clock.
A run whose worker died still says `running` in the store: here it is `interrupted`, or `silent` while nobody
knows. A run is only ever shown as ended if its terminal event was written. Pure: the clock's reading is
passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from perdure.codec import decode
from perdure.recovery.deploys import RunKey
from perdure.state.record import TERMINAL
from perdure.store.protocol import NEVER, RunRow
from perdure.timeline.amounts import duration, moment
from perdure.timeline.plain import clean

Word: TypeAlias = Literal[
    "ready",
    "running",
    "interrupted",
    "silent",
    "waiting",
    "overdue",
    "held",
    "succeeded",
    "failed",
    "cancelled",
    "retired",
]
"""How a run stands; each word means one thing, see `MEANING`."""

MEANING: dict[Word, str] = {
    "ready": "can be carried on now; no worker has claimed it",
    "running": "a live worker holds its lease",
    "interrupted": "its worker's process died; the next worker takes it over",
    "silent": "its worker let the lease run out without a word; the next worker takes it over",
    "waiting": "waits for a moment or a message; nothing is wrong",
    "overdue": "what it waited for has come, or its deadline has passed; the next worker carries it on",
    "held": "needs a person",
    "succeeded": "ended with a result",
    "failed": "ended with an error",
    "cancelled": "ended because someone asked for it",
    "retired": "ended because no code can carry it on",
}
"""What each word means, for help pages."""

Needs: TypeAlias = Literal["person", "worker", "time", "nothing"]
"""What has to come before the run moves."""


@dataclass(frozen=True, slots=True)
class Condition:
    """How a run stands: the `word`, a short reason, what it `needs`, and `since` when (microseconds)."""

    word: Word
    because: str
    needs: Needs
    since: int


def condition(row: RunRow, now: int, *, note: str = "") -> Condition:
    """How the run of this row stands at `now` (the store's clock).

    `note`: what the run itself noted for lists.
    """
    note = clean(note)
    if row.terminal:
        return _ended(row, note)
    if row.worker is not None and row.lease_until > now:
        return Condition("running", note, "nothing", row.updated_at)
    if row.worker is not None or row.lost is not None:
        return _abandoned(row)
    if row.status == "held" and row.pending and not RunKey.read(row.version).unfit:
        return Condition("overdue", _come(row), "worker", row.updated_at)
    if row.status == "held":
        return Condition("held", note or "needs a person", "person", row.updated_at)
    if row.status == "waiting":
        return _waiting(row, now, note)
    since = row.updated_at
    return Condition("ready", f"no worker has claimed it for {duration(now - since)}", "worker", since)


def _ended(row: RunRow, note: str) -> Condition:
    if row.status not in TERMINAL:
        return Condition("held", f"its row is damaged: it says {clean(row.status)}", "person", row.updated_at)
    return Condition(row.status, note, "nothing", row.updated_at)  # type: ignore[arg-type]


def _abandoned(row: RunRow) -> Condition:
    worker = clean(row.lost or row.worker or "")
    if row.died:
        return Condition(
            "interrupted", f"worker {worker} died; no other has taken it over", "worker", row.updated_at
        )
    because = f"worker {worker} let its lease run out; no other has taken it over"
    return Condition("silent", because, "worker", row.updated_at)


def _come(row: RunRow) -> str:
    messages = "a message has" if row.pending == 1 else f"{row.pending} messages have"
    return f"{messages} come, no worker has taken it up"


def _waiting(row: RunRow, now: int, note: str) -> Condition:
    what = f": {note}" if note else ""
    if row.pending:
        return Condition("overdue", _come(row), "worker", row.updated_at)
    if row.due_at >= NEVER and _waits_for_children(row):
        return Condition("waiting", f"for its children{what}", "nothing", row.updated_at)
    if row.due_at >= NEVER:
        return Condition("waiting", f"for a message{what}", "person", row.updated_at)
    if row.due_at <= now:
        late = duration(now - row.due_at)
        return Condition("overdue", f"due {late} ago, no worker has taken it up", "worker", row.due_at)
    left = duration(row.due_at - now)
    because = f"until {moment(row.due_at)}, {left} from now{what}"
    return Condition("waiting", because, "person" if row.asks else "time", row.updated_at)


def _waits_for_children(row: RunRow) -> bool:
    noted = decode(row.info) if row.info else {}
    return isinstance(noted, dict) and bool(noted.get("children"))


def note_of(row: RunRow) -> str:
    """What the run noted about itself for lists, in one line: its reason, and a detail; empty if it noted
    nothing.
    """
    noted = decode(row.info) if row.info else {}
    if not isinstance(noted, dict):
        return ""
    return ": ".join(str(noted[name]) for name in ("reason", "detail") if noted.get(name))


def fork_of(row: RunRow) -> str:
    """The point at which a run was forked from another one, as RUN@SEQ; empty if it was not."""
    noted = decode(row.info) if row.info else {}
    return str(noted.get("fork", "")) if isinstance(noted, dict) else ""
