"""Old states under new code: how they fail, how they go on, and that what is refused is left untouched."""

from __future__ import annotations

import pytest

from perdure.lab import migrate

RUNS = 6


@pytest.fixture(scope="module")
def result() -> migrate.Migrate:
    print("seed 4")
    return migrate.measure(4, lambda what, done, of: None, runs=RUNS)


def of(result: migrate.Migrate, how: str) -> list[migrate.Row]:
    """Rows of this kind."""
    return [row for row in result.rows if row.case.how == how]


def test_by_hand_it_breaks_or_pays_what_is_wrong(result: migrate.Migrate) -> None:
    renamed, another_unit = of(result, "by hand")
    assert (renamed.stopped, renamed.said, renamed.later) == (RUNS, "TypeError", 0)
    assert another_unit.wrong == RUNS


def test_with_a_chain_every_run_comes_out_right(result: migrate.Migrate) -> None:
    assert [(row.case.was, row.right) for row in of(result, "chain")] == [(1, RUNS), (2, RUNS)]


def test_what_does_not_fit_is_refused_untouched_and_goes_on_with_code_that_fits(
    result: migrate.Migrate,
) -> None:
    refused = [*of(result, "none"), *of(result, "broken")]
    assert {row.said for row in refused} == {"M302", "M303", "M306"}
    assert [(row.stopped, row.written, row.later) for row in refused] == [(RUNS, 0, RUNS)] * 4


def test_a_version_that_was_not_raised_is_seen_only_where_shape_or_record_differ(
    result: migrate.Migrate,
) -> None:
    """The limit of it: the same shape with another meaning pays what is wrong, unless a step was open."""
    shape, meaning = of(result, "forgotten")
    assert (shape.stopped, shape.said, shape.written, shape.later) == (RUNS, "M301", 0, RUNS)
    assert meaning.right == 0
    assert meaning.wrong > 0
    assert meaning.stopped == meaning.later > 0
    assert meaning.said == "R208 diverged"


def test_the_same_seed_gives_the_same_numbers_and_it_is_told_and_drawn(result: migrate.Migrate) -> None:
    from matplotlib.figure import Figure

    again = migrate.measure(4, lambda what, done, of: None, runs=RUNS)
    assert again.document() == result.document()
    (table,) = result.tables()
    assert table.texts()[-1] == [
        "newer than the code",
        "v3",
        "v1",
        "0 %",
        "0 %",
        "100 %",
        "M303",
        "0 %",
        "100 %",
    ]
    assert result.sentences()[-1] == "With a chain 100 % come out right."
    axes = Figure().add_subplot()
    result.plot(axes)
    assert len(axes.get_yticklabels()) == len(migrate.CASES)
