"""The one way in which a command prints for a program."""

from __future__ import annotations

from typing import Any

import click


def print_document(document: dict[str, Any]) -> None:
    """Print one JSON document in pure ASCII, so that no stored character can act on a terminal."""
    import json  # most commands print for people, and are quicker without it

    click.echo(json.dumps(document, allow_nan=False, indent=2))
