"""The stages on which engine tests play; they are opened and closed in the loop of the test."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.runtime.boundary import set_hook
from tests.unit.runtime.stage import Stage, build


@pytest.fixture(params=["memory", "sqlite"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """A stage on each kind of store."""
    return build(request.param, tmp_path)


@pytest.fixture
def memory(tmp_path: Path) -> Stage:
    """A stage on a store in memory."""
    return build("memory", tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> Stage:
    """A stage on an SQLite file."""
    return build("sqlite", tmp_path)


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    """No boundary stays fatal after its test."""
    yield
    set_hook(None)


def _played(test: Callable[..., Awaitable[None]], stages: list[Stage]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def play(*args: Any, **kwargs: Any) -> None:
        for one in stages:
            await one.store.open()
        try:
            await test(*args, **kwargs)
        finally:
            for one in stages:
                await one.close()

    return play


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Open the stages of a test before it, in its own loop."""
    stages = [value for value in pyfuncitem.funcargs.values() if isinstance(value, Stage)]
    if stages:
        pyfuncitem.obj = _played(pyfuncitem.obj, stages)
