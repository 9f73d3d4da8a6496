"""The forms of what is not stored as it is: a Secret by its name, personal data under its run's key.

Text that comes from outside, from a model above all, never becomes a Secret: whoever may name one would be
given its value by the tool that reveals it.
"""

from __future__ import annotations

from typing import Any

from perdure.codec.form import Book, Form, Mismatch, Mode, Schema
from perdure.codec.personal import Personal
from perdure.codec.sealed import Sealed, Seen, vault_here
from perdure.codec.secret import Secret
from perdure.codec.value import decode


class SecretForm(Form):
    """A Secret."""

    name = "Secret"

    def __init__(self, mode: Mode) -> None:
        self._lax = mode.lax
        self.takes = frozenset({Secret})

    def restore(self, plain: Any) -> Any:
        if type(plain) is not Secret:
            what = "a Secret, which only code can give" if self._lax else self.name
            raise Mismatch(what, type(plain).__name__)
        return plain

    def schema(self, book: Book) -> Schema:
        return {"not": {}, "description": "a secret: given by code, never by a caller"}


class PersonalForm(Form):
    """Personal data of one type. Errors tell of no value inside it."""

    def __init__(self, inner: Form, mode: Mode) -> None:
        self.name = f"Personal[{inner.name}]"
        self.takes = None if mode.lax else frozenset({Sealed})
        self._inner = inner
        self._lax = mode.lax
        Seen.personal = True

    def restore(self, plain: Any) -> Any:
        if type(plain) is Sealed:
            plain = decode(vault_here().unseal(plain))
        elif not self._lax:
            raise Mismatch(self.name, type(plain).__name__)
        try:
            return Personal(self._inner.restore(plain))
        except Mismatch as mismatch:
            told = Mismatch(f"{self.name}: {mismatch.expected}", "[personal]")
            told.trail = mismatch.trail
        raise told

    def schema(self, book: Book) -> Schema:
        return {**self._inner.schema(book), "x-personal": True}
