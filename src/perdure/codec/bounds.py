"""What `Annotated` says about a type beyond the type: a description, limits.

Understands plain strings, msgspec's Meta, and the limits that pydantic's Field and annotated-types share, by
the names of their attributes. Limits are part of the JSON schema and are enforced on data that comes from
outside (a model's arguments); stored data was accepted once and is not judged again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from perdure.codec.form import Book, Form, Mismatch, Schema
from perdure.codec.naming import found

_LIMITS: dict[str, tuple[str, ...]] = {
    "ge": ("minimum",),
    "gt": ("exclusiveMinimum",),
    "le": ("maximum",),
    "lt": ("exclusiveMaximum",),
    "multiple_of": ("multipleOf",),
    "min_length": ("minLength", "minItems"),
    "max_length": ("maxLength", "maxItems"),
    "pattern": ("pattern",),
}


def annotated(inner: Form, metadata: Iterable[Any], *, lax: bool) -> Form:
    """The form with what its metadata adds; the form itself when that is nothing."""
    limits: dict[str, Any] = {}
    extra: Schema = {}
    for mark in _flat(metadata):
        if isinstance(mark, str):
            extra["description"] = mark
            continue
        for name in ("title", "description", "examples"):
            if getattr(mark, name, None) and not callable(getattr(mark, name)):
                extra[name] = getattr(mark, name)
        for name in _LIMITS:
            if getattr(mark, name, None) is not None:
                limits[name] = getattr(mark, name)
    return Bounded(inner, limits, extra, lax=lax) if limits or extra else inner


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    for mark in metadata:
        yield mark
        yield from getattr(mark, "metadata", None) or ()


class Bounded(Form):
    """A form with a description and limits."""

    def __init__(self, inner: Form, limits: dict[str, Any], extra: Schema, *, lax: bool) -> None:
        self._inner = inner
        self._limits = limits if lax else {}
        self._told = limits
        self._extra = extra
        self.name = inner.name
        self.takes = inner.takes

    def restore(self, plain: Any) -> Any:
        made = self._inner.restore(plain)
        for name, limit in self._limits.items():
            if not _within(name, limit, made):
                raise Mismatch(f"{self.name} with {name} {limit}", found(plain))
        return made

    def wrote(self, plain: Any) -> bool:
        return self._inner.wrote(plain)

    def schema(self, book: Book) -> Schema:
        schema = self._inner.schema(book)
        lists = schema.get("type") == "array"
        told = {_LIMITS[name][-1 if lists else 0]: limit for name, limit in self._told.items()}
        return {**schema, **told, **self._extra}


def _within(name: str, limit: Any, value: Any) -> bool:
    if value is None:
        return True
    match name:
        case "ge":
            return bool(value >= limit)
        case "gt":
            return bool(value > limit)
        case "le":
            return bool(value <= limit)
        case "lt":
            return bool(value < limit)
        case "multiple_of":
            return bool(value % limit == 0)
        case "min_length":
            return bool(len(value) >= limit)
        case "max_length":
            return bool(len(value) <= limit)
        case _:
            return re.search(limit, value) is not None
