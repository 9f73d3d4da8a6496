"""Options: what is kept of a declaration, and what is refused, each naming the function and its place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.agent import (
    Approval,
    ApprovalRequest,
    NotDone,
    Options,
    Premise,
    Rate,
    Retry,
    Tool,
    Unknown,
    fact,
    model,
    premise,
    tool,
)
from perdure.errors import BadDeclaration, BadSetting

MINUTE = timedelta(minutes=1)


class Refused(Exception):
    """A definite failure."""


@fact(fresh_for=MINUTE)
async def order(order_id: str, deep: bool = False) -> str:
    return order_id


@tool(effect="idempotent", for_model=False)
async def mail(request: ApprovalRequest) -> None: ...


@tool(effect="irreversible", for_model=False)
async def telegram(request: ApprovalRequest) -> None: ...


@tool(effect=lambda request: "read", for_model=False)
async def pigeon(request: ApprovalRequest) -> None: ...


async def pay(order_id: str, cents: int) -> str:
    return order_id


loose: Callable[..., Any] = Approval
"""`Approval` without its types."""

declare: Callable[..., Any] = tool
"""`tool` without its types, for what type checkers refuse."""


def test_everything_that_was_declared_is_kept() -> None:
    approval = Approval(when=lambda cents: cents > 5, expires=MINUTE, by="finance", notify=mail)
    made = tool(
        effect="idempotent",
        premises=[order],
        approval=approval,
        raises=[Refused],
        unknown="raise",
        retry=Retry(4),
        timeout=MINUTE,
        key_ttl=2 * MINUTE,
        rate=Rate(3, MINUTE),
        limit=2,
        for_model=False,
    )(pay)
    assert made.options == Options(
        effect="idempotent",
        premises=(Premise(order, {"order_id": "order_id"}),),
        approval=approval,
        raises=(Refused,),
        unknown="raise",
        retry=Retry(4),
        timeout=MINUTE,
        key_ttl=2 * MINUTE,
        rate=Rate(3, MINUTE),
        limit=2,
        for_model=False,
    )
    assert tool()(pay).options == Options()
    assert Options().effect == "irreversible", "the strictest class unless another is declared"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"effect": "harmless"}, "no effect class 'harmless'"),
        ({"effect": None}, "no effect class None"),
        ({"effect": lambda command: "read"}, "its effect function takes 'command'"),
        ({"effect": lambda order_id, /: "read"}, "its effect function takes 'order_id'"),
        ({"efect": "read"}, "no option 'efect'"),
        ({"price": 1}, "no option 'price'"),
        ({"unknown": "ignore"}, "unknown='ignore'"),
        ({"raises": Refused}, "raises is a list"),
        ({"raises": ["Refused"]}, "not an exception class"),
        ({"raises": [BaseException]}, "not an exception class"),
        ({"raises": [NotDone]}, "NotDone, which every tool may raise"),
        ({"raises": [Unknown]}, "Unknown, which every tool may raise"),
        ({"timeout": 5}, "timeout=5 is not a time"),
        ({"timeout": timedelta(0)}, "not a time longer than 0"),
        ({"key_ttl": timedelta(days=-1)}, "not a time longer than 0"),
        ({"limit": 0}, "at least 1 call"),
        ({"premises": [pay]}, "is not a fact"),
        ({"premises": [mail]}, "is not a fact"),
        ({"premises": "order"}, "premises is a list"),
        ({"premises": [premise(order, number="order_id")]}, "order has no parameter 'number'"),
        ({"premises": [premise(order, order_id="number")]}, "no parameter of it is called 'number'"),
        ({"premises": [premise(order, deep="number")]}, "no parameter of it is called 'number'"),
        ({"approval": "finance"}, "approval='finance'"),
        ({"approval": Approval(when=lambda amount: True)}, "takes 'amount', which is not"),
        ({"approval": loose(notify=pay)}, "is not a declared tool"),
        ({"approval": Approval(notify=telegram)}, "may be sent twice"),
        ({"approval": Approval(notify=pigeon)}, "may be sent twice"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDeclaration) as raised:
        declare(**options)(pay)
    error = raised.value
    assert told in error.what
    assert error.what.startswith(f"pay ({__file__}:")
    assert error.where == f"{__file__}:{pay.__code__.co_firstlineno}"
    assert error.remedy


def test_a_premise_needs_its_facts_parameters() -> None:
    async def cancel(number: str) -> None: ...

    with pytest.raises(BadDeclaration) as raised:
        tool(premises=[order])(cancel)
    assert "needs 'order_id'" in raised.value.what
    assert raised.value.remedy == "premise(order, order_id=...) names one of number"
    made = tool(premises=[premise(order, order_id="number")])(cancel)
    assert made.options.premises == (Premise(order, {"order_id": "number"}),)


def test_the_options_of_models_and_facts() -> None:
    async def ask(text: str) -> str:
        return text

    untyped: Callable[..., Any] = model
    cases: list[tuple[dict[str, Any], str]] = [
        ({"max_output": 0}, "at least 1 token"),
        ({"style": "morse"}, "style='morse'"),
        ({"approval": Approval()}, "a model has no option 'approval'"),
        ({"premises": [order]}, "a model has no option 'premises'"),
    ]
    for options, told in cases:
        with pytest.raises(BadDeclaration, match=told):
            untyped("small-1", **options)(ask)
    for span in (None, timedelta(0)):
        with pytest.raises(BadDeclaration):
            fact(fresh_for=span)(ask)  # type: ignore[arg-type]


def test_a_variant_is_checked_like_the_original() -> None:
    made: Tool[..., Any] = tool()(pay)
    untyped: Callable[..., Any] = made.replace
    with pytest.raises(BadDeclaration, match="no effect class"):
        untyped(effect="harmless")
    with pytest.raises(BadDeclaration, match="as a tool's name"):
        untyped(name="pay me")
    assert made.options == Options()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Approval(expires=timedelta(0)), "longer than 0"),
        (lambda: Rate(0, MINUTE), "at least 1 call"),
        (lambda: Rate(1, timedelta(0)), "longer than 0"),
        (lambda: Retry(0), "at least 1"),
        (lambda: Retry(1, -1.0), "at least 0 seconds"),
    ],
)
def test_policies_that_cannot_work_are_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(BadSetting, match=told):
        make()


def test_a_facts_key_function_is_called_on_the_spot() -> None:
    """An async one would give a coroutine, and two of them are never equal: said at the declaration."""

    async def status(order: str) -> str:
        return order

    async def order(order_id: str) -> str:
        return order_id

    with pytest.raises(BadDeclaration, match="same= is async; it is a key function"):
        fact(fresh_for=MINUTE, same=status)(order)
    with pytest.raises(BadDeclaration, match="same= is 'status'"):
        fact(fresh_for=MINUTE, same="status")(order)  # type: ignore[arg-type]
