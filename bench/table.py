"""The lines of the report: what was promised, what was measured, and whether that is enough.

A line knows its target and both of its figures: as measured, and on a quiet machine (see `Line`). It knows
nothing of how it was measured. Writes text for people, Markdown for the docs, JSON for programs.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import apsw

HERE = Path(__file__).resolve().parent
LATEST = HERE / "results" / "latest.json"
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


@dataclass(frozen=True)
class Line:
    """One figure. `most` (or `least`): the target. `measured`: the median as it was, other load included.
    `quiet`: processor time, scaled by how much slower than its best the plain Python loop ran beside it: an
    estimate for a machine with nothing else to do. `floor`: measured beside it, where the disk is waited for.
    """

    group: str
    name: str
    unit: str
    measured: float
    quiet: float | None = None
    floor: float | None = None
    most: float | None = None
    least: float | None = None
    note: str = ""

    @property
    def judged(self) -> float:
        """The figure that the target is about: that of a quiet machine where there is one."""
        return self.measured if self.quiet is None else self.quiet

    @property
    def share(self) -> float | None:
        """The figure divided by its target."""
        target = self.most if self.most is not None else self.least
        return None if target is None or not target else self.judged / target

    @property
    def ok(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.most is not None:
            return self.judged <= self.most
        return None if self.least is None else self.judged >= self.least

    def cells(self) -> list[str]:
        """The line's columns."""
        target = ""
        if self.most is not None:
            target = f"≤ {number(self.most)}"
        elif self.least is not None:
            target = f"≥ {number(self.least)}"
        verdict = {True: "yes", False: "NO", None: ""}[self.ok]
        return [
            self.name,
            self.unit,
            target,
            number(self.measured),
            "" if self.quiet is None else number(self.quiet),
            "" if self.floor is None else number(self.floor),
            "" if self.share is None else f"{self.share:.2f}",
            verdict,
        ]


HEAD = ["", "unit", "target", "measured", "quiet", "floor", "of target", "ok"]


def number(value: float) -> str:
    """A figure with as many digits as anyone wants to read."""
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def text(lines: Sequence[Line]) -> str:
    """The table for a terminal."""
    rows = [line.cells() for line in lines]
    widths = [max(len(row[column]) for row in [HEAD, *rows]) for column in range(len(HEAD))]

    def drawn(cells: Iterable[str]) -> str:
        padded = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    out = [drawn(HEAD)]
    group = ""
    for line, row in zip(lines, rows, strict=True):
        if line.group != group:
            group = line.group
            out += ["", group]
        out.append(drawn(row) + (f"   {line.note}" if line.note else ""))
    return "\n".join(out)


def markdown(found: dict[str, Any]) -> str:
    """The tables for docs/performance.md, from what `record` made."""
    about = found["about"]
    machine = f"Python {about['python']}, SQLite {about['sqlite']}, {about['system']}, {about['cores']} cores"
    middle, slowest = about["middle"] / about["quiet"], about["slowest"] / about["quiet"]
    paces = f"the plain loop took {middle:.1f} times its best in the middle, {slowest:.1f} times at the worst"
    load = f"{about['load']:.1f} processes wanted a processor at a time, the measured one included"
    out = [f"{machine}, {about['files']}; {load}; {paces}."]
    lines = [Line(**line) for line in found["lines"]]
    for group in dict.fromkeys(line.group for line in lines):
        out += [
            "",
            f"**{group}**",
            "",
            f"| {' | '.join(HEAD)} |",
            "|" + "---|" * 2 + "---:|" * (len(HEAD) - 2),
        ]
        for line in lines:
            if line.group == group:
                name, *rest = line.cells()
                told = f"{name} ({line.note})" if line.note else name
                out.append(f"| {' | '.join([told, *rest])} |")
    return "\n".join(out)


def about(seen: Sequence[float], quiet: float, folder: Path) -> dict[str, Any]:
    """What kind of machine this is: no names, no paths."""
    ordered = sorted(seen)
    return {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "files": _files(folder),
        "load": round(os.getloadavg()[1], 1),
        "quiet": round(quiet, 1),
        "middle": round(ordered[len(ordered) // 2], 1),
        "slowest": round(ordered[-1], 1),
    }


def _files(folder: Path) -> str:
    """The kind of file system that a folder is on."""
    if not sys.platform.startswith("linux"):
        return "local disk"
    best = ("", "unknown")
    for row in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = row.split(" ")
        if str(folder).startswith(mount) and len(mount) > len(best[0]):
            best = (mount, kind)
    return best[1]


def record(lines: Sequence[Line], about_it: dict[str, Any]) -> dict[str, Any]:
    """Everything as plain data."""
    return {"about": about_it, "lines": [_rounded(asdict(line)) for line in lines]}


def _rounded(line: dict[str, Any]) -> dict[str, Any]:
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in line.items()}


def save(found: dict[str, Any], path: Path) -> None:
    """Write the JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def publish(found: dict[str, Any]) -> None:
    """Keep these results: as latest.json, and as the tables of docs/performance.md."""
    save(found, LATEST)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{markdown(found)}\n\n{END}{after}", encoding="utf-8")
