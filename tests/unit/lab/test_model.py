"""The paper model gives the figures that the field quotes, to the digit."""

from __future__ import annotations

import pytest

from perdure.lab import model


def kb(count: int) -> str:
    return f"{count / 1000:,.0f} kB"


@pytest.mark.parametrize(
    ("cost", "written", "replayed"),
    [
        (model.snapshot(200), "6,115 kB", 0.0),
        (model.log(200), "64 kB", 100.5),
        (model.hybrid(200, 20), "399 kB", 9.5),
        (model.hybrid(200, 5), "1,311 kB", 2.0),
        (model.hybrid(200, 50), "216 kB", 24.5),
        (model.snapshot(50), "389 kB", 0.0),
        (model.log(50), "16 kB", 25.5),
        (model.log(800), "257 kB", 400.5),
    ],
)
def test_the_figures_of_the_paper(cost: model.Cost, written: str, replayed: float) -> None:
    assert (kb(cost.written), cost.replayed) == (written, replayed)


def test_eight_hundred_steps_of_snapshots_are_97_mb() -> None:
    assert round(model.snapshot(800).written / 1e6) == 97


def test_a_hybrid_of_every_event_is_both_at_once_and_a_rare_one_is_the_log() -> None:
    every = model.hybrid(40, 1)
    assert every.written == model.snapshot(40).written + model.log(40).written
    assert (every.replayed, every.most) == (0.0, 0)
    assert model.hybrid(40, 41) == model.log(40)
    assert model.hybrid(40, 8).most == 7


def test_any_size_of_message() -> None:
    small, large = model.snapshot(10, size=100), model.snapshot(10, size=300)
    assert large.written - small.written == 200 * sum(range(1, 11))
    assert model.log(10, size=0).written == sum(len(f'{{"n": {n}, "add": ""}}') for n in range(1, 11))
