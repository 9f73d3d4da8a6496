"""What the commands have in common that take parts of the past away: prune and compact.

Their options, and what is told at the end: what stayed because it is damaged, and what becomes of the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from perdure.cli.options import Options
from perdure.cli.storage import is_database, url_of
from perdure.journal import Keep
from perdure.timeline.plain import clean

F = TypeVar("F", bound=Callable[..., Any])

SPACE = "space  used again once the server's autovacuum was there; at once: VACUUM (ANALYZE) perdure_event"
"""Of a database, whose files removals alone do not make smaller. docs/stores.md has the rest."""


def removing(*, keep: Keep, stays: str, dry_run: str) -> Callable[[F], F]:
    """The options `--keep` (what it is without, and the help), `--dry-run` (its help) and `--yes`."""

    def declared(command: F) -> F:
        kinds = click.Choice(["keys", "audit"])
        command = click.option("--yes", is_flag=True, help="Ask nobody.")(command)
        command = click.option("--dry-run", is_flag=True, help=dry_run)(command)
        return click.option("--keep", type=kinds, default=keep, show_default=True, help=stays)(command)

    return declared


def tell_rest(options: Options, unreadable: Iterable[str], *, removed: bool) -> None:
    """For people: the runs that stay as they are, and how a database gives room back if some was freed."""
    for name in unreadable:
        click.echo(f"  stays: {clean(name)}, damaged: perdure verify {clean(name)}")
    if removed and is_database(url_of(options)):
        click.echo(SPACE)
