"""Every boundary of every scenario, killed there with SIGKILL, resumed, judged; half of them killed once
more.

`PERDURE_CRASH_SCALE=4` draws four times as many second kills. A failure prints the command that repeats it.
"""

from __future__ import annotations

import os

import pytest

from perdure.runtime.boundary import BOUNDARIES
from perdure.testing.crash.kill import TOLD
from perdure.testing.crash.pool import Tally, sweep_all
from tests.crash import scenarios
from tests.crash.keeping import BOUNDARIES as KEEPING

pytestmark = [pytest.mark.crash, pytest.mark.slow]

SCALE = float(os.environ.get("PERDURE_CRASH_SCALE", "1"))
SEED = 20
AGAIN = 0.5


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Tally:
    """The whole sweep, once for this file."""
    items = [f"tests.crash.scenarios:{scenario.name}" for scenario in scenarios.ALL]
    again = AGAIN * SCALE
    total: Tally | None = None
    for number in range(max(1, round(again))):
        folder = tmp_path_factory.mktemp("sweep")
        part = sweep_all(items, folder, again=min(again, 1.0), seed=SEED + number)
        total = part if total is None else total.plus(part)
    assert total is not None
    print(f"\nseed {SEED}: {total.summary()}")
    return total


def test_nothing_is_lost_repeated_or_hidden(tally: Tally) -> None:
    """After each kill: what was acknowledged is there, no act is repeated without a verdict, the ending is
    the same (O-005).
    """
    assert not tally.failures, f"\n{tally.told()}"
    assert tally.kills >= tally.points * 0.9
    assert tally.acknowledged > tally.points
    assert tally.unknowns > 100


ELSEWHERE = {name for names in KEEPING.values() for name in names}
"""Boundaries of work with no agent alive, killed at by tests/crash/test_keeping.py."""


@pytest.mark.parametrize("boundary", [*(name for name in BOUNDARIES if name not in ELSEWHERE), TOLD])
def test_every_boundary_was_killed_at(tally: Tally, boundary: str) -> None:
    """A boundary that no scenario reaches is not tested."""
    assert tally.hit[boundary] > 0, BOUNDARIES.get(boundary)
