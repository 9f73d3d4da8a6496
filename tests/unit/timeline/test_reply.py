"""What a model answered, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.timeline.reply import answer


def completion(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant"} | message}]}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (completion(content="done"), '"done"'),
        (
            completion(tool_calls=[call("refund", '{"id": "o-77", "cents": 5}')]),
            'calls refund(id="o-77", cents=5)',
        ),
        (completion(tool_calls=[call("a", "{}"), call("b", "not json")]), "calls a(), b"),
        (completion(content="\x1b[2J"), '"\\x1b[2J"'),
        ({"role": "assistant", "content": [{"type": "text", "text": "hi"}]}, '"hi"'),
        ("hi", '"hi"'),
        ({"cents": 5}, "{cents: 5}"),
        (17, "17"),
    ],
)
def test_answers(value: Any, shown: str) -> None:
    assert answer(value) == shown


def test_a_long_answer_is_shortened() -> None:
    assert len(answer(completion(content="x" * 1000))) == 70
