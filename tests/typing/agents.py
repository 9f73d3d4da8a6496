"""Agents as their authors write them: steps, branches, batches, shell tools; and their types."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypedDict, assert_never, assert_type

from perdure.agent import (
    FOREVER,
    Agent,
    Budget,
    Call,
    Cancelled,
    Effect,
    Failed,
    Finished,
    Held,
    Hybrid,
    Outcome,
    Principal,
    Rate,
    Retired,
    Retry,
    Run,
    Waiting,
    publish,
    tool,
)
from perdure.host import Runtime
from tests.typing.shop import InsufficientFunds, Ledger, Order, order, refund, stamp, summary

Message = dict[str, Any]


@dataclass
class Reply:
    """What a model says."""

    message: Message
    text: str
    tool_calls: list[Any]


@dataclass
class Goal:
    """What a refund is wanted for."""

    order_id: str


@dataclass
class Chat:
    """A conversation."""

    messages: list[Message] = field(default_factory=list)


ledger = Ledger("eur")
desk = Agent(
    "refund-desk",
    state=Chat,
    goal=Goal,
    result=str,
    start=lambda goal: Chat([{"role": "user", "content": goal.order_id}]),
    tools=[refund, stamp, ledger.balance, summary],
    budget=Budget(usd=0.5, steps=30, tokens=200_000),
    storage=Hybrid(every=20),
)
assert_type(desk, Agent[Chat, Goal, str])


@desk.model("gpt-5-mini")
async def chat(messages: list[Message]) -> Reply:
    """The desk's model."""
    return Reply({"role": "assistant"}, str(len(messages)), [])


@desk.tool(effect="read", rate=Rate(5, timedelta(seconds=1)), retry=Retry(3), timeout=timedelta(seconds=30))
async def fetch(url: str) -> str:
    """Fetch a page."""
    return url


@desk.step
async def step(run: Run[Chat, Goal, str]) -> None:
    """A step with everything in it."""
    reply = await chat(run.state.messages)
    assert_type(reply, Reply)
    run.state.messages.append(reply.message)
    if not reply.tool_calls:
        return run.finish(reply.text)
    run.state.messages += await run.tools(reply.tool_calls)
    try:
        found, balance = await run.gather(order(run.goal.order_id), ledger.balance("x"))
        assert_type(found, Order)
        assert_type(balance, int)
    except InsufficientFunds as error:
        return run.fail(error)
    many = await run.gather(*[order(one) for one in "abc"])
    assert_type(many, tuple[Order, ...])
    assert_type(await run.gather(order("a"), fetch("b"), ledger.balance("c")), tuple[Order, str, int])
    pages = await run.map(fetch, ["a", "b"], limit=8)
    assert_type(pages, list[str])
    assert_type(await run.map(ledger.balance, ["a"]), list[int])
    assert_type(await run.call(stamp, b"", copies=2), int)
    assert_type(await run.call(refund, "o", 3), str)
    await run.sleep(timedelta(days=1))
    assert_type(await run.wait("paid", Order, timeout=FOREVER), Order)
    assert_type(await run.wait("paid", int, timeout=60, default=None), int | None)
    assert_type(await run.ask("Who?"), str)
    assert_type(await run.ask("Ship it?", bool, expires=timedelta(hours=1), expiry="deny"), bool)
    assert_type(await run.ask("Which?", choices=["S", "M"]), str)
    assert_type(await run.ask("Which?", choices=[1, 2], default="none"), int | str)
    anything = await run.wait("news")
    assert_type(anything, Any)
    assert_type(run.now(), datetime)
    assert_type(run.random(), float)
    assert_type(run.new_id(), str)
    assert_type(run.principal, Principal | None)
    run.log.info("step of %s", run.id)
    run.state = Chat()
    return None


@desk.authorize
async def allowed(who: Principal, call: Call) -> bool:
    """Who may do what."""
    return "desk" in who.roles or call.effect == "read"


def kind(command: str) -> Effect:
    """`ls` is a read, `rm` is not."""
    return "read" if command.startswith("ls") else "irreversible"


@tool(effect=kind, unknown="raise", timeout=timedelta(hours=1))
def shell(command: str) -> str:
    """Run a command."""
    publish("line")
    return command


coder = Agent("coder", tools=[shell])
assert_type(coder, Agent[dict[str, Any], str, Any])


@coder.step
async def code(run: Run) -> None:
    """A step that names no types."""
    run.state["messages"].append(await run.call(shell, "ls"))
    run.finish()


@dataclass
class Night:
    """How far a batch is."""

    done: int = 0


@tool(effect="read", limit=16)
def pull(item: int) -> dict[str, Any]:
    """A plain function, called in threads."""
    return {"item": item}


night = Agent("nightly", state=Night, result=int, state_version=2, tools=[pull], durability="step")
assert_type(night, Agent[Night, str, int])


@night.migration(1)
def renamed(old: dict[str, Any]) -> dict[str, Any]:
    """Version 1 kept the items."""
    return {"done": len(old["items"])}


@night.step
async def night_step(run: Run[Night, str, int]) -> None:
    """Many plain calls at once."""
    rows = await run.map(pull, range(1000), limit=16)
    assert_type(rows, list[dict[str, Any]])
    run.state.done += len(rows)
    run.finish(len(rows))


class Counter(TypedDict):
    """State that is a dict."""

    n: int


counter = Agent("counter", state=Counter, start=lambda goal: Counter(n=len(goal)))
assert_type(counter, Agent[Counter, str, Any])


@counter.step
async def count(run: Run[Counter]) -> None:
    """A step that names its state only."""
    run.state["n"] += 1
    run.finish(run.state["n"])


nothing = Agent("nothing", state=Chat, result=type(None))


@nothing.step
async def do_nothing(run: Run[Chat, str, None]) -> None:
    """A run without a result."""
    run.finish()


def told(outcome: Outcome[str]) -> str:
    """Every way a run can stand."""
    match outcome:
        case Finished(result):
            assert_type(result, str)
            return result
        case Waiting(reasons, approvals, until):
            return f"{reasons} {[one.tool for one in approvals]} {until}"
        case Held(reason, remedies):
            return f"{reason}: {remedies}"
        case Failed(error) | Cancelled(note=error) | Retired(note=error):
            return error
        case _:
            assert_never(outcome)


async def main() -> None:
    """How agents are run."""
    outcome = await desk.run("o", Goal("o-77"), store="runs.db", principal=Principal("ana"))
    assert_type(outcome, Outcome[str])
    assert_type(outcome.unwrap(), str)
    async with Runtime("runs.db", [desk, night], workers=4) as runtime:
        await runtime.start(desk, "o", Goal("o-77"), principal=Principal("ana"))
        assert_type(await runtime.run(night, "n", "2026-11-29"), Outcome[int])
    assert_type(coder.run_sync("c", "Clean up", check=True).unwrap(), Any)
    assert_type(night.run_sync("n", "2026-11-29", budget=Budget(calls=5000)).unwrap(), int)
