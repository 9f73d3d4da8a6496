"""The first page of a long run: how it began and what came last, read without what lies between.

A call that began before a page is not on it. It reads and writes nothing else (law 14).
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct

from perdure.journal.stretch import stretch
from perdure.state import events as e
from perdure.store.protocol import Store
from perdure.timeline.view import Line, lines

LONG = 1000
"""A run of more events is shown by its pages."""

HEAD, TAIL = 50, 250
"""So many events are read at the beginning and at the end."""

BEFORE = 100
"""So many more before the end, so that calls which end there are known by their beginnings."""


class Page(Struct, frozen=True):
    """The first lines of a run and its last ones; `between` events lie between them and were not read."""

    first: tuple[Line, ...]
    last: tuple[Line, ...]
    between: int


async def first_page(store: Store, run_id: str, upto: int, step: int) -> Page:
    """Both ends of a run of more than LONG events, of which none were taken away, up to event `upto`.

    `step`: the one that was open then. Raises Damaged, NewerFormat, NoSuchRun, RunGone.
    """
    head = await stretch(store, run_id, 0, HEAD)
    start = upto - TAIL
    tail = await stretch(store, run_id, start - BEFORE, upto)
    last = [line for line in lines([head[0], *tail]) if line.seq > start]
    return Page(tuple(lines(head)), tuple(_numbered(last, tail, step)), start - HEAD)


def _numbered(read: list[Line], tail: list[e.Event], step: int) -> list[Line]:
    """The lines with the numbers of their steps: the page begins in a step whose beginning it has not."""
    ends = [(event.seq, event.body.number) for event in tail if isinstance(event.body, e.StepCommitted)]
    first_seq, first = ends[0] if ends else (tail[-1].seq + 1, step)
    return [replace(line, step=first) if line.seq < first_seq else line for line in read]
