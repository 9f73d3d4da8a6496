"""The versions that a store's tables have had, and the statements from one to the next.

    schema/KIND.sql            makes the tables of the newest version
    schema/KIND-to-N.sql       makes version N out of version N - 1

It knows names and texts; whoever runs them does so in one transaction.
"""

from __future__ import annotations

import pkgutil

from msgspec import Struct


class Shape(Struct, frozen=True):
    """The tables of one kind of store (`sqlite`, `postgres`) at a version."""

    kind: str
    version: int

    @property
    def first(self) -> str:
        """The file that makes the tables where there are none."""
        return f"{self.kind}.sql"

    def steps(self, before: int) -> list[str]:
        """The files that bring tables of version `before` up to this one, in order."""
        return [f"{self.kind}-to-{version}.sql" for version in range(before + 1, self.version + 1)]


def schema_text(name: str) -> str:
    """The statements in a file, without its comments: SQLite would keep them, in pages of every store."""
    found = pkgutil.get_data("perdure.store", f"schema/{name}")
    assert found is not None, f"the schema file {name} is not part of this package"
    lines = (line.partition("--")[0] for line in found.decode().splitlines())
    return " ".join(" ".join(lines).split())
