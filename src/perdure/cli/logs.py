"""The options by which a command that executes agents tells what it does: --log and --log-level."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import click

P = ParamSpec("P")
R = TypeVar("R")

LEVELS = ("debug", "info", "warning", "error")
"""From the most talkative on."""


def logged(command: Callable[P, R]) -> Callable[..., R]:
    """The options `--log` and `--log-level`; without either, logging is left as it is.

    With one of them the records of all loggers, also of the user's own, go to standard error.
    """

    @click.option("--log", "form", type=click.Choice(["text", "json"]), help="How log records are written.")
    @click.option(
        "--log-level", "level", type=click.Choice(LEVELS), help="From which level on. Default: info"
    )
    @functools.wraps(command)
    def with_logs(*args: Any, form: str | None = None, level: str | None = None, **kwargs: Any) -> R:
        if form is not None or level is not None:
            _set_up(form or "text", level or "info")
        return command(*args, **kwargs)

    return with_logs


def _set_up(form: str, level: str) -> None:
    from perdure.observe import JsonFormatter, Placed, TextFormatter, tell

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(Placed())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    tell()
