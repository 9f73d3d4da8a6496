"""Exceptions <-> plain data.

An exception is kept as its names, message, arguments, attributes and trace text. Reading it back rebuilds
only classes that the caller hands over, past their own constructors; anything else becomes a RemoteError
that tells the original. Nothing is ever imported by a stored name (law: what is stored is data, not code).
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final

from perdure.codec.plain import plain
from perdure.codec.redaction import without_secrets
from perdure.codec.secret import KNOWN
from perdure.codec.value import decode
from perdure.errors import Damaged, NotStorable, RemoteError

TRACE_MOST: Final = 16_384
"""Characters of a trace that are kept: the end, which names the error."""

MESSAGE_MOST: Final = 65_536
"""Characters of a message that are kept: the beginning."""


def encode_error(error: BaseException) -> dict[str, Any]:
    """The plain form of an exception; `encode` turns it into bytes.

    Values of secrets that this process knows are replaced by their marks, wherever they stand in it.
    `type` short name; `names` module and qualified name of the class and its bases, most derived first;
    `message`; `args` or None when they cannot be stored; `attributes` those that can be stored; `trace`.
    """
    told = _told(error)
    if KNOWN.forms:
        told = without_secrets(told)
    return told


def _told(error: BaseException) -> dict[str, Any]:
    return {
        "type": type(error).__qualname__,
        "names": [
            [kind.__module__, kind.__qualname__] for kind in type(error).__mro__[:-1] if _is_error(kind)
        ],
        "message": _message(error),
        "args": _args(error),
        "attributes": _attributes(error),
        "trace": _trace(error),
    }


def restore_error(stored: object, allowed: Sequence[type[BaseException]] = ()) -> BaseException:
    """The exception, if its class (else its nearest base) is among `allowed`; else a RemoteError that tells
    it.

    `stored` is what `encode_error` gave, or its value bytes. No `__init__` of the class runs. Raises Damaged.
    """
    if isinstance(stored, bytes):
        stored = decode(stored)
    fault = _checked(stored)
    for module, name in fault["names"]:
        for kind in allowed:
            if kind.__qualname__ == name and _same_module(kind.__module__, module):
                rebuilt = _rebuilt(kind, fault)
                if rebuilt is not None:
                    return rebuilt
    return RemoteError(
        f"{fault['type']}: {fault['message']}",
        type_name=fault["type"],
        message=fault["message"],
        trace=fault["trace"],
    )


def _is_error(kind: type) -> bool:
    return issubclass(kind, BaseException) and kind not in (BaseException, Exception)


def _message(error: BaseException) -> str:
    try:
        text = str.__str__(str(error))
    except Exception as failure:  # noqa: BLE001  a user's __str__ may do anything
        return f"(its text cannot be made: {type(failure).__qualname__})"
    return text[:MESSAGE_MOST]


def _args(error: BaseException) -> tuple[Any, ...] | None:
    args = error.args
    if isinstance(error, OSError) and len(args) == 2 and error.filename is not None:
        args = (*args, error.filename)  # which OSError takes as an argument and does not show as one
    try:
        return tuple(plain(list(args), where="$.args"))
    except NotStorable:
        return None


def _attributes(error: BaseException) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in list(vars(error).items()):
        try:
            kept[name] = plain(value, where=f"$.{name}")
        except NotStorable:
            continue  # such as a response object: the rest of the error is worth more than none of it
    return kept


def _trace(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except Exception as failure:  # noqa: BLE001  formatting calls the user's __str__ and __repr__
        return f"(its trace cannot be made: {type(failure).__qualname__})"
    return text if len(text) <= TRACE_MOST else "...\n" + text[-TRACE_MOST:]


def _checked(stored: object) -> dict[str, Any]:
    """The stored form, if it is one."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "type": str,
        "names": list,
        "message": str,
        "args": (tuple, type(None)),
        "attributes": dict,
        "trace": str,
    }
    if not isinstance(stored, Mapping) or set(stored) != set(kinds):
        raise Damaged("stored data is not an error")
    for name, kind in kinds.items():
        if not isinstance(stored[name], kind):
            raise Damaged(f"stored data is not an error: its {name} is a {type(stored[name]).__name__}")
    for pair in stored["names"]:
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
            raise Damaged("stored data is not an error: its names are not pairs")
    return dict(stored)


def _same_module(here: str, stored: str) -> bool:
    # A file that is run is __main__; the worker that imports the same file knows it by its name.
    return here == stored or "__main__" in (here, stored)


def _rebuilt(kind: type[BaseException], fault: dict[str, Any]) -> BaseException | None:
    args = (fault["message"],) if fault["args"] is None else fault["args"]
    try:
        error = kind.__new__(kind, *args)
        builtin: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        # Errors of the interpreter keep their fields (errno, filename) outside __dict__; their own __init__
        # sets them.
        builtin.__init__(error, *args)
        if not isinstance(error, OSError):
            error.args = args
        error.__dict__.update(fault["attributes"])
    except Exception:  # noqa: BLE001  a class that refuses its own arguments is told by the stand-in
        return None
    return error
