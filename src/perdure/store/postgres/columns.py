"""Columns of a wide statement in PostgreSQL's own binary form of an array, each packed in one go.

The driver packs an array value by value, looking at the type of each; that was half of what the thread that
writes did. It knows four types and nothing of what is in a column; texts are those that PostgreSQL can hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

from psycopg import Connection
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEAD = Struct(">iiIii")  # dimensions, are there nulls, the type of a value, how many, the first index
_LENGTH = Struct(">i").pack
_NULL = _LENGTH(-1)
_EIGHT = _LENGTH(8)
_TRUTHS = (_LENGTH(1) + b"\0", _LENGTH(1) + b"\1")


class Column:
    """A packed array; `data` is what is sent."""

    __slots__ = ("data",)

    element = 0

    def __init__(self, count: int, parts: Iterable[bytes], *, nulls: bool = False) -> None:
        self.data = b"".join([_HEAD.pack(1 if count else 0, nulls, self.element, count, 1), *parts])
        if not count:
            self.data = self.data[:12]


class Texts(Column):
    """A text[]."""

    __slots__ = ()

    element = 25


class Bytes(Column):
    """A bytea[]."""

    __slots__ = ()

    element = 17


class Numbers(Column):
    """A bigint[]."""

    __slots__ = ()

    element = 20


class Truths(Column):
    """A boolean[]."""

    __slots__ = ()

    element = 16


def texts(values: Sequence[str | None]) -> Texts:
    """A column of texts, or of nulls."""
    known = [None if value is None else value.encode() for value in values]
    parts = [_NULL if value is None else _LENGTH(len(value)) + value for value in known]
    return Texts(len(parts), parts, nulls=None in known)


def binaries(values: Sequence[bytes]) -> Bytes:
    """A column of bytes."""
    parts = [part for value in values for part in (_LENGTH(len(value)), value)]
    return Bytes(len(values), parts)


def numbers(values: Sequence[int]) -> Numbers:
    """A column of integers of 64 bits."""
    return Numbers(len(values), [_EIGHT + value.to_bytes(8, "big", signed=True) for value in values])


def truths(values: Sequence[bool]) -> Truths:
    """A column of truth values."""
    return Truths(len(values), [_TRUTHS[value] for value in values])


def turned(rows: Sequence[tuple[Any, ...]], width: int) -> tuple[list[Any], ...]:
    """Rows as columns, which the driver packs."""
    return tuple([row[place] for row in rows] for place in range(width))


class _Packed(Dumper):
    """It is packed already."""

    format = Format.BINARY

    def dump(self, obj: Column) -> bytes:
        """What is sent."""
        return obj.data


class _OfTexts(_Packed):
    oid = 1009


class _OfBytes(_Packed):
    oid = 1001


class _OfNumbers(_Packed):
    oid = 1016


class _OfTruths(_Packed):
    oid = 1000


def teach(connection: Connection[Any]) -> None:
    """Let a connection send columns."""
    adapters = connection.adapters
    for kind, dumper in ((Texts, _OfTexts), (Bytes, _OfBytes), (Numbers, _OfNumbers), (Truths, _OfTruths)):
        adapters.register_dumper(kind, dumper)
