"""What a fork does to open stores: the child never uses its parent's connections, threads or locks.

SQLite must not be carried across a fork, and even its bookkeeping of a file's locks would mislead the child.
So a fork waits until every store of the process is quiet; the child then closes what it inherited, which
frees nothing of its parent's, and each store opens anew when it is next used. A child that was forked while a
store could not be made quiet must not use that file: it is told so.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

QUIET_SECONDS = 5.0
"""How long a fork waits for a commit that is under way."""


class Forkable(Protocol):
    """An open store, as a fork sees it."""

    def before_fork(self, seconds: float) -> None:
        """Become quiet, if possible within so many seconds."""

    def after_in_parent(self) -> None:
        """Go on."""

    def after_in_child(self) -> None:
        """Give up everything inherited."""


_stores: weakref.WeakSet[Forkable] = weakref.WeakSet()
_quiet: list[Forkable] = []


def watch(store: Forkable) -> None:
    """From now on a fork of this process knows of the store."""
    _stores.add(store)


def unwatch(store: Forkable) -> None:
    """The store was closed."""
    _stores.discard(store)


def _before() -> None:
    _quiet[:] = list(_stores)
    for store in _quiet:
        store.before_fork(QUIET_SECONDS)


def _in_parent() -> None:
    for store in _quiet:
        store.after_in_parent()
    _quiet.clear()


def _in_child() -> None:
    for store in _quiet:
        store.after_in_child()
    _quiet.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
