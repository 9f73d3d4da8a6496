"""The write-ahead log of a store's file: how long it is, and when it is brought home.

It is brought home under the turn, by the writer's thread alone, never waiting for a reader; a log that would
not fit on a full disk stays where it is. It knows no jobs and no transactions.
"""

from __future__ import annotations

import logging
import time

import apsw

from perdure.store.sqlite.connection import PAGE_BYTES, translated
from perdure.store.sqlite.place import Place, free_bytes, size_of

log = logging.getLogger("perdure.store")

CHECKPOINT_PAGES = 1000
"""The write-ahead log is brought home whenever it has grown by so many pages."""

CHECKPOINT_RETRY_SECONDS = 0.5
"""… and, where a reader kept some of it from coming home, again after so long."""

RECLAIM_SECONDS = 1.0
"""On a full disk the log is emptied to make room, at most this often."""

PAGES_GIVEN_BACK = 500
"""After a removal the file shrinks by so many pages at a time, so that others' turns come soon …"""

GIVEN_BACK_SECONDS = 0.25
"""… and not more often than this, so that removals share the work of it."""

_SHORTLY_MS = 200

SCRUB_MS = 5000
"""What was erased is taken out of the log within so long, or at the next try."""


def empty_log(place: Place, *, whole: bool = False) -> bool:
    """Bring the whole log home and cut it off, on a connection of its own. False: a reader keeps it.

    `whole`: the file is written anew first.
    """
    with translated(place.path):
        connection = apsw.Connection(place.path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(SCRUB_MS)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.pragma("user_version")  # until it has read, it knows of no log
            if whole:
                connection.execute("VACUUM")
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
        finally:
            connection.close(True)
    return size_of(f"{place.path}-wal") <= 0


class Wal:
    """One process's view of the log. `freed`: pages of the file were freed, and can be given back."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.freed = False
        self._pages = 0
        self._blocked_since: float | None = None
        self._checked_pages = 0
        self._checked_at = 0.0
        self._emptied_at = -RECLAIM_SECONDS
        self._given_back_at = 0.0

    def count(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        """SQLite's hook: after each commit the log has so many pages."""
        self._pages = pages
        return apsw.SQLITE_OK

    def due(self) -> bool:
        """Whether it is time to bring it home."""
        blocked = self._blocked_since is not None
        now = time.monotonic()
        if self.freed and now - self._given_back_at >= GIVEN_BACK_SECONDS:
            return True
        if blocked and now - self._checked_at >= CHECKPOINT_RETRY_SECONDS:
            return True
        if self._pages < self._checked_pages:
            self._checked_pages = 0
        return self._pages - self._checked_pages >= CHECKPOINT_PAGES

    def bring_home(self, connection: apsw.Connection) -> None:
        """Bring it home; never waits for a reader. What a reader still needs stays for the next time."""
        self._checked_at = time.monotonic()
        try:
            if not self._fits(connection):
                self._checked_pages = self._pages
                return
            if self.freed and self._checked_at - self._given_back_at >= GIVEN_BACK_SECONDS:
                self.give_back(connection)
            total, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:  # another process is at it
            self._checked_pages = self._pages
            return
        except (apsw.Error, OSError) as error:
            log.warning("%s: checkpoint failed: %s", self.place.path, error)
            self._checked_pages = self._pages
            return
        self._checked_pages = total
        if moved >= total:
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = time.monotonic()

    def give_back(self, connection: apsw.Connection) -> None:
        """Give some of the free pages back to the disk; `freed` tells whether there are more. Raises apsw's
        errors.
        """
        self._given_back_at = time.monotonic()
        free: int = connection.pragma("freelist_count")
        connection.execute(f"PRAGMA incremental_vacuum({PAGES_GIVEN_BACK})").fetchall()
        self.freed = free > PAGES_GIVEN_BACK

    def empty(self, connection: apsw.Connection) -> bool:
        """Make room by emptying it; True if it was emptied just now."""
        now = time.monotonic()
        if now - self._emptied_at < RECLAIM_SECONDS:
            return False
        self._emptied_at = now
        if not self._fits(connection):
            return False
        connection.set_busy_timeout(_SHORTLY_MS)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            log.info("%s: the log could not be emptied: %s", self.place.path, error)
            return False
        finally:
            connection.set_busy_timeout(round(self.place.busy_seconds * 1000))
        return True

    def _fits(self, connection: apsw.Connection) -> bool:
        """Whether it can be brought home: one that does not fit would eat up the reserve half-way."""
        path = self.place.path
        pages: int = connection.pragma("page_count")
        return pages * PAGE_BYTES - size_of(path) <= free_bytes(path)

    def facts(self) -> dict[str, str]:
        """What `doctor` tells of it."""
        blocked = self._blocked_since
        held = "no" if blocked is None else f"for {time.monotonic() - blocked:.0f} s"
        return {"wal_pages": str(self._pages), "wal_held_by_reader": held}
