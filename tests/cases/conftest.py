"""The stages of the engine's own tests, and a field on which real processes run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.field import Field
from tests.database import PLACE
from tests.unit.runtime.conftest import memory, no_hook, pytest_pyfunc_call, sqlite, stage

__all__ = ["field", "memory", "no_hook", "pytest_pyfunc_call", "sqlite", "stage"]


@pytest.fixture
def field(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Field]:
    """A folder for processes, which are ended with the test; on SQLite, or on `postgres` if that is asked."""
    kind = getattr(request, "param", "sqlite")
    made = Field(tmp_path, PLACE.at(tmp_path) if kind == "postgres" else "")
    try:
        yield made
    finally:
        made.end()
