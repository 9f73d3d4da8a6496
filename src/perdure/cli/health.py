"""What `perdure doctor` finds: this Python, this SQLite, this disk, this store, and the runs that need
someone.

Each finding is measured or read back now; nothing is assumed. The one file written is a scratch file for
timing syncs, in the store's folder, and it is removed.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from perdure.cli.options import Options
from perdure.cli.storage import path_of, there, url_of
from perdure.errors import NoStore, PerdureError
from perdure.store.protocol import Query, Store
from perdure.timeline.amounts import counted, duration, size
from perdure.timeline.condition import condition

SYNCS = 20
"""How many syncs are timed."""

SPACE_MIN = 256 * 1024 * 1024
"""Free bytes below which the disk is called nearly full."""

WAL_LARGE = 256 * 1024 * 1024
"""A write-ahead log above this is not being taken back into the file."""

OPEN_LOOKED_AT = 10_000
"""Open runs that are looked at; there may be more."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `remedy` is empty when there is nothing to do."""

    about: str
    level: Literal["ok", "warn", "bad"]
    text: str
    remedy: str = ""

    def document(self) -> dict[str, Any]:
        """The finding for a program."""
        return asdict(self)


async def examined(options: Options) -> list[Finding]:
    """Everything there is to find, machine first."""
    findings = [_python(), _sqlite()]
    url = url_of(options)
    path = path_of(url)
    if path is not None:
        findings += _disk(path.absolute().parent)
    try:
        async with there(options) as store:
            findings += await _store(store)
            findings += await _open_runs(store)
    except NoStore as missing:
        findings.append(Finding("store", "ok", f"{missing.what}; the first run makes it"))
    except PerdureError as error:
        findings.append(Finding("store", "bad", f"[{error.code}] {error.what}", error.remedy))
    return findings


def _python() -> Finding:
    try:
        ours = version("perdure")
    except PackageNotFoundError:
        ours = "not installed as a package"
    return Finding("python", "ok", f"{platform.python_version()}, perdure {ours}, {sys.platform}")


def wal_reset_bug(library: str) -> bool:
    """Whether this SQLite can corrupt a database in WAL mode when its log is reset.

    It came with 3.7.0 and went with 3.51.3; 3.44.6 and 3.50.7 have the repair as well.
    """
    major, minor, patch = (int(part) for part in library.split(".")[:3])
    repaired = {(3, 44): 6, (3, 50): 7}.get((major, minor))
    if repaired is not None and patch >= repaired:
        return False
    return (3, 7, 0) <= (major, minor, patch) <= (3, 51, 2)


def _sqlite() -> Finding:
    import apsw

    library = apsw.sqlite_lib_version()
    if wal_reset_bug(library):
        return Finding(
            "sqlite",
            "bad",
            f"SQLite {library} can corrupt a database when its write-ahead log is reset",
            "use the SQLite that comes with apsw: pip install -U apsw",
        )
    return Finding(
        "sqlite", "ok", f"SQLite {library} (apsw {apsw.apsw_version()}), free of the WAL-reset bug"
    )


def _disk(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield Finding("disk", "bad", f"the folder {folder} is not there", f"mkdir -p {folder}")
        return
    free = shutil.disk_usage(folder).free
    low = free < SPACE_MIN
    yield Finding(
        "disk",
        "warn" if low else "ok",
        f"{size(free)} free in {folder}",
        "free space: new acts stop before receipts do, but they stop" if low else "",
    )
    try:
        times = sorted(_sync_times(folder))
    except OSError as error:
        yield _not_timed(folder, error)
        return
    median, worst = statistics.median(times), times[-1]
    lying = median < 20e-6
    text = f"{duration(round(median * 1e6))} median, {duration(round(worst * 1e6))} worst of {len(times)}"
    yield Finding(
        "fsync",
        "warn" if lying else "ok",
        text + ("; too fast to be a disk: what is acknowledged may not survive a power cut" if lying else ""),
        "put the store on a real disk (not tmpfs) if it must survive a power cut" if lying else "",
    )


def _not_timed(folder: Path, error: OSError) -> Finding:
    """A folder that is not for this user to write is nothing wrong with the machine."""
    text = f"not timed: {folder} cannot be written by this user ({error.strerror})"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "looks work; to run agents give this user write permission, or name another --store"
        return Finding("fsync", "warn", text, remedy)
    return Finding(
        "fsync", "bad", f"not timed: {folder} cannot be written: {error.strerror}", "mend the disk"
    )


def _sync_times(folder: Path) -> Iterator[float]:
    """Seconds of each of a few writes with fsync, in a scratch file in this folder."""
    with tempfile.TemporaryFile(dir=folder) as scratch:
        for _ in range(SYNCS):
            os.write(scratch.fileno(), b"x" * 4096)
            before = time.perf_counter()
            os.fsync(scratch.fileno())
            yield time.perf_counter() - before


async def _store(store: Store) -> list[Finding]:
    numbers = await store.stats()
    total = sum(numbers.runs.values())
    findings = [
        Finding("store", "ok", f"{store.url}: {counted(total, 'run')}, {counted(numbers.events, 'event')}")
    ]
    if numbers.facts:
        findings.append(_settings(dict(numbers.facts)))
    if "server_version" in numbers.facts:
        return [*findings, Finding("tables", "ok", size(numbers.file_bytes))]
    large = numbers.wal_bytes > WAL_LARGE
    findings.append(
        Finding(
            "file",
            "warn" if large else "ok",
            f"{size(numbers.file_bytes)}, write-ahead log {size(numbers.wal_bytes)}",
            "a program that reads for ever keeps the log from shrinking: find and end it" if large else "",
        )
    )
    return findings


SYNCHRONOUS = {"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"}
"""SQLite's words for how hard it syncs."""


UNREAD = "unknown until a writer opens it: that asks for FULL, reads it back, and refuses less (S108)"
"""Of how hard the store syncs, where nobody has set it yet."""


def _settings(facts: dict[str, str]) -> Finding:
    """What was read back from the database: it keeps what it acknowledges only with FULL or EXTRA.

    Nothing is assumed: under a look nobody has set it, and it says so.
    """
    if "server_version" in facts:  # a database, which is not opened where it would not sync
        return Finding("settings", "ok", _listed(facts))
    for name in ("file", "sqlite"):  # these have lines of their own
        facts.pop(name, None)
    sync = facts.get("synchronous")
    if sync is None:  # each connection that writes has its own; a look opens none
        return Finding("settings", "ok", _listed(facts | {"synchronous": UNREAD}))
    facts["synchronous"] = sync = SYNCHRONOUS.get(sync, sync.upper())
    text = _listed(facts)
    if sync not in ("FULL", "EXTRA"):
        return Finding("settings", "bad", text, "perdure explain S108")
    return Finding("settings", "ok", text)


def _listed(facts: dict[str, str]) -> str:
    return ", ".join(f"{name} {fact}" for name, fact in facts.items())


async def _open_runs(store: Store) -> list[Finding]:
    rows = await store.list(Query(open_only=True, limit=OPEN_LOOKED_AT))
    words: dict[str, list[str]] = {}
    for row in rows:
        words.setdefault(condition(row, store.now()).word, []).append(row.run_id)
    findings = [
        Finding(
            "open runs",
            "ok",
            ", ".join(f"{len(ids)} {word}" for word, ids in sorted(words.items())) or "none",
        )
    ]
    for word in ("interrupted", "silent", "overdue"):
        if ids := words.get(word):
            remedy = "start a worker: perdure worker MODULE:AGENT"
            findings.append(Finding(word, "warn", f"{counted(len(ids), 'run')}, such as {ids[0]}", remedy))
    if ids := words.get("held"):
        findings.append(
            Finding(
                "held",
                "warn",
                f"{counted(len(ids), 'run')}, such as {ids[0]}: a person must decide",
                f"perdure why {ids[0]}",
            )
        )
    return findings
