"""The store, broken on purpose: each function breaks one promise in the process that calls it.

They are the controls of tests/crash/test_store_crash.py: a sweep that stays silent about one of them proves
nothing.
"""

from __future__ import annotations

import time
from typing import Any

import apsw

from perdure.errors import StoreIO
from perdure.store.protocol import Appended, Batch
from perdure.store.sqlite import connection, writer


def acknowledged_early() -> None:
    """An append is acknowledged before its commit."""
    attempt = writer.Writer._attempt

    def early(self: Any, jobs: Any, *, here: bool = False) -> Any:
        batches = [job for job in jobs if isinstance(job.work, Batch) and job.work.act is None]
        guesses = [writer.Outcome(job, Appended(job.work.after + len(job.work.events), 0)) for job in batches]
        self._settle(guesses, True)
        time.sleep(0.002)
        return attempt(self, jobs, here=here)

    writer.Writer._attempt = early  # type: ignore[method-assign]


def _synchronous(level: str) -> None:
    open_writer = connection.open_writer

    def weaker(path: str, busy_seconds: float) -> apsw.Connection:
        opened = open_writer(path, busy_seconds)
        opened.execute(f"PRAGMA synchronous={level}")
        return opened

    writer.open_writer = weaker  # type: ignore[attr-defined]


def not_every_commit_synced() -> None:
    """Only checkpoints are synced."""
    _synchronous("NORMAL")


def nothing_synced() -> None:
    """The disk is never asked."""
    _synchronous("OFF")


def refused_unseen() -> None:
    """A failed commit is called refused without a look at what is on disk."""

    def blind(self: Any, error: BaseException, _proof: object) -> None:
        raise StoreIO("the disk failed") from error

    writer.Writer._settle_io_error = blind  # type: ignore[method-assign, assignment]
