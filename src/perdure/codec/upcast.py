"""An older body as today's: one function for each format that has been left behind.

A body of format N is brought to N + 1, and so on up to today's, before it is read as a type. What is stored
stays as it was written: its digests hold, and only the reading knows of it. Knows no file and no store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Upcast: TypeAlias = Callable[[str, Any], Any]
"""The name of a body's type ("Stored", "RunRecord", ...) and the body as builtins -> the next format's."""

UPCASTS: Mapping[int, Upcast] = {}
"""By the format that each reads. Format 1 is the only one so far: there is nothing to bring over."""


def upcast(kind: str, body: Any, version: int, today: int, upcasts: Mapping[int, Upcast]) -> Any:
    """The body of a frame with this version as today's format has it."""
    for at in range(version, today):
        body = upcasts[at](kind, body)
    return body
