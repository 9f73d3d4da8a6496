"""What the annotations of a class say, with the parameters of generic classes filled in.

Knows how Python writes types; what a type means for stored data is told elsewhere.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Any, ForwardRef, TypeAlias, TypeVar, get_args, get_origin

from perdure.errors import BadDeclaration

Binding: TypeAlias = Mapping[Any, Any]
"""What type variables stand for."""


def field_types(kind: type, args: Sequence[Any] = ()) -> dict[str, Any]:
    """The annotations of a class and its bases by field name, type variables replaced by what they stand for.

    `args` are the arguments of a parameterised generic: `Box[int]` is `field_types(Box, (int,))`. Raises
    BadDeclaration for an annotation that cannot be resolved.
    """
    bindings = _bindings(kind, args)
    found: dict[str, Any] = {}
    for cls in reversed(kind.__mro__):
        if cls.__module__ != "builtins":
            binding = bindings.get(cls, {})
            found.update((name, filled(tp, binding)) for name, tp in _own(cls).items())
    return found


def filled(tp: Any, binding: Binding) -> Any:
    """A type with its type variables replaced; one that nothing is known of becomes its bound, its default or
    Any.
    """
    if isinstance(tp, TypeVar):
        if tp in binding:
            return binding[tp]
        default = getattr(tp, "__default__", None)
        if (
            default is not None
            and default is not getattr(typing, "NoDefault", None)
            and not _no_default(default)
        ):
            return default
        if tp.__constraints__:
            return typing.Union[tp.__constraints__]  # noqa: UP007
        return Any if tp.__bound__ is None else tp.__bound__
    parameters = getattr(tp, "__parameters__", ())
    if isinstance(tp, type) and not get_args(tp):
        return tp
    if parameters and get_args(tp):
        return tp[tuple(filled(parameter, binding) for parameter in parameters)]
    return tp


def _no_default(default: object) -> bool:
    # typing_extensions has its own mark for "no default".
    return type(default).__name__ == "NoDefaultType"


def _own(cls: type) -> dict[str, Any]:
    """The annotations that stand in the class itself, resolved."""
    try:
        hints = typing.get_type_hints(cls, localns=_local_names(cls), include_extras=True)
        return {name: hints[name] for name in inspect.get_annotations(cls) if name in hints}
    except NameError as error:
        raise BadDeclaration(
            f"an annotation of {cls.__qualname__} names {error.name!r}, which {cls.__module__} does not know",
            remedy="define the type at the top level of its module, so that its name can be found",
        ) from None
    except TypeError as error:
        raise BadDeclaration(f"an annotation of {cls.__qualname__} is not a type: {error}") from None


def _local_names(cls: type) -> dict[str, Any]:
    """What annotations may name and the module does not have: the class itself, `T` of `class Box[T]`."""
    names = {cls.__name__: cls}
    for base in reversed(cls.__mro__):
        names.update((each.__name__, each) for each in getattr(base, "__type_params__", ()))
    return names


def _bindings(kind: type, args: Sequence[Any]) -> dict[type, dict[Any, Any]]:
    """For each class of the MRO what its own type variables stand for."""
    out: dict[type, dict[Any, Any]] = {}

    def visit(cls: type, given: Sequence[Any]) -> None:
        parameters = getattr(cls, "__parameters__", ())
        known = dict(zip(parameters, given, strict=False))
        out.setdefault(cls, {}).update(known)
        for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
            origin = get_origin(base)
            if isinstance(origin, type) and origin is not typing.Generic:
                visit(origin, [filled(arg, known) for arg in get_args(base)])
            elif isinstance(base, type) and base is not object:
                visit(base, ())

    visit(kind, args)
    return out


def forward(tp: object) -> str | None:
    """The text of a type that was written as a string and never resolved."""
    if isinstance(tp, str):
        return tp
    return tp.__forward_arg__ if isinstance(tp, ForwardRef) else None
