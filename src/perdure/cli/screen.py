"""A terminal as it is drawn on: styles, tables and timelines, over what `timeline` says.

Everything that comes from a store is printed as plain text that `timeline.plain.clean` has passed; no markup
is ever read out of it. Colour is never the only sign. Without a terminal the lines are as wide as they need
to be, so that a pipe never gets a shortened id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
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


def screen() -> Console:
    """The standard output as something to draw on."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def word(status: str) -> Text:
    """A status word in its style."""
    return Text(status, STATUS_STYLES.get(status, ""))


def columns(
    heads: Sequence[str], rows: Iterable[Sequence[str | Text]], *, whole: Sequence[int] = (0,)
) -> Table:
    """Rows in columns below dim heads.

    The columns in `whole` are never shortened; the last takes what is left.
    """
    rows = list(rows)
    table = Table(box=None, show_header=bool(heads), padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for index in range(max(map(len, rows), default=len(heads))):
        head = heads[index] if index < len(heads) else ""
        widest = max((len(_text(row[index])) for row in rows if index < len(row)), default=0)
        least = widest if index in whole else None
        table.add_column(head, no_wrap=True, overflow="ellipsis", min_width=least)
    for row in rows:
        table.add_row(*map(_text, row))
    return table


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def pairs(labels: Iterable[tuple[str, str]], *, indent: int = 2) -> Table:
    """Labels, dim, and what is said of each; long texts wrap inside their own column."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for label, text in labels:
        table.add_row(Text(" " * indent + label), Text(text))
    return table


def commands(remedies: Iterable[str], *, label: str = "next") -> Table:
    """What can be done now: commands that can be copied as they stand."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for index, remedy in enumerate(remedies):
        table.add_row(Text(label if index == 0 else ""), Text(remedy))
    return table


def age(text: str) -> Text:
    """A dim aside."""
    return Text(text, "dim")
