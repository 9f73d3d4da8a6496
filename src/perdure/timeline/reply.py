"""What a model answered, in one line: the tools it calls, or what it said. Shapes as `perdure.agent` reads
them.
"""

from __future__ import annotations

from typing import Any

from perdure.agent import ToolCall, read_reply, read_tool_calls
from perdure.errors import BadArguments
from perdure.timeline.plain import brief, clean


def answer(value: Any, width: int = 70) -> str:
    """A recorded reply, shortened; the plain value where it has no known shape, or says nothing in it."""
    try:
        reply = read_reply(value)
        calls = read_tool_calls(reply.tool_calls)
    except BadArguments:
        return brief(value, width)
    if calls:
        return brief("calls " + ", ".join(map(_call, calls)), width)
    return brief(f'"{reply.text}"' if reply.text else value, width)


def _call(call: ToolCall) -> str:
    if not isinstance(call.arguments, dict):
        return clean(call.name)
    given = ", ".join(f"{clean(name)}={brief([value], 24)[1:-1]}" for name, value in call.arguments.items())
    return f"{clean(call.name)}({given})"
