"""How a public name is called, as docs/api.md writes it: from `inspect.signature`, without module names.

Options that are taken by a TypedDict (`**options: Unpack[...]`) are written out one by one.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any, get_args

WIDTH = 100
"""A signature that is longer is written with one parameter a line."""

WHOLE = ("Agent", "Runtime")
"""Classes whose public methods are listed too."""

HANDED: dict[str, tuple[str, ...]] = {"Run": (), "Tool": ("reconcile", "replace", "undo")}
"""Classes of which users make no object: only methods are listed, these or (if none are named) all."""

_MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Za-z_])")
_UNPACKED = re.compile(r"Unpack\[(\w+)\]")


def described(name: str, thing: Any) -> str:
    """The lines that docs/api.md has for this name."""
    return "\n".join(_described(name, thing))


def _described(name: str, thing: Any) -> Iterator[str]:
    if isinstance(thing, enum.Enum):
        yield f"{name}: {type(thing).__name__}"
        return
    if not inspect.isclass(thing) and not inspect.isroutine(thing):
        yield f"{name} = {' | '.join(_text(str(one)) for one in get_args(thing))}"
        return
    if name not in HANDED:
        yield _call(name, thing)
    if name in (*WHOLE, *HANDED):
        for member in sorted(dir(thing)):
            found = inspect.getattr_static(thing, member)
            if HANDED.get(name) and member not in HANDED[name]:
                continue
            if member.startswith("_") or not (inspect.isfunction(found) or isinstance(found, classmethod)):
                continue
            yield _call(f"{name}.{member}", found.__func__ if isinstance(found, classmethod) else found)


def _call(name: str, thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except ValueError:  # an exception that is built as Python builds exceptions
        return f"{name}(*args: object)"
    parts = list(_parameters(thing, signature))
    gives = signature.return_annotation
    known = inspect.isclass(thing) or gives is inspect.Signature.empty
    end = ")" if known else f") -> {_annotation(gives)}"
    begin = "async " if inspect.iscoroutinefunction(thing) else ""
    line = f"{begin}{name}({', '.join(parts)}{end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{begin}{name}(", *(f"    {part}," for part in parts), end])


def _parameters(thing: Any, signature: inspect.Signature) -> Iterator[str]:
    kind = inspect.Parameter
    starred = False
    parameters = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    for index, one in enumerate(parameters):
        if one.kind is kind.KEYWORD_ONLY and not starred:
            yield "*"
            starred = True
        annotation = "" if one.annotation is kind.empty else f": {_annotation(one.annotation)}"
        unpacked = _UNPACKED.search(annotation)
        if one.kind is kind.VAR_KEYWORD and unpacked:
            if not starred:
                yield "*"
            yield from _options(thing, unpacked[1])
        elif one.kind is kind.VAR_POSITIONAL and annotation == ": Never":
            yield "*"
            starred = True
        else:
            star = "*" if one.kind is kind.VAR_POSITIONAL else "**" if one.kind is kind.VAR_KEYWORD else ""
            starred = starred or star == "*"
            default = "" if one.default is kind.empty else f" = {_default(one.default)}"
            yield f"{star}{one.name}{annotation}{default}"
        after = parameters[index + 1].kind if index + 1 < len(parameters) else None
        if one.kind is kind.POSITIONAL_ONLY and after is not kind.POSITIONAL_ONLY:
            yield "/"


def _options(thing: Any, name: str) -> Iterator[str]:
    """The keys of a TypedDict, as keyword parameters that may be left out."""
    module = sys.modules[thing.__module__]
    found: Any = getattr(module, name)
    for key, annotation in found.__annotations__.items():
        text = getattr(annotation, "__forward_arg__", None) or annotation
        yield f"{key}: {_annotation(text)} = ..."


def _annotation(annotation: Any) -> str:
    return _text(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def _text(text: str) -> str:
    return _MODULES.sub("", text.replace("~", ""))


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    text = _text(repr(value)).replace("Ellipsis", "...")
    return "..." if text.startswith("<") or len(text) > 40 else text
