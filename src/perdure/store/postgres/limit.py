"""How long a server may take for an answer, judged on this side.

A server that hangs, or a commit that waits for a standby that is gone, would keep a thread for ever: limits
that the server keeps end neither. One thread per store looks at the exchanges that are under way, and cuts
the link of one whose time is over; whoever waits then hears of a lost connection, and settles it as one. It
knows sockets and moments, and nothing of what was asked.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from msgspec import Struct

LOOK_SECONDS = 0.25
"""How often the thread looks while anything is under way."""


class NoAnswer(psycopg.OperationalError):
    """The server has not answered in time, and the link was cut."""


class _Exchange(Struct, eq=False):
    connection: psycopg.Connection[Any]
    until: float
    over: bool = False


class Limit:
    """Cuts links that wait for too long. `seconds` is what one exchange may take, if nothing else is said."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._mutex = threading.Lock()
        self._under_way: set[_Exchange] = set()
        self._begun = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def on(self, connection: psycopg.Connection[Any], seconds: float | None = None) -> Iterator[None]:
        """An exchange, or several, for which the server has so long together. Raises NoAnswer."""
        allowed = self.seconds if seconds is None else seconds
        exchange = _Exchange(connection, time.monotonic() + allowed)
        self._add(exchange)
        try:
            yield
        except psycopg.Error as error:
            if exchange.over:
                raise NoAnswer(f"no answer within {allowed:g} s") from error
            raise
        finally:
            with self._mutex:
                self._under_way.discard(exchange)

    def hurry(self) -> None:
        """Whoever waits for an answer has waited long enough."""
        with self._mutex:
            for exchange in self._under_way:
                exchange.until = 0.0
            self.seconds = min(self.seconds, 1.0)

    def close(self) -> None:
        """Look no more; nothing may be under way that has no end of its own."""
        self._closing.set()
        self._begun.set()
        if self._thread is not None:
            self._thread.join()

    def _add(self, exchange: _Exchange) -> None:
        with self._mutex:
            self._under_way.add(exchange)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._look, name="perdure-limit", daemon=True)
                self._thread.start()
        if not self._begun.is_set():  # it sleeps, for nothing was under way
            self._begun.set()

    def _look(self) -> None:
        while not self._closing.is_set():
            self._begun.wait()
            self._closing.wait(LOOK_SECONDS)
            with self._mutex:
                now = time.monotonic()
                for exchange in self._under_way:
                    if exchange.until <= now and not exchange.over:
                        exchange.over = True
                        _cut(exchange.connection)
                if not self._under_way and not self._closing.is_set():
                    self._begun.clear()


def _cut(connection: psycopg.Connection[Any]) -> None:
    """End the link in both directions; whoever waits on it hears that at once."""
    with (
        contextlib.suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as link,
    ):
        link.shutdown(socket.SHUT_RDWR)
