"""Four hundred answers to COMMIT are lost, half of them after the commit: each must be settled rightly."""

from __future__ import annotations

from soak.order import Order, Outcome, suite

SCALE = 10
"""Forty in the test suite, so many times."""


def sweep(order: Order) -> Outcome:
    """The whole suite of commits; its seeds are its own."""
    return suite(["tests/unit/store/test_postgres_commits.py"], max(1.0, SCALE * order.share))
