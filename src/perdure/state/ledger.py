"""What a run was given, what it has spent, and what it has reserved: law 7 is kept by these sums.

A reservation is made under a name (a call's path), and ends exactly once: it is settled with what was used,
given back, or booked as spent because nobody can tell. Pure: they make new ledgers of old ones, from events.
What was spent never falls.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from perdure.state.amount import NOTHING, Amount
from perdure.state.record import Ledger, RunRecord, Spent


def reserve(ledger: Ledger, name: str, amount: Amount) -> Ledger:
    """Set `amount` aside under `name`, which must have no reservation."""
    return replace(ledger, reserved={**ledger.reserved, name: amount})


def settle(ledger: Ledger, spent: Spent, name: str, used: Amount | None) -> tuple[Ledger, Spent]:
    """End the reservation under `name`, if there is one: `used` of it counts, whatever was reserved.

    None: nobody can tell what was used, so all that was reserved counts as spent. `Amount()` gives it back.
    """
    if name not in ledger.reserved:
        return ledger, spent if used is None else booked(spent, used)
    rest = {other: amount for other, amount in ledger.reserved.items() if other != name}
    return replace(ledger, reserved=rest), booked(spent, ledger.reserved[name] if used is None else used)


def settle_all(ledger: Ledger, spent: Spent, names: Iterable[str]) -> tuple[Ledger, Spent]:
    """End several reservations of which nobody can tell what was used."""
    for name in names:
        ledger, spent = settle(ledger, spent, name, None)
    return ledger, spent


def booked(spent: Spent, used: Amount) -> Spent:
    """What is spent when `used` comes to it. Tokens of which nobody knows the direction count as input."""
    return replace(
        spent,
        usd=spent.usd + used.usd,
        input_tokens=spent.input_tokens + used.tokens,
        calls=spent.calls + used.calls,
        steps=spent.steps + used.steps,
        micros=spent.micros + used.micros,
    )


def spent_of(record: RunRecord, now: int = 0) -> Amount:
    """What the run has spent, the time of its newest lease included: up to its last event, or to `now` if its
    owner asks.
    """
    spent = record.spent
    micros = spent.micros
    if (ledger := record.ledger) is not None and ledger.since:
        micros += max(max(record.updated_at, now) - ledger.since, 0)
    return Amount(spent.usd, spent.input_tokens + spent.output_tokens, spent.calls, spent.steps, micros)


def reserved_of(record: RunRecord) -> Amount:
    """What the run has reserved, all in all."""
    return NOTHING if record.ledger is None else sum(record.ledger.reserved.values(), NOTHING)
