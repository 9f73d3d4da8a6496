"""Where a declared function may be called from: a step that notes its calls, a body; and a bank to call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from perdure.agent import Call, call_scope, current_call, current_steps, step_scope, tool, use

Invoked = list[tuple[str, dict[str, Any]]]


class Step:
    """A step that notes what is called in it."""

    replaying = False

    def __init__(self) -> None:
        self.invoked: Invoked = []

    def invoke(self, tool: Any, args: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        self.invoked.append((tool.name, args))

        async def answer() -> str:
            return "durable"

        return answer()


@contextmanager
def step() -> Iterator[Step]:
    made = Step()
    token = step_scope.set(made)
    current_steps.enter()
    try:
        yield made
    finally:
        current_steps.leave()
        step_scope.reset(token)


@contextmanager
def body(effect: Any, **facts: Any) -> Iterator[Call]:
    call = Call("outer", effect=effect, tool="outer_tool", **facts)
    token = call_scope.set(call)
    try:
        yield call
    finally:
        call_scope.reset(token)


async def bank() -> AsyncIterator[str]:
    yield "bank"


@tool(effect="irreversible")
async def refund(order_id: str, cents: int = 5, *, bank: str = use(bank)) -> str:
    """Pay back."""
    return f"{order_id} {cents} {bank} {current_call().key}"


@tool(effect="read")
def look(order_id: str) -> str:
    """Look up."""
    return f"{order_id} {current_call().key}"
