"""What every experiment hands back: a frozen result that can be read, kept as data, and drawn.

It knows how figures are written, for a page and for a terminal alike; it knows no terminal, no file and no
plotting library. A result holds raw figures; what is rounded is rounded in its tables and sentences alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell: TypeAlias = str | int | float | None
"""A plain value: a text is shown as it is, a number with as many digits as are read, None as a dash."""

Tick: TypeAlias = Callable[[str, int, int], None]
"""Called by an experiment as it gets on: what it does now, how many parts are done, and of how many."""

DASH = "–"
"""What stands where there is no figure."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain values below heads; `title` is empty where there is only one."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""

    def __post_init__(self) -> None:
        uneven = [row for row in self.rows if len(row) != len(self.heads)]
        if uneven:
            raise ValueError(f"{len(self.heads)} heads and a row of {len(uneven[0])}: {uneven[0]}")

    def texts(self) -> list[list[str]]:
        """Every row's cells as they are shown."""
        return [[shown(cell) for cell in row] for row in self.rows]

    def numeric(self) -> list[bool]:
        """For each column, whether it holds figures, and is lined up on the right."""
        columns = zip(*self.texts(), strict=True) if self.rows else ()
        return [all(_figure(text) for text in column) for column in columns] or [False] * len(self.heads)


class Result(Protocol):
    """An experiment's outcome. Implemented by frozen dataclasses; `name` is the command's."""

    @property
    def name(self) -> str:
        """The experiment, as it is called on the command line."""
        ...

    @property
    def title(self) -> str:
        """What it asks, in a few words."""
        ...

    @property
    def caption(self) -> str:
        """What its plot shows, for those who cannot see it."""
        ...

    def tables(self) -> Sequence[Table]:
        """Its figures for a reader."""
        ...

    def sentences(self) -> Sequence[str]:
        """What they say: each sentence computed from the figures that it names."""
        ...

    def document(self) -> Mapping[str, Any]:
        """Its raw figures as JSON data, with the seed and the settings that gave them."""
        ...

    def plot(self, axes: Axes) -> None:
        """Draw its figures. `axes.figure` is there for a second panel."""
        ...


def shown(cell: Cell) -> str:
    """A value as it is read: thousands apart, three digits where it is small."""
    if cell is None:
        return DASH
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"


def size(count: float) -> str:
    """Bytes, in units of 1,000: 812 B, 64 kB, 6,115 kB, 97 MB, 1.2 TB. Up to 10 MB whole kilobytes."""
    if abs(count) < 1000:
        return f"{count:,.0f} B"
    if abs(count) < 1e4:
        return f"{count / 1000:.1f} kB"
    if abs(count) < 1e7:
        return f"{count / 1000:,.0f} kB"
    for unit, weight in (("MB", 1e6), ("GB", 1e9), ("TB", 1e12)):
        if abs(count) < 1000 * weight or unit == "TB":
            scaled = count / weight
            return f"{scaled:,.0f} {unit}" if scaled >= 10 else f"{scaled:.1f} {unit}"
    raise AssertionError(count)


def span(seconds: float) -> str:
    """A time: 120 µs, 3.4 ms, 2.1 s, 3 min, 2 h, 4 days."""
    for unit, weight, least in (("µs", 1e-6, 0.0), ("ms", 1e-3, 1e-3), ("s", 1.0, 1.0))[::-1]:
        if seconds >= least and seconds < 120:
            scaled = seconds / weight
            return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.0f} days"


def percent(share: float) -> str:
    """A share of one: 0 %, 0.4 %, 38 %, 99.6 %; nearly all is not shown as all."""
    scaled = share * 100
    if 99.95 <= scaled < 100:
        return ">99.9 %"
    return f"{scaled:.1f} %" if 0 < scaled < 10 or 99 <= scaled < 100 else f"{scaled:.0f} %"


def _figure(text: str) -> bool:
    """Whether a text is a number, with its unit or without."""
    if len(text.split()) > 2:
        return False
    return text == DASH or text[:1].isdigit() or (text[:1] in "-−≤≥<>~" and text[1:2].isdigit())
