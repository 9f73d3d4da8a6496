"""The agent without a step: a model and its tools."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from perdure.agent import Agent, Held, current_call
from perdure.errors import BadDeclaration
from perdure.state import events as e
from tests.unit.runtime.stage import Stage, World


def asks(*calls: tuple[str, Any], text: str | None = None) -> dict[str, Any]:
    """A reply of a model in OpenAI's words that asks for tools."""
    made = [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
        }
        for number, (name, args) in enumerate(calls)
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


def says(text: str) -> dict[str, Any]:
    """A reply that asks for nothing."""
    return {"role": "assistant", "content": text}


class Desk:
    """An agent with a scripted model, two tools and a world."""

    def __init__(self, *replies: Any) -> None:
        self.world = World()
        self.asked: list[Any] = []
        self.offered: list[Any] = []
        desk: Agent[Any, Any, Any] = Agent("desk", durability="strict")

        @desk.model("scripted")
        async def chat(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
            self.asked.append([dict(message) for message in messages])
            self.offered.append(tools)
            assert current_call().model == "scripted"
            return dict(replies[sum(message["role"] == "assistant" for message in messages)])

        @desk.tool(effect="read")
        async def order(order_id: str, on: date = date(2026, 1, 1)) -> dict[str, Any]:
            """Look an order up."""
            return {"id": order_id, "total": Decimal("12.50"), "on": on}

        @desk.tool(effect="irreversible", raises=[ValueError])
        async def refund(order_id: str, cents: int) -> str:
            """Pay an order back."""
            if cents > 1000:
                raise ValueError("too much")
            return str(self.world.act(f"refunded {order_id}"))

        @desk.tool(effect="read", for_model=False)
        async def secret() -> str:
            return "not for models"

        self.agent = desk


async def test_it_asks_calls_tells_and_ends(stage: Stage) -> None:
    """The goal is the first message, each tool call gets its own, an answer without calls is the end."""
    desk = Desk(
        asks(("order", {"order_id": "o-7", "on": "2026-05-04"})),
        asks(("refund", {"order_id": "o-7", "cents": 12})),
        says("Done."),
    )
    assert (await stage.run(desk.agent, "Refund o-7.", check=True)).unwrap() == "Done."
    messages = (await stage.state())["messages"]
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert messages[0] == {"role": "user", "content": "Refund o-7."}
    told = json.loads(messages[2]["content"])
    assert told["on"] == "2026-05-04"
    assert messages[4] == {"role": "tool", "tool_call_id": "c0", "content": "refunded o-7"}
    assert [len(asked) for asked in desk.asked] == [1, 3, 5]
    names = [tool["function"]["name"] for tool in desk.offered[0]]
    assert names == ["order", "refund"]
    assert len(desk.world) == 1
    await stage.blameless(desk.world)


@pytest.mark.parametrize("boundary", ["receipt.served", "step.commit", "step.queued", "call.act"])
@pytest.mark.parametrize("hit", [1, 2, 3])
async def test_a_crash_anywhere_asks_no_model_and_calls_no_tool_again(
    stage: Stage, boundary: str, hit: int
) -> None:
    """What was recorded is served."""
    desk = Desk(
        asks(("order", {"order_id": "o-7"})),
        asks(("refund", {"order_id": "o-7", "cents": 12})),
        says("Done."),
    )
    if boundary == "step.queued":
        hit = min(hit, 2)
    if boundary == "call.act" and hit > 2:
        hit += 1  # the third is the act itself; after it comes a read
    await stage.crash(desk.agent, boundary, hit, goal="Refund o-7.")
    outcome = await stage.run(desk.agent, "Refund o-7.", check=True)
    if isinstance(outcome, Held):  # it died between the intent and the act
        assert outcome.reason == "unknown-outcome"
        return
    assert outcome.unwrap() == "Done."
    assert len(desk.asked) == 3
    assert len(desk.world) == 1
    await stage.blameless(desk.world)


async def test_what_a_model_gets_wrong_becomes_its_message(memory: Stage) -> None:
    """Unknown names, hidden tools, text that is no JSON, missing, extra and misfit arguments, refusals."""
    wrong = [
        ("nothing", {}),
        ("secret", {}),
        ("order", "{not json"),
        ("order", "[1, 2]"),
        ("order", {}),
        ("order", {"order_id": "o", "extra": 1}),
        ("refund", {"order_id": "o", "cents": "twelve"}),
        ("refund", {"order_id": "o", "cents": 5000}),
        ("order", {"order_id": "o", "on": "someday"}),
    ]
    desk = Desk(asks(*wrong), says("Sorry."))
    assert (await memory.run(desk.agent, "Try.", check=True)).unwrap() == "Sorry."
    told = [message["content"] for message in (await memory.state())["messages"] if message["role"] == "tool"]
    assert len(told) == len(wrong)
    assert all(text.startswith("Error: ") for text in told)
    words = ["no tool 'nothing'", "no tool 'secret'", "not a JSON object", "not a JSON object", "order_id"]
    words += ["extra", "cents", "too much", "on"]
    for text, word in zip(told, words, strict=True):
        assert word in text, (text, word)
    assert "order, refund" in told[0]
    assert len(desk.world) == 0


async def test_one_bad_call_stops_none_of_its_siblings(memory: Stage) -> None:
    """Two good ones and one bad one, in one turn; the model is asked once, after all three."""
    desk = Desk(
        asks(
            ("refund", {"order_id": "a", "cents": 1}),
            ("refund", {"order_id": "b", "cents": 9999}),
            ("refund", {"order_id": "c", "cents": 3}),
        ),
        says("Two of three."),
    )
    assert (await memory.run(desk.agent, "All.", check=True)).unwrap() == "Two of three."
    assert len(desk.asked) == 2
    assert [message["content"] for message in desk.asked[1][2:]] == [
        "refunded a",
        "Error: ValueError: too much",
        "refunded c",
    ]
    await memory.blameless(desk.world)


@pytest.mark.parametrize("hit", [1, 2, 3])
async def test_parallel_calls_survive_a_crash_between_their_receipts(stage: Stage, hit: int) -> None:
    """None is made twice, and the model is asked once about all of them."""
    desk = Desk(asks(*(("order", {"order_id": name}) for name in "abc")), says("Seen."))
    await stage.crash(desk.agent, "receipt.queued", 1 + hit, goal="Look.")
    assert (await stage.run(desk.agent, "Look.", check=True)).unwrap() == "Seen."
    assert len(desk.asked) == 2
    assert len(desk.asked[1]) == 5


async def test_anthropic_tool_calls_are_answered_in_their_words(memory: Stage) -> None:
    """run.tools answers each call in the shape in which it came."""
    desk = Desk()

    async def step(run: Any) -> None:
        calls = [
            {"type": "tool_use", "id": "t1", "name": "order", "input": {"order_id": "o-1"}},
            {"type": "tool_use", "id": "t2", "name": "nothing", "input": {}},
        ]
        run.finish(await run.tools(calls))

    desk.agent.step(step)
    messages = (await memory.run(desk.agent, "x", check=True)).unwrap()
    assert [message["role"] for message in messages] == ["user", "user"]
    first, second = [block for message in messages for block in message["content"]]
    assert (first["type"], first["tool_use_id"]) == ("tool_result", "t1")
    assert (second["tool_use_id"], second["is_error"]) == ("t2", True)


async def test_a_model_of_anthropics_is_spoken_to_in_its_words(stage: Stage) -> None:
    """The model declares its style; tools are offered in it, and the answers to one reply are one message."""
    replies = [
        [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "order", "input": {"order_id": "o-1"}},
            {"type": "tool_use", "id": "t2", "name": "order", "input": {"wrong": 1}},
        ],
        [{"type": "text", "text": "It is "}, {"type": "text", "text": "here."}],
    ]
    offered: list[Any] = []
    desk: Agent[Any, Any, Any] = Agent("desk")

    @desk.model("claude", style="anthropic")
    async def chat(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
        offered.append(tools)
        said = sum(message["role"] == "assistant" for message in messages)
        usage = {"input_tokens": 10, "output_tokens": 2}
        return {"type": "message", "role": "assistant", "content": replies[said], "usage": usage}

    @desk.tool(effect="read")
    async def order(order_id: str) -> str:
        """Look an order up."""
        return f"order {order_id}"

    await stage.crash(desk, "call.act", 2)
    assert (await stage.run(desk, check=True)).unwrap() == "It is here."
    [told] = offered[0]
    assert sorted(told) == ["description", "input_schema", "name"]
    assert told["input_schema"]["required"] == ["order_id"]
    messages = (await stage.state())["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[1] == {"role": "assistant", "content": replies[0]}
    first, second = messages[2]["content"]
    assert first == {"type": "tool_result", "tool_use_id": "t1", "content": "order o-1"}
    assert (second["tool_use_id"], second["is_error"]) == ("t2", True)
    assert (await stage.record()).spent.input_tokens == 20


async def test_an_agent_without_a_step_needs_exactly_one_model(memory: Stage) -> None:
    """Said with the remedy; the run is not failed by it."""
    bare: Any = Agent("bare")
    with pytest.raises(BadDeclaration, match="no step and 0 models"):
        await memory.run(bare, "x")
    assert (await memory.store.row("run-1")).terminal is False
    assert await memory.bodies(e.StepCommitted) == []
