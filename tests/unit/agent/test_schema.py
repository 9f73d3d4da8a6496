"""What models say and hear: tool schemas, tool calls, replies and usage, as objects and as dicts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel

from perdure.agent import (
    Agent,
    Reply,
    ToolCall,
    Usage,
    read_reply,
    read_tool_calls,
    read_usage,
    tool,
    tool_message,
    tool_schemas,
)
from perdure.codec import Shape, decode, encode
from perdure.errors import BadArguments, BadSetting


@tool(effect="read")
async def look(order_id: str, deep: bool = False) -> str:
    """Look an order up.

    Args:
        order_id: the order's number
    """
    return order_id


PARAMETERS = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "description": "the order's number"},
        "deep": {"type": "boolean", "default": False},
    },
    "required": ["order_id"],
    "additionalProperties": False,
}


def test_tools_as_each_api_wants_them() -> None:
    said = {"name": "look", "description": "Look an order up."}
    assert tool_schemas([look], "openai") == [
        {"type": "function", "function": {**said, "parameters": PARAMETERS}}
    ]
    assert tool_schemas([look], "anthropic") == [{**said, "input_schema": PARAMETERS}]
    assert tool_schemas([look], "mcp") == [{**said, "inputSchema": PARAMETERS}]
    told = tool_schemas([look], "mcp")
    told[0]["inputSchema"]["properties"].clear()
    assert look.schema == PARAMETERS
    with pytest.raises(BadSetting, match="'gemini'"):
        tool_schemas([look], "gemini")  # type: ignore[arg-type]


def test_an_agent_tells_its_model_what_is_for_models() -> None:
    quiet = look.replace(name="quiet", for_model=False)
    agent = Agent("a", tools=[look, quiet])
    assert [told["name"] for told in agent.tool_schemas("mcp")] == ["look"]


# ---------------------------------------------------------------------------------------------- replies


def completion(message: dict[str, Any]) -> ChatCompletion:
    return ChatCompletion.model_validate(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "logprobs": None, "message": message}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        }
    )


FUNCTION = {"name": "look", "arguments": '{"order_id": "o"}'}
OPENAI_CALL = {"id": "c1", "type": "function", "function": FUNCTION}
CALLING = completion({"role": "assistant", "content": None, "refusal": None, "tool_calls": [OPENAI_CALL]})
SAYING = completion({"role": "assistant", "content": "Done.", "refusal": None})


class Block(BaseModel):
    """A block of an Anthropic message, as its client makes them."""

    type: str
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class Message(BaseModel):
    """An Anthropic message."""

    role: str
    content: list[Block]
    usage: dict[str, Any]


ANTHROPIC = Message.model_validate(
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me "},
            {"type": "text", "text": "look."},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {"order_id": "o", "deep": None}},
        ],
        "usage": {
            "input_tokens": 3,
            "output_tokens": 4,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": None,
        },
    }
)


@dataclass
class Own:
    """A reply of one's own making."""

    message: dict[str, Any]
    text: str | None
    tool_calls: list[Any] = field(default_factory=list)


@pytest.mark.parametrize("reply", [CALLING, CALLING.model_dump()], ids=["object", "dict"])
def test_openai_calls_are_read(reply: Any) -> None:
    found = read_reply(reply)
    assert found.text is None
    assert found.message == {"role": "assistant", "tool_calls": [OPENAI_CALL]}
    json.dumps(found.message)
    assert read_tool_calls(found.tool_calls) == [ToolCall("c1", "look", {"order_id": "o"}, "openai")]


def test_openai_text_is_read() -> None:
    assert read_reply(SAYING) == Reply({"role": "assistant", "content": "Done."}, "Done.", [])
    refusing = completion({"role": "assistant", "content": None, "refusal": "No."})
    assert read_reply(refusing).text == "No."
    parts = {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert read_reply({"choices": [{"message": parts}]}).text == "ab"
    assert [read_reply(Own(message, None)).text for message in (parts, {"content": "c"}, {})] == [
        "ab",
        "c",
        None,
    ]


@pytest.mark.parametrize(
    "reply", [ANTHROPIC, ANTHROPIC.model_dump(exclude_none=True)], ids=["object", "dict"]
)
def test_anthropic_is_read(reply: Any) -> None:
    found = read_reply(reply)
    assert found.text == "Let me look."
    assert found.message["role"] == "assistant"
    assert [block["type"] for block in found.message["content"]] == ["text", "text", "tool_use"]
    assert all(None not in block.values() for block in found.message["content"])
    assert [call.name for call in read_tool_calls(found.tool_calls)] == ["look"]
    assert read_usage(reply) == Usage(103, 4)


def test_a_reply_reads_the_same_from_the_journal() -> None:
    for reply in (CALLING, SAYING, ANTHROPIC):
        restored = Shape.of(type(reply)).restore(decode(encode(reply)))
        assert read_reply(restored) == read_reply(reply)
        assert read_usage(restored) == read_usage(reply)


def test_replies_of_ones_own_are_read() -> None:
    message = {"role": "assistant", "content": "Hi.", "extra": None}
    expected = Reply(message, "Hi.", [{"id": "1", "name": "look", "arguments": {}}])
    for own in (
        Own(message, "Hi.", [{"id": "1", "name": "look", "arguments": {}}]),
        {"message": message, "text": "Hi.", "tool_calls": [{"id": "1", "name": "look", "arguments": {}}]},
    ):
        assert read_reply(own) == expected
    assert read_reply(Own(message, None)) == Reply(message, "Hi.", [])
    assert read_reply("Hi.") == Reply({"role": "assistant", "content": "Hi."}, "Hi.", [])


@pytest.mark.parametrize("reply", [None, 3, {}, {"role": "user", "content": "x"}, {"message": "text"}])
def test_other_replies_are_refused(reply: Any) -> None:
    with pytest.raises(BadArguments):
        read_reply(reply)


# ---------------------------------------------------------------------------------------------- tool calls


@dataclass
class PydanticCall:
    """A Pydantic AI tool call part."""

    tool_name: str
    args: str | dict[str, Any]
    tool_call_id: str


@pytest.mark.parametrize(
    ("call", "style"),
    [
        (OPENAI_CALL, "openai"),
        (
            SimpleNamespace(id="c1", type="function", function=SimpleNamespace(**FUNCTION)),
            "openai",
        ),
        (CALLING.choices[0].message.tool_calls and CALLING.choices[0].message.tool_calls[0], "openai"),
        (
            {
                "type": "function_call",
                "call_id": "c1",
                "id": "fc",
                "name": "look",
                "arguments": '{"order_id": "o"}',
            },
            "responses",
        ),
        (
            ResponseFunctionToolCall(
                type="function_call", call_id="c1", name="look", arguments='{"order_id": "o"}'
            ),
            "responses",
        ),
        ({"type": "tool_use", "id": "c1", "name": "look", "input": {"order_id": "o"}}, "anthropic"),
        (Block(type="tool_use", id="c1", name="look", input={"order_id": "o"}), "anthropic"),
        ({"type": "tool_call", "id": "c1", "name": "look", "args": {"order_id": "o"}}, "openai"),
        (PydanticCall("look", {"order_id": "o"}, "c1"), "openai"),
        (PydanticCall("look", '{"order_id": "o"}', "c1"), "openai"),
        ({"id": "c1", "name": "look", "arguments": {"order_id": "o"}}, "openai"),
        (ToolCall("c1", "look", {"order_id": "o"}, "openai"), "openai"),
    ],
)
def test_tool_calls_are_read(call: Any, style: Any) -> None:
    assert read_tool_calls([call]) == [ToolCall("c1", "look", {"order_id": "o"}, style)]


def test_arguments_that_are_no_object_are_kept_as_they_came() -> None:
    def arguments(given: Any) -> Any:
        return read_tool_calls([{"id": "1", "function": {"name": "f", "arguments": given}}])[0].arguments

    assert arguments('{"order_id": ') == '{"order_id": '
    assert arguments("[1]") == "[1]"
    assert arguments("") == {}
    assert arguments(None) == {}

    class Arguments(msgspec.Struct):
        order_id: str

    assert arguments(Arguments("o")) == {"order_id": "o"}
    assert arguments([1]) == "[1]"


@pytest.mark.parametrize("call", [{}, {"type": "text"}, "look", None, {"function": {}}])
def test_other_tool_calls_are_refused(call: Any) -> None:
    with pytest.raises(BadArguments, match="tool call 1"):
        read_tool_calls([OPENAI_CALL, call])


def test_answers_go_back_in_the_words_of_the_call() -> None:
    openai = ToolCall("c1", "look", {}, "openai")
    assert tool_message(openai, "ok", error=False) == {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    assert tool_message(openai, "no", error=True)["content"] == "Error: no"
    responses = ToolCall("c1", "look", {}, "responses")
    assert tool_message(responses, "no", error=True) == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "Error: no",
    }
    anthropic = ToolCall("c1", "look", {}, "anthropic")
    block = {"type": "tool_result", "tool_use_id": "c1", "content": "ok"}
    assert tool_message(anthropic, "ok", error=False) == {"role": "user", "content": [block]}
    assert tool_message(anthropic, "ok", error=True)["content"] == [{**block, "is_error": True}]


# ---------------------------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("reply", "usage"),
    [
        (CALLING, Usage(3, 4)),
        (CALLING.model_dump(), Usage(3, 4)),
        ({"usage": {"input_tokens": 3, "output_tokens": 4}}, Usage(3, 4)),
        (
            SimpleNamespace(usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}),
            Usage(3, 4),
        ),
        (SimpleNamespace(usage=lambda: SimpleNamespace(request_tokens=3, response_tokens=4)), Usage(3, 4)),
        (SimpleNamespace(usage=None, usage_metadata={"output_tokens": 4}), Usage(0, 4)),
        ({"usage": {"input_tokens": True, "output_tokens": "4"}}, None),
        ({"usage": {}}, None),
        ("text", None),
        (None, None),
    ],
)
def test_usage_is_read(reply: Any, usage: Usage | None) -> None:
    assert read_usage(reply) == usage
