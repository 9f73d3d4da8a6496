"""Whether a person wants what cannot be taken back.

Where nobody can be asked, nothing is done: a program says --yes, and has looked before.
"""

from __future__ import annotations

import sys

import click

from perdure.cli.options import Options
from perdure.errors import PerdureError


def must_agree(options: Options, question: str, refusal: PerdureError) -> None:
    """Let a person decide. Raises the refusal where there is none to ask, and click's Abort at a no."""
    if options.json or not sys.stdin.isatty():
        raise refusal
    click.confirm(question, abort=True)
