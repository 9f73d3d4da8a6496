"""What of the user's own values leaves in a span: nothing, unless a function of theirs lets it out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from perdure.codec.redaction import shown
from perdure.timeline.plain import jsonable

Content: TypeAlias = Callable[[str, Any], Any]
"""Gets where a value comes from (`refund.arguments`, `chat.result`) and the value in JSON's own types, and
returns what is told in its place; None for nothing."""

CHARS = 32_768
"""A longer text is cut."""


def let_out(content: Content | None, attribute: str, where: str, value: Any) -> dict[str, str]:
    """The attribute that tells a plain value, as far as it may leave; of secrets only their marks."""
    told = None if content is None else content(where, jsonable(shown(value)))
    return {} if told is None else {attribute: json.dumps(told, default=str)[:CHARS]}
