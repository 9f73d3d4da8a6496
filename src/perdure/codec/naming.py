"""How messages name a place in a value, a type, and a value itself.

Shows little of a value, for it may be private, and never runs a user's `__repr__`.
"""

from __future__ import annotations

import reprlib
from typing import Final

SHOWN_MOST: Final = 40
"""Characters of a value that a message shows."""


def step_of(key: object) -> str:
    """How a key is written in a path: `.name`, `[3]`, `['a b']`."""
    if type(key) is str and key.isidentifier():
        return f".{key}"
    return f"[{shown(key)}]"


def type_name(value: object) -> str:
    """The name of a value's type, with its module unless that says nothing."""
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def shown(value: object) -> str:
    """A value, cut short; of a type that is not plain only the type's name."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if type(value) not in _PLAIN:
        return type_name(value)
    text = repr(value[:SHOWN_MOST] if isinstance(value, str | bytes) else value)
    return text if len(text) <= SHOWN_MOST else text[: SHOWN_MOST - 3] + "..."


MOST_BITS = 14_000
"""Integers of more bits take long to be written in decimals, and Python refuses some of them."""


class Short(reprlib.Repr):
    """Tells an enormous integer by its size."""

    def repr_int(self, x: int, level: int) -> str:
        """In decimals, if it has not too many."""
        bits = x.bit_length()
        return super().repr_int(x, level) if bits <= MOST_BITS else f"<integer of {bits} bits>"


def written(value: object, width: int) -> str:
    """A value as Python writes it, in at most `width` characters, whatever is in it."""
    try:
        text = repr(value)
    except ValueError:  # there is an integer in it that Python does not write
        text = Short().repr(value)
    return text[:width]


def found(plain: object) -> str:
    """What was found where something else was expected: the type, and the value if it is short."""
    if plain is None:
        return "None"
    kind = type(plain).__name__
    short = type(plain) in (bool, int, float) or (type(plain) is str and len(plain) <= SHOWN_MOST)
    return f"{kind} {shown(plain)}" if short else kind


_PLAIN = (type(None), bool, int, float, str, bytes)
