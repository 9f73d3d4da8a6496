"""A long run made small: its early events go, and a snapshot with what must be accounted for stays.

Each run is compacted in one commit, before or after and never between, whoever drives it meanwhile. What an
open run's present or future rests on stays (law 12): the open step whole, and every act, approval, answer and
debt. Only the past that is looked at is shorter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import Struct

from perdure.errors import BadPoint, RunOpen, SeqConflict
from perdure.journal import Keep, cut
from perdure.runtime.boundary import reached
from perdure.store.pages import every
from perdure.store.protocol import Query, RunRow, Store
from perdure.timeline.plain import clean

TRIES = 20
"""A run that is driven goes on between the look at it and the commit; then it is looked at again."""


class Compacted(Struct, frozen=True):
    """What became of one run: it begins after event `floor`; `removed` events and `freed` bytes are gone."""

    run_id: str
    floor: int
    removed: int
    freed: int


async def compacted(
    store: Store, run_id: str, *, upto: int | None = None, keep: Keep = "audit", dry_run: bool = False
) -> Compacted:
    """Take a run's events up to `upto` away; None: as many as may go.

    That is all of a run that has ended, and all before the open step of one that has not. `keep="keys"`, of a
    run that has ended, keeps of its acts their keys alone. Doing it twice is once. `dry_run`: only say what
    would go; `freed` is then the bytes that are there.

    Raises BadPoint for an event that may not go, RunOpen, Damaged, NewerFormat, NoSuchRun, RunGone.
    """
    attempt = 0
    while True:
        attempt += 1
        row = await store.row(run_id)
        _check(row, upto, keep)
        found = await cut(store, row, upto, keep)
        before = (await store.sizes([run_id])).get(run_id, 0)
        if found.compaction is None or dry_run:
            return Compacted(run_id, found.upto, found.removed, before if dry_run else 0)
        reached("compact.write")
        try:
            await store.compact(found.compaction)
            break
        except SeqConflict:  # its owner has gone on meanwhile
            if attempt == TRIES:
                raise
    reached("compact.done")
    after = (await store.sizes([run_id])).get(run_id, 0)
    return Compacted(run_id, found.upto, found.removed, before - after)


def _check(row: RunRow, upto: int | None, keep: Keep) -> None:
    name = clean(row.run_id)
    if keep == "keys" and not row.terminal:
        raise RunOpen(
            f"run {name} is {row.status}: it may need its acts and approvals still",
            remedy=f"perdure compact {name} keeps them; --keep keys is for runs that have ended",
            run_id=row.run_id,
        )
    if upto is not None and not 1 <= upto <= row.seq:
        raise BadPoint(f"run {name} has the events 1 to {row.seq}, and no event {upto}")


async def long_runs(store: Store, least: int, agent: str | None = None) -> AsyncIterator[RunRow]:
    """Every run with at least so many events that were not compacted, newest first."""
    async for row in every(store, Query(agent=agent)):
        if row.seq - row.floor >= least:
            yield row
