"""A terminal as it is drawn on: styles, tables and timelines, over what `timeline` says.

Everything that comes from a store is printed as plain text that `timeline.plain.clean` has passed; no markup
is ever read out of it. Colour is never the only sign. Without a terminal the lines are as wide as they need
to be, so that a pipe never gets a shortened id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

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
        self.console = Console(highlight=False, markup=False, emoji=False)
        if not self.console.is_terminal:
            self.console.width = PIPE_WIDTH

    def draw(self, *parts: RenderableType) -> None:
        """Draw the parts, one below the other; nothing is an empty line."""
        if self.console.is_terminal:
            self.console.print(*parts, sep="\n")
            return
        with self.console.capture() as captured:
            self.console.print(*parts, sep="\n")
        for line in captured.get().splitlines():
            self.console.file.write(line.rstrip() + "\n")

    def draw_columns(self, heads: Sequence[str], rows: Sequence[Row]) -> None:
        """Draw rows below dim heads. Only the last column is shortened, so that ids can always be copied."""
        drawn = [[Text(head, "dim") for head in heads], *([_text(cell) for cell in row] for row in rows)]
        widths = [0] * (len(heads) - 1)
        for row in drawn:
            for index, cell in enumerate(row[:-1]):
                widths[index] = max(widths[index], cell.cell_len)
        for row in drawn:
            for line in _laid_out(row, widths, self.console.width):
                self.draw(line)

    def draw_pairs(self, labels: Iterable[tuple[str, str]], *, style: str = "dim", indent: int = 2) -> None:
        """Draw labels and what is said of each, all beginning in one column."""
        said = [(Text(" " * indent + label, style), Text(text)) for label, text in labels]
        wide = max((label.cell_len for label, _ in said), default=0) + GAP
        for label, text in said:
            label.append(" " * (wide - label.cell_len))
            self.draw_hanging(label, text)

    def draw_hanging(self, label: Text, text: Text) -> None:
        """Draw a text after its label; where it is too long it goes on below its own beginning."""
        room = max(self.console.width - label.cell_len, REST_MIN)
        before = label
        for line in text.wrap(self.console, room) or [Text()]:
            self.draw(Text.assemble(before, line, no_wrap=True, overflow="ignore"))
            before = Text(" " * label.cell_len)

    def draw_commands(self, remedies: Iterable[str], *, label: str = "next") -> None:
        """Draw what can be done now: commands that can be copied as they stand."""
        pairs = [(label if index == 0 else "", remedy) for index, remedy in enumerate(remedies)]
        self.draw_pairs(pairs, style="bold", indent=0)


def _laid_out(row: list[Text], widths: Sequence[int], width: int) -> Iterator[Text]:
    """One row as a line, or two where too little is left for its last cell."""
    *fixed, last = row
    line = Text(no_wrap=True, overflow="ignore")
    for cell, size in zip(fixed, widths, strict=False):
        line.append_text(cell)
        line.append(" " * (size - cell.cell_len + GAP))
    left = width - line.cell_len
    if last.cell_len > max(left, 0) and left < REST_MIN:
        yield line
        line = Text("    ", no_wrap=True, overflow="ignore")
        left = width - 4
    last.truncate(max(left, 0), overflow="ellipsis")
    line.append_text(last)
    yield line


def word(status: str) -> Text:
    """A status word in its style."""
    return Text(status, STATUS_STYLES.get(status, ""))


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def age(text: str) -> Text:
    """A dim aside."""
    return Text(text, "dim")
