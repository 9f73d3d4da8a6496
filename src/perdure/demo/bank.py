"""The pretend bank of the quick start: `from perdure.demo import bank`.

Its book is a file beside the store (`bank.db`, or what PERDURE_BANK says), so it remembers what it paid when
your process is killed. It pays every refund it is asked for, twice if asked twice. `python -m
perdure.demo.bank` prints the book. PERDURE_BANK_PAUSE=5 makes it wait five seconds between paying and
answering: the moment to try `kill -9`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from perdure.demo.ledger import Ledger, money


async def order(order_id: str) -> dict[str, Any]:
    """Look an order up: `id, customer, item, cents, refunded_cents`. The shop knows o-77, o-78 and o-79."""
    return await asyncio.to_thread(ledger().order, order_id)


async def refund(order_id: str, cents: int, *, key: str) -> str:
    """Pay `cents` back for an order and return the receipt's number.

    Paying is final; a repeated key pays again.
    """
    paid = await asyncio.to_thread(ledger().refund, order_id, cents, key)
    await asyncio.sleep(float(os.environ.get("PERDURE_BANK_PAUSE", "0")))
    return paid.receipt


async def find(key: str) -> str | None:
    """The receipt of the refund that was paid under this key, or None."""
    found = await asyncio.to_thread(ledger().find, key)
    return found.receipt if found else None


def ledger() -> Ledger:
    """The bank's book: PERDURE_BANK, else `bank.db` beside the store's file, else in the current folder."""
    if path := os.environ.get("PERDURE_BANK"):
        return Ledger(Path(path))
    store = os.environ.get("PERDURE_STORE", "perdure.db").removeprefix("sqlite:///")
    folder = Path(".") if ":" in store else Path(store).parent
    return Ledger(folder / "bank.db")


def main() -> None:
    """Print the book."""
    book = ledger()
    entries = book.entries()
    sys.stdout.write(f"{book.path}: {len(entries)} refund{'' if len(entries) == 1 else 's'}\n")
    for paid in entries:
        line = f"  {paid.receipt:<6} {paid.order_id:<6} {money(paid.cents):>10}  {paid.at}  key {paid.key}"
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
