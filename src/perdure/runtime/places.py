"""Where in a state of a declared type a list may be kept item by item, without restoring what is around it.

That is so below records and dicts that are nothing but their parts: a class whose own code makes one part
of another when it is built (`__post_init__`, a validator) is restored whole. Knows types only, never
values; whatever it does not know is restored whole, which is slower and always right.
"""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Final, NewType, Union, get_args, get_origin

import msgspec

from perdure.codec.hints import field_types
from perdure.codec.record import is_model, is_root_model

_LISTS = (list, abc.MutableSequence, abc.Sequence, abc.Collection, abc.Iterable, abc.Reversible)
_DICTS = (dict, abc.Mapping, abc.MutableMapping)


class Places:
    """What may be inside a value. `lists`: a list here is kept item by item; `kind`: records of just this
    class, or dicts, are kept part by part.
    """

    __slots__ = ("_part", "kind", "lists")

    def __init__(
        self, *, lists: bool = False, kind: type | None = None, part: Callable[[str], Places] | None = None
    ) -> None:
        self.lists = lists
        self.kind = kind
        self._part = part

    def part(self, name: str) -> Places:
        """What may be inside the part of this name."""
        return WHOLE if self._part is None else self._part(name)


WHOLE: Final = Places()
"""Nothing: values are restored whole."""

LIST: Final = Places(lists=True)
"""A list; its elements are restored whole."""

ANYTHING: Final[Places] = Places(lists=True, kind=dict, part=lambda name: ANYTHING)
"""Plain data of undeclared type."""


def places_in(tp: Any, *, judged: bool = False) -> Places:
    """The places inside values of a declared type. `judged`: pydantic builds them, and what an annotation
    adds to a list's type may be a judgement of the whole list.
    """
    try:
        return _places(tp, judged)
    except TypeError:  # a type that cannot be hashed
        return WHOLE


@lru_cache(maxsize=1024)
def _places(tp: Any, judged: bool) -> Places:
    if tp is Any or tp is object:
        return ANYTHING
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        return WHOLE if judged else places_in(args[0])
    if origin is Union or origin is types.UnionType:
        kinds = [arg for arg in args if arg is not type(None)]
        return places_in(kinds[0], judged=judged) if len(kinds) == 1 else WHOLE
    if isinstance(tp, NewType):
        return places_in(tp.__supertype__, judged=judged)
    kind = tp if origin is None else origin
    if kind in _LISTS:
        return LIST
    if kind in _DICTS:
        item = places_in(args[1], judged=judged) if len(args) == 2 else ANYTHING
        return Places(kind=dict, part=lambda name: item)
    return _of_class(kind, args, judged) if isinstance(kind, type) else WHOLE


def _of_class(kind: type, args: tuple[Any, ...], judged: bool) -> Places:
    if is_model(kind):
        return WHOLE if args or not _is_its_parts(kind) else Places(kind=kind, part=_model_parts(kind))
    if judged and hasattr(kind, "__get_pydantic_core_schema__"):
        return WHOLE
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__") and hasattr(kind, "__total__"):
        return Places(kind=dict, part=_parts(kind, args, ANYTHING, judged))
    record = dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
    if not record or hasattr(kind, "__post_init__") or (judged and hasattr(kind, "__pydantic_validator__")):
        return WHOLE
    return Places(kind=kind, part=_parts(kind, args, WHOLE, judged))


def _parts(kind: type, args: tuple[Any, ...], other: Places, judged: bool) -> Callable[[str], Places]:
    """The fields of a class, looked at when they are first asked for: a type may contain itself."""
    found: dict[str, Places] = {}
    types_of: dict[str, Any] = {}

    def part(name: str) -> Places:
        have = found.get(name)
        if have is None:
            if not types_of:
                types_of.update(field_types(kind, args))
            inside = places_in(_bare(types_of[name]), judged=judged) if name in types_of else other
            have = found[name] = inside
        return have

    return part


def _bare(tp: Any) -> Any:
    """A TypedDict's field without the words around its type."""
    while str(getattr(get_origin(tp), "_name", "")) in ("Required", "NotRequired", "ReadOnly"):
        tp = get_args(tp)[0]
    return tp


def _model_parts(kind: Any) -> Callable[[str], Places]:
    found: dict[str, Places] = {}

    def part(name: str) -> Places:
        have = found.get(name)
        if have is None:
            field = kind.model_fields.get(name)
            plain = field is not None and not field.metadata
            have = found[name] = places_in(field.annotation, judged=True) if plain else WHOLE
        return have

    return part


def _is_its_parts(kind: Any) -> bool:
    """A pydantic model that neither computes nor judges anything beyond the types of its fields."""
    decorators = kind.__pydantic_decorators__
    judges = ("validators", "field_validators", "root_validators", "model_validators")
    return not (
        is_root_model(kind)
        or any(getattr(decorators, name, None) for name in judges)
        or kind.__private_attributes__
        or kind.__pydantic_post_init__
        or kind.__pydantic_custom_init__
        or "__get_pydantic_core_schema__" in _own_names(kind)
        or "model_construct" in _own_names(kind)
    )


def _own_names(kind: type) -> set[str]:
    """The names that a model class and its bases define themselves, pydantic's own base apart."""
    return {name for cls in kind.__mro__ if cls.__module__ != "pydantic.main" for name in vars(cls)}
