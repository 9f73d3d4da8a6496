"""The stages of the engine's own tests, and what they tell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cases.conftest import field
from tests.unit.observe.spans import Told, told
from tests.unit.runtime.conftest import memory, no_hook, pytest_pyfunc_call, sqlite, stage

__all__ = ["field", "memory", "no_hook", "pytest_pyfunc_call", "sqlite", "stage"]


@pytest.fixture
def tale() -> Iterator[Told]:
    """What the runs of the test are told as."""
    with told() as made:
        yield made
