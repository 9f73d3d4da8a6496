"""Stored values as a person or a program may see them: JSON, short text, and text made harmless.

Stored text comes from models, tools and the outside. Before it reaches a terminal or a page, everything that
could move a cursor, hide or reorder characters is written out as an escape. This file knows plain data only;
it builds no object of a user's and imports nothing that a stored value names.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from perdure.codec.naming import MOST_BITS
from perdure.codec.redaction import of_sealed, redacted
from perdure.codec.sealed import Sealed
from perdure.codec.secret import Secret

SAFE_INTEGER = 1 << 53
"""Integers beyond this lose digits in many JSON readers, so they are written as text."""

_HIDDEN = frozenset(
    {0x061C, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060, 0xFEFF, 0xFFF9, 0xFFFA, 0xFFFB}
    | set(range(0x202A, 0x202F))
    | set(range(0x2066, 0x206A))
)
"""Characters that reorder, break or hide text without being seen."""


def clean(text: str) -> str:
    """The text in one line; control, bidirectional, invisible and unpaired characters written as escapes."""
    text = redacted(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _shown(character: str) -> str:
    point = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    if point < 0x20 or 0x7F <= point < 0xA0:
        return f"\\x{point:02x}"
    if point in _HIDDEN or 0xD800 <= point < 0xE000:
        return f"\\u{point:04x}"
    if 0xE0000 <= point < 0xE0080:
        return f"\\U{point:08x}"
    return character


def lines(text: str) -> list[str]:
    """The text's lines, each made harmless on its own."""
    return [clean(line) for line in text.replace("\r\n", "\n").split("\n")]


def jsonable(value: Any) -> Any:
    """The value in JSON's own types.

    What JSON cannot say is written as an object with one key that starts with `$`: `$bytes` (base64),
    `$datetime`, `$date`, `$time`, `$seconds`, `$decimal`, `$uuid`, `$complex`, `$path`, `$int`, `$float`,
    `$set`, `$text` (text with unpaired surrogates, as escapes), `$pairs` (a mapping whose keys are not all
    text) and `$other`. A tuple is a list.
    """
    match value:
        case None | bool():
            return value
        case str():
            return _json_text(redacted(value))
        case int():
            return value if -SAFE_INTEGER < value < SAFE_INTEGER else {"$int": digits(value)}
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case bytes() | bytearray() | memoryview():
            return {"$bytes": base64.b64encode(bytes(value)).decode("ascii")}
        case Mapping():
            return _json_mapping(value)
        case list() | tuple():
            return [jsonable(item) for item in value]
        case set() | frozenset():
            return {"$set": [jsonable(item) for item in sorted(value, key=repr)]}
        case _:
            return _json_scalar(value)


def digits(value: int) -> str:
    """An integer as text: in decimals, or in hexadecimal if it has more of them than Python writes."""
    return str(value) if value.bit_length() <= MOST_BITS else hex(value)


def _json_text(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"$text": text.encode("ascii", "backslashreplace").decode("ascii")}
    return text


def _json_mapping(value: Mapping[Any, Any]) -> Any:
    ours = len(value) == 1 and str(next(iter(value))).startswith(
        "$"
    )  # must not be taken for one of the above
    if not ours and all(type(key) is str and isinstance(_json_text(key), str) for key in value):
        return {key: jsonable(item) for key, item in value.items()}
    return {"$pairs": [[jsonable(key), jsonable(item)] for key, item in value.items()]}


def _json_scalar(value: Any) -> Any:
    match value:
        case dt.datetime():
            return {"$datetime": value.isoformat()}
        case dt.date():
            return {"$date": value.isoformat()}
        case dt.time():
            return {"$time": value.isoformat()}
        case dt.timedelta():
            return {"$seconds": value.total_seconds()}
        case Decimal():
            return {"$decimal": str(value)}
        case UUID():
            return {"$uuid": str(value)}
        case complex():
            return {"$complex": [jsonable(value.real), jsonable(value.imag)]}
        case PurePath():
            return {"$path": jsonable(str(value))}
        case Secret():
            return str(value)
        case Sealed():
            return jsonable(of_sealed(value))
        case _:
            return {"$other": type(value).__name__}


def brief(value: Any, width: int = 60) -> str:
    """The value in one harmless line of at most `width` characters; reads no more of it than fits."""
    text = ""
    for part in _parts(value, width, depth=0):
        text += part
        if len(text) > width:
            return text[: max(width - 1, 0)] + "…"
    return text


def quoted(value: Any, width: int = 60) -> str:
    """The same for a value between others: text stands in quotes."""
    return brief([value], width + 2)[1:].removesuffix("]")


def _parts(value: Any, width: int, depth: int) -> Iterator[str]:
    match value:
        case str():
            yield clean(value[: width + 1]) if depth == 0 else '"' + clean(value[: width + 1]) + '"'
        case None:
            yield "none"
        case bool():
            yield "true" if value else "false"
        case bytes() | bytearray() | memoryview():
            yield f"<{len(value)} bytes>"
        case Mapping():
            yield "{"
            yield from _items(value, width, depth)
            yield "}"
        case list() | tuple() | set() | frozenset():
            yield "["
            for index, item in enumerate(value):
                yield ", " if index else ""
                yield from _parts(item, width, depth + 1)
            yield "]"
        case int() | float() | complex() | Decimal() | UUID():
            yield _number(value)
        case PurePath():
            yield clean(str(value))
        case dt.datetime() | dt.date() | dt.time():
            yield value.isoformat()
        case dt.timedelta():
            yield f"{value.total_seconds():g} s"
        case Secret():
            yield clean(str(value))
        case Sealed():
            yield brief(of_sealed(value), width)
        case _:
            yield f"<{clean(type(value).__name__)}>"


def _number(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 400:
        return f"<integer of {value.bit_length()} bits>"
    return str(value)


def _items(value: Mapping[Any, Any], width: int, depth: int) -> Iterator[str]:
    for index, (key, item) in enumerate(value.items()):
        yield ", " if index else ""
        yield clean(key[: width + 1]) if isinstance(key, str) else brief(key, width)
        yield ": "
        yield from _parts(item, width, depth + 1)
