"""A terminal as it is drawn on: styles, tables and timelines, over what `timeline` says.

Everything that comes from a store is printed as plain text that `timeline.plain.clean` has passed; no markup
is ever read out of it. Colour is never the only sign. Without a terminal the lines are as wide as they need
to be, so that a pipe never gets a shortened id.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence

import click

from perdure.cli.text import Text
from perdure.errors import at_store

PIPE_WIDTH = 240
"""Columns where there is no terminal to ask for its width."""

STATUS_STYLES = {
    "ready": "cyan",
    "running": "green",
    "interrupted": "bold red",
    "silent": "bold yellow",
    "waiting": "blue",
    "overdue": "bold yellow",
    "held": "bold magenta",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "dim",
    "retired": "dim",
}
"""The style of each status word."""


Row = Sequence[str | Text]
"""Cells from the left. In a row that is shorter than the others the last cell takes the rest of the line."""

GAP = 2
"""Spaces between columns."""

REST_MIN = 16
"""Where less than this is left for the last column, it goes below its line."""


class Screen:
    """The standard output as something to draw on. Without a terminal no line ends in spaces."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        self.width = shutil.get_terminal_size().columns if terminal else PIPE_WIDTH
        self.colour = terminal and not os.environ.get("NO_COLOR")

    def draw(self, *parts: str | Text) -> None:
        """Draw the parts, one below the other; nothing is an empty line."""
        for part in parts or ("",):
            line = part if isinstance(part, str) else part.render(colour=self.colour)
            click.echo(line.rstrip(), color=self.colour)

    def draw_columns(self, heads: Sequence[str], rows: Sequence[Row]) -> None:
        """Draw rows below dim heads. Only the last column is shortened, so that ids can always be copied."""
        drawn = [[Text(head, "dim") for head in heads], *([_text(cell) for cell in row] for row in rows)]
        widths = [0] * (len(heads) - 1)
        for row in drawn:
            for index, cell in enumerate(row[:-1]):
                widths[index] = max(widths[index], cell.cells)
        for row in drawn:
            for line in _laid_out(row, widths, self.width):
                self.draw(line)

    def draw_pairs(self, labels: Iterable[tuple[str, str]], *, style: str = "dim", indent: int = 2) -> None:
        """Draw labels and what is said of each, all beginning in one column."""
        said = [(Text(" " * indent + label, style), Text(text)) for label, text in labels]
        wide = max((label.cells for label, _ in said), default=0) + GAP
        for label, text in said:
            label.append(" " * (wide - label.cells))
            self.draw_hanging(label, text)

    def draw_hanging(self, label: Text, text: Text) -> None:
        """Draw a text after its label; where it is too long it goes on below its own beginning."""
        room = max(self.width - label.cells, REST_MIN)
        before = label
        for line in text.wrapped(room):
            self.draw(Text.of(before, line))
            before = Text(" " * label.cells)

    def draw_commands(
        self, remedies: Iterable[str], *, label: str = "next", store: str | None = None
    ) -> None:
        """Draw what can be done now: commands that can be copied as they stand, with the store they mean."""
        said = (at_store(remedy, store) for remedy in remedies)
        pairs = [(label if index == 0 else "", remedy) for index, remedy in enumerate(said)]
        self.draw_pairs(pairs, style="bold", indent=0)


def _laid_out(row: list[Text], widths: Sequence[int], width: int) -> Iterator[Text]:
    """One row as a line, or two where too little is left for its last cell."""
    *fixed, last = row
    line = Text()
    for cell, size in zip(fixed, widths, strict=False):
        line = Text.of(line, cell, " " * (size - cell.cells + GAP))
    left = width - line.cells
    if last.cells > max(left, 0) and left < REST_MIN:
        yield line
        line, left = Text("    "), width - 4
    yield Text.of(line, last.shortened(max(left, 0)))


def word(status: str) -> Text:
    """A status word in its style."""
    return Text(status, STATUS_STYLES.get(status, ""))


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def age(text: str) -> Text:
    """A dim aside."""
    return Text(text, "dim")
