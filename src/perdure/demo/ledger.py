"""The pretend bank's book: one SQLite file that survives the process.

The bank is as careless as many real services: it pays every refund that it is asked for and recognises no
repeated key. So whoever asks twice has paid twice, and the book shows it. It knows nothing of runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import apsw

_TABLES = """
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, customer TEXT, item TEXT, cents INTEGER);
CREATE TABLE IF NOT EXISTS refunds (n INTEGER PRIMARY KEY, order_id TEXT, cents INTEGER, key TEXT, at TEXT);
INSERT OR IGNORE INTO orders VALUES
  ('o-77', 'Ada', 'a kettle', 1200), ('o-78', 'Grace', 'a lamp', 4550), ('o-79', 'Alan', 'a chess board',
  24900);
"""


@dataclass(frozen=True, slots=True)
class Refund:
    """One line of the book. `receipt` is the bank's own number for it."""

    receipt: str
    order_id: str
    cents: int
    key: str
    at: str


class NoSuchOrder(LookupError):
    """The shop has no order of this id."""


class Ledger:
    """The book in the file at `path`; made, with three orders in it, if it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def order(self, order_id: str) -> dict[str, Any]:
        """The order: `id, customer, item, cents`, and `refunded_cents` so far. Raises NoSuchOrder."""
        with self._open() as db:
            row = db.execute(
                "SELECT id, customer, item, cents FROM orders WHERE id = ?", (order_id,)
            ).fetchone()
            if row is None:
                raise NoSuchOrder(f"there is no order {order_id}")
            paid = db.execute(
                "SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = ?", (order_id,)
            ).get
        return dict(zip(("id", "customer", "item", "cents"), row, strict=True)) | {"refunded_cents": paid}

    def refund(self, order_id: str, cents: int, key: str) -> Refund:
        """Pay, whatever was paid before, and write it down durably. Raises NoSuchOrder."""
        self.order(order_id)
        with self._open() as db:
            number = db.execute(
                "INSERT INTO refunds (order_id, cents, key, at) "
                "VALUES (?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) RETURNING n",
                (order_id, cents, key),
            ).get
        return next(entry for entry in self.entries() if entry.receipt == f"rf-{number}")

    def find(self, key: str) -> Refund | None:
        """The first refund that was paid under this key, if any was."""
        return next((entry for entry in self.entries() if entry.key == key), None)

    def entries(self) -> list[Refund]:
        """Every refund ever paid, oldest first."""
        with self._open() as db:
            rows = list(db.execute("SELECT 'rf-' || n, order_id, cents, key, at FROM refunds ORDER BY n"))
        return [Refund(*row) for row in rows]

    @contextmanager
    def _open(self) -> Iterator[apsw.Connection]:
        db = apsw.Connection(str(self.path))
        try:
            db.set_busy_timeout(5000)
            db.execute("PRAGMA synchronous = FULL")
            # Two processes may open a new book at once: only a lock that is taken at the start is waited for.
            db.execute("BEGIN IMMEDIATE")
            with db:
                db.execute(_TABLES)
            db.execute("COMMIT")
            yield db
        finally:
            db.close()


def as_plain(refund: Refund) -> dict[str, Any]:
    """A line of the book as a dict."""
    return asdict(refund)


def money(cents: int) -> str:
    """Cents as dollars: `$12.00`."""
    return f"${cents / 100:,.2f}"
