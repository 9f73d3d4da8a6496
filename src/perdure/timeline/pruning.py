"""Runs that have ended and need not be kept: which those are, and their removal.

A run that is open is never removed, nor one whose parent is open: what an open run's present or future rests
on stays (law 12). What is removed leaves its id, which stays taken, and a tombstone: the keys of its acts,
and with `keep="audit"` the events that say what was done outside and who permitted it. Each run is removed
in one commit; many of them share the disk with the commits of live workers, a few at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.errors import Damaged, NewerFormat, NoSuchRun, RunGone
from perdure.journal import Keep, accounted, keys_of, retold
from perdure.runtime.boundary import reached
from perdure.state import events as e
from perdure.state.fork import own_events
from perdure.state.record import TERMINAL
from perdure.store.pages import PAGE, every
from perdure.store.protocol import Query, RunRow, Store
from perdure.timeline.amounts import stamp
from perdure.timeline.plain import jsonable

AT_ONCE = 16
"""Removals under way: few enough that a commit of theirs is short, and no live worker waits long for its
turn."""


class Rule(Struct, frozen=True):
    """Which runs are to go: ended, at least `older` microseconds ago, with one of these statuses.

    `agent`: only this agent's, if given. `newest`: so many of the newest that would go stay all the same.
    """

    older: int = 0
    statuses: frozenset[str] = TERMINAL
    agent: str | None = None
    newest: int = 0


class Plan(Struct, frozen=True):
    """What is to go: the rows, their bytes, and why others that have ended stay.

    `refused`: runs that were named and cannot go, each with the reason.
    """

    rows: tuple[RunRow, ...]
    freed: int
    kept: Counter[str]
    refused: tuple[tuple[str, str], ...] = ()


class Epitaph(Struct, frozen=True):
    """What a removed run leaves behind. `events`: frames, in order; moments in microseconds."""

    agent: str
    version: str
    status: str
    started_at: int
    ended_at: int
    removed_at: int
    keys: tuple[str, ...]
    events: tuple[bytes, ...] = ()

    def told(self) -> list[e.Event]:
        """The kept events."""
        return [codec.unpack(frame, e.Event) for frame in self.events]


async def planned(store: Store, rule: Rule) -> Plan:
    """What the rule would remove now. Writes nothing."""
    rows, kept = list[RunRow](), Counter[str]()
    now, spared = store.now(), rule.newest
    async for row in _ended(store, rule):
        if row.status not in rule.statuses:
            kept["another status"] += 1
        elif now - row.updated_at < rule.older:
            kept["too young"] += 1
        elif await _parent_is_open(store, row):
            kept["its parent is open"] += 1
        elif spared > 0:
            spared -= 1
            kept["among the newest"] += 1
        else:
            rows.append(row)
    return Plan(tuple(rows), await _bytes_of(store, rows), kept)


async def named(store: Store, run_ids: Sequence[str]) -> Plan:
    """The removal of just these runs: each goes, or is refused with its reason. Writes nothing."""
    rows, refused = list[RunRow](), list[tuple[str, str]]()
    for run_id in dict.fromkeys(run_ids):
        try:
            row = await store.row(run_id)
        except RunGone:
            refused.append((run_id, "it is gone already"))
            continue
        except NoSuchRun:
            refused.append((run_id, "there is no such run"))
            continue
        if not row.terminal:
            refused.append((run_id, f"it has not ended: {row.status}"))
        elif await _parent_is_open(store, row):
            refused.append((run_id, "its parent is open"))
        else:
            rows.append(row)
    return Plan(tuple(rows), await _bytes_of(store, rows), Counter(), tuple(refused))


async def _bytes_of(store: Store, rows: Sequence[RunRow]) -> int:
    freed = 0
    for start in range(0, len(rows), PAGE):
        freed += sum((await store.sizes([row.run_id for row in rows[start : start + PAGE]])).values())
    return freed


async def _ended(store: Store, rule: Rule) -> AsyncIterator[RunRow]:
    """Every run that has ended, newest first."""
    async for row in every(store, Query(statuses=tuple(sorted(TERMINAL)), agent=rule.agent)):
        if row.terminal:
            yield row


async def _parent_is_open(store: Store, row: RunRow) -> bool:
    if row.parent is None:
        return False
    try:
        return not (await store.row(row.parent)).terminal
    except (NoSuchRun, RunGone):
        return False


class Pruned(Struct, frozen=True):
    """How many runs were removed, and the ids of those whose past cannot be read: they are damaged, and
    stay.
    """

    removed: int
    unreadable: tuple[str, ...] = ()


async def prune(
    store: Store, rows: Sequence[RunRow], *, keep: Keep = "keys", each: Callable[[RunRow], None] | None = None
) -> Pruned:
    """Remove these runs, for good. `each` is called after each one that was looked at.

    A run that is gone already counts as none. Raises RunOpen for one that has not ended, StoreError; those
    that were removed before stay removed.
    """
    waiting, removed, unreadable = iter(rows), 0, list[str]()

    async def remove() -> None:
        nonlocal removed
        for row in waiting:  # one iterator for all: each takes the next one
            try:
                left = await _tombstones(store, row, keep)
                reached("prune.write")
                mine = await store.drop(row.run_id, left)  # else somebody else was quicker
                reached("prune.done")
                removed += mine
            except RunGone:
                pass
            except (Damaged, NewerFormat):
                unreadable.append(row.run_id)
            if each is not None:
                each(row)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(rows))):
                group.create_task(remove())
    except BaseExceptionGroup as failed:  # the first one says what is the matter
        raise failed.exceptions[0] from None
    return Pruned(removed, tuple(unreadable))


async def _tombstones(store: Store, row: RunRow, keep: Keep) -> list[bytes]:
    told = await retold(store, row.run_id)
    events = told.events
    epitaph = Epitaph(
        row.agent,
        row.version,
        row.status,
        events[0].at,
        events[-1].at,
        store.now(),
        tuple(dict.fromkeys((*told.keys, *keys_of(own_events(events))))),
        tuple(map(codec.pack, accounted(own_events(events)))) if keep == "audit" else (),
    )
    late = [message.data for message in await store.inbox(row.run_id) if message.kind == "late"]
    return [codec.pack(epitaph), *late]


def epitaph_of(tombstones: Sequence[bytes]) -> Epitaph | None:
    """What a removed run left behind; None if it was removed without a word."""
    return codec.unpack(tombstones[0], Epitaph) if tombstones and tombstones[0][:1] == FRAME else None


FRAME = bytes((codec.FORMAT,))
"""What a frame begins with; a late result that came after the removal is a tombstone too, and is none."""


def epitaph_document(left: Epitaph) -> dict[str, Any]:
    """What is left of a run, for programs; its kept events are told by its acts."""
    return {
        "agent": jsonable(left.agent),
        "version": jsonable(left.version),
        "status": left.status,
        "started_at": stamp(left.started_at),
        "ended_at": stamp(left.ended_at),
        "removed_at": stamp(left.removed_at),
        "keys": list(left.keys),
    }
