"""A declared type, compiled once: for the state, goals, arguments and results of an agent.

The front of the forms: it keeps compiled types, adds paths to what does not fit, and hands out JSON schemas.
It never judges data that no type was declared for.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any, Generic, TypeVar

from perdure.codec.compiler import Compiler
from perdure.codec.form import Book, Form, Mismatch, Mode
from perdure.codec.plain import plain
from perdure.errors import ShapeMismatch

T = TypeVar("T")

_STORED = Mode()
_JSON = Mode(lax=True)


class Shape(Generic[T]):
    """A declared type. Get one with `Shape.of`; equal types share one."""

    def __init__(self, tp: Any) -> None:
        self.type = tp
        self._form = Compiler().form(tp, _STORED)
        self._json: Form | None = None

    @staticmethod
    def of(tp: Any) -> Shape[Any]:
        """The shape of a type. Raises BadDeclaration (C102) for a type whose values cannot be stored."""
        try:
            return _shape(tp)
        except TypeError:  # a type that cannot be hashed, through its metadata
            return Shape(tp)

    def __repr__(self) -> str:
        return f"Shape({self._form.name})"

    def restore(self, data: object, *, where: str = "$") -> T:
        """Plain data -> an instance of the type, sharing no container with the data.

        Lowering the instance gives the same plain data again, plus defaults of missing fields. `where` is
        the path that messages start with. Raises ShapeMismatch (M301) with `path`, `expected` and `found`.
        """
        try:
            made: T = self._form.restore(data)
        except (Mismatch, RecursionError) as error:
            raise self._misfit(error, where) from error.__cause__
        return made

    def parse(self, data: object, *, where: str = "$") -> T:
        """JSON data as a model or an HTTP caller writes it -> an instance of the type.

        Like `restore`, and text stands for dates, decimals, bytes (base64) and the like, lists for tuples
        and sets. Limits that `Annotated` gives are enforced. Raises ShapeMismatch (M301).
        """
        if self._json is None:
            self._json = Compiler().form(self.type, _JSON)
        try:
            made: T = self._json.restore(data)
        except (Mismatch, RecursionError) as error:
            raise self._misfit(error, where) from error.__cause__
        return made

    def taken(self, given: object, *, where: str = "$") -> Any:
        """What a person gives for a value of the type, as plain data.

        Stored data stays as it is; else it is read as JSON, so that what the type declares as personal is
        sealed. Raises ShapeMismatch (M301).
        """
        try:
            self.restore(given, where=where)
        except ShapeMismatch:
            with suppress(ShapeMismatch):
                return plain(self.parse(given, where=where))
            raise
        return given

    def schema(self) -> dict[str, Any]:
        """The JSON schema (2020-12) of the JSON form that `parse` reads."""
        book = Book()
        schema = self._form.schema(book)
        name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
        if name and set(schema) == {"$ref"} and book.uses.get(name) == 1:
            schema = book.entries.pop(name)
        return {**schema, "$defs": book.entries} if book.entries else schema

    def _misfit(self, error: Mismatch | RecursionError, where: str) -> ShapeMismatch:
        """What is said of data that does not fit."""
        if isinstance(error, RecursionError):
            return ShapeMismatch(
                f"{where} is nested too deeply for the stack that is left",
                path=where,
                expected=self._form.name,
                found="data that is nested too deeply",
            )
        path = where + "".join(reversed(error.trail))
        return ShapeMismatch(
            f"{path} should be {error.expected}, and is {error.found}",
            path=path,
            expected=error.expected,
            found=error.found,
        )


@lru_cache(maxsize=1024)
def _shape(tp: Any) -> Shape[Any]:
    return Shape(tp)
