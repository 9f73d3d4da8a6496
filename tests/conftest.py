"""What every test of this repository may rely on.

* `async def test_...` runs in an event loop of its own; under hypothesis each example gets a fresh one.
* In a parallel run the tests of tests/crash stay together in one worker, so that one process is killed at a
  time; so do those whose id says postgres, so that they share a server, and those of test_usage.py, so that
  the clients of models, which take seconds to load, are loaded once.
* Hypothesis tries the same examples in every run and never judges speed. PERDURE_EXPLORE=1 makes it try new
  ones; a failure prints what reproduces it.

This file knows pytest, hypothesis and asyncio; it knows nothing of perdure, so that a broken package cannot
break collection.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "perdure",
    deadline=None,
    derandomize=os.environ.get("PERDURE_EXPLORE") != "1",
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("perdure")


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


def _together(nodeid: str) -> str:
    """The name of the group of tests that may not run beside one another; most tests are alone in theirs."""
    if nodeid.startswith("tests/crash/"):
        return "crash"
    for name in ("postgres", "test_usage.py"):
        if name in nodeid:
            return name
    return nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out tests to workers by group."""
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _together
    return scheduler
