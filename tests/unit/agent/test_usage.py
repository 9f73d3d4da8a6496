"""Usage and cost are read from the replies of the clients themselves: their own classes, as they build them.

A class that moved, or counts otherwise in a newer release, shows here and not as a silent zero in a budget.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from perdure.agent import Price, Usage
from perdure.agent.schema import read_usage
from perdure.codec import decode, encode


def _openai_chat() -> Any:
    return import_module("openai.types.chat").ChatCompletion.model_validate(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [],
            "usage": {
                "prompt_tokens": 120,
                "completion_tokens": 30,
                "total_tokens": 150,
                "prompt_tokens_details": {"cached_tokens": 100},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
        }
    )


def _openai_response() -> Any:
    return import_module("openai.types.responses").Response.model_validate(
        {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 120,
                "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 0},
                "output_tokens": 30,
                "output_tokens_details": {"reasoning_tokens": 20},
                "total_tokens": 150,
            },
        }
    )


def _anthropic() -> Any:
    return import_module("anthropic.types").Message.model_validate(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "hi"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 20,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 40,
                "output_tokens": 30,
            },
        }
    )


def _langchain() -> Any:
    usage = {
        "input_tokens": 120,
        "output_tokens": 30,
        "total_tokens": 150,
        "input_token_details": {"cache_read": 100},
    }
    return import_module("langchain_core.messages").AIMessage(content="hi", usage_metadata=usage)


def _pydantic_ai() -> Any:
    messages, usage = import_module("pydantic_ai.messages"), import_module("pydantic_ai.usage")
    used = usage.RequestUsage(input_tokens=120, output_tokens=30, cache_read_tokens=100)
    return messages.ModelResponse(parts=[messages.TextPart("hi")], usage=used)


REPLIES = [_openai_chat, _openai_response, _anthropic, _langchain, _pydantic_ai]


@pytest.fixture(params=REPLIES, ids=lambda make: make.__name__.strip("_"))
def reply(request: pytest.FixtureRequest) -> Any:
    """A reply of 120 input tokens, 100 of them cached, and 30 output tokens."""
    return request.param()


def test_usage_is_read_from_the_clients_own_replies(reply: Any) -> None:
    """Cached input counts as input, once, whichever way a client counts it."""
    assert read_usage(reply) == Usage(120, 30)
    assert Price(2.0, 8.0).cost(Usage(120, 30)) == 480_000


def test_usage_is_read_alike_from_the_journal(reply: Any) -> None:
    """What was recorded tells the same as what came."""
    assert read_usage(decode(encode(reply))) == Usage(120, 30)


async def test_usage_is_read_from_a_whole_run_of_pydantic_ai() -> None:
    """Its result tells the usage by a method or an attribute, summed over its requests."""
    models = import_module("pydantic_ai.models.test")
    result = await import_module("pydantic_ai").Agent(models.TestModel()).run("hi")
    usage = read_usage(result)
    assert usage is not None
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0
