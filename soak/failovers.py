"""Ten times a primary goes and its synchronous standby takes over, under load."""

from __future__ import annotations

from soak.order import Order, Outcome
from soak.server_kills import told
from tests.crash.servers import failovers

FAILOVERS, SECONDS = 10, 5.0


def sweep(order: Order) -> Outcome:
    """A new cluster for each; work must go on within five seconds of the promotion."""
    outcome = told(failovers(order.of(FAILOVERS), order.seed))
    slowest = outcome.figures["slowest"]
    if isinstance(slowest, float) and slowest > SECONDS:
        outcome.offences = [*outcome.offences, f"work went on {slowest} s after a promotion"]
    return outcome
