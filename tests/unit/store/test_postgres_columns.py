"""Columns are packed as PostgreSQL reads them: what comes back is what was sent, whatever the values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from perdure.store.postgres.columns import Column, binaries, numbers, teach, texts, truths
from tests.database import new_database

CASES: list[tuple[Callable[[Any], Column], str, Sequence[Any]]] = [
    (texts, "text", []),
    (texts, "text", ["", "run-1", "ä", "\U0001f600", '{"a",\\}', "NULL", " "]),
    (texts, "text", [None, "w-1", None]),
    (binaries, "bytea", []),
    (binaries, "bytea", [b"", b"\0", bytes(range(256)), b"x" * 70_000]),
    (numbers, "bigint", [0, 1, -1, (1 << 63) - 1, -(1 << 63)]),
    (truths, "boolean", [True, False, True]),
]


@pytest.mark.parametrize(("pack", "kind", "values"), CASES)
def test_what_comes_back_is_what_was_sent(
    pack: Callable[[Any], Column], kind: str, values: Sequence[Any]
) -> None:
    """In the order of the values, also where the statement is prepared."""
    with psycopg.connect(new_database(), autocommit=True, prepare_threshold=0) as connection:
        teach(connection)
        for _ in range(2):
            rows = connection.execute(f"SELECT * FROM unnest(%s::{kind}[])", (pack(values),)).fetchall()
            assert [value for (value,) in rows] == list(values)


def test_no_value_is_too_large_unseen() -> None:
    """An integer that has no place in 64 bits is refused here."""
    with pytest.raises(OverflowError):
        numbers([1 << 63])
