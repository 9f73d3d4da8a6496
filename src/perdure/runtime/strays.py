"""A child process that was forked inside a run's code and comes back out of it, instead of ending there.

It is a copy of its parent in the middle of a run: whatever it did next it would do for the parent, with the
parent's lease. So it ends where it comes back to the engine. The code of a child that ends by itself, with
`os._exit` or as multiprocessing does, never comes here, and a child may open a Runtime of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from perdure.errors import ChildCameBack
from perdure.journal import Journal

T = TypeVar("T")

_driven: weakref.WeakSet[Journal] = weakref.WeakSet()
_births = [0]
"""How many forks lie between this process and the one that loaded this module."""


def watch(journal: Journal) -> None:
    """From now on a child that is forked here ends rather than write to this journal."""
    _driven.add(journal)


def _in_child() -> None:
    _births[0] += 1
    for journal in list(_driven):
        # In the place of the two methods by which a fact gets its number: so nobody is asked who they are.
        vars(journal).update(_add=_stray, _encode=_stray)
    _driven.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _stray(*_: Any, **__: Any) -> NoReturn:
    _end(None)


def look(error: BaseException | None = None) -> None:
    """Called where code that ran in the event loop has come back: a forked child has no loop, and ends here.

    `error`: what it came back with.
    """
    if asyncio._get_running_loop() is None:
        _end(error)


def home(thunk: Callable[[], T]) -> Callable[[], T]:
    """The same for a function that runs in a thread of its own."""

    def run() -> T:
        born, error = _births[0], None
        try:
            return thunk()
        except BaseException as raised:
            error = raised
            raise
        finally:
            if _births[0] != born:
                _end(error)

    return run


def _end(error: BaseException | None) -> NoReturn:
    """End this process, as one that was to end here if it says so, else with a word why."""
    code = 1
    try:
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            if code == 1 and error.code != 1:
                sys.stderr.write(f"{error.code}\n")
        else:
            if error is not None:
                traceback.print_exception(error)
            sys.stderr.write(f"{ChildCameBack('a child process has come back out of the code of a run')}\n")
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # whatever becomes of the words
        os._exit(code)
