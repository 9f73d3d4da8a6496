"""The forms of what is not stored as it is: a Secret is stored by name.

Text that comes from outside, from a model above all, never becomes a Secret: whoever may name one would be
given its value by the tool that reveals it.
"""

from __future__ import annotations

from typing import Any

from perdure.codec.form import Book, Form, Mismatch, Mode, Schema
from perdure.codec.secret import Secret


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
