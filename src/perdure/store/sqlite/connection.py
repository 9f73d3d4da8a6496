"""One connection to a store's file: made, checked, set, read back; its errors translated.

It knows SQLite's settings and error codes and the version of the tables. It refuses files that perdure did
not make and tables that a newer perdure made, and keeps the promise of `synchronous=FULL` by asking SQLite
again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import apsw

from perdure.errors import (
    Damaged,
    DiskFull,
    NotAStore,
    NotDurable,
    StoreError,
    StoreIO,
    StoreLocked,
    StoreNewer,
    StoreReadOnly,
    StoreUnavailable,
    TooLarge,
)
from perdure.store.upgrade import Shape, schema_text

APPLICATION_ID = 0x70645552
"""What marks a file as ours: `pdUR`, at offset 68 of the file."""

SHAPE = Shape("sqlite", 2)
"""The version of the tables that this perdure reads and writes, and how an older one becomes it."""

SCHEMA_VERSION = SHAPE.version
"""The version alone."""

PAGE_BYTES = 4096
"""The page size of a store's file."""

WAL_LIMIT_BYTES = 8 << 20
"""What is left of the write-ahead log's file once a checkpoint has emptied it."""

FIRST_FRAME_BYTES = 32 + 24 + PAGE_BYTES
"""A log shorter than its head and one frame holds no page (SQLite: Database File Format, the WAL format)."""

_MAGIC = b"SQLite format 3\0"
_HEAD_BYTES = 100


def open_writer(path: str, busy_seconds: float) -> apsw.Connection:
    """A connection that writes: tables made or checked, WAL, FULL. To be called while holding the turn."""
    check_file(path)
    with translated(path):
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(path, flags=flags)
    try:
        with translated(path):
            if connection.readonly("main"):
                raise StoreReadOnly(f"{path} cannot be written: {missing_right(path)}", path=path)
            _patiently(lambda: _set_up(connection, path), busy_seconds)
    except BaseException:
        connection.close(True)
        raise
    return connection


def open_reader(path: str, busy_seconds: float) -> apsw.Connection:
    """A connection that only reads, beside one that writes: it may make the log's index."""
    check_file(path)
    _check_there(path)
    return _reading(path, "mode=ro", busy_seconds)


def open_quietly(path: str, busy_seconds: float) -> tuple[apsw.Connection, bool]:
    """A connection that reads and leaves no trace: no file is made, none is changed, whoever else is there.

    The second value is True if it sees the files alone, as they are now: whoever reads must look whether they
    changed meanwhile. A log without a page is left out: SQLite takes one that was cut short there for locked.
    A log that has an index is read through it, without marking anything in it; one without an index belongs
    to nobody who lives, and is indexed in memory.
    Raises StoreUnavailable, also for a file whose making was cut short: nothing was ever acknowledged in it.
    """
    check_file(path)
    _check_there(path)
    if _size(path + "-journal"):
        what = f"the making of {path} was cut short, and nothing was kept in it yet"
        remedy = "start a run or a worker with this store: that makes it to its end"
        raise StoreUnavailable(what, remedy=remedy, path=path)
    if _size(path + "-wal") < FIRST_FRAME_BYTES:
        return _reading(path, "mode=ro&immutable=1", busy_seconds), True
    if os.path.exists(path + "-shm"):
        return _reading(path, "mode=ro&readonly_shm=1", busy_seconds), False
    return _reading(path, f"mode=ro&vfs={_LOCKLESS}", busy_seconds, exclusive=True), True


_LOCKLESS = "win32-none" if os.name == "nt" else "unix-none"


def _check_there(path: str) -> None:
    if not os.path.exists(path):
        raise StoreUnavailable(f"there is no store at {path}", path=path)


def _reading(path: str, how: str, busy_seconds: float, *, exclusive: bool = False) -> apsw.Connection:
    address = f"file:{quote(path)}?{how}"
    with translated(path):
        connection = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        with translated(path):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.set_busy_timeout(round(busy_seconds * 1000))
            connection.execute("PRAGMA mmap_size=0")
            if exclusive:
                connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # the log's index in memory
            _check_readable(connection, path)
    except BaseException:
        connection.close(True)
        raise
    return connection


def _check_readable(connection: apsw.Connection, path: str) -> None:
    """Refuse tables that must be brought up to date first, which a reader cannot do."""
    version = check_tables(connection, path)
    if 0 < version < SHAPE.version:
        what = f"{path} has tables of version {version}, this perdure reads {SHAPE.version}"
        remedy = "start a run or a worker with this store: that brings them up to date"
        raise StoreUnavailable(what, remedy=remedy, path=path)


def check_file(path: str) -> None:
    """Refuse what cannot be a store before SQLite touches it. Raises StoreUnavailable, NotAStore."""
    folder = os.path.dirname(path)
    if path in _unsafe:
        what = f"this process was forked while {path} was being written, so it cannot use that file"
        raise StoreUnavailable(
            what, remedy="start a new process instead of forking (multiprocessing: spawn)", path=path
        )
    if not os.path.isdir(folder):
        raise StoreUnavailable(f"the folder {folder} does not exist", remedy=f"mkdir -p {folder}", path=path)
    if os.path.isdir(path):
        raise StoreUnavailable(f"{path} is a folder", remedy="name a file in it", path=path)
    try:
        with open(path, "rb") as file:
            head = file.read(len(_MAGIC))
    except FileNotFoundError:
        if not os.access(folder, os.W_OK):
            what = f"{path} does not exist and cannot be made: the folder is not writable"
            raise StoreUnavailable(
                what, remedy=f"give this user write permission on {folder}", path=path
            ) from None
        return
    except OSError as error:
        remedy = f"give this user read permission on {path}"
        raise StoreUnavailable(
            f"{path} cannot be read: {error.strerror}", remedy=remedy, path=path
        ) from error
    # A file whose making was cut short is mended by SQLite from its journal, however it begins.
    if head and not head.startswith(_MAGIC) and not _size(path + "-journal"):
        raise NotAStore(f"{path} is not an SQLite file", path=path)


def check_name(path: str) -> None:
    """Refuse a file that has a second name. Raises StoreUnavailable.

    The log, its index and our locks are found by the name: who comes by the other one has others, sees
    nothing of what is written here, and writes over it. To be asked when a store is opened: a link that is
    made later is somebody's copy.
    """
    with contextlib.suppress(FileNotFoundError):
        names = os.stat(path).st_nlink
        if names > 1:
            what = f"{path} is one of {names} names of one file (hard links), and each has another log"
            remedy = "keep one name: find the others (find -samefile) and put copies in their place"
            raise StoreUnavailable(what, remedy=remedy, path=path)


def check_ours(path: str, busy_seconds: float) -> None:
    """Refuse another program's database, or a newer perdure's, before anything is made beside it.

    Raises NotAStore, StoreNewer.
    """
    if not _size(path) or _size(path + "-journal"):
        return
    with contextlib.suppress(OSError), open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        if head[68:72] != APPLICATION_ID.to_bytes(4) or head[60:64] != SCHEMA_VERSION.to_bytes(4):
            # Another process makes it, or brings it up to date, just now: whoever opens it next judges it.
            with contextlib.suppress(StoreUnavailable):
                open_quietly(path, busy_seconds)[0].close(True)


def check_tables(connection: apsw.Connection, path: str, shape: Shape = SHAPE) -> int:
    """The version of the tables, 0 in an empty file. Raises NotAStore, StoreNewer."""
    # In this order: whoever makes the store meanwhile does so in one commit, and before it there is nothing.
    filled = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is not None
    filled = bool(connection.pragma("user_version")) or filled
    application = connection.pragma("application_id")
    if application == APPLICATION_ID:
        check_version(connection, path, shape)
        return int(connection.pragma("user_version"))
    if application or filled:
        raise NotAStore(f"{path} is an SQLite database that perdure did not make", path=path)
    return 0


def check_version(connection: apsw.Connection, path: str, shape: Shape = SHAPE) -> None:
    """Refuse tables that a newer perdure has upgraded, perhaps just now. Raises StoreNewer."""
    version = connection.pragma("user_version")
    if version > shape.version:
        what = f"{path} has tables of version {version}, this perdure knows {shape.version}"
        raise StoreNewer(what, path=path, version=version, known=shape.version)


def _set_up(connection: apsw.Connection, path: str) -> None:
    version = check_tables(connection, path)
    if not version:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # so that pruning gives room back to the disk
    mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        remedy = "keep the store on a local disk: network file systems cannot share a write-ahead log"
        raise StoreUnavailable(
            f"{path} cannot have a write-ahead log here (journal mode {mode})", remedy=remedy, path=path
        )
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=1")  # macOS: ask the disk itself
    connection.execute("PRAGMA checkpoint_fullfsync=1")
    connection.execute("PRAGMA mmap_size=0")
    connection.execute("PRAGMA trusted_schema=0")
    connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT_BYTES}")
    connection.wal_autocheckpoint(0)  # checkpoints are taken under the turn, by perdure
    check_durable(connection, path)
    if version < SHAPE.version:
        make_tables(connection, path)


def make_tables(connection: apsw.Connection, path: str, shape: Shape = SHAPE) -> None:
    """Make the tables, or bring older ones up to date, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = check_tables(connection, path, shape)
        if version < shape.version:
            for step in shape.steps(version) if version else [shape.first]:
                connection.execute(schema_text(step))
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={shape.version}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def check_durable(connection: apsw.Connection, path: str) -> None:
    """Ask SQLite whether it will sync every commit. Raises NotDurable."""
    level, mapped = connection.pragma("synchronous"), connection.pragma("mmap_size")
    if level != 2:
        raise NotDurable(
            f"{path}: synchronous is {level} after FULL (2) was asked for", path=path, level=level
        )
    if mapped:
        raise NotDurable(f"{path}: {mapped} bytes are memory-mapped after 0 was asked for", path=path)


def settings(connection: apsw.Connection) -> dict[str, str]:
    """What SQLite says it is set to, for people."""
    names = ("journal_mode", "synchronous", "page_size", "auto_vacuum", "wal_autocheckpoint", "mmap_size")
    return {name: str(connection.pragma(name)) for name in names}


def _patiently(set_up: Callable[[], None], seconds: float) -> None:
    """Switching a new file to WAL does not honour SQLite's own busy timeout; so it is tried again here."""
    until = time.monotonic() + seconds
    while True:
        try:
            set_up()
            return
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() >= until:
                raise
            time.sleep(0.005)


class translated:  # noqa: N801 - reads as a word: `with translated(path):`
    """Turns the driver's errors into perdure's: `with translated(path): …`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise translate(error, self._path) from error


def translate(error: apsw.Error, path: str) -> StoreError:
    """The driver's error as one of ours."""
    facts: dict[str, Any] = {
        "path": path,
        "sqlite": type(error).__name__,
        "extended": getattr(error, "extendedresult", 0),
    }
    text = str(error)
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return StoreLocked(f"{path} is locked by another program", **facts)
        case apsw.FullError():
            return DiskFull(f"no room to write {path}", **facts)
        case apsw.IOError() if facts["extended"] == apsw.SQLITE_IOERR_SHMSIZE:
            return DiskFull(f"no room for what SQLite keeps beside {path} while it is open", **facts)
        case apsw.IOError():
            return StoreIO(f"the disk failed under {path}: {text}", **facts)
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreReadOnly(f"{path} cannot be written: {missing_right(path)}", **facts)
        case apsw.CantOpenError():
            remedy = f"check the path and its rights: {missing_right(path)}"
            return StoreUnavailable(f"{path} cannot be opened: {text}", remedy=remedy, **facts)
        case apsw.CorruptError():
            safe = "Nothing was written. What reads well is served, damage never is."
            return Damaged(f"{path} is damaged: {text}", safe=safe, **facts)
        case apsw.NotADBError():
            return NotAStore(f"{path} is not an SQLite file", **facts)
        case apsw.TooBigError():
            return TooLarge(f"a value is above SQLite's limit: {text}", **facts)
        case apsw.SQLError() | apsw.SchemaChangeError():  # of every run, so that none is set aside for it
            remedy = "bring the tables back, from a backup if they are gone; then the runs go on"
            return StoreUnavailable(f"{path} lacks tables of perdure's: {text}", remedy=remedy, **facts)
        case apsw.ConstraintError() | apsw.MismatchError():
            return Damaged(f"the tables of {path} are not as perdure made them: {text}", **facts)
        case _:
            return StoreIO(f"SQLite failed on {path}: {type(error).__name__}: {text}", **facts)


_unsafe: set[str] = set()  # files that a fork caught SQLite at work on, in this process


def leave_to_parent(connection: apsw.Connection | None, path: str, *, still: bool) -> None:
    """In a forked child: close an inherited connection without any effect on the file or on the parent."""
    if connection is None:
        return
    if still:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close(True)
    else:
        import ctypes  # dear to load, and hardly ever needed

        _unsafe.add(path)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # so that it is never closed


def missing_right(path: str) -> str:
    """Which right this user lacks, in words."""
    folder = os.path.dirname(path)
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return f"no right to read {path}"
    if os.path.exists(path) and not os.access(path, os.W_OK):
        return f"no right to write {path}"
    if not os.access(folder, os.W_OK):
        return f"no right to write in the folder {folder}"
    return "the file system is read-only, or the rights of the -wal and -shm files differ"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
