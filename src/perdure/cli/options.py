"""What every command takes: which store, for whom it prints, and how much of an error it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class Options:
    """`store`: its URL or path, None for the default. `json`: print one document for a program. `trace`: on
    an error.
    """

    store: str | None = None
    json: bool = False
    trace: bool = False


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        setattr(context.ensure_object(Options), str(parameter.name), value)


def _flag(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, is_flag=True, is_eager=True, expose_value=False, callback=_keep, help=text)


def printing(command: Callable[Concatenate[Options, P], R]) -> Callable[P, R]:
    """For a command that prints: `--json`, `--trace`; it gets the Options first."""
    for option in (
        _flag("--trace", "On an error, show perdure's own traceback as well."),
        _flag("--json", "Print one JSON document and nothing else."),
    ):
        command = option(command)
    return click.make_pass_decorator(Options, ensure=True)(command)


def stored(command: Callable[Concatenate[Options, P], R]) -> Callable[P, R]:
    """For a command that opens a store: the options of `printing`, and `--store`."""
    option = click.option(
        "--store",
        metavar="URL",
        expose_value=False,
        callback=_keep,
        help="A file or URL. Default: PERDURE_STORE, else ./perdure.db",
    )
    return printing(option(command))
