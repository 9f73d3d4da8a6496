"""Amounts in words."""

from __future__ import annotations

import pytest

from perdure.clock import SECOND
from perdure.store.protocol import NEVER
from perdure.timeline.amounts import duration, moment, size, stamp


@pytest.mark.parametrize(
    ("microseconds", "words"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (4_200, "4 ms"),
        (812_000, "0.8 s"),
        (42 * SECOND, "42 s"),
        (-42 * SECOND, "42 s"),
        (12 * 60 * SECOND, "12 min"),
        (3 * 3600 * SECOND, "3 h"),
        (50 * 3600 * SECOND, "2 d"),
    ],
)
def test_duration(microseconds: int, words: str) -> None:
    assert duration(microseconds) == words


def test_moments() -> None:
    at = 1_796_047_391_000_123
    assert moment(at) == "2026-11-30 14:03:11Z"
    assert stamp(at) == "2026-11-30T14:03:11.000123Z"


def test_a_moment_beyond_the_calendar_is_the_last_one() -> None:
    assert moment(NEVER).startswith("9999-12-31")


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (812, "812 B"), (41_200_000, "41.2 MB"), (10**15, "1000.0 TB")]
)
def test_size(count: int, words: str) -> None:
    assert size(count) == words
