"""A result as a picture: one look for all plots, colours that everybody can tell apart, no display needed.

matplotlib comes with the extra `lab`; whoever is asked to draw without it refuses before anything is
measured. The same result gives the same bytes: no date, no random names inside an SVG.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from perdure.errors import CannotWrite, ExtraMissing
from perdure.lab.report import Result

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Blue, vermilion, green, purple, orange, sky, black: told apart with any kind of colour vision."""

KINDS = (".png", ".svg", ".pdf")
"""What can be written."""

SIZE = (7.6, 4.6)
"""Inches."""

STYLE: Any = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "savefig.facecolor": "white",
    "svg.hashsalt": "perdure",
    "svg.fonttype": "path",
}
"""What all plots share."""


def short(value: float, _: object = None) -> str:
    """A count on an axis: 100, 1 k, 10 M."""
    for unit, weight in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= weight:
            return f"{value / weight:g} {unit}"
    return f"{value:g}"


def check(path: Path) -> None:
    """Whether a plot can be drawn into this file. Raises ExtraMissing, CannotWrite."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ExtraMissing(
            "a plot needs matplotlib, which is not installed",
            safe="Nothing was measured and nothing was written.",
            remedy='pip install "perdure[lab]"',
        )
    if path.suffix.lower() not in KINDS:
        raise CannotWrite(
            f"{path.name} is no kind of picture that can be drawn",
            remedy=f"name a file that ends in {', '.join(KINDS)}",
        )
    if not path.absolute().parent.is_dir():
        raise CannotWrite(f"there is no folder {path.absolute().parent}", remedy="make it, or name another")


def save(result: Result, path: Path) -> None:
    """Draw a result into a file; its ending says what kind. Raises ExtraMissing, CannotWrite."""
    check(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.rcsetup import cycler

    with mpl.rc_context(STYLE | {"axes.prop_cycle": cycler(color=COLOURS)}):
        figure = Figure(figsize=SIZE, dpi=130, layout="constrained")
        result.plot(figure.add_subplot())
        dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        try:
            figure.savefig(path, metadata=dated)
        except OSError as error:
            raise CannotWrite(f"the plot cannot be written to {path}: {error.strerror}") from error
