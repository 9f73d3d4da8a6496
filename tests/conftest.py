"""What every test of this repository may rely on.

`async def test_...` runs in an event loop of its own; under hypothesis each example gets a fresh one.
This file knows pytest and asyncio; it knows nothing of perdure, so that a broken package cannot break
collection.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest


def _blocking(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The same test as a plain function."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def body() -> None:
            await test(*args, **kwargs)

        asyncio.run(body())

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Make a coroutine test an ordinary one, then let pytest call it."""
    test = pyfuncitem.obj
    handle = getattr(test, "hypothesis", None)
    if handle is not None:
        if inspect.iscoroutinefunction(handle.inner_test):
            handle.inner_test = _blocking(handle.inner_test)
    elif inspect.iscoroutinefunction(test):
        pyfuncitem.obj = _blocking(test)
