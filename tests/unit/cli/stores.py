"""Real stores for the tests of the command line: runs written event by event, and a worker that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perdure import codec
from perdure.state import events as e
from perdure.store import open_store
from perdure.store.protocol import GENESIS, Batch, Claim, NewRun, RowChange, Stored
from tests.unit.timeline.past import events


def keep(path: Path, run_id: str, bodies: Sequence[e.AnyBody], **row: Any) -> None:
    """Write a run with these facts; `row` is what its row is changed to at the end (status, due_at, …)."""
    stored, digest = [], GENESIS
    for event in events(bodies):
        data = codec.pack(event)
        digest = codec.chain(digest, data)
        stored.append(Stored(event.seq, data, digest))
    asyncio.run(_keep(path, run_id, stored, row))


async def _keep(path: Path, run_id: str, stored: list[Stored], row: dict[str, Any]) -> None:
    store = open_store(str(path))
    await store.open()
    try:
        await store.create(NewRun(run_id, "refund-desk", "7", "ready", (stored[0],)))
        if len(stored) > 1 or row:
            [claimed] = await store.claim(Claim("w-9", 60.0, run_id=run_id))
            change = RowChange(**row) if row else None
            after = tuple(stored[1:])
            await store.append(Batch(run_id, claimed.row.epoch, 1, events=after, row=change, release=True))
    finally:
        await store.close()


DYING = """
import asyncio, sys
from perdure.store import open_store
from perdure.store.protocol import Claim

async def main():
    store = open_store(sys.argv[1])
    await store.open()
    await store.enlist("w-mortal")
    await store.claim(Claim("w-mortal", 60.0, run_id=sys.argv[2]))
    print("claimed", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def kill_worker_of(path: Path, run_id: str) -> None:
    """Have a process claim the run, and kill it with SIGKILL while it holds the lease."""
    worker = subprocess.Popen([sys.executable, "-c", DYING, str(path), run_id], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"claimed\n"
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()


async def fall_silent(path: Path, run_id: str) -> None:
    """Claim the run for a moment, and let the lease run out without giving it back."""
    store = open_store(str(path))
    await store.open()
    await store.claim(Claim("w-silent", 0.02, run_id=run_id))
    await asyncio.sleep(0.05)
    await store.close()


def messages(path: Path, run_id: str) -> list[tuple[str, Any]]:
    """What lies in a run's inbox: kind and plain data of each message."""

    async def read() -> list[tuple[str, Any]]:
        store = open_store(str(path))
        await store.open()
        try:
            return [(item.kind, codec.decode(item.data)) for item in await store.inbox(run_id)]
        finally:
            await store.close()

    return asyncio.run(read())
