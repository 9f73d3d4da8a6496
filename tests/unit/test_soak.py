"""The frame of the long sweeps: every one is found, a seed gives the same again, and an offence fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from soak import __main__ as frame
from soak import simulation
from soak.order import Order, Outcome


def test_every_sweep_is_found() -> None:
    assert set(frame.sweeps()) >= {
        "failovers",
        "lost_answers",
        "server_kills",
        "simulation",
        "worker_kills",
        "worker_kills_postgres",
    }


def test_a_world_lives_again_from_its_seed_to_the_last_boundary() -> None:
    once, again, other = simulation.lived(5, 8), simulation.lived(5, 8), simulation.lived(6, 8)
    assert once == again
    assert once["trace"] != other["trace"]
    assert (once["worlds"], once["found"]) == (8, [])


def test_an_order_has_its_share_and_one_at_least(tmp_path: Path) -> None:
    assert (Order(1, 0.01, tmp_path).of(2000), Order(1, 0.01, tmp_path).of(10)) == (20, 1)


def test_an_offence_or_a_failure_is_told_with_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(order: Order) -> Outcome:
        raise ValueError("broken")

    good = frame.run("good", lambda order: Outcome({"drawn": order.seed}), 7, 1.0)
    bad = frame.run("bad", lambda _: Outcome({}, ["r1: it was lost"]), 7, 0.5)
    fails = frame.run("fails", broken, 7, 1.0)
    assert (good, bad, fails) == (True, False, False)
    said = capsys.readouterr().out
    assert "python -m soak bad --seed 7 --share 0.5" in said
    assert "OFFENCE r1: it was lost" in said
    assert "ValueError: broken" in said
    told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [(one["sweep"], one["offences"]) for one in told] == [("good", 0), ("bad", 1), ("fails", 1)]
