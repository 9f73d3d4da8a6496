"""What tells whether a transaction was committed, when its answer was lost. `doubt` looks for it."""

from __future__ import annotations

import secrets
from typing import Any

from msgspec import Struct


class Proof(Struct, frozen=True):
    """What is in the database if, and only if, a transaction was committed.

    `key` is the advisory lock that it held, `xid` its number; `sql` finds something that it alone wrote.
    """

    key: int
    xid: str
    sql: str = ""
    values: tuple[Any, ...] = ()


def new_key() -> int:
    """An advisory lock that nobody else has, as a signed 64-bit number."""
    return secrets.randbits(64) - (1 << 63)
