"""Laws 21, 5, 11 and 14 over stored bytes: no damage is served, stores fold alike, a look writes nothing.

A random history is made, copied into a store in memory and into a file, and one bit of it is changed: in an
event, its digest, a snapshot, its digest. Whoever loads the run then gets what it was, or an error that says
it is damaged, and a neighbour in the same store is whole. A failure prints the seed of its world.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from pathlib import Path
from typing import TypeVar

import apsw
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure import codec
from perdure.codec import frame
from perdure.errors import Damaged, NewerFormat
from perdure.journal import history, load, past, verify
from perdure.state.events import Event, RunFinished
from perdure.state.fold import fold_all
from perdure.state.record import RunRecord
from perdure.store import SQLiteStore
from perdure.store.memory import MemoryStore
from perdure.store.protocol import GENESIS, Batch, Claim, NewRun, RowChange, Snapshot, Store, Stored
from tests.bad_input.bench import perdure
from tests.laws.programs import draw_program
from tests.laws.world import Chances, World

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

EXAMPLES = round(40 * float(os.environ.get("PERDURE_CRASH_SCALE", "1")))

T = TypeVar("T", Stored, Snapshot)

Kept = tuple[list[Stored], list[Snapshot]]


def lived(seed: int) -> Kept:
    """The events and snapshots of a run with crashes."""
    world = World(seed, Chances(kill=0.02, lose=0.2, cancel=0.0))
    world.run({"r": draw_program(random.Random(seed), steps=5)})
    assert not world.found, "\n".join(world.found)
    run = world.store._runs["r"]
    return list(run.events), list(run.snapshots)


async def fill(store: Store, run_id: str, kept: Kept) -> None:
    """Write the run into another store, with its newest snapshot."""
    events, snapshots = kept
    await store.open()
    await store.create(NewRun(run_id, "interpreter", "1", "held", (events[0],)))
    [claimed] = await store.claim(Claim("w", 60.0, run_id=run_id))
    newest = snapshots[-1] if snapshots else None
    ended = end_of(events)
    change = None if ended is None else RowChange(status=ended, terminal=True)
    batch = Batch(run_id, claimed.row.epoch, 1, tuple(events[1:]), change, newest)
    await store.append(replace(batch, release=True))


def end_of(events: list[Stored]) -> str | None:
    """How the run ended, if it has; an event of a newer format tells nothing."""
    try:
        body = codec.unpack(events[-1].data, Event).body
    except NewerFormat:
        return None
    return body.status if isinstance(body, RunFinished) else None


def flipped(data: bytes, bit: int) -> bytes:
    """The bytes with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(changed)


WHERE = ("event", "event digest", "snapshot", "snapshot digest")


def hurt_memory(store: MemoryStore, where: str, pick: int, bit: int) -> bool:
    """Change one bit of run `hurt`; False if there is nothing of this kind."""
    run = store._runs["hurt"]
    if where.startswith("event"):
        place = pick % len(run.events)
        run.events[place] = _changed(run.events[place], where, bit)
    elif run.snapshots:
        run.snapshots[-1] = _changed(run.snapshots[-1], where, bit)
    return where.startswith("event") or bool(run.snapshots)


def _changed(whole: T, where: str, bit: int) -> T:
    part = "digest" if where.endswith("digest") else "data"
    return replace(whole, **{part: flipped(getattr(whole, part), bit)})


def hurt_file(path: Path, where: str, pick: int, bit: int) -> bool:
    """The same in a file, behind the store's back."""
    table, part = where.split(maxsplit=1)[0], "digest" if where.endswith("digest") else "data"
    connection = apsw.Connection(str(path))
    try:
        run = "key >> 32 = (SELECT run_no FROM perdure_run WHERE run_id = 'hurt')"
        keys = [key for (key,) in connection.execute(f"SELECT key FROM perdure_{table} WHERE {run}")]
        if not keys:
            return False
        key = keys[pick % len(keys)]
        [(data,)] = connection.execute(f"SELECT {part} FROM perdure_{table} WHERE key = ?", (key,))
        connection.execute(
            f"UPDATE perdure_{table} SET {part} = ? WHERE key = ?", (flipped(bytes(data), bit), key)
        )
        return True
    finally:
        connection.close()


async def served(store: Store, whole: RunRecord) -> list[str]:
    """What is wrong with what the store's readers are given of the run `hurt` and of its neighbour."""
    wrong = []
    try:
        if (await load(store, "hurt")).record != whole:
            wrong.append("load served another run")
    except (Damaged, NewerFormat):
        pass
    try:
        if fold_all(RunRecord(), await history(store, "hurt"), codec.decode) != whole:
            wrong.append("history served another run")
    except (Damaged, NewerFormat):
        pass
    if (await verify(store, "hurt")).ok:
        wrong.append("verify found it whole")
    if (await load(store, "well")).record != whole or not (await verify(store, "well")).ok:
        wrong.append("its neighbour suffers")
    return wrong


async def _trial(folder: Path, kept: Kept, where: str, pick: int, bit: int) -> list[str]:
    whole = fold_all(RunRecord(), [codec.unpack(item.data, Event) for item in kept[0]], codec.decode)
    wrong = []
    memory = MemoryStore()
    await fill(memory, "hurt", kept)
    await fill(memory, "well", kept)
    if hurt_memory(memory, where, pick, bit):
        wrong += [f"memory, {where}: {what}" for what in await served(memory, whole)]
    path = folder / "perdure.db"
    file = SQLiteStore(path)
    await fill(file, "hurt", kept)
    await fill(file, "well", kept)
    if hurt_file(path, where, pick, bit):
        wrong += [f"file, {where}: {what}" for what in await served(file, whole)]
    await file.close()
    return wrong


@given(
    seed=st.integers(0, 40),
    where=st.sampled_from(WHERE),
    pick=st.integers(0, 1 << 16),
    bit=st.integers(0, 1 << 20),
)
@settings(max_examples=EXAMPLES, phases=(Phase.generate,))
def test_a_changed_bit_is_never_served(
    tmp_path_factory: pytest.TempPathFactory, seed: int, where: str, pick: int, bit: int
) -> None:
    """Law 21: any bit of any kind of bytes, in memory and in a file."""
    folder = tmp_path_factory.mktemp("damage")
    wrong = asyncio.run(_trial(folder, lived(seed), where, pick, bit))
    assert not wrong, f"seed {seed}, {where}, {pick}, {bit}: {wrong}"


def test_control_a_chain_that_is_not_checked_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """If readers believe the digest that they find, some changed bit is served."""

    def believing(run_id: str, item: Stored, before: int, digest: bytes) -> tuple[Event, bytes]:
        return codec.unpack(item.data, Event), item.digest

    monkeypatch.setattr(past, "_opened", believing)
    kept = lived(3)
    for bit in range(40):
        folder = tmp_path_factory.mktemp("control")
        try:
            wrong = asyncio.run(_trial(folder, kept, "event", 1, 8 * 20 + 13 * bit))
        except Exception as error:  # noqa: BLE001  (nonsense that is believed shows in many ways)
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            print(f"noticed at bit {bit}: {wrong[0][:100]}")
            return
    pytest.fail("nobody noticed that the chain was not checked")


# ------------------------------------------------------------------------------------- every store alike


@pytest.mark.parametrize("seed", range(6))
async def test_every_store_folds_alike_from_every_snapshot_and_from_none(tmp_path: Path, seed: int) -> None:
    """Law 5: the same run in memory, in a file, with its snapshot and without."""
    events, snapshots = await asyncio.to_thread(lived, seed)
    found = []
    for name, kept in (("with", (events, snapshots)), ("without", (events, []))):
        for store in (MemoryStore(), SQLiteStore(tmp_path / f"{name}.db")):
            await fill(store, "r", kept)
            found.append((await load(store, "r")).record)
            await store.close()
    assert len(found) == 4
    assert all(record == found[0] for record in found), f"seed {seed}"


# -------------------------------------------------------------------------------------- looks and refusals


def everything(folder: Path) -> dict[str, str]:
    """Digest of every file in the folder, by name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def rows(path: Path) -> str:
    """Digest of every row of every table of perdure's."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    told = hashlib.sha256()
    names = """
        SELECT name, iif(sql LIKE '%WITHOUT ROWID%', '1', 'rowid') FROM sqlite_schema
        WHERE type = 'table' AND name LIKE 'perdure_%' ORDER BY name
    """
    for name, order in connection.execute(names).fetchall():
        for row in connection.execute(f"SELECT * FROM {name} ORDER BY {order}"):
            told.update(repr((name, row)).encode())
    connection.close()
    return told.hexdigest()


def newer(kept: Kept, seq: int) -> Kept:
    """The run as a newer perdure would leave it: one event of a later format, with a right chain."""
    digest, made = GENESIS, []
    for item in kept[0]:
        data = bytes((frame.FORMAT + 1,)) + item.data[1:] if item.seq == seq else item.data
        digest = codec.chain(digest, data)
        made.append(Stored(item.seq, data, digest))
    return made, []


@pytest.mark.parametrize("seed", range(4))
async def test_a_newer_format_is_refused_and_left_as_it_is(tmp_path: Path, seed: int) -> None:
    """Law 11: no reader of an older perdure changes a run that it cannot read, and each says M304."""
    kept = await asyncio.to_thread(lived, seed)
    path = tmp_path / "perdure.db"
    store = SQLiteStore(path)
    await fill(store, "r", newer(kept, random.Random(seed).randint(2, len(kept[0]))))
    before = rows(path)
    for read in (load, history):
        with pytest.raises(NewerFormat):
            await read(store, "r")
    assert not (await verify(store, "r")).ok
    await store.close()
    assert rows(path) == before, f"seed {seed}"


@pytest.mark.parametrize("seed", range(3))
def test_a_look_at_any_run_writes_nothing(tmp_path: Path, seed: int) -> None:
    """Law 14: whatever lies in the folder of a store is the same, byte for byte, after every look."""
    kept = lived(seed)

    async def prepare() -> None:
        store = SQLiteStore(tmp_path / "perdure.db")
        await fill(store, "r", kept)
        await store.close()

    asyncio.run(prepare())
    before = everything(tmp_path)
    for look in (
        "runs",
        "show r --events",
        f"show r@{len(kept[0]) // 2}",
        "why r",
        "verify r",
        "stats",
        "inbox",
        "audit r",
    ):
        answer = perdure(*look.split(), cwd=tmp_path)
        assert answer.code == 0, (seed, look, answer)
        assert everything(tmp_path) == before, f"seed {seed}: {look}"


def test_control_a_write_is_seen(tmp_path: Path) -> None:
    """What `everything` compares changes with one row, and with a file beside the store."""
    path = tmp_path / "perdure.db"
    kept = lived(0)

    async def write(run_id: str) -> None:
        store = SQLiteStore(path)
        await fill(store, run_id, kept)
        await store.close()

    asyncio.run(write("r"))
    whole, told = everything(tmp_path), rows(path)
    asyncio.run(write("s"))
    assert everything(tmp_path) != whole
    assert rows(path) != told
    whole = everything(tmp_path)
    (tmp_path / "perdure.db-other").touch()
    assert everything(tmp_path) != whole
