"""Which store a command means, opened for it. A look never makes a store that is not there."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from perdure.cli.options import Options
from perdure.errors import AmbiguousRun, BadPoint, NoStore, NoSuchRun, StoreReadOnly, StoreUnavailable
from perdure.runtime.vaults import enter, vault_for_look
from perdure.store import open_store, switched
from perdure.store.protocol import Query, RunRow, Store
from perdure.timeline.plain import clean

MATCHES_SHOWN = 8
"""Runs that are named when a prefix fits several."""


def url_of(options: Options) -> str:
    """The store that is meant: --store, else PERDURE_STORE, else ./perdure.db."""
    return options.store or os.environ.get("PERDURE_STORE") or "perdure.db"


def is_database(url: str) -> bool:
    """Whether the URL names a database on a server."""
    return url.startswith(("postgresql://", "postgres://"))


def path_of(url: str) -> Path | None:
    """The file that the URL names, or None for a store that is no file."""
    url, _ = switched(url)
    if url.startswith("sqlite:///"):
        return Path(url.removeprefix("sqlite:///"))
    return None if url == "memory:" or "://" in url else Path(url)


@asynccontextmanager
async def there(options: Options, *, look: bool = True, below: bool = False) -> AsyncIterator[Store]:
    """The store, opened; to look at it only, or also to write. `below`: an encrypted one as it lies there.

    Raises NoStore, with what was looked for, if it is a file that is not there or a database without tables.
    """
    url = url_of(options)
    path = path_of(url)
    if path is not None and (not path.exists() or path.stat().st_size == 0):
        raise NoStore(f"there is no store at {path.absolute()}", path=str(path.absolute()))
    store = await _exported(path, look=look) if path is not None and is_exported(path) else None
    if store is None:
        store = open_store(switched(url)[0] if below else url, look=look)
        store.sealed = store.sealed or below
        try:
            await store.open()
        except StoreUnavailable as error:
            if error.facts.get("absent"):
                raise NoStore(error.what, url=store.url) from None
            raise
    try:
        yield store
    finally:
        await store.close()


def is_exported(path: Path) -> bool:
    """Whether the file is an exported run, by its beginning."""
    try:
        with path.open("rb") as file:
            beginning = file.read(16)
    except OSError:  # the store says what is the matter with it
        return False
    if beginning.startswith(b"SQLite format 3"):
        return False
    from perdure.timeline.bundle import MAGIC

    return beginning.startswith(MAGIC)


async def _exported(path: Path, *, look: bool) -> Store:
    """An exported run, in the place of a store. Raises StoreReadOnly where it would have to be written."""
    from perdure.timeline.bundle import shelf, unpacked

    if not look:
        raise StoreReadOnly(
            f"{path} is an exported run, which is only looked at",
            remedy=f"perdure import --store STORE {shlex.quote(str(path))} carries it into a store",
            path=str(path),
        )
    return await shelf(unpacked(await asyncio.to_thread(path.read_bytes)), str(path))


async def find(store: Store, text: str, *, whole: bool = False) -> RunRow:
    """The run of this id, as `found`; from here on its personal data is shown as [personal], or [erased]."""
    row = await _found(store, text, whole=whole)
    enter(await vault_for_look(store, row.run_id))
    return row


async def _found(store: Store, text: str, *, whole: bool) -> RunRow:
    """The run of this id, else the only one whose id begins with it; `whole`: of this id alone.

    Raises NoSuchRun, RunGone, AmbiguousRun.
    """
    if not text:
        raise NoSuchRun("no run's id is empty", run_id=text)
    if whole:
        return await _of_this_id(store, text)
    with suppress(NoSuchRun):
        return await store.row(text)  # a run that was pruned is told of, and none whose id is longer meant
    rows = await store.list(Query(prefix=text, limit=MATCHES_SHOWN + 1))
    if len(rows) == 1:
        return rows[0]
    if not rows:
        raise NoSuchRun(f"no run's id begins with {clean(text)} in {store.url}", run_id=text)
    matches = [row.run_id for row in rows[:MATCHES_SHOWN]]
    names = ", ".join(map(clean, matches))
    many = len(rows) > MATCHES_SHOWN
    fits = f"many runs: {names}, …" if many else f"{len(rows)} runs: {names}"
    raise AmbiguousRun(f"{clean(text)} fits {fits}", matches=matches)


async def _of_this_id(store: Store, text: str) -> RunRow:
    try:
        return await store.row(text)
    except NoSuchRun:
        row = await _found(store, text, whole=False)  # raises where there is none, or several
        raise NoSuchRun(
            f"no run's id is {clean(text)}; so begins {clean(row.run_id)}",
            run_id=text,
            remedy="give the whole id of a run that is to end",
        ) from None


def point(text: str) -> tuple[str, int | None]:
    """RUN or RUN@SEQ as run and event number. Raises BadPoint."""
    run, mark, seq = text.partition("@")
    if not mark:
        return run, None
    if not (seq.isascii() and seq.isdigit() and int(seq) > 0):
        raise BadPoint(
            f"{clean(text)} is not a point: after @ comes an event's number, such as {clean(run)}@41"
        )
    return run, int(seq)
