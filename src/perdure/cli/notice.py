"""How an error is told, to a person and to a program; and the one way in which documents are printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from perdure.errors import PerdureError, at_store
from perdure.timeline.plain import jsonable, lines


def error_lines(error: PerdureError, store: str | None = None) -> Iterator[str]:
    """The error for a person: what happened, where, what is safe, the remedy. Harmless text, styled.

    `store`: what `--store` named, so that the remedy's commands name it too.
    """
    code = error.code or type(error).__name__
    first, *rest = lines(error.what)
    yield click.style(f"error[{code}]", fg="red", bold=True) + f": {first}"
    yield from (f"  {line}" for line in rest)
    for label, text in (
        ("where", error.where),
        ("safe", error.safe),
        ("remedy", at_store(error.remedy, store)),
    ):
        for index, line in enumerate(lines(text) if text else ()):
            yield click.style(f"  {label if index == 0 else '':<8}", bold=True) + line
    if error.code:
        yield click.style(f"  {'more':<8}", bold=True) + f"perdure explain {error.code}"


def error_document(error: PerdureError, exit_code: int, store: str | None = None) -> dict[str, Any]:
    """The error for a program."""
    return {
        "error": {
            "code": error.code or None,
            "name": type(error).__name__,
            "what": jsonable(error.what),
            "where": jsonable(error.where),
            "safe": jsonable(error.safe),
            "remedy": jsonable(at_store(error.remedy, store)),
            "facts": {name: jsonable(value) for name, value in error.facts.items()},
            "exit": exit_code,
        }
    }


def print_document(document: dict[str, Any]) -> None:
    """Print one JSON document in pure ASCII, so that no stored character can act on a terminal."""
    click.echo(json.dumps(document, allow_nan=False, indent=2))
