"""Twenty times a PostgreSQL server is killed under load and started again. `tests.crash.servers` says how."""

from __future__ import annotations

from msgspec.structs import asdict

from soak.order import Order, Outcome
from tests.crash.servers import Report, kills

KILLS = 20


def told(report: Report) -> Outcome:
    """The report as an outcome."""
    figures = asdict(report)
    figures["slowest"] = max(report.resumed)
    return Outcome({name: value for name, value in figures.items() if name != "offences"}, report.offences)


def sweep(order: Order) -> Outcome:
    """All kills on one server."""
    return told(kills(order.of(KILLS), order.seed))
