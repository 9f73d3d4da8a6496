"""The one thread of a process that writes: everything queued, in one commit.

It decides when a commit happens and what it means when a connection breaks. Refusals are per job. A commit
whose answer was lost is settled by looking it up (`doubt`); only what is certainly not there is done again.
It keeps the promise that a future is done only when its write is durable. Transactional calls have threads
and transactions of their own, so that a user's code holds up nobody else's run.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg.errors import Diagnostic

from perdure.errors import ConnectionLost, StoreClosed, StoreError, StoreUnavailable
from perdure.store.postgres.connection import (
    HELD_UP_SECONDS,
    Connection,
    Link,
    in_doubt,
    is_lost,
    translate,
)
from perdure.store.postgres.doubt import took_place
from perdure.store.postgres.proof import new_key
from perdure.store.postgres.threads import Threads
from perdure.store.postgres.transaction import (
    Release,
    Removal,
    Transaction,
    Work,
    check_follows,
)
from perdure.store.postgres.tx import OpenTransaction
from perdure.store.protocol import Batch, Compaction
from perdure.store.standing import check_size

log = logging.getLogger("perdure.store")

JOBS_PER_COMMIT, BYTES_PER_COMMIT = 1000, 4 << 20
"""So much at most goes into one commit."""

REMOVAL_SECONDS = 600.0
"""So long the server may take to remove a run, which may have millions of events."""

ACTS = 4
"""Transactional calls that may run at once in one process."""


class Job(Struct, eq=False):
    """One verb to be written."""

    work: Work
    future: Any
    size: int = 0

    @property
    def run_id(self) -> str | None:
        """The run whose jobs keep their order; None if that does not matter to this one."""
        kinds = Batch | Release | Removal | Compaction
        return self.work.run_id if isinstance(self.work, kinds) else None

    @property
    def acts(self) -> bool:
        """Whether a user's code runs inside."""
        return isinstance(self.work, Batch) and self.work.act is not None


def _may_join(job: Job, jobs: Sequence[Job]) -> bool:
    """Whether a job may go into one commit with these: removals of different runs do with one another alone,
    a compaction with nothing.
    """
    if not jobs:
        return True
    if isinstance(job.work, Batch) and isinstance(jobs[0].work, Batch):  # most are
        return not job.acts
    if job.acts or isinstance(job.work, Compaction) or isinstance(jobs[0].work, Compaction):
        return False
    if isinstance(job.work, Removal):
        return isinstance(jobs[0].work, Removal) and all(job.run_id != other.run_id for other in jobs)
    return not isinstance(jobs[0].work, Removal)


class Outcome(Struct):
    """What became of a job."""

    job: Job
    value: Any = None
    error: BaseException | None = None


class Settings(Struct):
    """What every transaction of a store has in common."""

    given: Callable[[], int] | None
    synced: bool = False
    value_bytes: int = 0


Settle = Callable[[list[Outcome], int], None]
"""Gets the outcomes of a commit, and the number of the change (0: nothing was written)."""


class Writer:
    """Queues jobs and writes them. `settle` is called in the writer's threads."""

    def __init__(self, link: Link, settings: Settings, settle: Settle) -> None:
        self._link = link
        self._settings = settings
        self._settle = settle
        self._connection: Connection | None = None
        self._key = new_key()
        self._doubts: list[Diagnostic] = []
        self._acts = Threads(link, ACTS, "perdure-act")
        self._mutex = threading.Lock()  # of the three below
        self._queue: deque[Job] = deque()
        self._acting: set[str] = set()
        self._behind: dict[str, list[Job]] = {}
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._closing = False
        self._thread = threading.Thread(target=self._main, name="perdure-writer", daemon=True)
        self._thread.start()

    # -- the loop's side

    def put(self, job: Job) -> None:
        """Queue a job. Raises StoreClosed."""
        if self._closing:
            raise StoreClosed(f"the store {self._link.address.shown} was closed")
        with self._mutex:
            self._queue.append(job)
        self._tokens.put(None)

    def close(self) -> None:
        """Write what is queued and close; blocks."""
        self._closing = True
        self._tokens.put(None)
        self._thread.join()
        self._acts.close()

    # -- the writer's side

    def _main(self) -> None:
        while True:
            self._tokens.get()
            with contextlib.suppress(queue.Empty):
                while True:  # one look answers every token
                    self._tokens.get_nowait()
            while jobs := self._take():
                self._group(jobs)
            with self._mutex:
                over = self._closing and not self._queue and not self._acting
            if over:
                self._disconnect()
                return

    def _take(self) -> list[Job]:
        """The next jobs that go into one commit. Calls are handed on; what must come after them waits."""
        jobs: list[Job] = []
        size = 0
        with self._mutex:
            while self._queue and len(jobs) < JOBS_PER_COMMIT and size < BYTES_PER_COMMIT:
                job = self._queue[0]
                if not _may_join(job, jobs):
                    break
                self._queue.popleft()
                if self._acting and job.run_id in self._acting:
                    self._behind.setdefault(job.run_id, []).append(job)
                elif job.acts and job.run_id is not None:
                    self._acting.add(job.run_id)
                    self._acts.submit(self._act, job)
                else:
                    jobs.append(job)
                    size += job.size
        return jobs

    def _group(self, jobs: list[Job]) -> None:
        """One commit for all; if it breaks, one for each, so that only the culprit fails."""
        try:
            outcomes, number = self._link.patiently(lambda: self._attempt(jobs))
        except (ConnectionLost, StoreUnavailable) as error:
            outcomes, number = [Outcome(job, error=error) for job in jobs], 0
        except Exception as error:  # noqa: BLE001 - the thread lives on, and whoever waits is told
            if len(jobs) > 1:
                for job in jobs:
                    self._group([job])
                return
            outcomes, number = [Outcome(jobs[0], error=error)], 0
        self._settle(outcomes, number)

    def _attempt(self, jobs: Sequence[Job]) -> tuple[list[Outcome], int]:
        connection = self._connect()
        tx = Transaction(connection, self._key, self._settings.given, synced=self._settings.synced)
        committing = False
        outcomes: list[Outcome] = []
        seconds = REMOVAL_SECONDS if isinstance(jobs[0].work, Removal) else None
        try:
            with self._link.limit.on(connection, seconds):
                tx.begin([job.work for job in jobs])
                outcomes.extend(_run(job, tx) for job in jobs)
                committing = tx.wrote
                number = self._commit(tx) if tx.wrote else self._leave(connection)
        except Exception as error:  # noqa: BLE001 - told apart there, and raised again
            number = self._failed(error, tx, committing=committing)
        return outcomes, number

    def _leave(self, connection: Connection) -> int:
        connection.execute("ROLLBACK")
        return 0

    def _commit(self, tx: Transaction) -> int:
        self._doubts.clear()
        number, committed = tx.commit()
        if not committed or self._doubts:
            raise _Doubtful
        return number

    def _failed(self, error: Exception, tx: Transaction, *, committing: bool) -> int:
        """Say what became of a transaction. Returns if it was committed all the same, else raises."""
        if isinstance(error, _Doubtful) or is_lost(error):
            self._disconnect()
            if committing and took_place(self._link, tx.proof):
                return -1
            raise translate(error, self._link.address.shown) from error
        self._roll_back(tx.connection)
        raise translate(error, self._link.address.shown) if isinstance(error, psycopg.Error) else error

    def _roll_back(self, connection: Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            self._disconnect()

    def _connect(self) -> Connection:
        if self._connection is None or self._connection.closed:
            connection = self._link.open()
            connection.add_notice_handler(self._heard)
            self._connection = connection
        return self._connection

    def _heard(self, notice: Diagnostic) -> None:
        if in_doubt(notice):
            self._doubts.append(notice)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._key = new_key()

    # -- transactional calls

    def _act(self, job: Job) -> None:
        """One call with its events, in a transaction of its own; its code runs once at most."""
        assert isinstance(job.work, Batch)
        seconds = job.work.act_seconds + REMOVAL_SECONDS  # each of its exchanges has a limit of its own

        def once() -> tuple[Outcome, int]:
            return self._acts.once(lambda connection: self._acted(connection, job), seconds)

        try:
            outcome, number = self._link.patiently(once)
        except Exception as error:  # noqa: BLE001 - the thread lives on, and whoever waits is told
            outcome, number = Outcome(job, error=error), 0
        self._settle([outcome], number)
        with self._mutex:
            assert job.run_id is not None
            self._acting.discard(job.run_id)
            self._queue.extendleft(reversed(self._behind.pop(job.run_id, [])))
        self._tokens.put(None)

    def _acted(self, connection: Connection, job: Job) -> tuple[Outcome, int]:
        """What became of it. Raises only before the user's code was called."""
        batch = job.work
        assert isinstance(batch, Batch)
        settings = self._settings
        held_up = max(HELD_UP_SECONDS, batch.act_seconds + 1)
        tx = Transaction(
            connection, new_key(), settings.given, synced=settings.synced, held_up_seconds=held_up
        )
        with self._link.limit.on(connection):
            tx.begin([batch], lock=False)
        tx.judge(batch)
        try:
            whole = self._called(tx, batch)
        except BaseException as error:  # noqa: BLE001 - whatever a user's code raises goes to its caller
            return Outcome(job, error=error), 0
        try:
            return self._finish(tx, job, whole)
        except psycopg.Error as error:
            return Outcome(job, error=translate(error, self._link.address.shown)), 0
        except StoreError as error:
            return Outcome(job, error=error), 0

    def _called(self, tx: Transaction, batch: Batch) -> Batch:
        """Run the user's code, and make its events the batch's own."""
        assert batch.act is not None
        open_tx = OpenTransaction(
            tx.connection, batch.act_seconds, self._link.address.shown, self._link.limit
        )
        try:
            added = tuple(batch.act(open_tx))
            open_tx.check_time()
        finally:
            open_tx.open = False
        check_size(self._settings.value_bytes, *(event.data for event in added))
        check_follows(batch.run_id, added, batch.after + len(batch.events))
        return replace(batch, act=None, events=(*batch.events, *added))

    def _finish(self, tx: Transaction, job: Job, batch: Batch) -> tuple[Outcome, int]:
        """Judge every fence again, with the run locked, and commit."""
        doubts: list[Diagnostic] = []
        connection = tx.connection

        def heard(notice: Diagnostic) -> None:
            if in_doubt(notice):
                doubts.append(notice)

        connection.add_notice_handler(heard)
        try:
            with self._link.limit.on(connection):
                tx.begin([batch], already=True)
            value = tx.run(batch)
            try:
                with self._link.limit.on(connection):
                    number, committed = tx.commit()
                if not committed or doubts:
                    raise _Doubtful
            except psycopg.Error as error:
                if not isinstance(error, _Doubtful) and not is_lost(error):
                    raise
                connection.close()
                number = -1
                if not took_place(self._link, tx.proof):
                    raise
        finally:
            connection.remove_notice_handler(heard)
        return Outcome(job, value), number


class _Doubtful(psycopg.OperationalError):
    """The server's answer does not say that the commit is safe."""


def _run(job: Job, tx: Transaction) -> Outcome:
    try:
        return Outcome(job, tx.run(job.work))
    except StoreError as refusal:
        return Outcome(job, error=refusal)
