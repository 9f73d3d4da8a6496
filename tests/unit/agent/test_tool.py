"""Tools: what a call means in a step, in a body and alone; methods, hooks, variants, wrappers."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from perdure.agent import (
    Approval,
    Call,
    Done,
    NotDone,
    Price,
    Providers,
    Retry,
    Tool,
    Unknown,
    Usage,
    call_scope,
    current_call,
    current_steps,
    fact,
    model,
    override,
    providers_scope,
    publish,
    publisher,
    step_scope,
    tool,
    use,
)
from perdure.errors import (
    BadArguments,
    BadDeclaration,
    BlockingTool,
    EffectRefused,
    NoRun,
    ProviderFailed,
    StricterInside,
)

Invoked = list[tuple[str, dict[str, Any]]]


class Step:
    """A step that notes what is called in it."""

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


# ---------------------------------------------------------------------------------------------- in a step


async def test_in_a_step_a_call_is_the_runs() -> None:
    with step() as here:
        assert await refund("o") == "durable"
        assert here.invoked == [("refund", {"order_id": "o", "cents": 5})]


async def test_in_a_step_a_misfit_is_told_at_once() -> None:
    with step() as here:
        with pytest.raises(BadArguments):
            await refund()  # type: ignore[call-arg]
        with pytest.raises(BadArguments, match="injected"):
            await refund("o", bank="mine")
        assert here.invoked == []


def test_in_a_step_a_plain_function_would_block() -> None:
    with step() as here, pytest.raises(BlockingTool) as raised:
        look("o")
    assert "run.call" in raised.value.remedy
    assert raised.value.where == look.source
    assert here.invoked == []


# ---------------------------------------------------------------------------------------------- in a body


@pytest.mark.parametrize("outer", ["read", "idempotent", "transactional", "irreversible"])
@pytest.mark.parametrize("inner", ["read", "idempotent", "transactional", "irreversible"])
async def test_a_stricter_act_never_hides_in_a_weaker_receipt(outer: str, inner: str) -> None:
    order = ["read", "idempotent", "transactional", "irreversible"]
    ran: list[str] = []

    @tool(effect=inner)  # type: ignore[arg-type]
    async def act() -> None:
        ran.append(inner)

    with step() as here, body(outer):
        if order.index(inner) > order.index(outer):
            with pytest.raises(StricterInside, match=f"act is {inner}.*outer_tool.*only {outer}"):
                await act()
            assert ran == []
        else:
            await act()
            assert ran == [inner]
        assert here.invoked == [], "it runs under the outer receipt"


async def test_in_a_body_the_outer_call_is_the_identity() -> None:
    with step(), body("irreversible", run_id="r", path="1.1", attempt=2):
        assert (await refund("o")).endswith(" bank outer")
        assert look("o") == "o outer"

    @model("small-1")
    async def summary() -> Call:
        return current_call()

    with body("irreversible", run_id="r", path="1.1", attempt=2) as outer:
        inner = await summary()
    assert inner == replace(outer, model="small-1", tool="summary", args={})
    assert inner.effect == "irreversible", "the class of the receipt under which it runs"


async def test_in_a_body_an_effect_function_decides() -> None:
    @tool(effect=lambda command: "read" if command == "ls" else "irreversible")
    async def shell(command: str) -> str:
        return command

    with body("read"):
        assert await shell("ls") == "ls"
        with pytest.raises(StricterInside):
            await shell("rm")


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

    @tool(effect="read")
    def ask(file: str = use(file), bank: str = use(bank)) -> str:
        return f"{file} {bank}"

    assert read() == "file"
    assert entries == ["open file", "body", "close file"]
    assert ask() == "file bank"
    with override({bank: "fake", file: "paper"}):
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


# ---------------------------------------------------------------------------------------------- effects


def test_an_effect_function_takes_what_it_needs() -> None:
    @tool(effect=lambda path: "read" if path == "/tmp" else "idempotent")
    async def one(path: str, mode: int = 0) -> None: ...

    @tool(effect=lambda **args: "read" if args["mode"] else "idempotent")
    async def all_of_them(path: str, mode: int = 0) -> None: ...

    assert one.effect_of({"path": "/tmp", "mode": 1}) == "read"
    assert one.effect_of({"path": "/etc", "mode": 1}) == "idempotent"
    assert all_of_them.effect_of({"path": "/tmp", "mode": 1}) == "read"
    with pytest.raises(BadDeclaration, match="'command'"):

        @tool(effect=lambda command: "read")
        async def other(path: str) -> None: ...

    with pytest.raises(BadDeclaration, match="async"):

        @tool(effect=_later)  # type: ignore[arg-type]
        async def later(path: str) -> None: ...


def _only_ls(command: str) -> Any:
    return {"ls": "read"}[command]


async def _later(path: str) -> str:
    return "read"


def test_an_effect_function_that_cannot_tell_calls_nothing() -> None:
    @tool(effect=_only_ls)
    async def shell(command: str) -> None: ...

    @tool(effect=lambda command: "harmless")  # type: ignore[arg-type, return-value]
    async def strange(command: str) -> None: ...

    with pytest.raises(EffectRefused, match="KeyError: 'rm'") as raised:
        shell.effect_of({"command": "rm"})
    assert raised.value.safe == "The tool was not called."
    assert isinstance(raised.value.__cause__, KeyError)
    with pytest.raises(EffectRefused, match="'harmless'"):
        strange.effect_of({"command": "rm"})


def test_approval_is_asked_for_by_arguments() -> None:
    @tool(approval=Approval(when=lambda cents: cents > 100))
    async def dear(order_id: str, cents: int) -> None: ...

    @tool(approval=Approval())
    async def always() -> None: ...

    assert dear.needs_approval({"order_id": "o", "cents": 101})
    assert not dear.needs_approval({"order_id": "o", "cents": 100})
    assert always.needs_approval({})
    assert not refund.needs_approval({})


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


async def test_a_methods_hook_is_bound_with_it() -> None:
    ledger = Ledger("eur")
    hook = ledger.book.reconcile_hook
    assert hook is not None
    assert hook.parameters.names == ("account", "cents")
    async with Providers() as providers:
        call = Call("k", args={"account": "a", "cents": 1}, effect="read")
        assert await ledger.book.ask_hook(call, providers) == Done("eur a")
    assert await ledger.booked("b", 1) == Done("eur b")


# ---------------------------------------------------------------------------------------------- hooks


async def test_a_hook_runs_as_the_call_it_asks_about() -> None:
    @tool()
    async def pay(account: str) -> str:
        return account

    @pay.reconcile
    async def paid(account: str, *, bank: str = use(bank)) -> Done[str] | NotDone | Unknown:
        return Done(f"{account} {bank} {current_call().key}")

    @tool()
    def pay_plainly(account: str) -> str:
        return account

    @pay_plainly.reconcile
    def paid_plainly(account: str, bank: str = use(bank)) -> Done[str] | NotDone:
        if account == "nobody":
            raise NotDone("no such account")
        return Done(f"{account} {bank} {current_call().key}")

    async with Providers() as providers:
        for asked in (pay, pay_plainly):
            call = Call("k", args={"account": "a"}, effect="read")
            assert await asked.ask_hook(call, providers) == Done("a bank k")
        with pytest.raises(NotDone, match="no such account"):
            await pay_plainly.ask_hook(Call("k", args={"account": "nobody"}, effect="read"), providers)
    assert str(await paid("a")).startswith("Done(result='a bank ")
    with override({bank: "fake"}):
        assert str(paid_plainly("a")).startswith("Done(result='a fake ")


def test_hooks_take_the_tools_parameters() -> None:
    @tool()
    async def pay(account: str, cents: int, *, bank: str = use(bank)) -> str:
        return account

    with pytest.raises(BadDeclaration, match="lacks cents and takes amount") as raised:

        @pay.reconcile
        async def paid(account: str, amount: int) -> Done[str]:
            return Done("")

    assert raised.value.remedy == "give it the tool's parameters: account, cents"
    assert str(raised.value.where).startswith(f"{__file__}:")
    with pytest.raises(BadDeclaration, match="undo hook of pay lacks account, cents"):

        @pay.undo
        async def unpaid() -> None: ...

    assert [pay.reconcile_hook, pay.undo_hook] == [None, None]

    @pay.undo
    async def take_back(cents: int, account: str) -> None: ...

    assert pay.undo_hook == take_back
    with pytest.raises(BadDeclaration, match="undo hook already"):
        pay.undo(lambda account, cents: None)


# ---------------------------------------------------------------------------------------------- variants


async def test_a_variant_is_another_tool_with_the_same_function() -> None:
    @tool(effect="irreversible", timeout=timedelta(seconds=5), approval=Approval())
    async def pay(account: str) -> str:
        """Pay."""
        return account

    variant = pay.replace(name="pay_small", approval=None, retry=Retry(2))
    assert isinstance(variant, Tool)
    assert (variant.name, pay.name) == ("pay_small", "pay")
    assert variant != pay
    assert variant.options.timeout == timedelta(seconds=5)
    assert variant.options.retry == Retry(2)
    assert variant.options.approval is None
    assert pay.options.approval == Approval()
    assert await variant("a") == "a"
    assert variant.schema == pay.schema
    assert variant.description == "Pay."

    @pay.reconcile
    async def paid(account: str) -> Done[str] | NotDone:
        return NotDone()

    assert variant.reconcile_hook == paid, "a hook that is declared later counts for its variants"

    @variant.reconcile
    async def paid_small(account: str) -> Done[str] | NotDone:
        return NotDone()

    assert variant.reconcile_hook == paid_small
    assert pay.reconcile_hook == paid
    ledger = Ledger("eur")
    small = ledger.book.replace(name="small")
    assert await small("a") == "eur a 1"
    assert small.reconcile_hook is not None
    assert small != ledger.book
    with pytest.raises(BadDeclaration, match="no option 'price'"):
        pay.replace(price=Price(1, 1))


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
    assert refund.__module__ == __name__
    assert list(inspect.signature(refund).parameters) == ["order_id", "cents", "bank"]
    assert list(inspect.signature(Ledger("x").book).parameters) == ["account", "cents"]
    assert repr(refund).startswith(f"<tool refund at {__file__}:")


# ---------------------------------------------------------------------------------------------- schemas


def test_the_digest_is_over_types_only() -> None:
    @dataclass
    class Order:
        """An order."""

        description: str

    def declared(annotation: Any, returns: Any, doc: str, default: Any = inspect.Parameter.empty) -> bytes:
        async def act(order: Any, other: int = 1) -> Any: ...

        act.__doc__ = doc
        act.__annotations__ = {"order": annotation, "other": int, "return": returns}
        if default is not inspect.Parameter.empty:
            act.__defaults__ = (default,)
        return tool()(act).schema_digest

    first = declared(Order, str, "Act.\n\nArgs:\n    order: which")
    assert len(first) == 16
    assert declared(Order, str, "Something else.") == first
    assert declared(str, str, "Act.") != first
    assert declared(Order, int, "Act.") != first
    assert declared(Order, str, "Act.", 2) != first

    @dataclass
    class Described:
        title: str

    @dataclass
    class Titled:
        other: str

    assert declared(Described, str, "") != declared(Titled, str, ""), "a field may be called title"


def test_models_and_facts() -> None:
    @model("small-1", price=Price(1, 2), max_output=10)
    async def chat(messages: list[Any]) -> Any: ...

    @model("small-2", usage=lambda reply: Usage(len(reply), 0), effect="idempotent")
    async def other(messages: list[Any]) -> Any: ...

    @fact(fresh_for=timedelta(minutes=1), same=len)
    async def order(order_id: str) -> str:
        return order_id

    assert (chat.kind, chat.name, chat.model_name) == ("model", "chat", "small-1")
    assert chat.effect_of({}) == "read"
    assert other.effect_of({}) == "idempotent"
    assert chat.usage_of({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}) == Usage(3, 4)
    assert chat.usage_of("mute") is None
    assert other.usage_of("four") == Usage(4, 0)
    assert refund.usage_of({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}) is None
    assert (order.kind, order.effect_of({})) == ("fact", "read")
    assert order.options.fresh_for == timedelta(minutes=1)
    assert chat.replace(name="chat2").model_name == "small-1"
