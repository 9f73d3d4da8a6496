"""Kills, failing disks and power failures, one life of a store for each; tests/crash/disk.c is preloaded.

    python -m tests.crash.store_sweep MODE SEED COUNT [MUTANT]

prints `operations N`, `points N`, one line per broken promise, and the numbers that prove that something was
tried. Each life is a forked child of this warm process, in which no store was ever opened.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import PerdureError
from tests.crash import store_life, store_mutants
from tests.crash.disk import Disk, Fault, Operation, images, recorded

BIRTH = 60
"""Operations in which a new file becomes a store, and a few more."""

SECONDS = 30
"""A life that takes longer hangs."""


@dataclass(frozen=True)
class End:
    """How a child ended, and what it told."""

    status: int
    told: tuple[str, ...]

    @property
    def killed(self) -> bool:
        """By the disk, as it should."""
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL

    @property
    def well(self) -> bool:
        """It came to its own end."""
        return self.status == 0

    @property
    def hung(self) -> bool:
        """It took too long."""
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGALRM


def child(work: Callable[[Callable[[str], None]], None]) -> End:
    """Fork, work, end; a store's error is told as `!`, anything else ends badly."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(SECONDS)
        code = 1
        try:
            work(lambda line: _say(writing, line))
            code = 0
        except PerdureError as error:
            _say(writing, f"!{error.code}")
            code = 0
        except BaseException:  # noqa: BLE001 - a child must not go on as its parent
            traceback.print_exc()
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = tuple(line.rstrip("\n") for line in pipe)
    return End(os.waitpid(pid, 0)[1], told)


def _say(fd: int, line: str) -> None:
    os.write(fd, line.encode() + b"\n")


@dataclass(frozen=True)
class Point:
    """Where a life meets its fault."""

    at: int
    fault: Fault
    argument: int = 0


def points(mode: str, operations: list[Operation], chance: random.Random, count: int) -> list[Point]:
    """The faults to try: all of the mode's, or `count` of them."""
    every = [number for number, one in enumerate(operations, 1) if mode != "sync" or one.kind == "S"]
    if mode == "born":
        every = every[: BIRTH // 2]
    kinds: dict[str, list[tuple[Fault, int]]] = {
        "kill": [(Fault.KILL_BEFORE, 0), (Fault.KILL_AFTER, 0)],
        "torn": [(Fault.KILL_TORN, length) for length in (1, 23, 512, 2048, 4095)],
        "born": [(Fault.KILL_TORN, length) for length in (1, 512)],
        "eio": [(Fault.FAIL_ONCE, errno.EIO), (Fault.FAIL_FROM, errno.EIO)],
        "sync": [(Fault.FAIL_ONCE, errno.EIO), (Fault.FAIL_FROM, errno.EIO)],
        "full": [(Fault.FAIL_ONCE, errno.ENOSPC), (Fault.FAIL_FROM, errno.ENOSPC)],
        "short": [(Fault.SHORT_ONCE, length) for length in (1, 512, 2048)],
    }
    found = [Point(at, fault, argument) for at in every for fault, argument in kinds[mode]]
    return (
        found
        if count == 0 or count >= len(found)
        else sorted(chance.sample(found, count), key=lambda p: p.at)
    )


class Sweep:
    """All lives of one invocation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.disk = Disk()
        self.seen: Counter[str] = Counter()
        self.wrong = 0

    def life(self, folder: Path, point: Point | None, record: Path | None = None) -> End:
        """One life, in a child."""

        def work(tell: Callable[[str], None]) -> None:
            self.disk.watch(folder)
            if point is not None:
                self.disk.arm(point.at, point.fault, point.argument)
            self.disk.record(record)
            marks = 0

            def told(line: str) -> None:
                nonlocal marks
                self.disk.mark(marks)
                marks += 1
                tell(line)

            asyncio.run(store_life.live(folder / "runs.db", told))

        return child(work)

    def judged(self, folder: Path, told: tuple[str, ...]) -> list[str]:
        """What is broken, found in a child of its own."""

        def work(tell: Callable[[str], None]) -> None:
            for line in store_life.judge(folder / "runs.db", told):
                tell(line.replace("\n", " "))

        end = child(work)
        return list(end.told) if end.well else [*end.told, f"judging ended with {end.status}"]

    def blame(self, what: str, *where: object) -> None:
        """Print a broken promise, and what it takes to see it again."""
        self.wrong += 1
        print("BROKEN", what, "| seed", self.seed, *where, flush=True)

    def try_point(self, point: Point) -> None:
        """One life with a fault, a judgement, the rest of the life without, and another judgement."""
        folder = Path(tempfile.mkdtemp(prefix="perdure-crash-"))
        end = self.life(folder, point)
        self.seen["killed" if end.killed else "ended" if end.well else "other"] += 1
        self.seen["errors"] += any(line[0] == "!" for line in end.told)
        self.seen["refused"] += any(line[0] == "-" for line in end.told)
        self.seen["unknown"] += any(line[0] == "?" for line in end.told)
        if end.hung or not (end.killed or end.well):
            self.blame(f"the life ended with status {end.status}", point, end.told[-3:])
        for what in self.judged(folder, end.told):
            self.blame(what, point, "at once")
        rest = self.life(folder, None)
        if not rest.well or "+end" not in rest.told:
            self.blame(f"no second life: {rest.told[-3:]}", point)
        for what in self.judged(folder, (*end.told, *rest.told)):
            self.blame(what, point, "after a second life")
        shutil.rmtree(folder)

    def whole(self) -> tuple[tuple[str, ...], list[Operation]]:
        """A life without a fault: what it told, and what it did to the disk."""
        folder = Path(tempfile.mkdtemp(prefix="perdure-crash-"))
        record = folder.with_suffix(".record")
        end = self.life(folder, None, record)
        assert end.well, end
        broken = self.judged(folder, end.told)
        assert not broken, broken
        operations = recorded(record)
        shutil.rmtree(folder)
        record.unlink()
        return end.told, operations

    def sweep(self, mode: str, count: int) -> None:
        """A whole life to learn its operations, then one life for each fault."""
        _, operations = self.whole()
        changes = [one for one in operations if one.kind != "M"]
        tried = points(mode, changes, random.Random(self.seed), count)
        for point in tried:
            self.try_point(point)
        print("operations", len(changes))
        print("points", len(tried))

    def power(self, count: int, last: int = 0) -> None:
        """One recorded life, and disks as they may be found after the power failed in it."""
        told, operations = self.whole()
        folder = Path(tempfile.mkdtemp(prefix="perdure-crash-"))
        folder.rmdir()
        for image in images(operations, random.Random(self.seed), count, last):
            self.seen[image.way] += 1
            folder.mkdir()
            for name, content in image.files.items():
                if name in ("runs.db", "runs.db-wal", "runs.db-journal"):
                    (folder / name).write_bytes(content)
            known = tuple(line for number, line in enumerate(told) if number in image.marks)
            for what in self.judged(folder, known):
                self.blame(what, f"cut {image.cut}", image.way)
            shutil.rmtree(folder)
        print("operations", len(operations))
        print("points", count)


def main(mode: str, seed: int, count: int) -> Iterator[str]:
    """Run a mode; yields the numbers."""
    logging.disable(logging.ERROR)
    sweep = Sweep(seed)
    if mode == "power":
        sweep.power(count)
    elif mode == "birth":
        sweep.power(count, BIRTH)
    else:
        sweep.sweep(mode, count)
    yield f"broken {sweep.wrong}"
    for what, times in sorted(sweep.seen.items()):
        yield f"{what} {times}"


if __name__ == "__main__":
    if len(sys.argv) > 4:
        getattr(store_mutants, sys.argv[4])()
    for text in main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])):
        print(text)
