"""Declared types -> forms: which form serves which type. Types that cannot be stored are refused at
declaration.
"""

from __future__ import annotations

import collections
import collections.abc as abc
import dataclasses
import enum
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, NewType, TypeVar, get_args, get_origin

import msgspec

from perdure.codec.bounds import annotated
from perdure.codec.choice import Fixed, Maybe, Member, Union
from perdure.codec.form import Array, Built, Entries, Form, Later, Loose, Members, Mode, Plain, Row
from perdure.codec.hints import field_types, filled, forward
from perdure.codec.modelform import ModelForm
from perdure.codec.personal import Personal
from perdure.codec.record import is_model
from perdure.codec.recordform import DataclassForm, Field, NamedTupleForm, StructForm, TypedDictForm
from perdure.codec.secret import Secret
from perdure.codec.secretform import PersonalForm, SecretForm
from perdure.codec.single import single
from perdure.errors import BadDeclaration

_WRAPPERS = {"Required", "NotRequired", "ReadOnly", "Final"}
"""Words around a type, by name: typing_extensions has its own of some."""

_LISTS = {list, abc.MutableSequence}
_SEQUENCES = {abc.Sequence, abc.Collection, abc.Iterable, abc.Reversible}
_SETS: dict[Any, tuple[type, ...]] = {
    set: (set,),
    frozenset: (frozenset,),
    abc.MutableSet: (set,),
    abc.Set: (set, frozenset),
}
_DICTS = {dict, abc.Mapping, abc.MutableMapping}


class Compiler:
    """One compilation: forms by type and mode, so that a type that contains itself ends."""

    def __init__(self) -> None:
        self._done: dict[Any, Form] = {}
        self._aliases: dict[str, Any] = {}

    def form(self, tp: Any, mode: Mode) -> Form:
        """The form of a declared type. Raises BadDeclaration for a type that cannot be stored."""
        tp = self._aliases.get(forward(tp) or "", tp)
        try:
            have = self._done.get((tp, mode))
        except TypeError:  # unhashable metadata; such a type cannot contain itself
            return self._make(tp, mode)
        if have is not None:
            return have
        later = Later(getattr(tp, "__qualname__", str(tp)))
        self._done[tp, mode] = later
        later.form = self._make(tp, mode)
        self._done[tp, mode] = later.form
        return later.form

    def _make(self, tp: Any, mode: Mode) -> Form:
        if tp is Any or tp is object:
            return Plain()
        simple = single(type(None) if tp is None else tp, lax=mode.lax)
        if simple is not None:
            return simple
        origin, args = get_origin(tp), get_args(tp)
        if origin in (typing.Union, types.UnionType):
            return self._union(args, mode)
        if origin is Literal:
            return Fixed(args)
        if origin is typing.Annotated:
            return annotated(self.form(args[0], mode), args[1:], lax=mode.lax)
        if _word(origin) in _WRAPPERS:
            return self.form(args[0], mode)
        if isinstance(tp, NewType):
            return self.form(tp.__supertype__, mode)
        if isinstance(tp, TypeVar):
            return self.form(filled(tp, {}), mode)
        alias = origin if origin is not None else tp
        if hasattr(alias, "__value__") and hasattr(alias, "__type_params__"):  # `type X = ...`
            return self._alias(alias, args, mode)
        kind = origin if origin is not None else tp
        container = self._container(kind, args, mode)
        if container is not None:
            return container
        if isinstance(kind, type):
            made = self._class(kind, tp, args, mode)
            if made is not None:
                return made
        return self._refuse(tp)

    def _alias(self, alias: Any, args: tuple[Any, ...], mode: Mode) -> Form:
        """What an alias stands for; inside it its own name, as text, is the alias."""
        before = self._aliases
        self._aliases = {**before, alias.__name__: alias}
        try:
            binding = dict(zip(alias.__type_params__, args, strict=False))
            return self.form(filled(alias.__value__, binding), mode)
        finally:
            self._aliases = before

    def _refuse(self, tp: Any) -> typing.NoReturn:
        text = forward(tp)
        if text is not None:
            raise BadDeclaration(
                f"the type {text!r} is written as text and cannot be resolved here; name the type itself"
            )
        raise BadDeclaration(f"values of type {getattr(tp, '__qualname__', tp)} cannot be stored")

    def _container(self, kind: Any, args: tuple[Any, ...], mode: Mode) -> Form | None:
        inside = dataclasses.replace(mode, hashed=True)
        if kind in _LISTS:
            return Array(self._item(args, 0, mode), mode)
        if kind in _SEQUENCES:
            return Array(self._item(args, 0, mode), mode, tuples=True)
        if kind is tuple:
            return self._tuple(args, mode)
        if kind in _SETS:
            return Members(self._item(args, 0, inside), mode, _SETS[kind])
        if kind in _DICTS:
            return self._entries(args, mode, None)
        if kind is collections.OrderedDict:
            return self._entries(args, mode, collections.OrderedDict)
        if kind is collections.Counter:
            return self._entries((*args[:1], int) if args else (), mode, collections.Counter)
        if kind is collections.defaultdict:
            factory = _factory(args)
            return self._entries(args, mode, lambda entries: collections.defaultdict(factory, entries))
        return None

    def _item(self, args: tuple[Any, ...], place: int, mode: Mode) -> Form:
        return self.form(args[place] if place < len(args) else Any, mode)

    def _tuple(self, args: tuple[Any, ...], mode: Mode) -> Form:
        if not args or (len(args) == 2 and args[1] is Ellipsis):
            return Array(self._item(args, 0, mode), mode, lists=False, tuples=True)
        if args == ((),):
            args = ()
        return Row([self.form(arg, mode) for arg in args], mode)

    def _entries(
        self, args: tuple[Any, ...], mode: Mode, make: Callable[[dict[Any, Any]], Any] | None
    ) -> Form:
        key = self._item(args, 0, dataclasses.replace(mode, hashed=True))
        return Entries(Loose(key) if mode.lax else key, self._item(args, 1, mode), make)

    def _union(self, args: tuple[Any, ...], mode: Mode) -> Form:
        kinds = [arg for arg in args if arg not in (type(None), msgspec.UnsetType)]
        if len(kinds) == 1:
            inner = self.form(kinds[0], mode)
        else:
            forms = [self.form(kind, mode) for kind in kinds]
            strict = self._union(tuple(kinds), dataclasses.replace(mode, lax=False)) if mode.lax else None
            inner = Union(forms, strict)
        return Maybe(inner) if type(None) in args else inner

    # ------------------------------------------------------------------------------------------ classes

    def _class(self, kind: type, tp: Any, args: tuple[Any, ...], mode: Mode) -> Form | None:
        if kind is Secret:
            return SecretForm(mode)
        if kind is Personal:
            inside = dataclasses.replace(mode, hashed=False)
            return PersonalForm(self.form(args[0] if args else Any, inside), mode)
        if issubclass(kind, enum.Enum):
            return Member(kind, mode)
        if is_model(kind):
            return ModelForm(kind, mode)
        if _is_typed_dict(kind):
            return self._typed_dict(kind, args, mode)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            hints = field_types(kind, args)
            return NamedTupleForm(
                kind, [self.form(hints.get(name, Any), mode) for name in kind._fields], mode
            )
        builtin = issubclass(kind, (*_BUILT, *_FILLED, BaseException))
        if issubclass(kind, msgspec.Struct):
            return self._struct(kind, args, mode)
        if dataclasses.is_dataclass(kind) and not builtin:
            return self._dataclass(kind, args, mode)
        if dataclasses.is_dataclass(kind) or issubclass(kind, BaseException):
            return None
        return self._subclass(kind, args, mode)

    def _dataclass(self, kind: type, args: tuple[Any, ...], mode: Mode) -> Form:
        hints = field_types(kind, args)
        fields = []
        for field in dataclasses.fields(kind):
            default: Callable[[], Any] | None = None
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory
            elif field.default is not dataclasses.MISSING:
                default = _constant(field.default)
            fields.append(
                Field(field.name, self._field(kind, field.name, hints.get(field.name, Any), mode), default)
            )
        return DataclassForm(kind, fields, mode)

    def _struct(self, kind: type[msgspec.Struct], args: tuple[Any, ...], mode: Mode) -> Form:
        hints = field_types(kind, args)
        fields = []
        for field in msgspec.structs.fields(kind):
            default: Callable[[], Any] | None = None
            if field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory
            elif field.default is not msgspec.NODEFAULT:
                default = _constant(field.default)
            fields.append(
                Field(field.name, self._field(kind, field.name, hints.get(field.name, Any), mode), default)
            )
        return StructForm(kind, fields, mode)

    def _typed_dict(self, kind: Any, args: tuple[Any, ...], mode: Mode) -> Form:
        parameters = dict(zip(getattr(kind, "__parameters__", ()), args, strict=False))
        fields = []
        for name, tp in _typed_dict_hints(kind).items():
            optional = name in kind.__optional_keys__ or _word(get_origin(tp)) == "NotRequired"
            form = self._field(kind, name, filled(tp, parameters), mode)
            fields.append(Field(name, form, _constant(None) if optional else None))
        return TypedDictForm(kind, fields, mode)

    def _field(self, kind: type, name: str, tp: Any, mode: Mode) -> Form:
        try:
            return self.form(tp, mode)
        except BadDeclaration as error:
            if error.where is None:
                error.where = f"{kind.__qualname__}.{name}"
            raise

    def _subclass(self, kind: type, args: tuple[Any, ...], mode: Mode) -> Form | None:
        """A subclass of a builtin: its base's form, and then the class."""
        for base in _BUILT:
            if issubclass(kind, base):
                return Built(kind, base, self.form(base, mode))
        for base in _FILLED:
            if issubclass(kind, base):
                inner = self._base_form(kind, base, args, mode)
                return Filled(kind, base, inner)
        return None

    def _base_form(self, kind: type, base: type, args: tuple[Any, ...], mode: Mode) -> Form:
        given = dict(zip(getattr(kind, "__parameters__", ()), args, strict=False))
        for parent in getattr(kind, "__orig_bases__", ()):
            if get_origin(parent) in (base, *_DICTS):
                return self.form(filled(parent, given), mode)
        return self.form(base, mode)


_BUILT: tuple[type, ...] = (str, int, float, bytes)
_FILLED: tuple[type, ...] = (dict, list, set, frozenset, tuple)


class Filled(Form):
    """A subclass of a container: made empty past its own constructor, then filled."""

    def __init__(self, kind: type, base: type, inner: Form) -> None:
        self.name = kind.__qualname__
        self.takes = inner.takes
        self._kind, self._base, self._inner = kind, base, inner

    def restore(self, plain: Any) -> Any:
        items = self._inner.restore(plain)
        base: Any = self._base
        if base in (tuple, frozenset):
            return base.__new__(self._kind, items)
        made = base.__new__(self._kind)
        if base is list:
            list.extend(made, items)
        else:
            base.update(made, items)
        return made

    def schema(self, book: Any) -> dict[str, Any]:
        return self._inner.schema(book)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _word(origin: Any) -> str:
    return str(getattr(origin, "_name", None) or getattr(origin, "__name__", ""))


def _is_typed_dict(kind: type) -> bool:
    return issubclass(kind, dict) and hasattr(kind, "__required_keys__") and hasattr(kind, "__total__")


def _typed_dict_hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, localns={kind.__name__: kind}, include_extras=True)
    except NameError as error:
        raise BadDeclaration(
            f"an annotation of {kind.__qualname__} names {error.name!r}, "
            f"which {kind.__module__} does not know",
            remedy="define the type at the top level of its module, so that its name can be found",
        ) from None


def _factory(args: tuple[Any, ...]) -> Callable[[], Any]:
    """What a defaultdict makes for a missing key, when its declared value type tells."""
    kind = (get_origin(args[1]) or args[1]) if len(args) == 2 else None
    if kind in (list, dict, set, int, float, str, bool):
        factory: Callable[[], Any] = kind
        return factory
    raise BadDeclaration(
        "a defaultdict's factory is code and cannot be stored: declare defaultdict[K, V] with V list, dict, "
        "set, int, float, str or bool, or use a dict"
    )
