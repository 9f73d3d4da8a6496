"""The refund desk of `perdure demo`: a plain tool loop with a model, a read and an irreversible act.

No step is declared, no state, no retry. What is written down here for the crash is one hook: how to ask the
bank whether a refund happened whose receipt never came.
"""

from __future__ import annotations

import os
from typing import Any

from perdure import Agent, Done, NotDone, current_call
from perdure.demo.chat import answer, model_name
from perdure.demo.client import Bank

BANK = "PERDURE_DEMO_BANK"
"""Names the bank's address."""

desk = Agent("refund-desk")
"""The agent of the demo."""


@desk.model(model_name())
async def chat(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    """Ask the model."""
    return await answer(messages, tools)


@desk.tool(effect="read")
async def order(order_id: str) -> dict[str, Any]:
    """Look an order up: what it was, what it cost in cents, and what was refunded."""
    return await _bank().order(order_id)


@desk.tool(effect="irreversible")
async def refund(order_id: str, cents: int) -> str:
    """Pay an order back, in cents. Returns the receipt."""
    return await _bank().refund(order_id, cents, key=current_call().key)


@refund.reconcile
async def refunded(order_id: str, cents: int) -> Done[str] | NotDone:
    """The receipt never came: did it happen?"""
    found = await _bank().find(current_call().key)
    return Done(found) if found else NotDone()


def _bank() -> Bank:
    return Bank(os.environ[BANK])
