"""Laws 5 and 6 on PostgreSQL: it answers as memory does, alone and with many batches in one commit."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.clock import Clock
from perdure.store import MemoryStore, Store
from perdure.store.postgres import PostgresStore
from tests.contract.test_same_answers import Sketch, Verb, play, play_together, sketches, steps
from tests.database import PLACE

numbers = itertools.count()


def fresh(clock: Clock) -> PostgresStore:
    """A store on a place that is empty."""
    return PostgresStore(PLACE.at(Path(f"/answers/{next(numbers)}")), clock=clock)


@settings(max_examples=25)
@given(st.lists(steps, min_size=5, max_size=40))
def test_memory_and_a_database_answer_alike(history: list[Verb | float]) -> None:
    asyncio.run(play(fresh, history))


@settings(max_examples=20)
@given(st.lists(sketches(), min_size=2, max_size=30))
def test_batches_in_one_commit_are_as_if_one_after_the_other(queued: list[Sketch]) -> None:
    """What is refused alone is refused in company, and only that."""

    def make(clock: Clock, name: str) -> Store:
        return MemoryStore(clock=clock) if name == "alone" else fresh(clock)

    asyncio.run(play_together(make, queued))
