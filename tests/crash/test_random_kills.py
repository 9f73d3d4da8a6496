"""A worker that drives two dozen runs at once is killed at random moments, two hundred times.

No acknowledged event is lost, no irreversible call is repeated, every unknown outcome is said to be one,
and every run ends as the run that nobody killed. The seeds are printed; `PERDURE_CRASH_SCALE=5` kills a
thousand times.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.testing.crash.pool import run_all
from tests.crash import scenarios

pytestmark = [pytest.mark.crash, pytest.mark.slow]

KILLS = round(200 * float(os.environ.get("PERDURE_CRASH_SCALE", "1")))
SEEDS = (31, 32)
"""One storm each, at the same time."""


def test_a_worker_survives_being_killed_at_any_moment(tmp_path: Path) -> None:
    """Batch after batch of runs, until there were enough kills."""
    # A family's children have the ids of one run: it is for the sweep, where each run is alone.
    # What a kill hides of a message that means nothing is not known to the judge of the deployed one.
    fit = [one for one in scenarios.ALL if not one.kin and one.name != "deployed"]
    items = [f"tests.crash.scenarios:{one.name}" for one in fit]
    each = ["--kills", str(KILLS // len(SEEDS)), "--longest", "0.25"]
    storms = run_all(
        [
            ["storm", *items, *each, "--seed", str(seed), "--folder", str(tmp_path / str(seed))]
            for seed in SEEDS
        ]
    )
    for storm in storms:
        print({name: value for name, value in storm.items() if name != "offences"})
        assert not storm["offences"], "\n".join([f"seed {storm['seed']}:", *storm["offences"]])
    assert sum(storm["kills"] for storm in storms) >= KILLS
    assert sum(storm["unknowns"] for storm in storms) > KILLS / 10
    assert sum(storm["acknowledged"] for storm in storms) > KILLS * 5
