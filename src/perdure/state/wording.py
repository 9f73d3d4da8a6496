"""Amounts of a budget in words: one wording for holds, errors and every face."""

from __future__ import annotations

from perdure.state.amount import DOLLAR, Kind


def told(kind: Kind, amount: int) -> str:
    """So much of a kind: `$0.07`, `1,204 tokens`, `1 call`, `12.5 s`."""
    match kind:
        case "usd":
            return money(amount)
        case "micros":
            return f"{amount / 1_000_000:,.3f}".rstrip("0").rstrip(".") + " s"
        case _:
            return f"{amount:,} {kind[:-1] if amount == 1 else kind}"


def left_of(kind: Kind, left: int, limit: int) -> str:
    """What is left of a limit: `$0.10 of $1.00 is left`, `3 of 50 steps are left`, `1 of 2 calls is left`."""
    if kind in ("usd", "micros"):
        return f"{told(kind, left)} of {told(kind, limit)} is left"
    return f"{left:,} of {told(kind, limit)} {'is' if left == 1 else 'are'} left"


def money(billionths: int) -> str:
    """Billionths of a US dollar, exactly, with at least the cents: `$0.07`, `$0.000125`."""
    sign = "-" if billionths < 0 else ""
    whole, rest = divmod(abs(billionths), DOLLAR)
    digits = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}${whole:,}.{digits}"
