"""What a record type's fields are: dataclass, msgspec Struct, pydantic model.

pydantic is optional: its models are known by their marks and never imported here. Knows names and values of
fields; how a value is lowered, restored or described is told elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

Items: TypeAlias = Iterable[tuple[str, Any]]
"""Field names and values, in field order."""


def is_model(kind: type) -> bool:
    """A pydantic (v2) model class."""
    return (
        hasattr(kind, "__pydantic_validator__")
        and hasattr(kind, "model_fields")
        and hasattr(kind, "model_validate")
    )


def is_root_model(kind: type) -> bool:
    """A pydantic model whose only content is its root value."""
    return is_model(kind) and bool(getattr(kind, "__pydantic_root_model__", False))


def record_items(value: object) -> Items | None:
    """The fields of a record with their values, in field order; None when the value is no record."""
    kind: Any = type(value)
    reader = _reader(kind)
    return None if reader is None else reader(value)


@lru_cache(maxsize=4096)
def _reader(kind: type) -> Callable[[Any], Items] | None:
    if issubclass(kind, type):
        return None
    if issubclass(kind, msgspec.Struct):
        return _struct_reader(kind)
    if is_model(kind):
        return _model_reader(kind)
    if dataclasses.is_dataclass(kind):
        names = tuple(field.name for field in dataclasses.fields(kind))
        # A field that was deleted or never set has no value to keep; reading it back then says that it is
        # missing.
        return lambda value: [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    return None


def struct_tag(kind: type[msgspec.Struct]) -> tuple[str, str | int] | None:
    """The field name and value by which a tagged Struct is told from its siblings."""
    config = kind.__struct_config__
    if config.tag is None or config.tag_field is None:
        return None
    return str(config.tag_field), config.tag


def _struct_reader(kind: type[msgspec.Struct]) -> Callable[[Any], Items]:
    names = kind.__struct_fields__
    tag = struct_tag(kind)
    head = [] if tag is None else [tag]

    def read(value: Any) -> Items:
        items = [(name, getattr(value, name)) for name in names]
        return [*head, *((name, item) for name, item in items if item is not msgspec.UNSET)]

    return read


def _model_reader(kind: Any) -> Callable[[Any], Items]:
    names = tuple(kind.model_fields)

    def read(value: Any) -> Items:
        # The instance's own dict, past serializers and excluded fields: what is kept is the value itself.
        have = value.__dict__
        extra = getattr(value, "__pydantic_extra__", None) or {}
        return [*((name, have[name]) for name in names if name in have), *extra.items()]

    return read
