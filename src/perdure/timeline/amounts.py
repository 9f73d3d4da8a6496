"""Amounts as a person says them, and as a program reads them. Times are microseconds since the epoch, UTC."""

from __future__ import annotations

import datetime as dt


def duration(microseconds: int) -> str:
    """A length of time as a person says it: `4 ms`, `0.8 s`, `12 min`, `3 h`, `2 d`."""
    seconds = abs(microseconds) / 1_000_000
    if seconds < 0.001:
        return f"{abs(microseconds)} µs"
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} d"


def elapsed(microseconds: int) -> str:
    """Time since a start, to the millisecond while that tells something: `0.482 s`, `12 min`."""
    return f"{microseconds / 1_000_000:.3f} s" if microseconds < 100_000_000 else duration(microseconds)


def moment(microseconds: int) -> str:
    """A moment, UTC, to the second: `2026-11-29 14:03:11Z`."""
    return _utc(microseconds).strftime("%Y-%m-%d %H:%M:%SZ")


def stamp(microseconds: int) -> str:
    """A moment for programs: ISO 8601 with microseconds, UTC."""
    return _utc(microseconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST = dt.datetime.max.replace(tzinfo=dt.UTC)


def _utc(microseconds: int) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return _LAST


def counted(count: int, noun: str) -> str:
    """A number of things: `1 run`, `1,204 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """A number of bytes as a person says it, in powers of 1000: `812 B`, `41.2 MB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
