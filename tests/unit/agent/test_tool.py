"""Tools: what a call means in a step and in a body; effects, hooks, variants, digests."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace

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
    current_call,
    fact,
    model,
    override,
    tool,
    use,
)
from perdure.errors import (
    BadArguments,
    BadDeclaration,
    BlockingTool,
    EffectRefused,
    StricterInside,
)
from tests.unit.agent.scenes import bank, body, look, refund, step

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


def test_an_undo_is_a_tool_that_may_take_the_result() -> None:
    """A plain function is idempotent; a tool keeps what it declares; a variant and a method have it too."""

    @tool()
    async def pay(account: str) -> int:
        return 1

    @pay.undo
    def pay_back(account: str, result: int) -> str:
        return f"{account} {result}"

    assert pay.undo_hook is not None
    assert (pay.undo_hook.options.effect, pay.undo_hook.options.for_model) == ("idempotent", False)
    assert pay_back("a", 7) == "a 7"
    assert pay.replace(name="other").undo_hook == pay.undo_hook

    class Till:
        def __init__(self, name: str) -> None:
            self.name = name

        @tool()
        async def take(self, cents: int) -> None: ...

        @take.undo
        @tool(effect="irreversible", timeout=timedelta(seconds=3))
        async def give(self, cents: int) -> str:
            return self.name

    undo = Till("one").take.undo_hook
    assert undo is not None
    assert (undo.options.effect, undo.options.timeout) == ("irreversible", timedelta(seconds=3))
    assert undo.parameters.names == ("cents",) or list(undo.parameters.names) == ["cents"]


def test_what_cannot_undo() -> None:
    """Said at the declaration, with the place."""

    @tool(effect="read")
    async def look(account: str) -> int:
        return 1

    @tool()
    async def pay(account: str, result: int) -> int:
        return 1

    with pytest.raises(BadDeclaration, match="only reads: there is nothing to undo"):
        look.undo(lambda account: None)
    with pytest.raises(BadDeclaration, match="only reads: it can undo nothing"):
        pay.undo(tool(effect="read", for_model=False)(lambda account, result: None))
    with pytest.raises(BadDeclaration, match="without approval and premises"):
        pay.undo(tool(approval=Approval(), for_model=False)(lambda account, result: None))
    with pytest.raises(BadDeclaration, match="takes outcome"):
        pay.undo(lambda account, result, outcome: None)
    with pytest.raises(BadDeclaration, match="is declared already"):
        pay.reconcile(cast(Any, pay))


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
    with pytest.raises(BadDeclaration, match="no option 'price'"):
        pay.replace(price=Price(1, 1))


# ---------------------------------------------------------------------------------------------- schemas


def test_the_digest_is_over_types_only() -> None:
    def declared(annotation: Any, returns: Any, doc: str, default: Any = inspect.Parameter.empty) -> bytes:
        async def act(order: Any, other: int = 1) -> Any: ...

        act.__doc__ = doc
        act.__annotations__ = {"order": annotation, "other": int, "return": returns}
        if default is not inspect.Parameter.empty:
            act.__defaults__ = (default,)
        return tool()(act).schema_digest

    first = declared(list[str], str, "Act.\n\nArgs:\n    order: which")
    assert declared(list[str], str, "Something else.") == first
    assert declared(str, str, "Act.") != first
    assert declared(list[str], int, "Act.") != first
    assert declared(list[str], str, "Act.", 2) != first


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
