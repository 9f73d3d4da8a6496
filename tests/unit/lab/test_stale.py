"""The figures of stale premises: the paper's exactly, the measured ones within three standard deviations."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perdure.lab import stale

RUNS = 80


@pytest.fixture(scope="module")
def result() -> stale.Stale:
    print("seed 7")
    return stale.measure(7, lambda what, done, of: None, hours=(24, 72), runs=RUNS)


def test_the_paper_figures() -> None:
    """2 % an hour: 38 % after a day, 77 % after three; a part of an hour counts as a whole one."""
    assert round(100 * stale.share(0.02, 24)) == 38
    assert round(100 * stale.share(0.02, 72)) == 77
    assert stale.share(0.02, 0.5) == stale.share(0.02, 1) == pytest.approx(0.02)
    assert stale.share(0.02, 23.2) == stale.share(0.02, 24)
    assert stale.share(0, 1000) == 0
    assert stale.share(1, 0.1) == 1
    assert stale.share_of_any([0.02, 0.05], 24) == pytest.approx(1 - 0.98**24 * 0.95**24)


def test_what_is_measured_lies_on_the_paper(result: stale.Stale) -> None:
    """Each fact by its own hazard, and the runs that rest on all of them."""
    assert len(result.rows) == 2 * 4
    for row in result.rows:
        assert abs(row.blind - row.due) <= row.margin + 1 / row.resumes, row


def test_with_the_check_nothing_acts_on_what_is_false_and_without_it_much_does(result: stale.Stale) -> None:
    """The control without the check fails."""
    assert all(row.checked == 0 for row in result.rows)
    price = {row.hours: row.blind for row in result.rows if row.fact == "price"}
    assert price[72] > price[24] > 0.2


def test_what_checking_costs(result: stale.Stale) -> None:
    """One read before each act; each false premise one plan, one question and one read more."""
    for row in result.rows:
        if row.fact != stale.ALL:
            false = round(row.blind * row.resumes)
            assert (row.reads, row.replans, row.asked) == (row.resumes + false, false, false)


def test_the_same_seed_gives_the_same_numbers_and_another_one_others() -> None:
    ticks: list[tuple[str, int, int]] = []
    hazards = (stale.Hazard("price", 0.05),)
    first, again, other = (
        stale.measure(seed, lambda *tick: ticks.append(tick), hazards=hazards, hours=(24,), runs=20)
        for seed in (1, 1, 2)
    )
    assert first.document() == again.document()
    assert first.rows != other.rows
    assert [row.fact for row in first.rows] == ["price"]
    assert ticks[:2] == [("resumes", 1, 40), ("resumes", 2, 40)]
    assert ticks[39] == ("resumes", 40, 40)


def test_it_is_told_and_drawn(result: stale.Stale) -> None:
    from matplotlib.figure import Figure

    shares, costs = result.tables()
    assert shares.texts()[-3][:4] == ["72 h", "price", "2.0 %", "77 %"]
    assert costs.texts()[0] == ["24 h", "status", *(f"{n:,}" for n in _costs(result.rows[0]))]
    assert "0 acts rest on what is no longer true" in " ".join(result.sentences())
    axes = Figure().add_subplot()
    result.plot(axes)
    drawn = [text.get_text() for text in axes.get_legend().get_texts()]  # type: ignore[union-attr]
    assert drawn[1] == "price: 2.0 % an hour"
    lines = {line.get_label(): line for line in axes.get_lines()}
    heights: Any = lines["price: 2.0 % an hour"].get_ydata()
    assert heights[24] == pytest.approx(100 * (1 - 0.98**24))


def _costs(row: stale.Row) -> list[int]:
    return [round(1000 * count / row.resumes) for count in (row.reads, row.replans, row.asked)]


def test_a_fact_that_never_changes_and_one_that_changes_at_once() -> None:
    hazards = (stale.Hazard("name", 0.0), stale.Hazard("time", 1.0))
    found = stale.measure(1, lambda *tick: None, hazards=hazards, hours=(3,), runs=5)
    assert [(row.due, row.blind, row.checked) for row in found.rows] == [(0, 0, 0), (1, 1, 0), (1, 1, 0)]
    assert math.isinf(stale._hour_of_change(0.5, 0.0))
