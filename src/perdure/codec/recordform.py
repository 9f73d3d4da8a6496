"""Forms of records: dataclass, msgspec Struct, NamedTuple, TypedDict.

Instances are made past the class's own `__init__`: what was stored is what comes back. A dataclass's
`__post_init__` runs (it may make attributes that are no fields) and its fields are then set once more. A
field that stored data lacks takes its default; a stored field that the class lacks is a mismatch, for
dropping it would lose data.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from perdure.codec.form import Book, Form, Mismatch, Mode, Row, Schema, fresh, immutable
from perdure.codec.naming import found, step_of
from perdure.codec.plain import plain as lowered
from perdure.codec.record import struct_tag
from perdure.errors import KeyMissing, NotStorable


class Field(NamedTuple):
    """One field. `default`: makes the value of a missing field; None when it must be there."""

    name: str
    form: Form
    default: Callable[[], Any] | None


class Record(Form):
    """What the records have in common: fields by name in a dict."""

    defined = True

    def __init__(self, kind: type, fields: Iterable[Field], mode: Mode) -> None:
        self.name = kind.__qualname__
        self.kind = kind
        self.fields = tuple(fields)
        self._rows = tuple(
            (field.name, immutable(field.form), field.form.restore, field.default) for field in self.fields
        )
        self._names = frozenset(field.name for field in self.fields)
        # Where no field has anything to restore, the stored dict has the values as they are.
        self._order = tuple(field.name for field in self.fields)
        self._flat = tuple(kinds for _, kinds, _, _ in self._rows)
        self._rows_seen: dict[tuple[type, ...], bool] = {}
        self._hashed = mode.hashed and not mode.lax
        self.takes = frozenset({tuple if self._hashed else dict})

    def restore(self, plain: Any) -> Any:
        if type(plain) is dict and tuple(plain) == self._order:
            row = tuple(map(type, plain.values()))
            flat = self._rows_seen.get(row)
            if flat is None:
                flat = self._rows_seen[row] = all(map(frozenset.__contains__, self._flat, row))
            if flat:
                return self.build(plain)
        return self.build(self.values(plain))

    def build(self, values: dict[str, Any]) -> Any:
        """The instance that has these field values. The dict is not its own."""
        raise NotImplementedError

    def wrote(self, plain: Any) -> bool:
        return self._opened(plain).keys() == self._names

    def values(self, plain: Any) -> dict[str, Any]:
        """The restored fields, defaults included."""
        if type(plain) is not dict:
            plain = self._opened(plain)
        out: dict[str, Any] = {}
        seen = 0
        name = ""
        try:
            for name, kinds, restore, default in self._rows:
                if name in plain:
                    item = plain[name]
                    out[name] = item if type(item) in kinds else restore(item)
                    seen += 1
                elif default is None:
                    raise Mismatch("a value", "missing")
                else:
                    out[name] = default()
        except Mismatch as mismatch:
            mismatch.trail.append(step_of(name))
            raise
        if seen != len(plain):
            self._unknown(plain)
        return out

    def _opened(self, plain: Any) -> dict[Any, Any]:
        """A record's fields, also where it was stored as a tuple of (field, value)."""
        if type(plain) is dict and not self._hashed:
            return plain
        if self._hashed and type(plain) is tuple:
            try:
                return dict(plain)
            except (ValueError, TypeError):
                pass  # a tuple of something else
        return self.refuse(plain)

    def _unknown(self, plain: dict[Any, Any]) -> None:
        names = [key for key in plain if key not in self._names]
        mismatch = Mismatch(
            f"a field of {self.name}", f"{found(plain[names[0]])}, which {self.name} has no field for"
        )
        mismatch.trail.append(step_of(names[0]))
        raise mismatch

    def schema(self, book: Book) -> Schema:
        return book.refer(self, self.kind.__name__, self._write)

    def _write(self, book: Book) -> Schema:
        properties: dict[str, Schema] = {}
        for field in self.fields:
            properties[field.name] = {**field.form.schema(book), **_default_schema(field)}
        return {
            **described(self.kind),
            "type": "object",
            "properties": properties,
            "required": [field.name for field in self.fields if field.default is None],
            "additionalProperties": False,
        }


def described(kind: type) -> Schema:
    """A class's own docstring as a schema's description; the one that `dataclass` makes says nothing new."""
    text = kind.__dict__.get("__doc__")
    if not text or (dataclasses.is_dataclass(kind) and text.startswith(f"{kind.__name__}(")):
        return {}
    return {"description": inspect.cleandoc(text)}


def _default_schema(field: Field) -> Schema:
    if field.default is None:
        return {}
    try:
        value = lowered(field.default())
    except KeyMissing:  # personal data
        return {}
    except NotStorable:
        return {}
    return {"default": value} if value is None or type(value) in (bool, int, float, str) else {}


class DataclassForm(Record):
    """A dataclass, frozen or not, with slots or not."""

    def __init__(self, kind: type, fields: Iterable[Field], mode: Mode) -> None:
        super().__init__(kind, fields, mode)
        pseudo: dict[str, Any] = getattr(kind, "__dataclass_fields__", {})
        wants = any(str(getattr(field, "_field_type", "")) == "_FIELD_INITVAR" for field in pseudo.values())
        # With InitVars its arguments are gone; everything that it made of them was stored as fields.
        self._post: Callable[[Any], None] | None = None if wants else getattr(kind, "__post_init__", None)

    def build(self, values: dict[str, Any]) -> Any:
        made: Any = object.__new__(self.kind)
        put = object.__setattr__
        for name, value in values.items():
            put(made, name, value)
        if self._post is not None:
            try:
                self._post(made)
            except Exception as error:  # the class's own check refuses the data
                raise Mismatch(self.name, f"data that its __post_init__ refuses: {error}") from error
            for name, value in values.items():
                put(made, name, value)
        return made


class StructForm(Record):
    """A msgspec Struct, told by its tag where it has one."""

    def __init__(self, kind: type[msgspec.Struct], fields: Iterable[Field], mode: Mode) -> None:
        super().__init__(kind, fields, mode)
        self._tag = struct_tag(kind)
        self._fix = hasattr(kind, "__post_init__")
        if self._tag is not None:
            self._names |= {self._tag[0]}

    def restore(self, plain: Any) -> Any:
        return super().restore(plain) if self._tag is None else self.build(self.values(plain))

    def values(self, plain: Any) -> dict[str, Any]:
        if self._tag is None:
            return super().values(plain)
        rest = dict(self._opened(plain))
        name, tag = self._tag
        have = rest.pop(name, None)
        if type(have) is not type(tag) or have != tag:
            raise Mismatch(f"{self.name} ({name} = {tag!r})", found(have))
        return super().values(tuple(rest.items()) if self._hashed else rest)

    def build(self, values: dict[str, Any]) -> Any:
        try:
            made = self.kind(**values)
        except Exception as error:  # only its __post_init__ can refuse: every field is given
            raise Mismatch(self.name, f"data that its __post_init__ refuses: {error}") from error
        if self._fix:
            for name, value in values.items():
                msgspec.structs.force_setattr(made, name, value)
        return made

    def _write(self, book: Book) -> Schema:
        schema = super()._write(book)
        if self._tag is not None:
            name, tag = self._tag
            schema["properties"] = {name: {"const": tag}, **schema["properties"]}
            schema["required"] = [name, *schema["required"]]
        return schema


class TypedDictForm(Record):
    """A TypedDict. Keys that it does not name are kept: such a type is open."""

    def __init__(self, kind: type, fields: Iterable[Field], mode: Mode) -> None:
        super().__init__(kind, fields, mode)
        self._table = {name: (kinds, restore) for name, kinds, restore, _ in self._rows}
        self._needed = frozenset(field.name for field in self.fields if field.default is None)

    def restore(self, plain: Any) -> Any:
        return self.values(plain)

    def values(self, plain: Any) -> dict[str, Any]:
        out: dict[Any, Any] = {}
        key: Any = None
        try:
            for key, item in self._opened(plain).items():
                row = self._table.get(key)
                if row is None:
                    out[key] = fresh(item)
                else:
                    out[key] = item if type(item) in row[0] else row[1](item)
        except Mismatch as mismatch:
            mismatch.trail.append(step_of(key))
            raise
        if not self._needed <= out.keys():
            missing = Mismatch("a value", "missing")
            missing.trail.append(step_of(min(self._needed - out.keys())))
            raise missing
        return out

    def _write(self, book: Book) -> Schema:
        schema = super()._write(book)
        del schema["additionalProperties"]
        return schema


class NamedTupleForm(Form):
    """A NamedTuple: stored as a tuple; trailing fields that are missing take their defaults."""

    def __init__(self, kind: Any, forms: list[Form], mode: Mode) -> None:
        self.name = kind.__qualname__
        self._kind = kind
        self._forms = forms
        self._mode = mode
        self._defaults: dict[str, Any] = kind._field_defaults
        self.takes = frozenset({tuple, list, dict} if mode.lax else {tuple})
        self._row = Row(forms, mode)

    def restore(self, plain: Any) -> Any:
        names: tuple[str, ...] = self._kind._fields
        if type(plain) is dict and self._mode.lax:
            plain = [plain[name] for name in names if name in plain]
        if type(plain) not in self.takes:  # type: ignore[operator]
            self.refuse(plain)
        missing = names[len(plain) :]
        if all(name in self._defaults for name in missing):
            parts = (
                Row(self._forms[: len(plain)], self._mode).parts(plain) if missing else self._row.parts(plain)
            )
            return tuple.__new__(self._kind, [*parts, *(self._defaults[name] for name in missing)])
        raise Mismatch(f"{self.name} of {len(names)} items", f"{len(plain)} items")

    def wrote(self, plain: Any) -> bool:
        return len(plain) == len(self._forms)

    def schema(self, book: Book) -> Schema:
        return self._row.schema(book)
