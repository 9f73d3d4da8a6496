"""A new database, for those who ask for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import new_database


@pytest.fixture
def url() -> str:
    """A database without tables."""
    return new_database()


@pytest.fixture
def sql(url: str) -> Iterator[psycopg.Connection[Any]]:
    """An administrator's connection to it."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
