"""A worker's process collects seldom; who has set the collector keeps what was set."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from perdure.worker.collector import SELDOM, collect_seldom


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    gc.unfreeze()  # what a test before has left out
    yield
    gc.set_threshold(*before)
    gc.enable()
    gc.unfreeze()


def test_it_collects_seldom_and_leaves_out_what_is_loaded() -> None:
    """Python's own settings are raised, and a circle is still found."""
    gc.set_threshold(700, 10, 10)
    collect_seldom()
    assert gc.get_threshold() == (SELDOM, 10, 10)
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
    circle: list[object] = []
    circle.append(circle)
    del circle
    assert gc.collect() >= 1


@pytest.mark.parametrize("first", [0, SELDOM + 1])
def test_who_has_set_it_keeps_it(first: int) -> None:
    """Never, or more seldom still."""
    gc.set_threshold(first, 5, 5)
    collect_seldom()
    assert gc.get_threshold() == (first, 5, 5)
    assert gc.get_freeze_count() == 0


def test_who_has_switched_it_off_keeps_it_off() -> None:
    """Nothing is collected then."""
    gc.disable()
    collect_seldom()
    assert not gc.isenabled()
    assert gc.get_freeze_count() == 0
