"""The three answers to "what became of this call?": done, not done, unknown.

A reconcile hook returns one of them. `NotDone` and `Unknown` may also be raised, in a hook or in a tool's
body: a tool that raises `NotDone` says that it certainly did not act, one that raises `Unknown` that it
cannot tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Done(Generic[R_co]):
    """It happened, and this is what the tool would have returned."""

    result: R_co


class NotDone(Exception):
    """It did not happen: it may be done again, with the same key. The message is kept as evidence."""


class Unknown(Exception):
    """It cannot be told yet. The message is kept as evidence."""
