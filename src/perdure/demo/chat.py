"""The desk's model: scripted unless you have one of your own.

With OPENAI_BASE_URL and OPENAI_API_KEY set it asks that endpoint (any that speaks OpenAI's chat completions)
for OPENAI_MODEL, over plain HTTP from the standard library. Otherwise three scripted answers do, so that the
demo needs no network and no key. Every question asked is counted in a file, which shows that none was asked
twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

TIMEOUT_SECONDS = 60.0
"""How long the model may take to answer."""

ASKED = "PERDURE_DEMO_ASKED"
"""Names the file in which each question to the model is counted, one line each."""


def model_name() -> str:
    """The model that will answer."""
    return os.environ.get("OPENAI_MODEL", "gpt-5-mini") if _endpoint() else "scripted"


async def answer(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    """The model's answer to this conversation, in the shape of a chat completion."""
    await asyncio.to_thread(_count, len(messages))
    if (endpoint := _endpoint()) is not None:
        return await asyncio.to_thread(_ask, *endpoint, messages, tools)
    return _scripted(messages)


def _count(messages: int) -> None:
    if path := os.environ.get(ASKED):
        with Path(path).open("a") as count:
            count.write(f"{messages} messages\n")


def _endpoint() -> tuple[str, str] | None:
    url, key = os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY")
    return (url.rstrip("/"), key) if url and key else None


def _ask(url: str, key: str, messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    body = json.dumps({"model": model_name(), "messages": messages, "tools": tools}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = Request(f"{url}/chat/completions", body, headers)
    with urlopen(request, timeout=TIMEOUT_SECONDS) as reply:
        return dict(json.loads(reply.read()))


def _scripted(messages: list[Any]) -> dict[str, Any]:
    """Look the order up, pay it back, say so: whichever of them the conversation has not seen yet."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if not results:
        named = re.search(r"o-\d+", str(messages[0]["content"]))
        return _calls("order", order_id=named[0] if named else "o-77")
    if len(results) == 1:
        order = json.loads(results[0])
        return _calls("refund", order_id=order["id"], cents=order["cents"])
    return _completion(
        {"role": "assistant", "content": f"The order is paid back, receipt {results[1].strip(chr(34))}."}
    )


def _calls(name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{name}", "type": "function", "function": function}
    return _completion({"role": "assistant", "content": None, "tool_calls": [call]})


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}
