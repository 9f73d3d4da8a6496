"""What every experiment of `perdure lab` takes, and how its result is shown: tables, one document, a plot.

The laboratory is loaded by name when an experiment is called, so that no other command pays for it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import click

from perdure.cli import exits
from perdure.cli.document import print_document
from perdure.cli.options import Options, printing
from perdure.cli.screen import Screen
from perdure.cli.text import Text, width

Tick: TypeAlias = Callable[[str, int, int], None]
"""How an experiment tells how far it is: what it does, how many parts are done, and of how many."""


def experiment(measure: Callable[..., Any]) -> Callable[..., int]:
    """A command of an experiment: `measure(seed, tick, **its own options)` returns the result.

    Adds --seed, --plot FILE, --json and --trace, shows how far it is, and prints what it found.
    """

    @functools.wraps(measure)
    def command(options: Options, seed: int, plot: Path | None, **own: Any) -> int:
        if plot is not None:
            import_module("perdure.lab.plot").check(plot)
        with Bar(hidden=options.json) as bar:
            result = measure(seed, bar.tick, **own)
        if plot is not None:
            import_module("perdure.lab.plot").save(result, plot)
        show(options, result, plot)
        return exits.OK

    for option in (
        click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=_PLOT),
        click.option("--seed", type=int, default=1, show_default=True, help="The same seed, the same run."),
    ):
        command = option(command)
    return printing(command)


_PLOT = "Draw it into FILE.png, .svg or .pdf as well."


def show(options: Options, result: Any, plot: Path | None = None) -> None:
    """Print a result: for a person, or as one document."""
    if options.json:
        print_document({"experiment": result.name, **result.document()})
        return
    screen = Screen()
    screen.draw(Text(result.title, "bold"))
    for table in result.tables():
        screen.draw()
        if table.title:
            screen.draw(Text(table.title, "bold"))
        _draw(screen, table)
    screen.draw()
    for sentence in result.sentences():
        screen.draw_hanging(Text("  · "), Text(sentence))
    if plot is not None:
        screen.draw()
        screen.draw(Text(f"drawn: {plot}", "dim"))


def _draw(screen: Screen, table: Any) -> None:
    """Figures lined up on the right."""
    rows, right = [list(table.heads), *table.texts()], table.numeric()
    for column, aligned in enumerate(right):
        wide = max(width(row[column]) for row in rows)
        for row in rows:
            gap = " " * (wide - width(row[column]))
            row[column] = gap + row[column] if aligned else row[column]
    screen.draw_columns([f"  {rows[0][0]}", *rows[0][1:]], [[f"  {row[0]}", *row[1:]] for row in rows[1:]])


class Bar:
    """How far an experiment is, on standard error of a terminal; elsewhere nothing."""

    def __init__(self, *, hidden: bool = False) -> None:
        self._hidden = hidden or not sys.stderr.isatty()
        self._wide = 0

    def tick(self, what: str, done: int, of: int) -> None:
        """`done` of `of` parts of `what`."""
        if self._hidden:
            return
        filled = 24 * done // max(of, 1)
        line = f"{'█' * filled}{'░' * (24 - filled)} {done}/{of}  {what}"[:110]
        click.echo("\r" + line.ljust(self._wide), err=True, nl=False)
        self._wide = len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._wide:
            click.echo("\r" + " " * self._wide + "\r", err=True, nl=False)
