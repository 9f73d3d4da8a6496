"""How an error is told, to a person and to a program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote
from typing import Any

import click

from perdure.errors import PerdureError, at_store
from perdure.timeline.plain import clean, jsonable, lines


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
        ("remedy", remedy_of(error, store)),
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
            "remedy": jsonable(remedy_of(error, store)),
            "facts": {name: jsonable(value) for name, value in error.facts.items()},
            "exit": exit_code,
        }
    }


def remedy_of(error: PerdureError, store: str | None) -> str:
    """The remedy, its commands naming the run that the error is about, and the store."""
    run_id = error.facts.get("run_id") or str(error.facts.get("approval_id", "")).rpartition("~")[0]
    text = re.sub(r"\bRUN\b", lambda _: quote(clean(run_id)), error.remedy) if run_id else error.remedy
    return at_store(text, store)
