"""Two sides that should be the same and are not, in words for a person: where they differ, and what is there.

Pure; values are plain data, those of an end as they are stored. What is said of a value is bounded, whatever
its size, and shows the part of a long text in which the two differ.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.codec.naming import Short
from perdure.errors import said_by
from perdure.state.patch import same

WIDTH = 60
"""Characters of one value at most."""

MOST = 3
"""Places that are named; more are counted."""


class Sides(Struct, frozen=True):
    """What is recorded at a place of a step, and what the code does there now, in a few words each.

    `path`: the place, empty if it is the step as a whole. `words`: both in one sentence, if the usual one
    does not do. `digests`: of both calls, in hex, where what they ask for is no longer there to be shown.
    """

    path: str
    recorded: str
    now: str
    words: str = ""
    digests: tuple[str, str] = ("", "")

    @property
    def detail(self) -> str:
        """In one sentence."""
        return self.words or f"at {self.path} recorded {self.recorded}; the code asks for {self.now}"


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING: Any = _Nothing()
"""In place of a value where one side has none."""


def shown(value: Any, width: int = WIDTH) -> str:
    """The value, as Python would write it, in at most `width` characters."""
    short = Short()
    short.maxstring = short.maxother = short.maxlong = width
    short.maxlevel = 4
    text = " ".join(short.repr(value).split())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def error_words(error: Exception) -> str:
    """An error in one line: its type, and what it says."""
    return f"{type(error).__name__}: {' '.join(said_by(error).split())[:300]}"


def told_end(status: str, value: bytes) -> tuple[str, Any]:
    """How a run ended, as plain data that can be compared: where an error came from is no part of it."""
    plain = codec.decode(value)
    if status == "failed" and isinstance(plain, dict):
        plain = {name: part for name, part in plain.items() if name != "trace"}
    return status, plain


def same_end(one: tuple[str, bytes] | None, other: tuple[str, bytes] | None) -> bool:
    """Whether two executions of a step ended the run alike: status and value bytes each, or not at all."""
    return one == other or (one is not None and other is not None and told_end(*one) == told_end(*other))


def differences(one: Any, other: Any, at: str) -> list[tuple[str, Any, Any]]:
    """The places below `at` in which two values differ, with both values there."""
    if type(one) is dict and type(other) is dict:
        keys = [*one, *(key for key in other if key not in one)]
        pairs = [(f"[{key!r:.40}]", one.get(key, NOTHING), other.get(key, NOTHING)) for key in keys]
    elif type(one) in (list, tuple) and type(one) is type(other):
        longest = max(len(one), len(other))
        ones, others = ([*side, *[NOTHING] * (longest - len(side))] for side in (one, other))
        pairs = [
            (f"[{index}]", first, second)
            for index, (first, second) in enumerate(zip(ones, others, strict=True))
        ]
    else:
        return [] if same(one, other) else [(at, one, other)]
    below = [found for part, first, second in pairs for found in differences(first, second, at + part)]
    if not below and not same(one, other):  # the same parts in another order
        return [(at, one, other)]
    return below


def both(one: Any, other: Any) -> tuple[str, str]:
    """Two values that differ, each in a few words; of long texts the part in which they differ."""
    if isinstance(one, str) and isinstance(other, str) and max(len(one), len(other)) > WIDTH - 2:
        kept = next(
            (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
            min(len(one), len(other)),
        )
        return _part(one, kept), _part(other, kept)
    return shown(one), shown(other)


def _part(text: str, around: int) -> str:
    start = max(around - 20, 0)
    end = start + WIDTH - 4
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if end < len(text) else ''}"


def told(found: list[tuple[str, Any, Any]], first: str, second: str) -> str:
    """Places and both values of each: `cents first 5, second 6`, for the words of the two sides."""
    words = []
    for at, one, other in found[:MOST]:
        left, right = both(one, other)
        words.append(f"{at} {first} {left}, {second} {right}")
    more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
    return "; ".join(words) + more
