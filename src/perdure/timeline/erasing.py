"""The erasure of what a run knows of people: its key is destroyed, and everything else stays and verifies.

A run is erased with its children and theirs, and with its forks and its origin, which share its key: whatever
could still open what it sealed. All keys go in one transaction, or none. Events, blobs and snapshots are not
touched: what is in them has become noise. Afterwards the place's own log is emptied of the keys' bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from perdure.errors import EraseRefused, NoSuchRun, RunGone, RunOpen
from perdure.store.pages import every
from perdure.store.protocol import Query, RunRow, Store

BEGINNING = 160
"""Characters of a run's id that the ids of its children surely begin with."""


class Erasure(Struct, frozen=True):
    """Which runs it concerns, the run itself first. `sealed`: those that have a key, and so personal data.

    `open`: those that have not ended, for which it is refused. `done`: the keys are destroyed. `scrubbed`:
    the place's own log has nothing of them any more.
    """

    run_id: str
    runs: tuple[str, ...]
    sealed: tuple[str, ...]
    open: tuple[str, ...] = ()
    done: bool = False
    scrubbed: bool = False


async def planned(store: Store, run_id: str) -> Erasure:
    """What `erase` would concern. Writes nothing. Raises NoSuchRun, RunGone."""
    found: dict[str, RunRow] = {run_id: await store.row(run_id)}
    todo, sealed = [run_id], list[str]()
    while todo:
        name = todo.pop(0)
        if await store.key(name):
            sealed.append(name)
        for row in [*await _children(store, name), *await _rows(store, await store.sharers(name))]:
            if row.run_id not in found:
                found[row.run_id] = row
                todo.append(row.run_id)
    still = tuple(name for name, row in found.items() if not row.terminal)
    return Erasure(run_id, tuple(found), tuple(sealed), still)


async def erase(store: Store, run_id: str) -> Erasure:
    """Destroy the keys of a run that has ended, of its children and its forks. Twice is once.

    Raises EraseRefused where one of them has not ended; NoSuchRun, RunGone.
    """
    plan = await planned(store, run_id)
    if plan.open:
        raise _refused(plan.run_id, plan.open)
    try:
        await store.erase(plan.runs)
    except RunOpen as error:
        raise _refused(run_id, (str(error.facts.get("run_id", run_id)),)) from error
    scrubbed = await store.scrub()
    return Erasure(run_id, plan.runs, plan.sealed, (), True, scrubbed)


def _refused(run_id: str, still: tuple[str, ...]) -> EraseRefused:
    names = ", ".join(still[:5]) + (", …" if len(still) > 5 else "")
    what = f"run {run_id} cannot be erased: {names} has not ended"
    return EraseRefused(what, run_id=run_id, open=list(still))


async def _children(store: Store, run_id: str) -> list[RunRow]:
    """The runs that a run has spawned, by their ids, which begin with its own."""
    below = every(store, Query(prefix=run_id[:BEGINNING]))
    return [row async for row in below if row.parent == run_id]


async def _rows(store: Store, run_ids: Iterable[str]) -> list[RunRow]:
    rows = []
    for run_id in run_ids:
        try:
            rows.append(await store.row(run_id))
        except (NoSuchRun, RunGone):  # its key is destroyed with the others
            continue
    return rows
