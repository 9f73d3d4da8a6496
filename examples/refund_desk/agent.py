"""The whole of an agent, typed: state, goal and result, a fact, a tool with everything declared, a method.

`python examples/refund_desk/agent.py` runs it; the model is scripted, shop and bank are objects in this file.
It passes `mypy --strict`. The order is read again before it is paid back; this refund is small enough
to need no approval.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import perdure
from perdure import (
    Agent,
    Approval,
    ApprovalRequest,
    Budget,
    Done,
    NotDone,
    Price,
    Run,
    Unknown,
    current_call,
    use,
)

Message = dict[str, Any]


class InsufficientFunds(Exception):
    """A definite failure: the bank paid nothing."""


@dataclass
class Order:
    """An order, as the shop tells it."""

    status: str
    cents: int


class Shop:
    """Stands for the shop's HTTP client."""

    async def order(self, order_id: str) -> Order:
        """Look an order up."""
        return Order("delivered", 1_200)


class Bank:
    """Stands for the bank's HTTP client."""

    def __init__(self) -> None:
        self.paid: dict[str, int] = {}

    async def refund(self, order_id: str, cents: int, key: str) -> str:
        """Pay back, once for each key."""
        if cents > 1_000_000:
            raise InsufficientFunds(order_id)
        self.paid.setdefault(key, cents)
        return f"r-{len(self.paid)}"


async def shop_client() -> AsyncIterator[Shop]:
    """Opened once per Runtime."""
    yield Shop()


async def bank_client() -> AsyncIterator[Bank]:
    """Opened once per Runtime, closed with it."""
    yield Bank()


@perdure.tool(effect="idempotent", for_model=False)
async def mail(request: ApprovalRequest) -> None:
    """Tell people that somebody must decide."""


@perdure.fact(fresh_for=timedelta(minutes=10), same=lambda o: o.status)  # same: a key function
async def order(order_id: str, shop: Shop = use(shop_client)) -> Order:
    """How the order stands."""
    return await shop.order(order_id)


@perdure.tool(
    effect="irreversible",
    premises=[order],
    raises=[InsufficientFunds],
    timeout=timedelta(seconds=20),
    approval=Approval(
        when=lambda order_id, cents: cents > 10_000, expires=timedelta(hours=24), by="finance", notify=mail
    ),
)
async def refund(order_id: str, cents: int, bank: Bank = use(bank_client)) -> str:
    """Pay an order back."""
    return await bank.refund(order_id, cents, key=current_call().key)


@refund.reconcile
async def find_refund(
    order_id: str, cents: int, bank: Bank = use(bank_client)
) -> Done[str] | NotDone | Unknown:
    """The reply never came: did it happen?"""
    return Done("r-1") if current_call().key in bank.paid else NotDone()


class Ledger:
    """A method as a tool; `self` is not journaled."""

    def __init__(self, currency: str) -> None:
        self.currency = currency

    @perdure.tool(effect="read")
    async def balance(self, account: str) -> int:
        """What is left in an account, in cents."""
        return 4_200


@dataclass
class Desk:
    """The state: a dataclass, msgspec.Struct, pydantic model, TypedDict or dict."""

    messages: list[Message] = field(default_factory=list)


@dataclass
class Goal:
    """What a run is started with."""

    text: str


@dataclass
class Reply:
    """What the model says."""

    message: Message
    text: str
    tool_calls: list[Any]


def user(text: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": text}


ledger = Ledger("usd")
agent = Agent(
    "refund-desk",
    state=Desk,
    goal=Goal,
    result=str,
    start=lambda g: Desk([user(g.text)]),
    state_version=3,
    tools=[refund, ledger.balance],
    budget=Budget(usd=0.50, steps=30, tokens=200_000),
)


@agent.model("scripted", price=Price(input=0.25, output=2.0))
async def chat(messages: list[Message]) -> Reply:
    """Asks for the balance and the refund, then says what became of them."""
    answers = [message for message in messages if message["role"] == "tool"]
    if answers:
        text = f"refunded, receipt {answers[-1]['content']}"
        return Reply({"role": "assistant", "content": text}, text, [])
    calls = [
        {"id": "c1", "name": "balance", "arguments": {"account": "shop"}},
        {"id": "c2", "name": "refund", "arguments": {"order_id": "o-77", "cents": 1_200}},
    ]
    return Reply({"role": "assistant", "content": "", "tool_calls": calls}, "", calls)


@agent.step
async def step(run: Run[Desk, Goal, str]) -> None:
    """Read the state, call models and tools, change the state; again and again until it finishes."""
    reply = await chat(run.state.messages)  # recorded; served from the journal after a crash
    run.state.messages.append(reply.message)
    if reply.tool_calls:
        run.state.messages += await run.tools(reply.tool_calls)
    else:
        run.finish(reply.text)


if __name__ == "__main__":
    print(agent.run_sync("order-1042", Goal("Refund order o-77: 12 dollars."), check=True).unwrap())
