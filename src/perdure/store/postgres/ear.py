"""One thread with a connection of its own: it hears what others write, and is this process's sign of life.

It listens for notifications, and looks at the count of changes while somebody waits, so that nothing rests on
a notification that was lost. The locks of this process's workers live in its session; when the session breaks
it comes back and takes them again. Behind a pooler without a direct address it only looks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import psycopg

from perdure.errors import StoreClosed, StoreError, WorkerTaken
from perdure.store.postgres import signs
from perdure.store.postgres.connection import (
    LONGEST_PAUSE_SECONDS,
    NOW,
    PAUSE_SECONDS,
    Connection,
    Link,
    is_lost,
    one,
    translate,
)

log = logging.getLogger("perdure.store")

LOOK_SECONDS = 0.25
"""How soon a change that nobody told of is noticed, and a death, by whoever waits and cannot listen."""

LISTENING_SECONDS = 0.5
"""The same for whoever listens: what is told wakes it at once."""

IDLE_SECONDS = 5.0
"""How long the thread sleeps while nobody waits; a broken connection wakes it at once."""

_LOOK = "SELECT last_value FROM perdure_change"


class Ear:
    """Tells `heard` of every change: its number, or 0 for something that has none. Called in its thread."""

    def __init__(
        self,
        link: Link,
        given: Callable[[], int] | None,
        heard: Callable[[int], None],
        *,
        grace_seconds: float,
        look: bool,
    ) -> None:
        self.own: dict[str, int] = {}
        self.state = "not needed yet"
        self._link = link
        self._given = given
        self._heard = heard
        self._grace_seconds = grace_seconds
        self._only_looks = look
        self._waiting = False
        self._closing = False
        self._wishes: list[tuple[str, Future[None]]] = []
        self._told: set[str] = set()
        self._lives = False
        self._schema = ""
        self._lost: set[str] = set()  # of `own`, whose locks must be taken again
        self._pipe = os.pipe()
        self._thread: threading.Thread | None = None

    # -- anyone's side

    def wait(self, waiting: bool) -> None:
        """Somebody waits for a change from now on, or nobody does any more."""
        self._waiting = waiting
        if waiting:
            self._begin()

    def enlist(self, worker: str) -> Future[None]:
        """Become the sign of life of a worker; the future fails with WorkerTaken if one of its name lives."""
        done: Future[None] = Future()
        if self._closing:
            done.set_exception(StoreClosed(f"the store {self._link.address.shown} was closed"))
            return done
        self._wishes.append((worker, done))
        self._begin()
        return done

    def close(self) -> None:
        """End this process's workers and the thread; blocks."""
        self._closing = True
        self._nudge()
        if self._thread is not None:
            self._thread.join()
        for end in self._pipe:
            os.close(end)

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="perdure-ear", daemon=True)
            self._thread.start()
        self._nudge()

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._pipe[1], b".")

    # -- the thread's side

    def _main(self) -> None:
        pause = PAUSE_SECONDS
        while not self._closing:
            try:
                connection = self._open()
            except (StoreError, psycopg.Error) as error:
                self._unheard(error, pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            try:
                pause = PAUSE_SECONDS
                self._serve(connection)
            except (psycopg.Error, OSError) as error:
                self._lost = set(self.own)
                self._unheard(error, pause)
            finally:
                connection.close()
        for _, done in self._wishes:
            done.set_exception(StoreClosed(f"the store {self._link.address.shown} was closed"))

    def _unheard(self, error: Exception, pause: float) -> None:
        level = logging.DEBUG if self.state.startswith("broken") else logging.WARNING
        self.state = f"broken: {error}".splitlines()[0]
        log.log(level, "%s: the listening connection broke: %s", self._link.address.shown, self.state[8:])
        self._sleep(pause)

    def _open(self) -> Connection:
        direct = self._link.address.has_direct
        connection = self._link.open(direct=direct)
        try:
            self._lives = (direct or not self._link.pooled) and not self._only_looks
            if direct or not self._link.pooled:
                connection.execute("SET default_transaction_isolation = 'read committed'")
                connection.execute("LISTEN perdure")
                self.state = "listening"
            else:
                self.state = "a pooler gives no session: changes are looked for, deaths seen by the lease"
            self._heard(one(connection.execute(_LOOK))[0])  # what was told while nobody listened
            (self._schema,) = one(connection.execute("SELECT coalesce(current_schema(), '')"))
        except BaseException:
            connection.close()
            raise
        return connection

    def _serve(self, connection: Connection) -> None:
        looked = 0.0
        while not self._closing:
            with self._link.limit.on(connection):
                self._answer(connection)
                if self._lost:
                    self._come_back(connection)
                if self._waiting and time.monotonic() - looked >= self._pause:
                    looked = time.monotonic()
                    self._look(connection)
            self._hear(connection)
        with self._link.limit.on(connection):
            for worker in self.own:
                signs.leave(connection, worker)

    @property
    def _pause(self) -> float:
        return LISTENING_SECONDS if self.state == "listening" else LOOK_SECONDS

    def _hear(self, connection: Connection) -> None:
        seconds = self._pause if self._waiting or self._lost else IDLE_SECONDS
        ready, _, _ = select.select([connection.fileno(), self._pipe[0]], [], [], seconds)
        if self._pipe[0] in ready:
            os.read(self._pipe[0], 4096)
        if connection.fileno() in ready:
            connection.pgconn.consume_input()
        told = False
        while connection.pgconn.notifies() is not None:
            told = True
        if told:
            self._heard(0)

    def _look(self, connection: Connection) -> None:
        self._heard(one(connection.execute(_LOOK))[0])
        if self._only_looks:
            return
        found, _ = signs.look(connection, self._now(connection), self._grace_seconds)
        dead = set(found)
        if dead - self._told:
            self._heard(0)
        self._told = dead

    def _now(self, connection: Connection) -> int:
        return self._given() if self._given else int(one(connection.execute(f"SELECT {NOW}"))[0])

    def _answer(self, connection: Connection) -> None:
        while self._wishes:
            worker, done = self._wishes[0]
            try:
                self._enlist(connection, worker)
            except StoreError as error:
                done.set_exception(error)
            except psycopg.Error as error:
                if is_lost(error):
                    raise
                done.set_exception(translate(error, self._link.address.shown))
            else:
                done.set_result(None)
            self._wishes.pop(0)

    def _enlist(self, connection: Connection, worker: str) -> None:
        if worker in self.own or not self._lives:
            return
        key = signs.key_of(worker, self._schema)
        if not signs.take(connection, key):
            raise WorkerTaken(f"a worker named {worker!r} is alive", worker=worker)
        signs.enter(connection, worker, key, self._now(connection))
        self.own[worker] = key

    def _come_back(self, connection: Connection) -> None:
        """Take the locks again; the old session may need a moment to end."""
        for worker in sorted(self._lost):
            key = self.own[worker]
            if not signs.take(connection, key):
                continue
            if not signs.back(connection, worker, key, self._now(connection)):
                log.warning("worker %s was taken for dead while its connection was away", worker)
            self._lost.discard(worker)

    def _sleep(self, seconds: float) -> None:
        ready, _, _ = select.select([self._pipe[0]], [], [], seconds)
        if ready:
            os.read(self._pipe[0], 4096)
            time.sleep(PAUSE_SECONDS if not self._closing else 0)
