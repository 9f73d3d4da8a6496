"""Ten thousand waiting runs in one SQLite file: the inbox lists a page of those that ask, and one is woken.

How long a page takes is measured and printed; what is asserted is that it is read by an index alone.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import apsw

from perdure import codec
from perdure.clock import SECOND
from perdure.store.protocol import NEVER, Batch, Claim, Message, NewRun, Query, RowChange, Stored
from perdure.store.sqlite import SQLiteStore
from perdure.testing.clock import MovableClock
from perdure.timeline.inbox import Entry, entries

RUNS = 10_000
PAGE = 50


async def filled(store: SQLiteStore) -> None:
    """Runs that wait: every hundredth asks a person, the others sleep."""
    first = Stored(1, b"event", b"\1" * 16)
    for start in range(0, RUNS, 500):  # many in one commit, in the order of their numbers
        runs = [
            NewRun(f"run-{number:05}", "payer", "1", "ready", (first,))
            for number in range(start, start + 500)
        ]
        await asyncio.gather(*(store.create(run) for run in runs))
    left = RUNS
    while left:
        for claimed in await store.claim(Claim("w", 600, limit=500)):
            left -= 1
            run_id = claimed.row.run_id
            asks = int(run_id[4:]) % 100 == 0
            asked = {
                "id": f"{run_id}~0123456789ab",
                "tool": "pay",
                "args": {"to": "'ada'", "cents": "1200"},
                "deadline": store.now() + 3600 * SECOND,
                "by": "role:finance",
                "quorum": 1,
                "agreed": [],
            }
            info = codec.encode({"step": 1, "approvals": [asked]} if asks else {"step": 1})
            change = RowChange(status="waiting", due_at=NEVER, info=info, asks=asks)
            store.append(Batch(run_id, 1, 1, row=change, release=True))
    await store.append(Batch("run-00000", 1, 1))


async def test_a_page_of_the_inbox_among_ten_thousand(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "perdure.db", clock=MovableClock())
    await store.open()
    try:
        await filled(store)
        found, took = list[Entry](), list[float]()
        for _ in range(5):
            began = time.perf_counter()
            found = entries(await store.list(Query(asks=True, limit=PAGE)))
            took.append(time.perf_counter() - began)
        print(f"a page of {PAGE} among {RUNS}: {min(took) * 1000:.1f} to {max(took) * 1000:.1f} ms")
        assert len(found) == PAGE
        assert found[0].id == "run-09900~0123456789ab"
        assert not await store.claim(Claim("w", 600, limit=10))
        await store.deliver(Message("run-05000", "m", "approve", b""))
        woken = await store.claim(Claim("w", 600, limit=10))
        assert [one.row.run_id for one in woken] == ["run-05000"], "one decision wakes one run"
    finally:
        await store.close()
    assert "perdure_run_asks" in plan(tmp_path / "perdure.db")


def plan(path: Path) -> str:
    """How SQLite reads a page of the inbox."""
    connection = apsw.Connection(str(path))
    sql = (
        "EXPLAIN QUERY PLAN SELECT run_id FROM perdure_run WHERE 1 AND terminal = 0 AND asks = 1"
        " ORDER BY created_at DESC, run_id DESC LIMIT 50"
    )
    told = " ".join(str(row) for row in connection.execute(sql))
    connection.close()
    assert "TEMP B-TREE" not in told
    return told
