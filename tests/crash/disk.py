"""A disk that dies or lies on purpose, and the ways in which one may be found after a power failure.

`build` compiles tests/crash/disk.c; a process started with it in LD_PRELOAD steers it through `Disk`. What
it recorded is read back as `Operation`s, and `images` plays them up to a moment: what was synced is there, of
the rest any part may be.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from struct import Struct

SECTOR = 512
"""A disk writes so much whole, or not at all."""

_ENTRY = Struct("<c24sqI")


class Fault(IntEnum):
    """What happens at the chosen operation."""

    KILL_BEFORE = 1
    KILL_AFTER = 2
    KILL_TORN = 3  # after `argument` bytes of a write
    FAIL_ONCE = 4  # with `argument` as errno
    FAIL_FROM = 5  # this one and all that follow
    SHORT_ONCE = 6  # a write of `argument` bytes, honestly reported


@dataclass(frozen=True, slots=True)
class Operation:
    """One recorded change: W write, S sync, T truncate, C create, U unlink, F reserve; M is a mark."""

    kind: str
    name: str
    offset: int
    data: bytes


def build() -> Path | None:
    """The compiled library, or None where there is no C compiler or no LD_PRELOAD."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not os.path.exists("/proc/self/maps"):
        return None
    source = Path(__file__).with_name("disk.c")
    name = f"perdure-disk-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.so"
    target = Path(tempfile.gettempdir()) / name
    if not target.exists():
        half = target.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", half, source, "-ldl"], check=True)
        half.rename(target)
    return target


class Disk:
    """The library in this process; it must have been loaded by LD_PRELOAD."""

    def __init__(self) -> None:
        (path,) = [one for one in os.environ["LD_PRELOAD"].split(":") if "perdure-disk" in one]
        self._library = ctypes.CDLL(path)
        self._library.disk_arm.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_long]
        self._library.disk_operations.restype = ctypes.c_long
        self._library.disk_mark.argtypes = [ctypes.c_long]

    def watch(self, folder: Path) -> None:
        """Operations on files of this folder count from now on."""
        self._library.disk_watch(os.fsencode(f"{folder}/"))

    def arm(self, at: int, fault: Fault, argument: int = 0) -> None:
        """Let this happen at operation number `at`, counted from here."""
        self._library.disk_arm(at, int(fault), argument)

    def operations(self) -> int:
        """How many there were since it was armed, or since the process began."""
        return int(self._library.disk_operations())

    def record(self, path: Path | None) -> None:
        """Write every operation into a file from now on; None ends it."""
        self._library.disk_record(None if path is None else os.fsencode(path))

    def mark(self, number: int) -> None:
        """Put a mark into the record: the program was told something."""
        self._library.disk_mark(number)


def recorded(path: Path) -> list[Operation]:
    """What `Disk.record` wrote."""
    data = path.read_bytes()
    found, at = [], 0
    while at < len(data):
        kind, name, offset, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        found.append(Operation(kind.decode(), name.rstrip(b"\0").decode(), offset, data[at : at + length]))
        at += length
    return found


@dataclass(frozen=True, slots=True)
class Image:
    """A disk as it may be found: the marks that had been given by then, and the files' bytes."""

    cut: int
    way: str
    marks: frozenset[int]
    files: dict[str, bytes]


def images(operations: list[Operation], chance: random.Random, count: int, last: int = 0) -> Iterator[Image]:
    """Disks as they may be found after a power failure at random moments, up to operation `last` if given."""
    for _ in range(count):
        cut = chance.randrange(1, (last or len(operations)) + 1)
        way = chance.choice(("lost", "all", "some", "torn"))
        marks = frozenset(one.offset for one in operations[:cut] if one.kind == "M")
        names = {one.name for one in operations[:cut] if one.kind == "C"}
        files = {}
        for name in sorted(names):
            if (found := _file(name, operations[:cut], chance, way)) is not None:
                files[name] = found
        yield Image(cut, way, marks, files)


def _file(name: str, operations: list[Operation], chance: random.Random, way: str) -> bytes | None:
    """One file: everything up to its last sync, and of what came later none, all, or any part."""
    own = [(place, one) for place, one in enumerate(operations, 1) if one.name == name]
    synced = max((number for number, (_, one) in enumerate(own) if one.kind in "SC"), default=-1)
    content: bytearray | None = None
    for number, (place, one) in enumerate(own):
        # SQLite syncs the folder directly after it has removed a file; such syncs are not recorded.
        removed = one.kind == "U" and place < len(operations)
        sure = number <= synced or removed
        if not sure and (way == "lost" or (way in ("some", "torn") and chance.random() < 0.5)):
            continue
        if one.kind == "C":
            content = bytearray()
        elif one.kind == "U":
            content = None
        elif content is None:
            continue
        elif one.kind == "T":
            _truncate(content, one.offset)
        elif one.kind == "W":
            _put(content, one.offset, one.data, None if sure or way != "torn" else chance)
    return None if content is None else bytes(content)


def _truncate(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _put(content: bytearray, offset: int, data: bytes, torn_by: random.Random | None) -> None:
    end = offset + len(data)
    content.extend(bytes(max(0, end - len(content))))
    if torn_by is None:
        content[offset:end] = data
        return
    for start in range(offset, end, SECTOR):
        if torn_by.random() < 0.5:
            stop = min(start + SECTOR, end)
            content[start:stop] = data[start - offset : stop - offset]


if __name__ == "__main__":
    print(build())
