"""Forms of types that choose among values or types: enums, literals, unions.

A union is never guessed: when data fits several of its types and would come back as different things, it is
refused.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from perdure.codec.form import Book, Form, Mismatch, Mode, Schema, immutable
from perdure.codec.naming import found, shown
from perdure.codec.plain import plain as lowered
from perdure.codec.record import record_items
from perdure.codec.value import encode
from perdure.errors import BadDeclaration, NotStorable


class Member(Form):
    """An enum: by the stored form of its members' values."""

    def __init__(self, kind: type[enum.Enum], mode: Mode) -> None:
        self.name = kind.__qualname__
        self._kind = kind
        self._lax = mode.lax
        self._flags = issubclass(kind, enum.Flag)
        self._table: dict[bytes, enum.Enum] = {}
        self._plain: list[Any] = []
        for member in kind:
            try:
                key = encode(member.value)
            except NotStorable as error:
                raise BadDeclaration(f"{member} has a value that cannot be stored: {error.what}") from None
            if key in self._table:
                raise BadDeclaration(f"{member} and {self._table[key]} are stored as the same value")
            self._table[key] = member
            self._plain.append(lowered(member.value))
        # Most enums are of text or numbers; those are found without encoding.
        self._quick = {
            (type(value), value): self._table[encode(value)] for value in self._plain if _simple(value)
        }
        self.takes = frozenset({int}) if self._flags else frozenset(type(value) for value in self._plain)

    def restore(self, plain: Any) -> Any:
        if _simple(plain):
            member = self._quick.get((type(plain), plain))
        else:
            member = self._table.get(encode(plain)) if type(plain) in (self.takes or ()) else None
        if member is not None:
            return member
        if self._lax or (self._flags and type(plain) is int):
            try:
                return self._kind(plain)
            except (ValueError, TypeError):
                pass  # told below, with the values that are allowed
        raise Mismatch(f"{self.name}, one of {_listed(self._plain)}", found(plain))

    def schema(self, book: Book) -> Schema:
        if self._flags:
            return {"type": "integer"}
        return _enum_schema(self._plain)


def _simple(value: object) -> bool:
    return type(value) is str or type(value) is int


def _listed(values: Iterable[Any]) -> str:
    text = ", ".join(shown(value) for value in values)
    return text if len(text) <= 120 else text[:117] + "..."


def _enum_schema(values: list[Any]) -> Schema:
    names = {str: "string", int: "integer", bool: "boolean", float: "number", type(None): "null"}
    kinds = {names.get(type(value)) for value in values}
    if None in kinds:
        return {}
    schema: Schema = {"enum": values}
    return {"type": kinds.pop(), **schema} if len(kinds) == 1 else schema


class Fixed(Form):
    """A Literal."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._plain = [lowered(value) for value in values]
        self._table: dict[bytes, Any] = {}
        for form, value in zip(self._plain, values, strict=True):
            other = self._table.setdefault(encode(form), value)
            if type(other) is not type(value):
                raise BadDeclaration(
                    f"the Literal's {other!r} and {value!r} are stored as the same value: name one of them"
                )
        self.takes = frozenset(type(form) for form in self._plain)
        self.name = f"one of {_listed(self._plain)}"

    def restore(self, plain: Any) -> Any:
        if type(plain) in self.takes:  # type: ignore[operator]
            key = encode(plain)
            if key in self._table:
                return self._table[key]
        return self.refuse(plain)

    def schema(self, book: Book) -> Schema:
        return _enum_schema(self._plain)


class Maybe(Form):
    """A type or None."""

    def __init__(self, inner: Form) -> None:
        self._restore = inner.restore
        self._inner = inner
        self.name = f"{inner.name} or None"
        self.takes = None if inner.takes is None else inner.takes | {type(None)}

    def restore(self, plain: Any) -> Any:
        return None if plain is None else self._restore(plain)

    def schema(self, book: Book) -> Schema:
        return {"anyOf": [self._inner.schema(book), {"type": "null"}]}


class Union(Form):
    """One of several types. `strict` is the same union for stored data, which JSON is tried against first."""

    def __init__(self, forms: list[Form], strict: Form | None = None) -> None:
        self._forms = forms
        self._strict = strict
        self.name = " or ".join(form.name for form in forms)
        kinds = [form.takes for form in forms]
        self.takes = (
            None if any(kind is None for kind in kinds) else frozenset().union(*(k for k in kinds if k))
        )
        self._by_kind: dict[type, list[Form]] = {}
        self._as_is: set[type] = set()

    def restore(self, plain: Any) -> Any:
        if self._strict is not None:
            return self._first(plain)
        kind = type(plain)
        if kind in self._as_is:
            return plain
        forms = self._by_kind.get(kind)
        if forms is None:
            forms = [form for form in self._forms if form.takes is None or kind in form.takes]
            self._by_kind[kind] = forms
            if forms and all(kind in immutable(form) for form in forms):
                self._as_is.add(kind)  # int | float: whichever it is, it stays what it is
        if len(forms) == 1:
            return forms[0].restore(plain)
        return self._only(forms, plain)

    def _only(self, forms: list[Form], plain: Any) -> Any:
        """The one way in which the data fits."""
        fits: list[tuple[Form, Any]] = []
        misses: list[Mismatch] = []
        for form in forms:
            try:
                fits.append((form, form.restore(plain)))
            except Mismatch as mismatch:
                misses.append(mismatch)
        if not fits:
            # Blame the type that got furthest, if one did.
            deep = [miss for miss in misses if miss.trail]
            raise deep[0] if len(deep) == 1 else Mismatch(self.name, found(plain))
        exact = [fit for fit in fits if fit[0].wrote(plain)]
        if exact:
            fits = exact
        first = fits[0][1]
        if all(alike(first, other) for _, other in fits[1:]):
            return first
        raise Mismatch(
            f"one of {self.name}",
            "data that fits "
            + " and ".join(form.name for form, _ in fits)
            + "; give them a Literal field that differs",
        )

    def _first(self, plain: Any) -> Any:
        """JSON: exactly if possible, else the first type that takes it."""
        assert self._strict is not None
        try:
            return self._strict.restore(plain)
        except Mismatch as exact:
            for form in self._forms:
                try:
                    return form.restore(plain)
                except Mismatch:
                    continue  # the next one may take it; if none does, the exact reading's reason is told
            raise exact from None

    def schema(self, book: Book) -> Schema:
        return {"anyOf": [form.schema(book) for form in self._forms]}


def alike(one: Any, other: Any) -> bool:
    """Whether two restored values that have the same plain form are the same thing, types included."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True)
        return all(alike(a[0], b[0]) and alike(a[1], b[1]) for a, b in pairs)
    if isinstance(one, list | tuple):
        return all(alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, set | frozenset):
        return {(type(a), a) for a in one} == {(type(b), b) for b in other}
    fields, others = record_items(one), record_items(other)
    if fields is not None and others is not None:
        return all(alike(a[1], b[1]) for a, b in zip(fields, others, strict=True))
    return encode(one) == encode(other)
