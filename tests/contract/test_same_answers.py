"""Laws 5 and 6 across stores: the same verbs in the same order get the same answers, refusals included.

Random histories of every verb over a few runs, workers and messages are played to a store in memory and to
one that outlives its process, under one clock. Hypothesis prints what it needs to play a failing history
again.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.store import MemoryStore, SQLiteStore
from perdure.store.protocol import (
    NEVER,
    Batch,
    Blob,
    Claim,
    Compaction,
    Message,
    NewRun,
    Placement,
    Query,
    RowChange,
    Snapshot,
    Store,
    Tx,
)
from perdure.testing.clock import START, MovableClock
from perdure.testing.contract.trial import event, events

Verb: TypeAlias = Callable[[Store], Awaitable[Any]]

RUNS = ("a", "b", "c")
run_ids = st.sampled_from(RUNS)
workers = st.sampled_from(("w1", "w2"))
moments = st.sampled_from((0, START, START + 10_000_000, START + 40_000_000, NEVER))
message_ids = st.sampled_from(("m1", "m2", "m3"))
agents = st.sampled_from(
    ({}, {"x": frozenset()}, {"x": frozenset({"1"}), "y": frozenset({"2"})}, {"z": frozenset()})
)


@dataclass(frozen=True)
class Sketch:
    """A batch but for the run's epoch and last event, which are known when it is its turn."""

    batch: Batch
    epoch_off: int
    after_off: int
    gap: int
    count: int

    def at(self, epoch: int, seq: int) -> Batch:
        """The batch for a run at this epoch and event."""
        after = seq + self.after_off
        added = events(after + 1 + self.gap, after + self.gap + self.count)
        snapshot = self.batch.snapshot and replace(self.batch.snapshot, seq=max(1, seq))
        return replace(self.batch, epoch=epoch + self.epoch_off, after=after, events=added, snapshot=snapshot)


rarely = st.sampled_from((0, 0, 0, 0, 0, 0, 0, 0, 1, -1))


@st.composite
def sketches(draw: st.DrawFn) -> Sketch:
    """Mostly right ones, some wrong in each way that a fence notices."""
    change = st.builds(
        RowChange,
        status=st.sampled_from((None, "ready", "waiting")),
        due_at=st.one_of(st.none(), moments),
        terminal=st.sampled_from((False, False, False, True)),
        info=st.sampled_from((None, b"info")),
        version=st.sampled_from((None, "2")),
        progress=st.booleans(),
    )
    messages = st.builds(Message, run_ids, message_ids, st.just("k"), st.just(b"sent"))
    snapshots = st.builds(Snapshot, st.just(1), st.just(b"state"), st.just(b"d"))
    batch = Batch(
        draw(run_ids),
        0,
        0,
        (),
        draw(st.one_of(st.none(), st.none(), change)),
        draw(st.one_of(st.none(), snapshots)),
        draw(st.sampled_from(((), (Blob(b"k1", b"one"),), (Blob(b"k2", b"two"), Blob(b"k1", b"one"))))),
        draw(st.sampled_from(((), (), (), (1,), (2,), (1, 2)))),
        draw(st.sampled_from((None, None, None, 0, 1, 2))),
        draw(st.one_of(st.none(), st.none(), st.none(), moments)),
        tuple(draw(st.lists(messages, max_size=2))),
        release=draw(st.sampled_from((False, False, True))),
        kept=draw(st.sampled_from((0, 0, 1, 3, 1 << 40))),
    )
    return Sketch(batch, draw(rarely), draw(rarely), draw(rarely.map(abs)), draw(st.integers(0, 2)))


async def standing(store: Store, run_id: str) -> tuple[int, int]:
    """A run's epoch and last event; zeros if it is not there."""
    try:
        row = await store.row(run_id)
    except PerdureError:
        return 0, 0
    return row.epoch, row.seq


def appended(sketch: Sketch) -> Verb:
    """The sketch, finished when it is its turn."""

    async def verb(store: Store) -> Any:
        return await store.append(sketch.at(*await standing(store, sketch.batch.run_id)))

    verb.__name__ = repr(sketch)
    return verb


def call(name: str, *args: Any) -> Verb:
    """A verb of the store with these arguments."""

    def verb(store: Store) -> Awaitable[Any]:
        answer: Awaitable[Any] = getattr(store, name)(*args)
        return answer

    verb.__name__ = f"{name}{args!r}"
    return verb


def acted(run_id: str, wrong: bool) -> Verb:
    """A transactional call, which may fail."""

    async def verb(store: Store) -> Any:
        epoch, seq = await standing(store, run_id)

        def act(tx: Tx) -> Sequence[Any]:
            tx.execute("CREATE TABLE IF NOT EXISTS mine (run TEXT, seq INTEGER)")
            tx.execute("INSERT INTO mine VALUES (?, ?)", (run_id, seq))
            if wrong:
                raise ZeroDivisionError
            rows = tx.execute("SELECT count(*) FROM mine")
            return (event(seq + 1, b"count %d" % rows[0][0]),)

        return await store.append(Batch(run_id, epoch, seq, act=act))

    verb.__name__ = f"a call of {run_id}, wrong: {wrong}"
    return verb


def compacted(run_id: str, back: int, blobs: tuple[bytes, ...]) -> Verb:
    """The run's events but the last few go, with these blobs."""

    async def verb(store: Store) -> Any:
        _, seq = await standing(store, run_id)
        base = Snapshot(max(seq - back, 0), b"base", b"d")
        return await store.compact(Compaction(run_id, base, (b"left",), blobs, seq=seq))

    verb.__name__ = f"compact {run_id} but {back}, {blobs}"
    return verb


placements = st.sampled_from(
    [
        Placement(),
        Placement("q"),
        Placement(tags=("gpu",)),
        Placement(priority=2),
        Placement(limit_key="k"),
        Placement("q", ("eu", "gpu"), -1, "k", 2),
    ]
)

verbs: st.SearchStrategy[Verb] = st.one_of(
    st.builds(
        lambda run_id, agent, version, n, due_at, place: call(
            "create",
            NewRun(
                run_id,
                "z" if place.limit_key else agent,
                version,
                "ready",
                events(1, n),
                due_at,
                placement=place,
            ),
        ),
        run_ids, st.sampled_from("xy"), st.sampled_from("12"), st.integers(0, 3), moments, placements,
    ),
    sketches().map(appended),
    sketches().map(appended),
    sketches().map(appended),
    st.builds(acted, run_ids, st.booleans()),
    st.builds(
        lambda w, served, n: call("claim", Claim(w, 30, served, limit=n)), workers, agents, st.integers(0, 3)
    ),
    st.builds(lambda w, run_id: call("claim", Claim(w, 10, run_id=run_id)), workers, run_ids),
    st.builds(
        lambda w, served, queues, tags, limits, busy: call(
            "claim", Claim(w, 30, served, None, 2, queues, tags, limits, busy)
        ),
        workers, agents, st.sampled_from([frozenset(), frozenset({"q"})]),
        st.sampled_from([None, frozenset(), frozenset({"gpu", "eu"})]),
        st.sampled_from([{}, {"x": 1}]), st.sampled_from([{}, {"x": 3, "y": 1}]),
    ),
    st.builds(lambda w, run_id: call("renew", w, (run_id, "a"), 20), workers, run_ids),
    st.builds(lambda run_id, epoch: call("release", run_id, epoch), run_ids, st.integers(0, 3)),
    st.builds(lambda run_id, m: call("deliver", Message(run_id, m, "k", b"data")), run_ids, message_ids),
    run_ids.map(lambda run_id: call("drop", run_id, (run_id.encode(),))),
    st.builds(compacted, run_ids, st.integers(0, 2), st.sampled_from(((), (b"k1",)))),
)  # fmt: skip

looks: tuple[Verb, ...] = (
    *(call(name, run_id) for run_id in RUNS for name in ("load", "row", "snapshots", "tombstones", "inbox")),
    *(call("read", run_id, 1, 3) for run_id in RUNS),
    *(call("snapshot", run_id, upto) for run_id in RUNS for upto in (1, 3, 9)),
    *(call("blob", run_id, key) for run_id in RUNS for key in (b"k1", b"k2")),
    # Not of agent z: which of the runs with a full key are set aside already is each store's own affair.
    call("due", Claim("w", 30, {"x": frozenset(), "y": frozenset()})),
    call("due", Claim("w", 30, {"x": frozenset()}, tags=frozenset(), limits={"x": 1})),
    call("due", Claim("w", 30, {"y": frozenset({"2"})})),
    *(
        call("list", query)
        for query in (Query(), Query(("ready",), "x", "a"), Query(open_only=True, limit=2), Query(asks=True))
    ),
)

steps = st.one_of(verbs, verbs, verbs, st.sampled_from((0.0, 1.0, 9.999999, 30.0)))


async def answer(store: Store, verb: Verb) -> Any:
    """What the store says, or how it refuses."""
    try:
        return await verb(store)
    except PerdureError as refusal:
        return refusal.code
    except ZeroDivisionError:
        return "the call's own"


async def play(make: Callable[[Clock], Store], history: Sequence[Verb | float]) -> None:
    """Play a history to both, compare each answer, and in the end everything that can be seen."""
    clock = MovableClock()
    memory, other = MemoryStore(clock=clock), make(clock)
    await memory.open()
    await other.open()
    try:
        begin = [call("create", NewRun(run_id, "x", "1", "ready", events(1, 2))) for run_id in ("a", "b")]
        for step in (*begin, *history, *looks):
            clock.advance(0.000001)  # no two at one moment: ties may be broken as each store likes
            if isinstance(step, float):
                clock.advance(step)
                continue
            assert await answer(other, step) == await answer(memory, step), step.__name__
        ours, theirs = await memory.stats(), await other.stats()
        for name in ("runs", "events", "event_bytes", "snapshot_bytes", "blob_bytes"):
            assert getattr(ours, name) == getattr(theirs, name), name
    finally:
        await memory.close()
        await other.close()


@settings(max_examples=150)
@given(st.lists(steps, min_size=5, max_size=40))
def test_memory_and_a_file_answer_alike(history: list[Verb | float]) -> None:
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        path = f"{folder}/runs.db"
        asyncio.run(play(lambda clock: SQLiteStore(path, clock=clock, reserve_bytes=0), history))


@settings(max_examples=80)
@given(st.lists(sketches(), min_size=2, max_size=30))
def test_batches_in_one_commit_are_as_if_one_after_the_other(queued: list[Sketch]) -> None:
    """Law 6 and the neighbours: what is refused alone is refused in company, and only that."""

    def make(clock: Clock, name: str) -> Store:
        return SQLiteStore(f"{folder}/{name}.db", clock=clock, reserve_bytes=0)

    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        asyncio.run(play_together(make, queued))


async def play_together(make: Callable[[Clock, str], Store], queued: Sequence[Sketch]) -> None:
    """The same batches one by one and all at once, each to a place of its own."""
    clock = MovableClock()
    alone, together = make(clock, "alone"), make(clock, "together")
    for store in (alone, together):
        await store.open()
        for run_id in RUNS:
            await store.create(NewRun(run_id, "x", "1", "ready", events(1, 1)))
            await store.claim(Claim("w1", 30, run_id=run_id))
    batches, one_by_one = [], []
    for sketch in queued:
        batches.append(sketch.at(*await standing(alone, sketch.batch.run_id)))
        one_by_one.append(await answer(alone, call("append", batches[-1])))
    futures = [together.append(batch) for batch in batches]
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert [getattr(outcome, "code", outcome) for outcome in outcomes] == one_by_one
    for look in looks:
        assert await answer(together, look) == await answer(alone, look), look.__name__
    for store in (alone, together):
        await store.close()
