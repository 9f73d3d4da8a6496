"""The one thread of a process that writes: everything queued, in one commit, when it is its turn.

It decides when a commit happens and what it means when one fails; what is written is a `Transaction`'s.
Refusals are per job. A commit whose fate is unknown after a disk error is settled by reading it back, never
by trying again. It keeps the promise that a future is done only when its write is durable.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import apsw
from msgspec import Struct

from perdure.clock import Clock
from perdure.errors import DiskFull, StoreClosed, StoreError, StoreIO, StoreLocked, StoreUnavailable
from perdure.store.protocol import Batch
from perdure.store.sqlite.connection import (
    check_version,
    leave_to_parent,
    open_writer,
    settings,
    translate,
)
from perdure.store.sqlite.incarnation import Signs
from perdure.store.sqlite.place import Place, Reserve
from perdure.store.sqlite.transaction import Proof, Rows, Transaction
from perdure.store.sqlite.turn import Turn
from perdure.store.sqlite.wal import Wal
from perdure.store.tx import Guard

log = logging.getLogger("perdure.store")

JOBS_PER_COMMIT, BYTES_PER_COMMIT = 1000, 4 << 20
"""So much at most goes into one commit, so that the other processes' turns come soon."""

TURN_PATIENCE_SECONDS = 2.0
"""A turn that takes longer is not waited for: its holder is stopped, not slow."""

BRIEF_SECONDS = 0.001
"""While commits take less than this, the event loop's own thread may make one (see `Writer.write_now`)."""

_NUDGE = 1.1  # how far one commit moves what commits take
_STUCK_SECONDS = 0.02  # no processor is waited for so long: the disk is slow
_ALONE_SECONDS = 10.0


class Job(Struct, eq=False):
    """One verb to be written. `work` is a batch, or whatever else is to happen inside a transaction."""

    work: Batch | Callable[[Transaction], Any]
    future: Any
    size: int = 0
    reserve: bool = False

    @property
    def alone(self) -> bool:
        """Whether it needs a commit of its own: a user's code may fail after it wrote."""
        return isinstance(self.work, Batch) and self.work.act is not None

    def run(self, tx: Transaction) -> Any:
        """Do it."""
        return tx.append(self.work) if isinstance(self.work, Batch) else self.work(tx)


class Outcome(Struct):
    """What became of a job."""

    job: Job
    value: Any = None
    error: BaseException | None = None


class Commits(Struct):
    """What the writer counts."""

    commits: int = 0
    last_failure: str = ""


class Writer:
    """Queues jobs and writes them. `settle` gets the outcomes of each commit, in the writer's thread."""

    def __init__(
        self, place: Place, clock: Clock, signs: Signs, settle: Callable[[list[Outcome], bool], None]
    ) -> None:
        self.place = place
        self.counts = Commits()
        self.quiet = threading.Lock()  # held while SQLite is at work: a fork waits for it
        self.still = False  # whether it could be had, at the last fork
        self.connection: apsw.Connection | None = None
        self.turn: Turn | None = None
        self._clock = clock
        self._signs = signs
        self._settle = settle
        self._reserve = Reserve(place)
        self._wal = Wal(place)
        self._guard: Guard | None = None
        self._rows = Rows()
        self._queue: deque[Job] = deque()
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._signalled = False
        self._mutex = threading.Lock()  # of the two fields below
        self._generation = 0
        self._waiting_since: float | None = None
        self._impatient_until = 0.0
        self._inode = (0, 0)
        self._settings: dict[str, str] = {}
        self._commit_seconds = math.inf  # what a commit takes, in the middle
        self._closing = False
        self._closed = threading.Event()

    # -- the loop's side

    def open(self) -> None:
        """Open the database; blocks. The thread starts with it."""
        turn = Turn(self.place.turn)
        self.turn = turn
        try:
            self._first(turn)
        except BaseException:
            turn.close()
            self.turn = None
            raise
        self._start(turn)

    def _first(self, turn: Turn) -> None:
        # Who made the file first is of no matter, so that polling will do, and a stopped holder delays us
        # only so long.
        taken = turn.take_within(min(TURN_PATIENCE_SECONDS, self.place.busy_seconds))
        try:
            try:
                self._connect()
            except DiskFull:  # nothing could be removed then, either: opening needs room
                if not self._reserve.spend():
                    raise
                log.warning("%s: the disk is full; the reserve is used", self.place.path)
                self._connect()
            self._reserve.make()
        finally:
            if taken:
                turn.give()

    def _start(self, turn: Turn) -> None:
        name = f"perdure-writer-{os.path.basename(self.place.path)}"
        threading.Thread(target=self._main, args=(self._generation, turn), name=name, daemon=True).start()

    def put(self, job: Job) -> None:
        """Queue a job. Raises StoreClosed."""
        if self._closing:
            raise StoreClosed(f"the store {self.place.path} was closed")
        self._queue.append(job)
        self._wake()

    def _wake(self) -> None:
        if not self._signalled:
            self._signalled = True
            self._tokens.put(None)

    def write_now(self, job: Job) -> Outcome | None:
        """Write a job in the calling thread, the event loop's; None: it must be put.

        Handing a commit to another thread and hearing of it costs as much as a commit on a fast disk. So it
        is made here if it can be made at once: commits are brief now, nothing is queued, no other process has
        the turn or waits for it, and it needs neither a checkpoint nor the reserve. Whatever is more than one
        quick commit is left to the thread.
        """
        turn = self.turn
        if (
            self._commit_seconds >= BRIEF_SECONDS
            or self._queue
            or self._closing
            or turn is None
            or not turn.desk.acquire(blocking=False)
        ):
            return None
        try:
            if self.connection is None or not turn.try_take():
                return None
            try:
                with self.quiet:
                    return self._write_briefly(job)
            finally:
                turn.give()
        finally:
            turn.desk.release()
            if self._wal.due():
                self._wake()

    def _write_briefly(self, job: Job) -> Outcome | None:
        assert self.connection is not None
        if self._reserve.spent():
            return None
        self.connection.set_busy_timeout(0)
        try:
            self._check_place()
            return self._attempt([job], here=True)[0]
        except _Broken as broken:
            if not isinstance(broken.error, Exception):  # an interrupt, which came to this thread
                raise broken.error from None
            return None if isinstance(broken.error, DiskFull) else Outcome(job, error=broken.error)
        except StoreLocked:
            return None
        except StoreError as error:
            self.counts.last_failure = error.what
            return Outcome(job, error=error)
        finally:
            if self.connection is not None:
                self.connection.set_busy_timeout(round(self.place.busy_seconds * 1000))

    def _learn(self, seconds: float, *, here: bool) -> None:
        """A commit took so long. What the thread measures has waits for the interpreter in it, so that it is
        heard only where it says that commits are quicker than thought.

        The middle is followed, not the mean: on a busy machine one commit in ten waits for a processor, and
        to hand commits to a thread would only add another wait. One that was stuck counts at once.
        """
        known = self._commit_seconds
        if known == math.inf or (here and seconds >= _STUCK_SECONDS):
            self._commit_seconds = seconds
        elif seconds < known:
            self._commit_seconds = known / _NUDGE
        elif here:
            self._commit_seconds = known * _NUDGE

    def busy(self) -> bool:
        """Whether anything is queued."""
        return bool(self._queue)

    def look(self) -> None:
        """Called now and then while something is queued: if the turn does not come, go on without it.

        Turns are for fairness; a process that was stopped while it had the turn must not stop the others.
        """
        with self._mutex:
            since = self._waiting_since
            if since is None or time.monotonic() - since < TURN_PATIENCE_SECONDS:
                return
            self._waiting_since = None
            self._generation += 1
        waited = TURN_PATIENCE_SECONDS
        log.warning("%s: no turn for %.1f s; writing without it", self.place.path, waited)
        self._impatient_until = time.monotonic() + _ALONE_SECONDS
        self.turn = Turn(self.place.turn)
        self._start(self.turn)
        self._tokens.put(None)

    def close(self) -> None:
        """Write what is queued, end this process's workers, close; blocks."""
        self._closing = True
        self._tokens.put(None)
        self._closed.wait()

    # -- the writer's side

    def _main(self, generation: int, turn: Turn) -> None:
        while True:
            self._tokens.get()
            self._signalled = False
            due = self._wal.due()  # by a commit that was made elsewhere
            while (self._queue or due) and self._generation == generation:
                due = False
                outcomes = self._one_turn(generation, turn)
                # Only now: to tell the loop takes the interpreter's lock, and the others wait for the turn.
                for some, wrote in outcomes:
                    self._settle(some, wrote)
            if self._generation != generation:
                turn.close()
                return
            if self._closing and not self._queue:
                self._end(turn)
                return

    def _one_turn(self, generation: int, turn: Turn) -> list[tuple[list[Outcome], bool]]:
        try:
            with turn.desk, self._having(turn):
                return self._commit_queued() if self._still_wanted(generation) else []
        except OSError as error:
            # The lock's own file failed. The thread must live on, and nobody may wait for ever.
            log.exception("%s: no turn could be taken", self.place.path)
            failure = StoreIO(f"no turn could be taken for {self.place.path}: {error}", path=self.place.path)
            return [([Outcome(job, error=failure) for job in self._take()], False)]

    def _still_wanted(self, generation: int) -> bool:
        """The turn came. Whether this thread is to write, or another went on meanwhile."""
        with self._mutex:
            if self._generation != generation:
                return False
            self._waiting_since = None
            return True

    @contextlib.contextmanager
    def _having(self, turn: Turn) -> Iterator[None]:
        """With the turn; or without, if it was found not to come."""
        now = time.monotonic()
        if now < self._impatient_until:
            taken = turn.try_take()
        else:
            self._waiting_since = now
            turn.take()
            taken = True
        try:
            yield
        finally:
            if taken:
                turn.give()

    def _commit_queued(self) -> list[tuple[list[Outcome], bool]]:
        jobs = self._take()
        done: list[tuple[list[Outcome], bool]] = []
        while jobs:
            count = 1 if jobs[0].alone else next((n for n, job in enumerate(jobs) if job.alone), len(jobs))
            group, jobs = jobs[:count], jobs[count:]
            before = self.counts.commits
            with self.quiet:
                try:
                    outcomes = self._write(group)
                except Exception as error:  # noqa: BLE001 - the thread lives on, and whoever waits is told
                    outcomes = [Outcome(job, error=error) for job in group]
            done.append((outcomes, self.counts.commits != before))
        if self._wal.due():
            for some, wrote in done:
                self._settle(some, wrote)
            done = []
            with self.quiet:
                if self.connection is not None:
                    self._wal.bring_home(self.connection)
        return done

    def _take(self) -> list[Job]:
        jobs: list[Job] = []
        size = 0
        while self._queue and len(jobs) < JOBS_PER_COMMIT and size < BYTES_PER_COMMIT:
            job = self._queue.popleft()
            jobs.append(job)
            size += job.size
        return jobs

    def _write(self, jobs: list[Job]) -> list[Outcome]:
        """One commit for all; if it breaks, one for each, so that only the culprit fails."""
        held_back = self._hold_back(jobs)
        refused = [Outcome(job, error=self._full()) for job in jobs if job in held_back]
        written = [job for job in jobs if job not in held_back]
        return [*refused, *self._write_group(written)] if written else refused

    def _hold_back(self, jobs: list[Job]) -> set[Job]:
        """On a disk that was full, what may not use the reserve waits until there is a reserve again."""
        if not self._reserve.spent() or all(job.reserve for job in jobs):
            return set()
        if self._reserve.make() or (self._reclaim() and self._reserve.make()):
            return set()
        return {job for job in jobs if not job.reserve}

    def _reclaim(self) -> bool:
        """Make room by emptying the log; True if it was emptied just now."""
        return self.connection is not None and self._wal.empty(self.connection)

    def _write_group(self, jobs: list[Job], *, reclaimed: bool = False) -> list[Outcome]:
        try:
            self._check_place()
            return self._attempt(jobs)
        except _Broken as broken:
            job, error = jobs[0], broken.error
            full = isinstance(error, DiskFull) and not job.alone
            if full and not reclaimed and self._reclaim():
                return self._write_group(jobs, reclaimed=True)
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self._write([job])]
            if full and job.reserve and self._reserve.spend():
                log.warning("%s: the disk is full; the reserve is used", self.place.path)
                return self._write_group(jobs, reclaimed=True)
            return [Outcome(job, error=error)]
        except StoreError as error:
            self.counts.last_failure = error.what
            return [Outcome(job, error=error) for job in jobs]

    def _full(self) -> DiskFull:
        return DiskFull(
            f"no room to write {self.place.path}; what is left is kept for receipts", path=self.place.path
        )

    def _attempt(self, jobs: list[Job], *, here: bool = False) -> list[Outcome]:
        """One transaction, by the thread or `here`, by the event loop's.

        Raises _Broken if it was rolled back, StoreError if nothing can be written.
        """
        connection = self._connect()
        try:
            connection.execute("BEGIN IMMEDIATE")
            entries = self._rows.of(connection)
        except apsw.Error as error:
            if self._is_full(error):
                raise _Broken(self._full()) from error
            failure = translate(error, self.place.path)
            if not isinstance(failure, StoreLocked):
                self._disconnect()
            raise failure from error
        assert self._guard is not None
        if not entries:  # else nobody else has written since it was asked
            self._check_version(connection)
        tx = Transaction(connection, self._guard, self._clock.now(), entries)
        committing = False
        outcomes: list[Outcome] = []
        try:
            outcomes.extend(self._run(job, tx) for job in jobs)
            tx.flush()
            if tx.wrote:
                committing = True
                begun = time.monotonic()
                connection.execute("COMMIT")
                self.counts.commits += 1
                self._learn(time.monotonic() - begun, here=here)
            else:
                connection.execute("ROLLBACK")
        except BaseException as error:  # noqa: BLE001 - told apart there, and raised again
            self._failed(error, tx, connection, committing=committing)
        tx.let_go()
        for done in tx.committed:
            done()
        self._wal.freed = self._wal.freed or tx.freed
        return outcomes

    def _failed(
        self, error: BaseException, tx: Transaction, connection: apsw.Connection, *, committing: bool
    ) -> None:
        """Say what became of a transaction. Returns if it was committed all the same, else raises."""
        full = self._is_full(error)
        self._rows.forget()
        self._roll_back(connection)
        try:
            if full:
                raise _Broken(self._full()) from error
            if isinstance(error, apsw.IOError):
                self._settle_io_error(error, tx.proof if committing else None)
                self.counts.commits += 1
                return
            if isinstance(error, apsw.Error):
                raise _Broken(translate(error, self.place.path)) from error
            raise _Broken(error) from error
        except BaseException:
            for undo in tx.rolled_back:
                undo()
            raise

    def _run(self, job: Job, tx: Transaction) -> Outcome:
        try:
            return Outcome(job, job.run(tx))
        except StoreError as refusal:
            if job.alone:
                raise
            return Outcome(job, error=refusal)

    def _roll_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:
            with contextlib.suppress(apsw.Error):  # a disk error of its own: the connection is dropped anyway
                connection.execute("ROLLBACK")

    # -- the connection and the disk

    def _connect(self) -> apsw.Connection:
        if self.connection is None:
            connection = open_writer(self.place.path, self.place.busy_seconds)
            connection.set_busy_timeout(round(self.place.busy_seconds * 1000))
            connection.set_wal_hook(self._wal.count)
            self._guard = Guard(connection)
            self._rows.forget()
            self._settings = settings(connection)
            self.connection = connection
            self._inode = _inode(self.place.path)
        return self.connection

    def _check_place(self) -> None:
        """A file that was removed or replaced under us would take commits and lose them."""
        if self.connection is not None and _inode(self.place.path) != self._inode:
            path = self.place.path
            remedy = "put the file back, or start every process that has it open again"
            raise StoreUnavailable(
                f"{path} was removed or replaced while it was open", remedy=remedy, path=path
            )

    def _check_version(self, connection: apsw.Connection) -> None:
        """A newer perdure may have brought the tables up to date under us: then nothing is written."""
        try:
            check_version(connection, self.place.path)
        except StoreError:
            connection.execute("ROLLBACK")
            raise

    def _disconnect(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                connection.close(True)

    def _is_full(self, error: BaseException) -> bool:
        if isinstance(error, apsw.FullError):
            return True
        extended = getattr(error, "extendedresult", 0)
        if extended == apsw.SQLITE_IOERR_WRITE and self.connection is not None:
            return self.connection.system_errno in (errno.EDQUOT, errno.EFBIG)
        return extended == apsw.SQLITE_IOERR_SHMSIZE

    def _settle_io_error(self, error: BaseException, proof: Proof | None) -> None:
        """The disk failed. Look whether the transaction is there; return if it is, raise StoreIO if not.

        What is found is made firm either way by bringing the whole log home and emptying it: a commit that is
        there then lies in a file that was synced, and one that is not cannot come back from the log.
        """
        path = self.place.path
        log.error("%s: %s; reading back what is on disk", path, error)
        self._disconnect()
        try:
            connection = self._connect()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            there = proof is not None and connection.execute(proof.sql, proof.key).get is not None
        except (apsw.Error, StoreError) as second:
            self._disconnect()
            what = f"the disk failed under {path}: {error}; and again while reading back: {second}"
            safe = "Whether this write is on disk shows when the store opens again. Earlier ones are."
            raise StoreIO(what, safe=safe, path=path, unknown=True) from error
        if not there:
            raise StoreIO(f"the disk failed under {path}: {error}", path=path) from error

    def facts(self) -> dict[str, str]:
        """What `doctor` tells of the writer."""
        facts = {
            **self._settings,
            "reserve": self._reserve.state(),
            **self._wal.facts(),
        }
        if self.counts.last_failure:
            facts["last_failure"] = self.counts.last_failure
        return facts

    def leave_to_parent(self) -> None:
        """In a child, after a fork: close what was inherited, unless SQLite was at work in it."""
        if self.turn is not None:
            self.turn.close()
        self._signs.let_go_own()
        leave_to_parent(self.connection, self.place.path, still=self.still)
        self.connection = None

    def _gave_back(self, turn: Turn) -> bool:
        """Give some of what removals have freed back to the disk, in a turn of its own."""
        if self.connection is None or not turn.take_within(TURN_PATIENCE_SECONDS):
            return False
        try:
            with self.quiet:
                self._wal.give_back(self.connection)
        except apsw.Error as error:
            log.info("%s: free pages stay in the file: %s", self.place.path, error)
            return False
        finally:
            turn.give()
        return True

    def _end(self, turn: Turn) -> None:
        self._signs.remove_own()
        while self._wal.freed and self._gave_back(turn):
            pass
        taken = turn.take_within(TURN_PATIENCE_SECONDS)
        with self.quiet:
            self._disconnect()
        if taken:
            turn.give()
        turn.close()
        self.turn = None
        self._closed.set()


class _Broken(Exception):
    """A transaction was rolled back; `error` is why."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def _inode(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)
