"""A life of one store that can be cut short anywhere, lived again, and judged.

`live` writes a run of TOTAL events by every verb that there is and tells each acknowledgement; it goes on
from whatever it finds. `judge` opens what is left and says what was promised and is not so. Both know what
each event must hold, so that nothing is taken on trust.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import apsw
from msgspec.structs import replace

from perdure.errors import NoSuchRun, RunGone, StoreError
from perdure.store import SQLiteStore
from perdure.store.protocol import (
    GENESIS,
    Appended,
    Batch,
    Blob,
    Claim,
    Loaded,
    Message,
    NewRun,
    Query,
    RowChange,
    Snapshot,
    Stored,
    Tx,
)
from perdure.store.sqlite import wal, writer

TOTAL = 26
"""Events of a whole life."""

Tell = Callable[[str], None]
"""Where a life tells what was acknowledged (`+what`), refused for sure (`-what`) or left open (`?what`)."""


def data(seq: int) -> bytes:
    """What event `seq` must hold."""
    return b"event %d " % seq + bytes(range(256)) * (12 if seq % 6 == 5 else seq % 3)


def chain(upto: int) -> list[bytes]:
    """The digests before event 1, after event 1, and so on."""
    digests = [GENESIS]
    for seq in range(1, upto + 1):
        digests.append(hashlib.blake2b(digests[-1] + data(seq), digest_size=16).digest())
    return digests


CHAIN = chain(TOTAL + 10)
"""Every digest that can occur."""


def some(first: int, last: int) -> tuple[Stored, ...]:
    """The events from first to last."""
    return tuple(Stored(seq, data(seq), CHAIN[seq]) for seq in range(first, last + 1))


async def live(path: Path, tell: Tell) -> None:
    """Live on from whatever is there, to the end of run r, and remove run s."""
    wal.CHECKPOINT_PAGES = 24  # so that checkpoints happen in so short a life
    writer.BRIEF_SECONDS = 3600.0  # however slow this disk is
    store = SQLiteStore(path, busy_seconds=5, reserve_bytes=1 << 16)
    try:
        await store.open()
        worker = f"w{os.getpid()}"
        await store.enlist(worker)
        for run_id in ("r", "s"):
            try:
                await store.create(NewRun(run_id, "a", "1", "ready", some(1, 1)))
                tell(f"+{run_id} 1")
                await store.claim(Claim(worker, 60, run_id=run_id))
            except RunGone:
                continue
        await _write(store, tell)
        await _remove(store, tell)
        tell("+end")
    finally:
        await store.close()


async def _write(store: SQLiteStore, tell: Tell) -> None:
    loaded = await store.load("r")
    while loaded.row.seq < TOTAL:
        await _step(store, loaded, tell)
        loaded = await store.load("r")


async def _step(store: SQLiteStore, loaded: Loaded, tell: Tell) -> None:
    """Write the next event, in the way that its number asks for; or two at once."""
    seq, epoch = loaded.row.seq, loaded.row.epoch
    # Two in three are waited for, so that the event loop's own thread may write them.
    batch = Batch("r", epoch, seq, some(seq + 1, seq + 1), urgent=seq % 9 < 6)
    match seq % 6:
        case 0:
            snapped = _with_snapshot(Batch("r", epoch, seq + 1, some(seq + 2, seq + 2)))
            queued = [(f"r {seq + 1}", store.append(batch)), (f"r {seq + 2}", store.append(snapped))]
            await _all(tell, *queued)
            return
        case 1:
            batch = _with_snapshot(batch)
        case 2:
            await store.deliver(Message("r", f"m{seq}", "signal", b"hello"))
            tell(f"+m m{seq}")
            batch = replace(batch, taken=tuple(item.position for item in await store.inbox("r")))
        case 3:
            batch = replace(batch, outbox=(Message("s", f"o{seq}", "signal", b"hello"),))
        case 4:

            def act(tx: Tx) -> Sequence[Stored]:
                tx.execute("CREATE TABLE IF NOT EXISTS mine (seq INTEGER)")
                tx.execute("INSERT INTO mine VALUES (?)", (seq + 1,))
                return some(seq + 1, seq + 1)

            batch = replace(batch, events=(), act=act)
        case _:
            batch = replace(batch, reserve=True)
    await _all(tell, (f"r {seq + 1}", store.append(batch)))


def _with_snapshot(batch: Batch) -> Batch:
    seq = batch.after + 1
    snapshot = Snapshot(seq, b"state at %d" % seq, CHAIN[seq])
    change = RowChange(status="running")
    return replace(batch, row=change, snapshot=snapshot, blobs=(Blob(CHAIN[seq], data(seq) * 9),))


async def _all(tell: Tell, *queued: tuple[str, asyncio.Future[Appended]]) -> None:
    """Tell what became of each; raise the first refusal."""
    outcomes = await asyncio.gather(*(future for _, future in queued), return_exceptions=True)
    for (what, _), outcome in zip(queued, outcomes, strict=True):
        if not isinstance(outcome, BaseException):
            tell(f"+{what}")
        elif isinstance(outcome, StoreError):
            tell(f"{'?' if outcome.facts.get('unknown') else '-'}{what}")
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


async def _remove(store: SQLiteStore, tell: Tell) -> None:
    try:
        row = await store.row("s")
    except RunGone:
        return
    if not row.terminal:
        await store.append(Batch("s", row.epoch, row.seq, row=RowChange(status="failed", terminal=True)))
        tell("+s ended")
    await store.drop("s", (b"key of s",))
    tell("+dropped")


@dataclass
class Findings:
    """What was promised and is not so."""

    wrong: list[str] = field(default_factory=list)

    def expect(self, right: bool, what: str) -> None:
        """Note what is not right."""
        if not right:
            self.wrong.append(what)


def judge(path: Path, told: Sequence[str]) -> list[str]:
    """Every promise that what is left on disk breaks, given what was told before."""
    findings = Findings()
    if not path.exists():
        findings.expect(
            not any(line[0] == "+" for line in told), "the file is gone, something was acknowledged"
        )
        return findings.wrong
    asyncio.run(_judge(path, told, findings))
    connection = apsw.Connection(str(path))
    findings.expect(connection.pragma("integrity_check") == "ok", "the integrity check fails")
    connection.close()
    return findings.wrong


async def _judge(path: Path, told: Sequence[str], findings: Findings) -> None:
    store = SQLiteStore(path, reserve_bytes=0)
    await store.open()
    try:
        ids = {row.run_id for row in await store.list(Query())}
        if "+r 1" not in told and "r" not in ids:
            return
        loaded = await store.load("r")
        await _judge_events(store, told, findings, loaded)
        await _judge_messages(store, told, findings, loaded)
        tombs = await store.tombstones("s")
        findings.expect((tombs == (b"key of s",)) != ("s" in ids) or "+s 1" not in told, "s is half removed")
        findings.expect("+dropped" not in told or "s" not in ids, "a removal is lost")
    finally:
        await store.close()


async def _judge_events(store: SQLiteStore, told: Sequence[str], findings: Findings, loaded: Loaded) -> None:
    events = await store.read("r", limit=TOTAL * 2)
    last = len(events)
    findings.expect(events == some(1, last), "an event is missing, torn or foreign")
    findings.expect(loaded.row.seq == last, "the row disagrees with the events")
    acknowledged = max((int(line[3:]) for line in told if line.startswith("+r ")), default=0)
    findings.expect(last >= acknowledged, f"event {acknowledged} was acknowledged, the run ends at {last}")
    for line in told:
        if line.startswith("-r ") and f"+{line[1:]}" not in told and f"?{line[1:]}" not in told:
            findings.expect(int(line[3:]) > last, f"event {line[3:]} was refused for sure and is there")
    if loaded.snapshot is not None:
        seq = loaded.snapshot.seq
        whole = (loaded.snapshot.data, loaded.snapshot.digest) == (b"state at %d" % seq, CHAIN[seq])
        findings.expect(whole and seq <= last, "the snapshot is not of this run")
        findings.expect(await store.blob("r", CHAIN[seq]) == data(seq) * 9, "a blob is lost")
    newest = max((seq + 1 for seq in range(last) if seq % 6 == 1), default=0)
    findings.expect((loaded.snapshot.seq if loaded.snapshot else 0) == newest, "a snapshot is lost")


async def _judge_messages(
    store: SQLiteStore, told: Sequence[str], findings: Findings, loaded: Loaded
) -> None:
    last = loaded.row.seq
    for line in told:
        if line.startswith("+m "):
            again = await store.deliver(Message("r", line[3:], "signal", b"again"))
            findings.expect(not again.fresh, f"message {line[3:]} was accepted and is lost")
    waiting = {item.id for item in loaded.inbox}
    taken = {f"m{seq}" for seq in range(last) if seq % 6 == 2}
    findings.expect(not waiting & taken, "a message was applied and waits again")
    sent = {f"o{seq}" for seq in range(last) if seq % 6 == 3}
    try:
        findings.expect(
            {item.id for item in await store.inbox("s")} == sent, "the outbox and its event disagree"
        )
    except RunGone:
        pass
    except NoSuchRun:
        findings.expect("+s 1" not in told, "run s is lost")
    rows: list[int] = []

    def act(tx: Tx) -> Sequence[Stored]:
        if tx.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mine'"):
            rows.extend(row[0] for row in tx.execute("SELECT seq FROM mine ORDER BY seq"))
        return ()

    await store.append(Batch("r", loaded.row.epoch, last, act=act))
    acted = [seq + 1 for seq in range(last) if seq % 6 == 4]
    findings.expect(rows == acted, f"transactional calls {rows} stand beside events {acted}")
