"""How models speak: tool schemas as they want them, and their replies and tool calls as they come.

Reads OpenAI (chat and responses), Anthropic, LangChain and Pydantic AI shapes by their fields, as objects or
dicts, so that none of these packages is needed. Knows declared tools by their name, description and schema
only; validates no arguments.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from perdure.agent.policy import Usage
from perdure.codec import plain
from perdure.errors import BadArguments, BadSetting

SchemaStyle: TypeAlias = Literal["openai", "anthropic", "mcp"]
"""Who is told about tools."""

CallStyle: TypeAlias = Literal["openai", "responses", "anthropic"]
"""In whose words a tool call came, and its answer goes back."""


class Described(Protocol):
    """What is told of a tool."""

    name: str

    @property
    def description(self) -> str:
        """What it does."""
        ...

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        ...


def tool_schemas(tools: Iterable[Described], style: SchemaStyle) -> list[dict[str, Any]]:
    """The tools as a model's API wants them; the caller's to change. Raises BadSetting (C101)."""
    return [_told(tool, copy.deepcopy(tool.schema), style) for tool in tools]


def _told(tool: Described, parameters: dict[str, Any], style: SchemaStyle) -> dict[str, Any]:
    match style:
        case "openai":
            function = {"name": tool.name, "description": tool.description, "parameters": parameters}
            return {"type": "function", "function": function}
        case "anthropic":
            return {"name": tool.name, "description": tool.description, "input_schema": parameters}
        case "mcp":
            return {"name": tool.name, "description": tool.description, "inputSchema": parameters}
        case _:
            raise BadSetting(f"there is no schema style {style!r}: openai, anthropic or mcp")


# ------------------------------------------------------------------------------------------------- tool calls


class ToolCall(Struct, frozen=True):
    """One tool call of a model. `arguments` is a dict, or the raw text where it was not a JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    style: CallStyle


def read_tool_calls(calls: Sequence[Any]) -> list[ToolCall]:
    """A model's tool calls, objects or dicts. Raises BadArguments (T204) for one in no known shape."""
    return [_read_call(call, place) for place, call in enumerate(calls)]


def _read_call(call: Any, place: int) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    kind = _get(call, "type")
    function = _get(call, "function")
    if function is not None and _get(function, "name"):
        return ToolCall(
            _id(call, "id"), str(_get(function, "name")), _arguments(_get(function, "arguments")), "openai"
        )
    if kind == "function_call":
        return ToolCall(
            _id(call, "call_id"), str(_get(call, "name")), _arguments(_get(call, "arguments")), "responses"
        )
    if kind == "tool_use":
        return ToolCall(
            _id(call, "id"), str(_get(call, "name")), _arguments(_get(call, "input")), "anthropic"
        )
    if _get(call, "tool_name"):  # Pydantic AI
        name, ident = str(_get(call, "tool_name")), _id(call, "tool_call_id")
        return ToolCall(ident, name, _arguments(_get(call, "args")), "openai")
    if _get(call, "name"):  # LangChain says args
        given = _get(call, "args")
        given = _get(call, "arguments") if given is None else given
        return ToolCall(_id(call, "id"), str(_get(call, "name")), _arguments(given), "openai")
    raise BadArguments(
        f"tool call {place} has no known shape: {call!r:.200}",
        path=f"$[{place}]",
        expected="a tool call as OpenAI or Anthropic write it",
        found=type(call).__name__,
    )


def _id(call: Any, name: str) -> str:
    given = _get(call, name)
    return "" if given is None else str(given)


def _arguments(given: Any) -> dict[str, Any] | str:
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            read = json.loads(given, object_pairs_hook=_once)
        except (ValueError, RecursionError):  # no JSON, a key twice, nested beyond any sense
            return given
        return read if isinstance(read, dict) else given
    if isinstance(given, Mapping):
        return dict(given)
    lowered = plain(given)
    return lowered if isinstance(lowered, dict) else repr(given)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. A key that stands twice could mean either value, and one would be acted on."""
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a key stands twice")
    return read


def tool_message(call: ToolCall, content: str, *, error: bool) -> dict[str, Any]:
    """The message that answers a tool call, in the words that it came in."""
    match call.style:
        case "openai":
            return {
                "role": "tool",
                "tool_call_id": call.id,
                "content": f"Error: {content}" if error else content,
            }
        case "responses":
            output = f"Error: {content}" if error else content
            return {"type": "function_call_output", "call_id": call.id, "output": output}
        case "anthropic":
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": content}
            if error:
                block["is_error"] = True
            return {"role": "user", "content": [block]}


def one_turn(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers to one reply as its conversation takes them: Anthropic wants them in a single message."""
    turn: list[dict[str, Any]] = []
    for message in messages:
        before = turn[-1] if turn else None
        if before is not None and before.get("role") == message.get("role") == "user":
            turn[-1] = {**before, "content": [*before["content"], *message["content"]]}
        else:
            turn.append(message)
    return turn


# ---------------------------------------------------------------------------------------------------- replies


class Reply(Struct, frozen=True):
    """A model's reply: the message for the conversation, its text, and the tool calls as they came."""

    message: dict[str, Any]
    text: str | None
    tool_calls: list[Any]


def read_reply(reply: Any) -> Reply:
    """A model's reply: OpenAI ChatCompletion, Anthropic Message, or what has message, text, tool_calls.

    Raises BadArguments (T204) for one in no known shape.
    """
    if isinstance(reply, str):
        return Reply({"role": "assistant", "content": reply}, reply, [])
    choices = _get(reply, "choices")
    if choices:
        return _openai(_get(choices[0], "message"))
    message = _get(reply, "message")
    if message is not None:
        text, calls = _get(reply, "text"), _get(reply, "tool_calls")
        told = _message(message)
        if text is None:
            content = told.get("content")
            text = content if isinstance(content, str) else _joined(content)
        return Reply(told, None if text is None else str(text), list(calls or ()))
    content = _get(reply, "content")
    if _get(reply, "role") == "assistant" and isinstance(content, list):
        return _anthropic(content)
    if _get(reply, "role") == "assistant":
        return _openai(reply)
    raise BadArguments(
        f"the model's reply has no known shape: {reply!r:.200}",
        path="$",
        expected="an OpenAI ChatCompletion, an Anthropic Message, or message, text and tool_calls",
        found=type(reply).__name__,
        remedy="declare a step with @agent.step that reads it",
    )


def _openai(message: Any) -> Reply:
    kept = {name: value for name, value in _message(message).items() if value is not None}
    kept.setdefault("role", "assistant")
    calls = list(kept.get("tool_calls") or ())
    text = kept.get("content")
    if "content" not in kept and not calls:
        kept["content"] = text = _get(message, "refusal") or ""
    return Reply(kept, text if isinstance(text, str) else _joined(text), calls)


def _anthropic(content: list[Any]) -> Reply:
    blocks = [_message(block) for block in content]
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    return Reply({"role": "assistant", "content": blocks}, _joined(blocks), calls)


def _joined(content: Any) -> str | None:
    """The text parts of a list of content parts."""
    if not isinstance(content, list):
        return None
    texts = [str(_get(part, "text")) for part in content if _get(part, "type") in ("text", "output_text")]
    return "".join(texts) if texts else None


def _message(message: Any) -> dict[str, Any]:
    """A message as plain data. A client library's None means absent; in plain data it is kept."""
    dump = getattr(message, "model_dump", None)
    lowered = dump(mode="json", exclude_none=True) if callable(dump) else plain(message)
    if not isinstance(lowered, dict):
        raise BadArguments(f"a message is an object, found {type(message).__name__}", path="$.message")
    return lowered


# ------------------------------------------------------------------------------------------------------ usage

_INPUT = ("input_tokens", "prompt_tokens", "request_tokens")
_OUTPUT = ("output_tokens", "completion_tokens", "response_tokens")
_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")
"""Anthropic counts cached input apart from `input_tokens`."""


def read_usage(reply: Any) -> Usage | None:
    """What a reply says it used: OpenAI, Anthropic, LangChain and Pydantic AI; None if it says nothing."""
    kind: Any = type(reply)
    by_key = _has_keys(kind)
    for name in ("usage", "usage_metadata"):
        usage = reply.get(name) if by_key else getattr(reply, name, None)
        if usage is None:
            continue
        found = _usage(usage)
        if found is None and callable(usage):  # a method, in older Pydantic AI
            found = _usage(usage())
        if found is not None:
            return found
    return None


@lru_cache(maxsize=256)
def _has_keys(kind: Hashable) -> bool:
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _usage(usage: Any) -> Usage | None:
    used = [
        next((n for name in names if (n := _count(usage, name)) is not None), None)
        for names in (_INPUT, _OUTPUT)
    ]
    if used[0] is None and used[1] is None:
        return None
    cached = sum(_count(usage, name) or 0 for name in _CACHED)
    return Usage((used[0] or 0) + cached, used[1] or 0)


def _count(usage: Any, name: str) -> int | None:
    value = _get(usage, name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _get(holder: Any, name: str) -> Any:
    """A field of an object or an entry of a mapping; None if there is none."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
