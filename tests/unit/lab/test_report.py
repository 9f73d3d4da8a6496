"""How figures are written, and that a picture can be drawn of them."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import CannotWrite, ExtraMissing
from perdure.lab import plot
from perdure.lab.report import DASH, Result, Table, percent, shown, size, span


@dataclass(frozen=True)
class Line:
    """A result with the least that one has."""

    name = "line"
    title = "A line"
    caption = "A line."

    def tables(self) -> list[Table]:
        return [Table(("what", "much"), (("one", 1), ("many", 12_345.6), ("none", None)))]

    def sentences(self) -> list[str]:
        return []

    def document(self) -> dict[str, Any]:
        return {}

    def plot(self, axes: Any) -> None:
        axes.plot([1, 2], [2, 1])


def test_figures_are_written_to_be_read() -> None:
    assert [shown(cell) for cell in ("a", 1234, 100.5, 2.0, 0.0123456, None)] == [
        "a", "1,234", "100", "2", "0.0123", DASH,
    ]  # fmt: skip
    assert [size(count) for count in (0, 812, 1500, 64_092, 6_115_092, 97_421_792, 1.2e12)] == [
        "0 B", "812 B", "1.5 kB", "64 kB", "6,115 kB", "97 MB", "1.2 TB",
    ]  # fmt: skip
    assert [span(time) for time in (0, 12e-6, 0.0034, 1, 119, 3600, 7200, 172800)] == [
        "0 µs", "12 µs", "3.4 ms", "1 s", "119 s", "60 min", "2 h", "2 days",
    ]  # fmt: skip
    assert [percent(share) for share in (0, 0.004, 0.38, 0.996, 0.9999, 1)] == [
        "0 %", "0.4 %", "38 %", "99.6 %", ">99.9 %", "100 %",
    ]  # fmt: skip


def test_a_table_knows_its_columns() -> None:
    (table,) = Line().tables()
    assert table.texts() == [["one", "1"], ["many", "12,346"], ["none", DASH]]
    assert table.numeric() == [False, True]
    assert Table(("a", "b", "c"), (("2 of 10 words", "5 kB", ">9 %"),)).numeric() == [False, True, True]
    with pytest.raises(ValueError, match="2 heads and a row of 1"):
        Table(("a", "b"), (("a",),))


@pytest.mark.parametrize("kind", plot.KINDS)
def test_a_picture_is_drawn_and_the_same_one_again(kind: str, tmp_path: Path) -> None:
    result: Result = Line()
    first, again = tmp_path / f"first{kind}", tmp_path / f"again{kind}"
    plot.save(result, first)
    plot.save(result, again)
    assert first.stat().st_size > 1000
    assert first.read_bytes() == again.read_bytes()


def test_what_cannot_be_drawn_is_refused_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CannotWrite, match="no kind of picture"):
        plot.check(tmp_path / "x.doc")
    with pytest.raises(CannotWrite, match="no folder"):
        plot.check(tmp_path / "missing" / "x.png")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing) as refused:
        plot.check(tmp_path / "x.png")
    assert refused.value.remedy == 'pip install "perdure[lab]"'
