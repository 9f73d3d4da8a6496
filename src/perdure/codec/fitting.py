"""Whether plain data fits a JSON schema that `Shape.schema` made: for a process that does not have the type.

It judges what a person or another program sends to a run whose code is elsewhere. What a schema cannot say (a
validator's own code) is judged where the code is. Values that JSON writes as text (dates, decimals, bytes)
fit in either form. A word of a schema that is not known here forbids nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from perdure.codec.naming import written
from perdure.codec.personal import opened
from perdure.codec.sealed import Sealed, vault_scope

_AS_TEXT = (datetime, date, time, timedelta, Decimal, UUID, bytes)

_SHOWN = 80


def misfit(schema: dict[str, Any], value: object, where: str = "$") -> str:
    """What does not fit, with its path: "$.size should be ..., and is ..."; empty if everything does."""
    return _judge(schema, value, where, schema.get("$defs", {}))


def _judge(schema: Any, value: object, where: str, defs: dict[str, Any]) -> str:
    if schema is True or not schema:
        return "" if schema is not False else f"{where} should not be there"
    if type(value) is Sealed or schema.get("x-personal"):
        return _personal(schema, value, where, defs)
    reference = str(schema.get("$ref", ""))
    if reference.startswith("#/$defs/"):
        return _judge(defs.get(reference.removeprefix("#/$defs/"), {}), value, where, defs)
    if "enum" in schema and not any(_same(value, allowed) for allowed in schema["enum"]):
        return _told(where, "one of " + ", ".join(written(one, _SHOWN) for one in schema["enum"]), value)
    if "const" in schema and not _same(value, schema["const"]):
        return _told(where, written(schema["const"], _SHOWN), value)
    for words in ("anyOf", "oneOf"):
        wrong = [_judge(one, value, where, defs) for one in schema.get(words, ())]
        if wrong and all(wrong):
            return wrong[0] if len(wrong) == 1 else _told(where, _union(schema[words], defs), value)
    kind = schema.get("type")
    if kind is not None and not _is_of(kind, schema, value):
        return _told(where, _KINDS.get(kind, str(kind)), value)
    return _inside(schema, value, where, defs) or _limits(schema, value, where)


def _personal(schema: dict[str, Any], value: Any, where: str, defs: dict[str, Any]) -> str:
    """Personal data by its own type, in words that have nothing of it; no key: whoever reads it judges it."""
    if not schema.get("x-personal"):
        return f"{where} is personal data, where the code waits for other"
    if type(value) is Sealed:
        if vault_scope.get() is None:
            return ""
        value = opened(value).reveal()
    wrong = _judge({name: word for name, word in schema.items() if name != "x-personal"}, value, where, defs)
    return f"{where} holds personal data of another type than the code waits for" if wrong else ""


def _same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _union(schemas: list[Any], defs: dict[str, Any]) -> str:
    names = [str(one.get("$ref", "")).rpartition("/")[2] or one.get("type") or "another" for one in schemas]
    return " or ".join(_KINDS.get(name, name) for name in names)


_KINDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "an object",
    "null": "nothing (null)",
}

_TESTS: dict[str, Callable[[Any], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float | Decimal) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list | tuple | set | frozenset),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _is_of(kind: Any, schema: dict[str, Any], value: object) -> bool:
    if isinstance(kind, list):
        return any(_is_of(one, schema, value) for one in kind)
    if kind == "string":
        other = "format" in schema or "contentEncoding" in schema
        return isinstance(value, str) or (other and isinstance(value, _AS_TEXT))
    return _TESTS[kind](value) if kind in _TESTS else True


def _inside(schema: dict[str, Any], value: object, where: str, defs: dict[str, Any]) -> str:
    if isinstance(value, dict):
        return _fields(schema, value, where, defs)
    if isinstance(value, list | tuple):
        first = schema.get("prefixItems", [])
        for at, item in enumerate(value):
            wanted = first[at] if at < len(first) else schema.get("items", True)
            if wrong := _judge(wanted, item, f"{where}[{at}]", defs):
                return wrong
    return ""


def _fields(schema: dict[str, Any], value: dict[Any, Any], where: str, defs: dict[str, Any]) -> str:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where}.{name} is missing"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, item in value.items():
        if name not in known and others is False:
            return f"{where}.{name} is not known; known are: {', '.join(known) or 'none'}"
        if wrong := _judge(known.get(name, others), item, f"{where}.{name}", defs):
            return wrong
    return ""


def _limits(schema: dict[str, Any], value: Any, where: str) -> str:
    for word, (text, holds) in _LIMITS.items():
        limit = schema.get(word)
        if isinstance(limit, int | float) and _breaks(holds, value, limit):
            return _told(where, text.format(limit), value)
    return ""


def _breaks(holds: Callable[[Any, Any], bool], value: Any, limit: Any) -> bool:
    try:
        return not holds(value, limit)
    except TypeError:  # the limit is of another kind of value
        return False


_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least {}", lambda value, limit: value >= limit),
    "maximum": ("at most {}", lambda value, limit: value <= limit),
    "exclusiveMinimum": ("more than {}", lambda value, limit: value > limit),
    "exclusiveMaximum": ("less than {}", lambda value, limit: value < limit),
    "minLength": ("of {} characters at least", lambda value, limit: len(value) >= limit),
    "maxLength": ("of {} characters at most", lambda value, limit: len(value) <= limit),
    "minItems": ("of {} items at least", lambda value, limit: len(value) >= limit),
    "maxItems": ("of {} items at most", lambda value, limit: len(value) <= limit),
}


def _told(where: str, expected: str, value: object) -> str:
    shown = written(value, _SHOWN + 1)
    return f"{where} should be {expected}, and is {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}"
