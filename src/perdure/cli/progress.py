"""A progress bar on standard error, for work on many runs whose number is known when the first is done."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from perdure.cli.options import Options

BAR_FROM = 20
"""Fewer runs are done too fast for a bar."""


@contextlib.contextmanager
def progress_bar(options: Options, label: str) -> Iterator[Callable[[int, int], None]]:
    """What is to be called after each run with (done, total); hidden for programs and without a terminal."""
    with contextlib.ExitStack() as stack:
        bars: list[Any] = []

        def progress(done: int, total: int) -> None:
            if not bars:
                hidden = options.json or total < BAR_FROM or not sys.stderr.isatty()
                bar = click.progressbar(length=total, label=label, hidden=hidden, file=sys.stderr)
                bars.append(stack.enter_context(bar))
            bars[0].update(1)

        yield progress


@contextlib.contextmanager
def execution_bar(options: Options, label: str) -> Iterator[Callable[[int, int], None]]:
    """The same around the user's code: what that prints is not for whoever reads the answer."""
    with contextlib.redirect_stdout(sys.stderr), progress_bar(options, label) as progress:
        yield progress
