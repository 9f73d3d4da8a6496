"""The form of a pydantic model (v2). pydantic itself is never imported: a model class brings what is needed.

The model's own validation makes the instance, by field names. Because validation may drop or change data
(unknown fields, transforming validators), what it made is lowered again and compared with what was stored; a
difference is a mismatch, never other data. Models of SDKs that come with their own lenient `model_construct`
(a server's reply need not fit its declared type) are made by that when validation refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from perdure.codec.form import Book, Form, Mismatch, Mode, Schema, fresh
from perdure.codec.naming import found, step_of
from perdure.codec.plain import plain as lowered
from perdure.codec.record import is_root_model
from perdure.errors import NotStorable


class ModelForm(Form):
    """A pydantic model class, parameterised or not."""

    defined = True

    def __init__(self, kind: Any, mode: Mode) -> None:
        self.name = kind.__qualname__
        self._kind = kind
        self._mode = mode
        self._root = is_root_model(kind)
        self._construct = _own_construct(kind)
        self._by_name: dict[str, Any] = {}
        if "by_name" in inspect.signature(kind.model_validate).parameters:
            self._by_name = {"by_name": True, "by_alias": mode.lax}
        self.takes = None if self._root else frozenset({tuple} if mode.hashed and not mode.lax else {dict})

    def wrote(self, plain: Any) -> bool:
        if self._root or self._kind.model_config.get("extra") == "allow":
            return True
        return set(dict(plain)) <= set(self._kind.model_fields)

    def restore(self, plain: Any) -> Any:
        if self._mode.hashed and not self._mode.lax and not self._root:
            plain = self._opened(plain)
        if type(plain) is not dict and not self._root:
            self.refuse(plain)
        mismatch: Mismatch | None
        # A field of type Any takes what it is given as it is; it must not take the caller's own containers.
        taken = plain if self._mode.lax else fresh(plain)
        try:
            made = self._kind.model_validate(taken, strict=False, **self._by_name)
        except Exception as error:  # noqa: BLE001  a validator may raise anything
            made, mismatch = None, _refusal(self.name, error)
        else:
            mismatch = None if self._mode.lax else self._changed(plain, made)
        if mismatch is None:
            return made
        if self._construct is not None and not self._root:
            made = self._construct(**(plain if self._mode.lax else fresh(plain)))
            if self._changed(plain, made) is None:
                return made
        raise mismatch

    def _opened(self, plain: Any) -> dict[str, Any]:
        try:
            return dict(plain)
        except (ValueError, TypeError):
            self.refuse(plain)

    def _changed(self, plain: Any, made: Any) -> Mismatch | None:
        """How the instance differs from the data that it was made of."""
        try:
            again = lowered(made)
        except NotStorable as error:
            return Mismatch(self.name, f"data that becomes something else: {error.what}")
        return _difference(plain, again, self.name)

    def schema(self, book: Book) -> Schema:
        return book.refer(self, self._kind.__name__, self._write)

    def _write(self, book: Book) -> Schema:
        schema: Schema = self._kind.model_json_schema(ref_template="#/$defs/{model}")
        for name, entry in schema.pop("$defs", {}).items():
            book.entries.setdefault(name, entry)
            book.uses[name] = 2
        return schema


def _own_construct(kind: Any) -> Callable[..., Any] | None:
    """The class's own `model_construct`, when it is not the one that every model has."""
    base = next(
        (cls for cls in kind.__mro__ if cls.__module__ == "pydantic.main" and cls.__name__ == "BaseModel"),
        None,
    )
    own = getattr(kind, "model_construct", None)
    if base is None or own is None or own.__func__ is base.model_construct.__func__:
        return None
    construct: Callable[..., Any] = own
    return construct


def _refusal(name: str, error: Exception) -> Mismatch:
    """A validation error's first finding, with its place."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return Mismatch(name, f"data that its validator refuses: {type(error).__name__}: {error}")
    first = errors(include_url=False)[0]
    mismatch = Mismatch(f"{name}: {first['msg']}", found(first.get("input")))
    mismatch.trail.extend(step_of(part) for part in reversed(first["loc"]))
    return mismatch


def _difference(plain: Any, again: Any, name: str) -> Mismatch | None:
    """The first place where data was lost or changed; more fields than before are defaults, and allowed."""
    if type(plain) is not type(again):
        # A number in a float field: 1 becomes 1.0, which is the same number.
        if type(plain) is int and type(again) is float and plain == again:
            return None
        return Mismatch(name, f"{found(plain)}, which it turns into {found(again)}")
    if type(plain) is dict:
        return _dict_difference(plain, again, name)
    if type(plain) in (list, tuple):
        if len(plain) != len(again):
            return Mismatch(name, f"{len(plain)} items, which it turns into {len(again)}")
        for place, (one, other) in enumerate(zip(plain, again, strict=True)):
            mismatch = _difference(one, other, name)
            if mismatch is not None:
                mismatch.trail.append(f"[{place}]")
                return mismatch
        return None
    same = plain == again or (plain != plain and again != again)
    return None if same else Mismatch(name, f"{found(plain)}, which it turns into {found(again)}")


def _dict_difference(plain: dict[Any, Any], again: dict[Any, Any], name: str) -> Mismatch | None:
    for key, item in plain.items():
        if key not in again:
            mismatch: Mismatch | None = Mismatch(name, f"{found(item)}, which it would lose")
        else:
            mismatch = _difference(item, again[key], name)
        if mismatch is not None:
            mismatch.trail.append(step_of(key))
            return mismatch
    return None
