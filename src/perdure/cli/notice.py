"""How an error is told, to a person and to a program; and the one way in which documents are printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from perdure.errors import PerdureError
from perdure.timeline.plain import jsonable, lines


def error_lines(error: PerdureError) -> Iterator[str]:
    """The error for a person: what happened, where, what is safe, the remedy. Harmless text, styled."""
    code = error.code or type(error).__name__
    first, *rest = lines(error.what)
    yield click.style(f"error[{code}]", fg="red", bold=True) + f": {first}"
    yield from (f"  {line}" for line in rest)
    for label, text in (("where", error.where), ("safe", error.safe), ("remedy", error.remedy)):
        for index, line in enumerate(lines(text) if text else ()):
            yield click.style(f"  {label if index == 0 else '':<8}", bold=True) + line
    if error.code:
        yield click.style(f"  {'more':<8}", bold=True) + f"perdure explain {error.code}"


def error_document(error: PerdureError, exit_code: int) -> dict[str, Any]:
    """The error for a program."""
    return {
        "error": {
            "code": error.code or None,
            "name": type(error).__name__,
            "what": jsonable(error.what),
            "where": jsonable(error.where),
            "safe": jsonable(error.safe),
            "remedy": jsonable(error.remedy),
            "facts": {name: jsonable(value) for name, value in error.facts.items()},
            "exit": exit_code,
        }
    }


def print_document(document: dict[str, Any]) -> None:
    """Print one JSON document in pure ASCII, so that no stored character can act on a terminal."""
    click.echo(json.dumps(document, allow_nan=False, indent=2))
