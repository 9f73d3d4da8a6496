"""An encrypted store: nothing of its content lies in the clear, what was changed or moved is noticed, and
whoever has not the key, or not the switch, is told so and harms nothing.
"""

from __future__ import annotations

import asyncio
import base64
import random
import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Runtime
from perdure.errors import (
    BadStoreURL,
    Damaged,
    ExtraMissing,
    KeyMissing,
    PerdureError,
    StoreEncrypted,
    StoreNotEncrypted,
)
from perdure.journal import verify
from perdure.store import open_store, switched
from perdure.store.protocol import Query
from perdure.timeline import pruning
from perdure.timeline.compaction import compacted

CANARY = "CANARY-0123456789"
SECRETS = (CANARY, "told-CANARY", "Ada Lovelace", "refund the tea")
LARGE = random.Random(1).randbytes(400_000).hex()
KEYS = [base64.b64encode(bytes([n]) * 32).decode() for n in range(4)]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEY", KEYS[1])


def letters(storage: Any = "snapshot") -> Any:
    """An agent whose every value tells: goal, state, arguments, a large result, an answer, its end."""
    made: Agent[Any, Any, Any] = Agent(
        "letters", state=dict, start=lambda goal: {"n": 0, "goal": goal}, storage=storage
    )

    @made.tool(effect="irreversible")
    async def write(to: str, n: int) -> str:
        return f"{CANARY} to {to} " + (LARGE if n == 1 else "")

    @made.step
    async def step(run: Any) -> None:
        n = run.state["n"]
        run.state[f"letter {n}"] = await write("Ada Lovelace", n)
        if n == 2:
            run.state["heard"] = await run.wait("word", timeout=timedelta(hours=1))
        run.state["n"] = n + 1
        if n == 3:
            run.finish({"sent": CANARY})

    return made


async def live(url: str, *names: str) -> None:
    """Runs that waited, were told something and ended; one that waits still, with a message."""
    made = letters()
    async with Runtime(url, [made], check=False) as runtime:
        for name in names:
            await runtime.run(made, name, "refund the tea", patience=timedelta(0))
            await runtime.signal(name, "word", "told-CANARY")
            await runtime.resume(name)
        await runtime.run(made, "open", "refund the tea", patience=timedelta(0))
        await runtime.signal("open", "another word", "told-CANARY")


def found_in(path: Path) -> set[str]:
    """Which of the secrets lie in the files of a store, or in a frame of its tables."""
    from perdure.codec.frame import body_of

    data = b"".join(file.read_bytes() for file in path.parent.glob(path.name + "*") if file.is_file())
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        for table in ("event", "snapshot", "blob", "inbox", "tombstone"):
            for (value,) in connection.execute(f"SELECT data FROM perdure_{table}"):
                for start in (0, 16):
                    try:
                        data += bytes(body_of(value[start:]))
                    except PerdureError:
                        continue
    connection.close()
    return {word for word in SECRETS if word.encode() in data}


def test_no_content_lies_in_the_file_or_its_log(tmp_path: Path) -> None:
    """The same life in the clear is found, so the search sees."""
    for name, switch in (("plain", ""), ("sealed", "?encrypt=on")):
        asyncio.run(live(f"{tmp_path / name}.db{switch}", "one", "two"))
    assert found_in(tmp_path / "plain.db") == set(SECRETS)
    assert found_in(tmp_path / "sealed.db") == set()


def test_every_look_works_over_it(tmp_path: Path) -> None:
    url = f"{tmp_path / 'a.db'}?encrypt=on"
    asyncio.run(live(url, "one", "two"))

    async def look() -> None:
        made = letters()
        async with Runtime(url, [made], check=False) as runtime:
            store = runtime.store
            assert (await verify(store, "one")).ok
            assert (await runtime.replay("one")).ok
            assert (await runtime.state_at("one", 5)) is not None
            assert (await store.row("one")).info
            assert (await compacted(store, "one", keep="keys")).removed
            assert (await store.row("one")).floor
            assert (await verify(store, "one")).ok
            plan = await pruning.named(store, ["one"])
            assert (await pruning.prune(store, plan.rows, keep="audit")).removed == 1
            left = pruning.epitaph_of(await store.tombstones("one"))
            assert left is not None
            assert left.told()
            [message] = await store.inbox("open")
            assert b"told-CANARY" in message.data
            facts = (await store.stats()).facts
            assert "encrypted" in facts
        again = open_store(store.url)
        await again.open()
        assert (await verify(again, "two")).ok
        await again.close()

    asyncio.run(look())
    assert found_in(tmp_path / "a.db") == set()


def test_a_large_value_is_kept_once_in_a_run_and_named_by_no_digest_of_it(tmp_path: Path) -> None:
    made: Agent[Any, Any, Any] = Agent("twice", state=dict, start=lambda goal: {"n": 0})

    @made.tool(effect="irreversible")
    async def get(n: int) -> str:
        return LARGE

    @made.step
    async def step(run: Any) -> None:
        await get(run.state["n"])
        run.state["n"] += 1
        if run.state["n"] == 3:
            run.finish("done")

    async def names(url: str) -> list[list[bytes]]:
        async with Runtime(url, [made]) as runtime:
            await runtime.run(made, "a", "go")
            await runtime.run(made, "b", "go")
        with sqlite3.connect(url.partition("?")[0]) as connection:
            rows = connection.execute("SELECT run_no, digest FROM perdure_blob ORDER BY run_no").fetchall()
        connection.close()
        return [[digest for no, digest in rows if no == run_no] for run_no in (1, 2)]

    plain = asyncio.run(names(str(tmp_path / "plain.db")))
    sealed = asyncio.run(names(f"{tmp_path / 'sealed.db'}?encrypt=on"))
    assert [len(one) for one in sealed] == [len(one) for one in plain] == [1, 1]
    assert plain[0] == plain[1]
    assert sealed[0] != sealed[1], "nobody sees that two runs have the same value"
    assert not {*sealed[0], *sealed[1]} & {*plain[0]}


# ------------------------------------------------------------------------------------- who may open it


async def opened(url: str, *, look: bool = False) -> int:
    """How many runs somebody finds there."""
    store = open_store(url, look=look)
    await store.open()
    try:
        return len(await store.list(Query()))
    finally:
        await store.close()


@pytest.mark.parametrize("look", [False, True])
def test_without_key_or_switch_it_is_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: bool
) -> None:
    url = f"{tmp_path / 'a.db'}?encrypt=on"
    asyncio.run(live(url, "one"))
    before = (tmp_path / "a.db").read_bytes()
    assert asyncio.run(opened(url, look=look)) == 2
    with pytest.raises(StoreEncrypted, match="K606"):
        asyncio.run(opened(str(tmp_path / "a.db"), look=look))
    monkeypatch.setenv("PERDURE_KEY", KEYS[2])
    with pytest.raises(KeyMissing, match=r"K603.*sealed under the master key [0-9a-f]{16}"):
        asyncio.run(opened(url, look=look))
    monkeypatch.delenv("PERDURE_KEY")
    with pytest.raises(KeyMissing, match="PERDURE_KEY has no key"):
        asyncio.run(opened(url, look=look))
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    assert asyncio.run(opened(url, look=look)) == 2, "an older key opens"
    assert (tmp_path / "a.db").read_bytes() == before


def test_a_store_in_the_clear_is_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    asyncio.run(live(str(path), "one"))
    before = path.read_bytes()
    with pytest.raises(StoreNotEncrypted, match="K607"):
        asyncio.run(opened(f"{path}?encrypt=on"))
    assert path.read_bytes() == before
    assert asyncio.run(opened(f"{path}?encrypt=off")) == 2


def test_a_changed_mark_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can say in the key's place that a store may hold values in the clear."""
    path = tmp_path / "a.db"
    asyncio.run(live(f"{path}?encrypt=on", "one"))
    with sqlite3.connect(path) as connection:
        (mark,) = connection.execute("SELECT data FROM perdure_key WHERE run_id = ''").fetchone()
        forged = b"\x02" + mark[1:9] + bytes(8) + mark[9:]
        connection.execute("UPDATE perdure_key SET data = ? WHERE run_id = ''", (forged,))
    connection.close()
    with pytest.raises(Damaged, match="mark"):
        asyncio.run(opened(f"{path}?encrypt=on"))
    with pytest.raises(StoreEncrypted):
        asyncio.run(opened(str(path)))


def test_the_switch_is_read(tmp_path: Path) -> None:
    assert switched("app.db?encrypt=on") == ("app.db", True)
    assert switched("postgresql://h/d?encrypt=on&direct=h:1") == ("postgresql://h/d?direct=h:1", True)
    assert switched("postgresql://h/d?direct=h:1&encrypt=on") == ("postgresql://h/d?direct=h:1", True)
    assert switched("memory:?encrypt=off") == ("memory:", False)
    assert switched("what?not") == ("what?not", False)
    with pytest.raises(BadStoreURL, match="on or off"):
        open_store("app.db?encrypt=yes")


def test_without_the_package_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.store import master

    def absent(use: str) -> Any:
        assert use == "PERDURE_KEY"
        raise ExtraMissing("no package", remedy='pip install "perdure[crypto]"')

    monkeypatch.setenv("PERDURE_KEY", KEYS[3])
    monkeypatch.setattr(master, "aes_gcm", absent)
    with pytest.raises(ExtraMissing):
        asyncio.run(opened(f"{tmp_path / 'a.db'}?encrypt=on"))


# ------------------------------------------------------------------------------------- what was changed

Change = Callable[[sqlite3.Connection], object]


def swap(table: str, column: str, first: str, second: str) -> Change:
    """Two rows change places, as far as their content goes."""

    def change(connection: sqlite3.Connection) -> None:
        rows = [
            connection.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchone()
            for where in (first, second)
        ]
        assert rows[0] != rows[1]
        for where, row in ((first, rows[1]), (second, rows[0])):
            names = " = ?, ".join(column.split(", ")) + " = ?"
            done = connection.execute(f"UPDATE {table} SET {names} WHERE {where}", row)
            assert done.rowcount == 1

    return change


ONE, TWO, OPEN = (1 << 32, 2 << 32, 3 << 32)
BOTH = "digest, data"
MOVED: dict[str, Change] = {
    "two events of a run": swap("perdure_event", BOTH, f"key = {ONE + 3}", f"key = {ONE + 4}"),
    "an event of another run": swap("perdure_event", BOTH, f"key = {ONE + 3}", f"key = {TWO + 3}"),
    "data alone": swap("perdure_event", "data", f"key = {ONE + 3}", f"key = {TWO + 3}"),
    "a snapshot": swap(
        "perdure_snapshot",
        BOTH,
        f"key = (SELECT max(key) FROM perdure_snapshot WHERE key < {TWO})",
        f"key = (SELECT max(key) FROM perdure_snapshot WHERE key > {TWO} AND key < {OPEN})",
    ),
    "a blob": swap("perdure_blob", "data", "run_no = 1", "run_no = 2"),
}


def looks(url: str, run_id: str) -> list[str]:
    """What verifying a run, and reading it whole, come to."""

    async def look() -> list[str]:
        store = open_store(url)
        await store.open()
        try:
            found = ["ok" if (await verify(store, run_id)).ok else "damaged"]
            try:
                await store.load(run_id)
                found.append("loaded")
            except PerdureError as error:
                found.append(error.code)
            return found
        finally:
            await store.close()

    return asyncio.run(look())


@pytest.mark.parametrize("what", MOVED)
def test_what_lies_elsewhere_does_not_open(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.db"
    asyncio.run(live(f"{path}?encrypt=on", "one", "two"))
    assert looks(f"{path}?encrypt=on", "one")[0] == "ok"
    with sqlite3.connect(path) as connection:
        MOVED[what](connection)
    connection.close()
    assert looks(f"{path}?encrypt=on", "one")[0] == "damaged"
    assert looks(f"{path}?encrypt=on", "open")[0] == "ok", "no other run is harmed"


def test_two_messages_of_a_run_do_not_change_places(tmp_path: Path) -> None:
    """No chain covers what lies in an inbox: only the place that a message was sealed for tells."""
    url = f"{tmp_path / 'a.db'}?encrypt=on"

    async def told() -> None:
        await live(url, "one", "two")
        async with Runtime(url, [letters()], check=False) as runtime:
            await runtime.signal("open", "a third word", "told-too")

    asyncio.run(told())
    assert looks(url, "open") == ["ok", "loaded"]
    with sqlite3.connect(tmp_path / "a.db") as connection:
        (last,) = connection.execute("SELECT max(key) FROM perdure_inbox").fetchone()
        swap("perdure_inbox", "data", f"key = {last - 1}", f"key = {last}")(connection)
    connection.close()
    assert looks(url, "open")[1] == "S107"
    assert looks(url, "one") == ["ok", "loaded"], "no other run is harmed"


def columns() -> Iterator[tuple[str, str, str]]:
    """Every column with content, and the row of the open run's, or the first run's, that is changed."""
    for table, column in (("event", "digest"), ("event", "data"), ("snapshot", "data"), ("inbox", "data")):
        yield f"perdure_{table}", column, f"key > {OPEN}"
    yield "perdure_snapshot", "digest", f"key > {OPEN}"
    yield "perdure_blob", "data", "run_no = 3"
    yield "perdure_blob", "digest", "run_no = 3"


@pytest.mark.parametrize(("table", "column", "where"), list(columns()))
def test_a_flipped_bit_is_never_served(tmp_path: Path, table: str, column: str, where: str) -> None:
    path = tmp_path / "a.db"
    asyncio.run(live(f"{path}?encrypt=on", "one", "two"))
    with sqlite3.connect(path) as connection:
        value: bytes
        rowid, value = connection.execute(
            f"SELECT rowid, {column} FROM {table} WHERE {where} ORDER BY rowid DESC LIMIT 1"
        ).fetchone()
    connection.close()
    for at in sorted({0, 1, 5, 12, len(value) // 2, len(value) - 1} & set(range(len(value)))):
        broken = value[:at] + bytes((value[at] ^ 4,)) + value[at + 1 :]
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (broken, rowid))
        connection.close()
        found = looks(f"{path}?encrypt=on", "open")
        assert found[0] == "damaged" or found[1] in ("S107", "K603"), (at, found)
        assert looks(f"{path}?encrypt=on", "one") == ["ok", "loaded"]


def test_what_is_not_sealed_is_not_believed(tmp_path: Path) -> None:
    """Somebody puts an event in the clear, with a chain that is right, into an encrypted store."""
    for name, switch in (("plain", ""), ("sealed", "?encrypt=on")):
        asyncio.run(live(f"{tmp_path / name}.db{switch}", "one"))
    with sqlite3.connect(tmp_path / "plain.db") as connection:
        rows = connection.execute(f"SELECT key, digest, data FROM perdure_event WHERE key < {TWO}").fetchall()
    connection.close()
    with sqlite3.connect(tmp_path / "sealed.db") as connection:
        connection.execute(f"DELETE FROM perdure_event WHERE key < {TWO}")
        connection.executemany("INSERT INTO perdure_event (key, digest, data) VALUES (?, ?, ?)", rows)
    connection.close()
    assert looks(f"{tmp_path / 'sealed.db'}?encrypt=on", "one")[0] == "damaged"
