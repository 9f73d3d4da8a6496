"""Declared functions: alone, as methods, behind wrappers; and what cannot be declared."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from perdure.agent import (
    Agent,
    Call,
    Done,
    NotDone,
    Providers,
    call_scope,
    current_call,
    current_steps,
    model,
    override,
    providers_scope,
    publish,
    publisher,
    tool,
    use,
)
from perdure.errors import (
    BadDeclaration,
    NoRun,
    ProviderFailed,
)
from tests.unit.agent import scenes
from tests.unit.agent.scenes import bank, look, refund, step

# ---------------------------------------------------------------------------------------------- alone


async def test_alone_it_is_an_ordinary_function() -> None:
    first, second = await refund("o"), await refund("o", 7, bank="mine")
    assert first.startswith("o 5 bank ")
    assert second.startswith("o 7 mine ")
    assert first.split()[-1] != second.split()[-1], "each call has a key of its own"
    assert look("o").startswith("o ")
    assert current_call().key != current_call().key


async def test_alone_a_body_has_one_identity() -> None:
    calls: list[Call] = []

    @tool(effect="idempotent")
    async def inner(a: int) -> None:
        calls.append(current_call())

    @tool(effect="irreversible")
    async def outer(a: int) -> None:
        calls.append(current_call())
        await inner(a + 1)
        calls.append(current_call())

    await outer(1)
    assert len({call.key for call in calls}) == 1
    assert [call.args for call in calls] == [{"a": 1}, {"a": 2}, {"a": 1}]
    assert calls[0].effect == "irreversible"
    assert calls[0].tool == "outer"
    assert call_scope.get() is None


async def test_alone_providers_are_opened_and_closed_for_the_call() -> None:
    entries: list[str] = []

    async def client() -> AsyncIterator[str]:
        entries.append("open")
        yield "client"
        entries.append("close")

    @tool(effect="read")
    async def inner(client: str = use(client)) -> str:
        return client

    @tool(effect="read")
    async def outer(client: str = use(client)) -> str:
        entries.append("body")
        return await inner()

    assert await outer() == "client"
    assert entries == ["open", "body", "close"], "what a body calls shares its providers"


async def test_with_a_runtimes_providers_nothing_is_opened_twice() -> None:
    entries: list[str] = []

    async def client() -> AsyncIterator[str]:
        entries.append("open")
        yield "client"
        entries.append("close")

    async def session(call: Call) -> AsyncIterator[str]:
        entries.append("begin")
        yield "session"
        entries.append("end")

    @tool(effect="read")
    async def ask(client: str = use(client), session: str = use(session)) -> str:
        return f"{client} {session}"

    @tool(effect="read")
    def ask_plainly(client: str = use(client)) -> str:
        return client

    async with Providers() as providers:
        token = providers_scope.set(providers)
        assert [await ask(), await ask()] == ["client session"] * 2
        assert await asyncio.to_thread(ask_plainly) == "client"
        assert ask_plainly() == "client"
        providers_scope.reset(token)
    assert entries == ["open", "begin", "end", "begin", "end", "close"]


def test_alone_a_plain_function_opens_whatever_it_needs() -> None:
    entries: list[str] = []

    def file() -> Iterator[str]:
        entries.append("open file")
        yield "file"
        entries.append("close file")

    @tool(effect="read")
    def read(file: str = use(file)) -> str:
        entries.append("body")
        return file

    async def client() -> AsyncIterator[str]:
        entries.append("open client")
        yield "client"
        await asyncio.sleep(0)
        entries.append("close client")

    @tool(effect="read")
    def ask(file: str = use(file), client: str = use(client)) -> str:
        entries.append("body")
        return f"{file} {client}"

    assert read() == "file"
    assert entries == ["open file", "body", "close file"]
    entries.clear()
    assert ask() == "file client"
    assert entries == ["open file", "open client", "body", "close client", "close file"]
    with override({client: "fake", file: "paper"}):
        assert ask() == "paper fake"


async def test_on_a_loop_a_plain_function_cannot_wait_for_a_provider() -> None:
    @tool(effect="read")
    def ask(bank: str = use(bank)) -> str:
        return bank

    with pytest.raises(ProviderFailed, match="asynchronous"):
        ask()
    with override({bank: "fake"}):
        assert ask() == "fake"


async def test_a_lost_context_is_noticed_while_a_step_executes() -> None:
    with step():
        empty = contextvars.Context()
        with pytest.raises(NoRun, match="refund"):
            await empty.run(refund, "o")
        assert empty.run(look, "o").startswith("o "), "a read harms nobody"

        @tool(effect=lambda command: "read" if command == "ls" else "irreversible")
        def shell(command: str) -> str:
            return command

        assert empty.run(shell, "ls") == "ls"
        with pytest.raises(NoRun, match="irreversible"):
            empty.run(shell, "rm")
    await refund("o")


def test_steps_are_counted() -> None:
    assert current_steps.active == 0
    with step(), step():
        assert current_steps.active == 2
    assert current_steps.active == 0
    with pytest.raises(AssertionError):
        current_steps.leave()


def test_chunks_go_where_somebody_listens() -> None:
    chunks: list[object] = []
    publish("lost")
    token = publisher.set(chunks.append)
    publish("heard")
    publisher.reset(token)
    assert chunks == ["heard"]


# ---------------------------------------------------------------------------------------------- methods


class Ledger:
    """Tools that are methods."""

    def __init__(self, currency: str) -> None:
        self.currency = currency

    @tool(effect="irreversible")
    async def book(self, account: str, cents: int = 1) -> str:
        """Book it."""
        return f"{self.currency} {account} {cents}"

    @book.reconcile
    async def booked(self, account: str, cents: int) -> Done[str] | NotDone:
        """Was it booked?"""
        return Done(f"{self.currency} {account}")

    @tool(effect="read")
    @staticmethod
    async def rate(currency: str) -> str:
        """No self."""
        return f"rate {currency}"

    @staticmethod
    @tool(effect="read")
    async def day(currency: str) -> str:
        """No self either."""
        return f"day {currency}"

    @tool(effect="read")
    @classmethod
    async def kind(cls, account: str) -> str:
        """The class is not journaled."""
        return f"{cls.__name__} {account}"


class SubLedger(Ledger):
    """Inherits tools."""


async def test_methods_are_bound_and_self_is_not_an_argument() -> None:
    ledger: Any = Ledger("eur")  # type checkers have no word for a static method that is a descriptor
    assert ledger.book.parameters.names == ("account", "cents")
    assert await ledger.book("a") == "eur a 1"
    assert list(ledger.book.schema["properties"]) == ["account", "cents"]
    with step() as here:
        await ledger.book("a", cents=2)
        await ledger.rate("usd")
        await ledger.day("usd")
        await ledger.kind("a")
    assert here.invoked == [
        ("book", {"account": "a", "cents": 2}),
        ("rate", {"currency": "usd"}),
        ("day", {"currency": "usd"}),
        ("kind", {"account": "a"}),
    ]
    assert await SubLedger("usd").book("a") == "usd a 1"
    kind: Any = SubLedger.kind
    assert await kind("a") == "SubLedger a"
    assert await ledger.kind("a") == "Ledger a"
    assert await Ledger.rate("usd") == "rate usd"
    assert await ledger.day("usd") == "day usd"
    assert await asyncio.ensure_future(ledger.book.thunk({"account": "a", "cents": 3}, {})()) == "eur a 3"


def test_bound_tools_are_equal_for_one_declaration_and_one_instance() -> None:
    ledger, other = Ledger("eur"), Ledger("eur")
    assert ledger.book == ledger.book
    assert ledger.book is not ledger.book
    assert hash(ledger.book) == hash(ledger.book)
    assert ledger.book.identity == ledger.book.identity
    assert ledger.book != other.book
    assert ledger.book != Ledger.book
    assert ledger.rate == other.rate
    assert Ledger.kind == Ledger.kind
    assert Ledger.kind != SubLedger.kind
    assert {ledger.book: 1}[ledger.book] == 1
    assert ledger.book != "book"
    assert Ledger.book.unbound_in is Ledger
    assert ledger.book.unbound_in is None
    assert Ledger.rate.unbound_in is None


async def test_a_methods_variant_is_bound_too() -> None:
    ledger = Ledger("eur")
    small = ledger.book.replace(name="small")
    assert await small("a") == "eur a 1"
    assert small.reconcile_hook is not None
    assert small != ledger.book


async def test_a_methods_hook_is_bound_with_it() -> None:
    ledger = Ledger("eur")
    hook = ledger.book.reconcile_hook
    assert hook is not None
    assert hook.parameters.names == ("account", "cents")
    async with Providers() as providers:
        call = Call("k", args={"account": "a", "cents": 1}, effect="read")
        assert await ledger.book.ask_hook(call, providers) == Done("eur a")
    assert await ledger.booked("b", 1) == Done("eur b")


# ---------------------------------------------------------------------------------------------- functions


def _retrying(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


async def test_wrappers_and_partials_are_looked_through() -> None:
    async def pay(account: str, cents: int) -> str:
        """Pay."""
        return f"{account} {cents}"

    wrapped: Any = tool()(_retrying(pay))
    assert wrapped.is_async
    assert wrapped.parameters.names == ("account", "cents")
    assert wrapped.source == f"{__file__}:{pay.__code__.co_firstlineno}"
    assert await wrapped("a", 2) == "a 2"
    small: Any = tool(name="pay_small")(functools.partial(pay, cents=1))
    assert small.is_async
    assert small.description == "Pay."
    assert await small("a") == "a 1"
    assert list(small.schema["properties"]) == ["account"]
    bound: Any = tool(name="of_a_bound_method")(Plain().method)
    assert bound("a") == "plain a"

    class Clerk:
        async def __call__(self, account: str) -> str:
            return account

    called: Any = tool(name="object")(Clerk())
    assert called.is_async
    assert await called("a") == "a"


class Plain:
    def method(self, account: str) -> str:
        return f"plain {account}"


def test_what_is_no_function_is_refused() -> None:
    async def stream(a: int) -> AsyncIterator[int]:
        yield a

    def generate(a: int) -> Iterator[int]:
        yield a

    for fn in (stream, generate):
        with pytest.raises(BadDeclaration, match="yields"):
            tool()(fn)
    with pytest.raises(BadDeclaration, match="not a function"):
        tool()(Plain)
    with pytest.raises(BadDeclaration, match="not a function"):
        tool()("text")  # type: ignore[arg-type]
    with pytest.raises(BadDeclaration, match="declared already, as the tool refund"):
        tool()(refund)
    with pytest.raises(BadDeclaration, match="model's name"):
        model(refund)  # type: ignore[arg-type]


def test_a_decorator_has_parentheses() -> None:
    def pay(account: str) -> str:
        return account

    agent = Agent("desk")
    for bare in (tool, agent.tool):
        decorate: Callable[..., Any] = bare
        with pytest.raises(BadDeclaration, match="with parentheses") as raised:
            decorate(pay)
        assert raised.value.where == f"{__file__}:{pay.__code__.co_firstlineno}"


def test_a_tools_name_must_be_one_that_models_accept() -> None:
    with pytest.raises(BadDeclaration, match="<lambda>"):
        tool()(lambda: 1)

    def größe() -> int:  # noqa: PLC2401
        return 1

    with pytest.raises(BadDeclaration, match="größe") as raised:
        tool()(größe)
    assert "name=" in raised.value.remedy
    assert tool(for_model=False)(größe).name == "größe"
    assert tool(name="size")(größe).name == "size"
    with pytest.raises(BadDeclaration):
        tool(name="a" * 65)(größe)


def test_it_looks_like_its_function() -> None:
    assert refund.__name__ == "refund"
    assert refund.__doc__ == "Pay back."
    assert refund.__module__ == scenes.__name__
    assert list(inspect.signature(refund).parameters) == ["order_id", "cents", "bank"]
    assert list(inspect.signature(Ledger("x").book).parameters) == ["account", "cents"]
    assert repr(refund).startswith(f"<tool refund at {scenes.__file__}:")
