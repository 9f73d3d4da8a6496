"""What a record type's fields are: dataclass, msgspec Struct, pydantic model.

pydantic is optional: its models are known by their marks and never imported here. Knows names and values of
fields; how a value is lowered, restored or described is told elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

Items: TypeAlias = Iterable[tuple[str, Any]]
"""Field names and values, in field order."""

Reader: TypeAlias = Callable[[Any], Items]
"""Takes a record apart."""


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
    reader = record_reader(kind)
    return None if reader is None else reader(value)


@lru_cache(maxsize=4096)
def record_reader(kind: type) -> Reader | None:
    """How records of a class are taken apart; None when it is no record class."""
    if issubclass(kind, type):
        return None
    if issubclass(kind, msgspec.Struct):
        return _struct_reader(kind)
    if is_model(kind):
        return _model_reader(kind)
    return _dataclass_reader(kind) if dataclasses.is_dataclass(kind) else None


def _dataclass_reader(kind: type) -> Reader:
    names = tuple(field.name for field in dataclasses.fields(kind))
    fields = attrgetter(*names) if len(names) > 1 else None
    only = names[0] if len(names) == 1 else None

    def read(value: Any) -> Items:
        try:
            if fields is not None:
                return zip(names, fields(value))  # noqa: B905  (of one length; a keyword is dear here)
            return () if only is None else ((only, getattr(value, only)),)
        except AttributeError:
            # A field that was never set has no value to keep; reading back tells that it is missing.
            return [(name, getattr(value, name)) for name in names if hasattr(value, name)]

    return read


def struct_tag(kind: type[msgspec.Struct]) -> tuple[str, str | int] | None:
    """The field name and value by which a tagged Struct is told from its siblings."""
    config = kind.__struct_config__
    if config.tag is None or config.tag_field is None:
        return None
    return str(config.tag_field), config.tag


def _struct_reader(kind: type[msgspec.Struct]) -> Reader:
    names = kind.__struct_fields__
    tag = struct_tag(kind)
    unset = msgspec.UNSET

    def read(value: Any) -> Items:
        items = [(name, item) for name in names if (item := getattr(value, name)) is not unset]
        return items if tag is None else [tag, *items]

    return read


def _model_reader(kind: Any) -> Reader:
    names = tuple(kind.model_fields)

    def read(value: Any) -> Items:
        # The instance's own dict, past serializers and excluded fields: what is kept is the value itself. A
        # field that was never set and is None is left out and so unset again: servers tell the two apart.
        have = value.__dict__
        given = value.__pydantic_fields_set__
        items = [
            (name, have[name]) for name in names if name in have and (name in given or have[name] is not None)
        ]
        extra = value.__pydantic_extra__
        return [*items, *extra.items()] if extra else items

    return read
