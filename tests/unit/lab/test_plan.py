"""The plan's arithmetic by hand, from fixed constants; and a real calibration."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from perdure.errors import BadSetting
from perdure.lab import page, plan, plot
from perdure.lab.calibration import Constants, calibrate
from perdure.lab.plan import LADDER, Load, Plan, constants_in, interval, limits, most_runs, need
from tests.unit.cli.conftest import Command, perdure, place

__all__ = ["perdure", "place"]

HERE = Constants(
    commit=0.001,
    step_cpu=0.0002,
    steps_per_second=5000.0,
    runs_per_commit=20.0,
    step_file=300.0,
    message_file=1.0,
    load_base=0.001,
    load_event=10e-6,
    wait_file=1000.0,
    wake=0.002,
    machine="made up",
)
LOAD = Load(
    86_400,
    10,
    700,
    acts=0.5,
    waiting=0.5,
    hours=24.0,
    retention=10,
    model_seconds=1.9998,
    peak=2,
    resume_ms=2,
)


def test_what_a_load_needs_by_hand() -> None:
    found = need(LOAD, HERE)
    assert found.steps_day == 864_000
    assert found.events_day == 864_000 * 3 + 86_400 * 4
    assert found.bytes_day == 86_400 * (1000 + 10 * (300 + 700))
    assert found.kept == pytest.approx(11_000 * (86_400 * 10 + 43_200))
    assert found.waiting_runs == 43_200
    assert found.steps_per_second == pytest.approx(20)
    assert found.executing == pytest.approx(40)
    assert found.open_runs == pytest.approx(43_200 + 20)
    assert found.waits_per_second == pytest.approx(2 * (1 + 0.5 + 5))
    assert found.fsyncs_step == pytest.approx(33)
    assert found.cores == pytest.approx(20 * 0.0002 + 1 * 0.002)
    assert found.workers == 1
    assert need(replace(LOAD, runs_per_day=86_400_000), HERE).workers == 400
    assert need(replace(LOAD, runs_per_day=86_400_000), HERE).fsyncs_effects == pytest.approx(1000)


def test_the_interval_keeps_a_load_within_the_wanted_time() -> None:
    # 2 ms less 1 ms leaves 100 events of 10 µs: 33 steps of three events.
    assert interval(LOAD, HERE) is None
    assert interval(replace(LOAD, steps=200), HERE) == 33
    assert interval(replace(LOAD, steps=200, resume_ms=0.5), HERE) == 1


def test_where_a_store_stops_and_which_one_fits() -> None:
    sqlite, postgres = limits(HERE)
    steps, kept = most_runs(LOAD, sqlite, HERE)
    assert need(replace(LOAD, runs_per_day=steps), HERE).steps_per_second == pytest.approx(5000)
    assert need(replace(LOAD, runs_per_day=kept), HERE).kept == pytest.approx(sqlite.storage)
    made = Plan(LOAD, HERE)
    assert made.store_for(LOAD) == "one SQLite file"
    assert made.store_for(replace(LOAD, runs_per_day=min(steps, kept) * 1.01)) == "one PostgreSQL"
    most = min(most_runs(LOAD, postgres, HERE))
    assert made.store_for(replace(LOAD, runs_per_day=most * 2.5)) == "PostgreSQL, 3 shards"


def test_the_ladder_goes_from_a_laptop_to_ten_million_open_runs() -> None:
    opened = [need(load, HERE).open_runs for load in LADDER.values()]
    assert opened == sorted(opened)
    assert opened[0] < 100
    assert opened[-2:] == [pytest.approx(1e6, rel=0.01), pytest.approx(10e6, rel=0.01)]


def test_each_line_says_how_it_was_come_by(tmp_path: Path) -> None:
    made = plan.measure(1, lambda what, done, of: None, LOAD, HERE)
    needed = next(table for table in made.tables() if table.title == "What it needs")
    assert {row[2] for row in needed.rows} == {"measured", "arithmetic", "extrapolated"}
    stops = next(table for table in made.tables() if table.title == "Where each stops")
    assert all("measured" in str(row[2]) or "assumed" in str(row[2]) for row in stops.rows[:2])
    assert "one SQLite file" in made.sentences()[0]
    assert "shards" in Plan(replace(LOAD, runs_per_day=1e10), HERE).sentences()[0]
    shown = page.read(Path(__file__).parents[3] / "docs")["plan"].tables
    assert [table.heads for table in shown] == [table.heads for table in made.tables()]
    plot.save(made, tmp_path / "plan.svg")
    assert made.document()["constants"] == asdict(HERE)


def test_constants_measured_before_are_used_again(perdure: Command, place: Path) -> None:
    kept = place / "plan.json"
    kept.write_text(json.dumps({"constants": asdict(HERE)}), encoding="utf-8")
    assert constants_in(kept) == HERE
    answer = perdure("lab", "plan", "--constants", kept, "--runs-per-day", "86400", "--hours", "0", "--json")
    assert answer.document["constants"] == asdict(HERE)
    assert answer.document["load"]["runs_per_day"] == 86_400
    assert answer.document["need"]["waiting_runs"] == 0
    kept.write_text("{}", encoding="utf-8")
    with pytest.raises(BadSetting, match="holds no plan"):
        constants_in(kept)
    assert perdure("lab", "plan", "--constants", kept).code == 2


@pytest.mark.slow
def test_a_calibration_measures_this_machine() -> None:
    found = calibrate(lambda what, done, of: None)
    assert 0 < found.step_cpu < 1
    assert found.commit > 0
    assert found.runs_per_commit > 1
    assert 1 <= found.message_file < 3
    assert 100 < found.step_file < 3000
    assert 100 < found.wait_file < 10_000
    assert found.load_event > 0
