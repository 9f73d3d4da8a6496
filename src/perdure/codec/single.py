"""The types of single values: which plain types each accepts, its JSON schema, and how JSON writes it.

JSON has no datetime, Decimal, bytes or the like; the readers here take the usual text forms (ISO 8601,
base64).
"""

from __future__ import annotations

import base64
import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any

import msgspec

from perdure.codec.form import Exact, Form, Schema
from perdure.codec.plain import PATHS


def single(tp: Any, *, lax: bool) -> Form | None:
    """The form of a type of single values; None when it is none."""
    entry = _SINGLE.get(tp) if isinstance(tp, type) else None
    if entry is None:
        return None
    takes, schema, read = entry
    if lax and tp is not bool:  # true is a number to Python and not to JSON
        takes = tuple(kind for kind in takes if kind is not bool)
    name = "None" if tp is type(None) else tp.__name__
    return Exact(name, takes, schema, read if lax else None)


def _int(data: object) -> int:
    if isinstance(data, float) and data.is_integer():
        return int(data)
    raise ValueError


def _datetime(data: object) -> dt.datetime:
    return dt.datetime.fromisoformat(_text(data))


def _timedelta(data: object) -> dt.timedelta:
    if isinstance(data, int | float):
        return dt.timedelta(seconds=data)
    return msgspec.convert(_text(data), dt.timedelta)


def _decimal(data: object) -> Decimal:
    if isinstance(data, bool):
        raise ValueError
    return Decimal(data if isinstance(data, int) else repr(data) if isinstance(data, float) else _text(data))


def _text(data: object) -> str:
    if isinstance(data, str):
        return data
    raise ValueError


def _reader(kind: type[PurePath]) -> Callable[[Any], Any]:
    return lambda data: kind(_text(data))


_TEXT: Schema = {"type": "string"}

_SINGLE: dict[type, tuple[tuple[type, ...], Schema, Callable[[Any], Any] | None]] = {
    type(None): ((type(None),), {"type": "null"}, None),
    bool: ((bool,), {"type": "boolean"}, None),
    int: ((int, bool), {"type": "integer"}, _int),
    float: ((float, int, bool), {"type": "number"}, None),
    complex: ((complex, float, int, bool), _TEXT, lambda data: complex(_text(data))),
    str: ((str,), _TEXT, None),
    bytes: (
        (bytes,),
        {**_TEXT, "contentEncoding": "base64"},
        lambda data: base64.b64decode(_text(data), validate=True),
    ),
    dt.datetime: ((dt.datetime,), {**_TEXT, "format": "date-time"}, _datetime),
    dt.date: (
        (dt.date, dt.datetime),
        {**_TEXT, "format": "date"},
        lambda data: dt.date.fromisoformat(_text(data)),
    ),
    dt.time: ((dt.time,), {**_TEXT, "format": "time"}, lambda data: dt.time.fromisoformat(_text(data))),
    dt.timedelta: ((dt.timedelta,), {**_TEXT, "format": "duration"}, _timedelta),
    Decimal: ((Decimal,), {**_TEXT, "format": "decimal"}, _decimal),
    uuid.UUID: ((uuid.UUID,), {**_TEXT, "format": "uuid"}, lambda data: uuid.UUID(_text(data))),
    PurePath: (PATHS, _TEXT, lambda data: PurePath(_text(data))),
    Path: (
        (type(Path()),),
        _TEXT,
        lambda data: Path(_text(data)),
    ),
    **{kind: ((kind,), _TEXT, _reader(kind)) for kind in PATHS if not issubclass(kind, Path)},
}
