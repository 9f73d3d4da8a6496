"""Forms: a declared type, compiled. A form turns plain data into an instance and describes itself as JSON
schema.

Law of every form: it changes nothing. Lowering what `restore` gave yields the plain data it was given, plus
defaults of fields that were missing; data that does not fit is a Mismatch, never bent. What comes out shares
no container with what went in. A *lax* form reads JSON as a model or an HTTP caller writes it (an ISO string
for a datetime, a list for a tuple); a *hashed* form reads dict keys and set elements, where records are
tuples of (field, value).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, TypeAlias

from perdure.codec.naming import found, step_of
from perdure.codec.personal import opened
from perdure.codec.plain import ATOMS, CHUNK, flat_copy
from perdure.codec.sealed import Sealed

Schema: TypeAlias = dict[str, Any]
"""A JSON schema, or a part of one."""


class Mismatch(Exception):
    """Data does not fit. `trail` is the way to it, innermost first."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found
        self.trail: list[str] = []


@dataclass(frozen=True)
class Mode:
    """How a tree of forms reads: from stored data or from JSON, in a hashed place or not."""

    lax: bool = False
    hashed: bool = False


class Book:
    """The definitions that one JSON schema refers to."""

    def __init__(self) -> None:
        self.entries: dict[str, Schema] = {}
        self._names: dict[int, str] = {}
        self.uses: dict[str, int] = {}

    def refer(self, form: Form, title: str, write: Callable[[Book], Schema]) -> Schema:
        """A reference to the definition of a form, which is written once."""
        name = self._names.get(id(form))
        if name is None:
            title = re.sub(r"[^\w.\-\[\]]+", "_", title)
            name, number = title, 1
            while name in self.entries:
                number += 1
                name = f"{title}_{number}"
            self._names[id(form)] = name
            self.entries[name] = {}
            self.uses[name] = 0
            self.entries[name] = write(self)
        self.uses[name] += 1
        return {"$ref": f"#/$defs/{name}"}


class Form:
    """A compiled type. `takes`: the plain types it may accept (None: any); `name`: how messages call it."""

    takes: frozenset[type] | None = None
    name: str = "anything"
    defined: ClassVar[bool] = False
    """Whether its schema is a reference to a definition, so that it ends even if the type contains itself."""

    def restore(self, plain: Any) -> Any:
        """Plain data -> instance. Raises Mismatch."""
        raise NotImplementedError

    def schema(self, book: Book) -> Schema:
        """The JSON schema."""
        raise NotImplementedError

    def wrote(self, plain: Any) -> bool:
        """Whether today's code would write just this (a record with all of its fields); True when it cannot
        tell.
        """
        return True

    def refuse(self, plain: object) -> NoReturn:
        """Say that data does not fit."""
        raise Mismatch(self.name, found(plain))


def fresh(plain: Any) -> Any:
    """A deep copy of plain data."""
    kind = type(plain)
    if kind is dict:
        return {key: item if type(item) in ATOMS else fresh(item) for key, item in plain.items()}
    if kind is list:
        return _fresh_list(plain)
    if kind is tuple:
        return tuple([fresh(item) for item in plain])
    if kind is Sealed:
        return opened(plain)
    return set(plain) if kind is set else plain


def _fresh_list(plain: list[Any]) -> list[Any]:
    if len(plain) < CHUNK:
        return [item if type(item) in ATOMS else fresh(item) for item in plain]
    out: list[Any] = []
    for start in range(0, len(plain), CHUNK):
        items = plain[start : start + CHUNK]
        flat = flat_copy(items)
        out += [fresh(item) for item in items] if flat is None else flat
    return out


class Plain(Form):
    """Any: plain data as it is."""

    def restore(self, plain: Any) -> Any:
        return fresh(plain)

    def schema(self, book: Book) -> Schema:
        return {}


class Exact(Form):
    """A single value of one of some plain types; `read` makes it of what JSON has instead."""

    def __init__(
        self, name: str, takes: Iterable[type], schema: Schema, read: Callable[[Any], Any] | None = None
    ) -> None:
        self.name = name
        self.takes = self.kinds = frozenset(takes)
        self._schema = schema
        self._read = read
        if read is not None:
            self.takes = None

    def restore(self, plain: Any) -> Any:
        if type(plain) in self.kinds:
            return plain
        if self._read is None:
            self.refuse(plain)
        try:
            return self._read(plain)
        except (ValueError, TypeError, ArithmeticError):
            raise Mismatch(self.name, found(plain)) from None

    def schema(self, book: Book) -> Schema:
        return dict(self._schema)


def immutable(form: Form) -> frozenset[type]:
    """The plain types that a form gives back as they are, so that a caller may skip it."""
    return form.kinds if isinstance(form, Exact) else frozenset()


class Built(Form):
    """A subclass of an immutable builtin, made of its base past its own constructor."""

    def __init__(self, kind: type, base: type, inner: Form) -> None:
        self.name = kind.__qualname__
        self.takes = inner.takes
        self._kind, self._inner = kind, inner
        self._new: Callable[[type, Any], Any] = base.__new__

    def restore(self, plain: Any) -> Any:
        return self._new(self._kind, self._inner.restore(plain))

    def schema(self, book: Book) -> Schema:
        return self._inner.schema(book)


def each(restore: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Restore every item; a mismatch tells which one."""
    out: list[Any] = []
    try:
        for item in items:
            out.append(restore(item))  # noqa: PERF401  (its length tells where it went wrong)
    except Mismatch as mismatch:
        mismatch.trail.append(f"[{len(out)}]")
        raise
    return out


class Array(Form):
    """A list of one type, or (`tuples`) a tuple of any length, or either."""

    def __init__(self, item: Form, mode: Mode, *, lists: bool = True, tuples: bool = False) -> None:
        self._item = item.restore
        self._inner = item
        self._lists = lists
        takes = {list} if lists else set()
        self._kinds: set[type] = takes | ({tuple} if tuples else set())
        self.takes = frozenset({list, tuple} if mode.lax else self._kinds)
        self.name = f"{'list' if lists else 'tuple'}[{item.name}]"

    def restore(self, plain: Any) -> Any:
        if type(plain) not in self.takes:  # type: ignore[operator]
            self.refuse(plain)
        items = each(self._item, plain)
        if type(plain) in self._kinds:
            return tuple(items) if type(plain) is tuple else items
        return items if self._lists else tuple(items)

    def schema(self, book: Book) -> Schema:
        return {"type": "array", "items": self._inner.schema(book)}


class Row(Form):
    """A tuple of a fixed number of types."""

    def __init__(self, items: list[Form], mode: Mode) -> None:
        self._items = items
        self.takes = frozenset({list, tuple} if mode.lax else {tuple})
        self.name = f"tuple[{', '.join(item.name for item in items) or '()'}]"

    def restore(self, plain: Any) -> Any:
        return tuple(self.parts(plain))

    def parts(self, plain: Any) -> list[Any]:
        """The restored items."""
        if type(plain) not in self.takes:  # type: ignore[operator]
            self.refuse(plain)
        if len(plain) != len(self._items):
            raise Mismatch(f"{self.name} of {len(self._items)} items", f"{len(plain)} items")
        out: list[Any] = []
        try:
            for form, item in zip(self._items, plain, strict=True):
                out.append(form.restore(item))
        except Mismatch as mismatch:
            mismatch.trail.append(f"[{len(out)}]")
            raise
        return out

    def schema(self, book: Book) -> Schema:
        count = len(self._items)
        parts = [item.schema(book) for item in self._items]
        return {"type": "array", "prefixItems": parts, "minItems": count, "maxItems": count, "items": False}


class Members(Form):
    """A set or frozenset."""

    def __init__(self, item: Form, mode: Mode, kinds: tuple[type, ...]) -> None:
        self._item = item
        self._make = kinds[0]
        self._kinds = kinds
        self.takes = frozenset({*kinds, list} if mode.lax else kinds)
        self.name = f"{kinds[0].__name__}[{item.name}]"

    def restore(self, plain: Any) -> Any:
        if type(plain) not in self.takes:  # type: ignore[operator]
            self.refuse(plain)
        try:
            out = {self._item.restore(item) for item in plain}
        except TypeError:
            raise Mismatch(self.name, "an element that cannot be hashed") from None
        except Mismatch as mismatch:
            mismatch.trail.append("{}")
            raise
        make = type(plain) if type(plain) in self._kinds else self._make
        return out if make is set else make(out)

    def schema(self, book: Book) -> Schema:
        return {"type": "array", "items": self._item.schema(book), "uniqueItems": True}


class Entries(Form):
    """A dict. `make` turns restored entries into a declared subclass of dict."""

    def __init__(self, key: Form, item: Form, make: Callable[[dict[Any, Any]], Any] | None = None) -> None:
        self._key, self._item, self._make = key, item, make
        self._text_keys = isinstance(key, Exact) and key.takes == frozenset({str})
        self.takes = frozenset({dict})
        self.name = f"dict[{key.name}, {item.name}]"

    def restore(self, plain: Any) -> Any:
        if type(plain) is not dict:
            self.refuse(plain)
        restore, restore_key = self._item.restore, self._key.restore
        out: dict[Any, Any] = {}
        key: Any = None
        try:
            for key, item in plain.items():
                name = key if self._text_keys and type(key) is str else restore_key(key)
                out[name] = restore(item)
        except Mismatch as mismatch:
            mismatch.trail.append(step_of(key))
            raise
        if len(out) != len(plain):
            raise Mismatch(self.name, "two keys that become one")
        return out if self._make is None else self._make(out)

    def schema(self, book: Book) -> Schema:
        return {"type": "object", "additionalProperties": self._item.schema(book) or True}


class Loose(Form):
    """The key of a JSON object, where every key is text: also tried as the number that it spells."""

    def __init__(self, key: Form) -> None:
        self._inner = key
        self.name = key.name

    def restore(self, plain: Any) -> Any:
        try:
            return self._inner.restore(plain)
        except Mismatch:
            if type(plain) is not str or not plain.lstrip("-").isdecimal():
                raise
            return self._inner.restore(int(plain))

    def schema(self, book: Book) -> Schema:
        return {"type": "string"}


class Later(Form):
    """A type that is still being compiled, for types that contain themselves."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.form: Form | None = None

    def restore(self, plain: Any) -> Any:
        assert self.form is not None
        return self.form.restore(plain)

    def wrote(self, plain: Any) -> bool:
        assert self.form is not None
        return self.form.wrote(plain)

    def schema(self, book: Book) -> Schema:
        assert self.form is not None
        if self.form.defined:
            return self.form.schema(book)
        return book.refer(self, self.name, self.form.schema)
