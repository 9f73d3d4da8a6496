"""Tools of a shop, in a module that knows no agent: injection, premises, approval, hooks, methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

from perdure.agent import (
    Approval,
    ApprovalRequest,
    Done,
    NotDone,
    Premise,
    Price,
    Principal,
    Rate,
    Retry,
    Tool,
    Unknown,
    current_call,
    fact,
    model,
    premise,
    publish,
    tool,
    use,
)


@dataclass
class Order:
    """An order, as the shop tells it."""

    status: str
    cents: int


class Client:
    """What is injected."""

    async def order(self, order_id: str) -> Order:
        """Look an order up."""
        return Order(f"paid {order_id}", 1200)

    async def refund(self, order_id: str, cents: int, key: str) -> str:
        """Pay back."""
        return f"{order_id}:{cents}:{key}"


async def client() -> AsyncIterator[Client]:
    """Opened once, closed at the end."""
    yield Client()


def plain_client() -> Client:
    """A provider that is a plain function."""
    return Client()


def generated_client() -> Iterator[Client]:
    """A provider that is a plain generator."""
    yield Client()


async def awaited_client() -> Client:
    """A provider that is a coroutine function."""
    return Client()


assert_type(use(client), Client)
assert_type(use(plain_client), Client)
assert_type(use(generated_client), Client)
assert_type(use(awaited_client), Client)
assert_type(use(Client), Client)


class InsufficientFunds(Exception):
    """A definite failure."""


@tool(effect="idempotent", for_model=False)
async def mail(request: ApprovalRequest) -> None:
    """Tell people that somebody must decide."""
    publish(request.id)


@fact(fresh_for=timedelta(minutes=10), same=lambda o: o.status)
async def order(order_id: str, shop: Client = use(client)) -> Order:
    """An order's state."""
    return await shop.order(order_id)


def _by(who: Principal, request: ApprovalRequest) -> bool:
    return "finance" in who.roles and request.args["cents"] < 100_000


@tool(
    effect="irreversible",
    premises=[order],
    raises=[InsufficientFunds],
    timeout=timedelta(seconds=20),
    approval=Approval(
        when=lambda order_id, cents, **_: cents > 10_000, expires=timedelta(hours=24), by=_by, notify=mail
    ),
)
async def refund(order_id: str, cents: int, shop: Client = use(client)) -> str:
    """Pay an order back."""
    return await shop.refund(order_id, cents, current_call().key)


@refund.reconcile
async def refunded(order_id: str, cents: int, shop: Client = use(client)) -> Done[str] | NotDone | Unknown:
    """Find out what became of it."""
    return Done((await shop.order(order_id)).status) if cents else NotDone()


@refund.undo
async def charge_again(order_id: str, cents: int) -> None:
    """Compensate it."""


@tool(effect="idempotent", rate=Rate(5, timedelta(seconds=1)), retry=Retry(3), limit=4)
def stamp(paper: bytes, copies: int = 1) -> int:
    """A plain function."""
    return len(paper) * copies


@stamp.reconcile
def stamped(paper: bytes, copies: int) -> Done[int] | NotDone:
    """A plain hook of a plain tool."""
    return Done(len(paper)) if copies else NotDone()


@tool(effect="irreversible")
def print_out(paper: bytes) -> int:
    """A plain tool."""
    return len(paper)


@print_out.reconcile
async def printed(paper: bytes) -> Done[int] | Unknown:
    """An asynchronous hook of a plain tool."""
    return Done(len(paper)) if paper else Unknown()


@tool(premises=[premise(order, order_id="number")])
async def cancel(number: str) -> None:
    """Its fact's parameter has another name."""


class Ledger:
    """A tool that is a method."""

    def __init__(self, currency: str) -> None:
        self.currency = currency

    @tool(effect="read")
    async def balance(self, account: str, at: int = 0) -> int:
        """What is on an account."""
        return len(account) + at


@model("small-1", price=Price(0.25, 2.0), max_output=512)
async def summary(text: str) -> str:
    """A model, shared by agents."""
    return text[:10]


pay = tool(effect="irreversible", approval=Approval(notify=mail))
"""A decorator of one's own."""


@pay
async def pay_bill(number: str) -> str:
    """Declared through it."""
    return number


async def checked() -> None:
    """What a type checker makes of these."""
    assert_type(await refund("o", 5), str)
    assert_type(await refund("o", cents=5, shop=Client()), str)
    assert_type(await order("o"), Order)
    assert_type(stamp(b""), int)
    assert_type(await Ledger("eur").balance("a"), int)
    assert_type(await Ledger("eur").balance("a", at=1), int)
    assert_type(await refund.replace(name="refund_eur", approval=None)("o", 5), str)
    assert_type(await pay_bill("b"), str)
    assert_type(await summary("x"), str)
    assert_type(premise(order), Premise)


tools: list[Tool[..., object]] = [refund, stamp]
"""Tools of every signature fit one list."""
