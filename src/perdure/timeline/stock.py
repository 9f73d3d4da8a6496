"""What a store's bytes are: events by kind, how far apart snapshots lie, and the dearest resume, measured.

It reads every event of every run, in pages; it writes nothing (law 14). A run that cannot be read is counted
and passed over.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.clock import SYSTEM
from perdure.errors import Damaged, NewerFormat, NoSuchRun, RunGone
from perdure.journal import load, read_all
from perdure.state import events as e
from perdure.store.pages import every
from perdure.store.protocol import Query, RunRow, Store
from perdure.timeline.plain import jsonable

MEASURED = 10
"""So many runs, those with the most events to replay, are loaded to see how long it takes."""


class Share(Struct):
    """So many events of one kind, and their bytes as they are kept."""

    count: int = 0
    size: int = 0


class Stock(Struct):
    """`kinds`: by the event's kind, the largest first. `interval`: events between two snapshots of one run,
    in the mean (0: there are none). `tail`: the most events that a resume replays, of run `worst`; `seconds`:
    the longest of the resumes that were tried. `unreadable`: how many runs could not be read.
    """

    kinds: dict[str, Share]
    interval: float
    tail: int
    worst: str
    seconds: float
    unreadable: int


async def stock(store: Store, *, each: Callable[[int], None] | None = None) -> Stock:
    """Take stock of a whole store. `each` is told how many runs were read."""
    found, tails, gaps, unreadable, done = dict[str, Share](), list[tuple[int, str]](), list[int](), 0, 0
    async for row in every(store, Query()):
        try:
            await _count(store, row.run_id, found)
            tails = heapq.nlargest(MEASURED, [*tails, (await _tail(store, row, gaps), row.run_id)])
        except (NoSuchRun, RunGone):
            pass
        except (Damaged, NewerFormat):
            unreadable += 1
        done += 1
        if each is not None:
            each(done)
    kinds = dict(sorted(found.items(), key=lambda item: -item[1].size))
    tail, worst = tails[0] if tails else (0, "")
    interval = sum(gaps) / len(gaps) if gaps else 0.0
    return Stock(kinds, interval, tail, worst, await _longest(store, tails), unreadable)


async def _count(store: Store, run_id: str, found: dict[str, Share]) -> None:
    for item in await read_all(store, run_id):
        share = found.setdefault(e.kind_of(codec.unpack(item.data, e.Event).body), Share())
        share.count += 1
        share.size += len(item.data)


async def _tail(store: Store, row: RunRow, gaps: list[int]) -> int:
    seqs = [snapshot.seq for snapshot in await store.snapshots(row.run_id)]
    gaps += [
        after - earlier for earlier, after in zip([row.floor, *seqs], seqs, strict=False) if after > earlier
    ]
    return row.seq - (seqs[-1] if seqs else row.floor)


async def _longest(store: Store, tails: list[tuple[int, str]]) -> float:
    longest = 0.0
    for _, run_id in tails:
        began = SYSTEM.monotonic()
        try:
            await load(store, run_id)
        except (NoSuchRun, RunGone, Damaged, NewerFormat):
            continue
        longest = max(longest, SYSTEM.monotonic() - began)
    return longest


def stock_document(found: Stock) -> dict[str, Any]:
    """The same for programs."""
    return {
        "kinds": {kind: {"count": one.count, "bytes": one.size} for kind, one in found.kinds.items()},
        "snapshot_interval": found.interval,
        "worst_replay": {
            "run_id": jsonable(found.worst),
            "events": found.tail,
            "seconds": found.seconds,
        },
        "unreadable": found.unreadable,
    }
