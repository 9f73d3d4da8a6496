"""A store under another key, under one for the first time, under none again: nothing else of it changes."""

from __future__ import annotations

import asyncio
import base64
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Change, Personal, Runtime
from perdure.agent import Finished
from perdure.errors import (
    KeyMissing,
    PerdureError,
    RotationUnfinished,
    StoreEncrypted,
    StoreNotEncrypted,
    WorkerTaken,
)
from perdure.journal import verify
from perdure.runtime.holds import POISON_CLAIMS
from perdure.store import MemoryStore, open_store
from perdure.store.kept import PARTS, Kept, Part
from perdure.store.master import Master
from perdure.store.protocol import Message, Query, Store
from perdure.store.sealed import SealedStore
from perdure.timeline import erasing, rotation
from perdure.worker import Serving
from tests.unit.store.test_sealed import KEYS, SECRETS, found_in, letters, live, looks

ON = "?encrypt=on"
NAMES = [Master(base64.b64decode(key)).name for key in KEYS]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEY", KEYS[1])


async def below(url: str) -> Store:
    """The store as it lies there, open."""
    store = open_store(url)
    store.sealed = True
    await store.open()
    return store


async def turned(url: str, aim: rotation.Aim = "same", *, whole: bool = False) -> rotation.Rotation:
    """A rotation of its own process."""
    store = await below(url)
    try:
        return await rotation.rotate(store, aim, whole=whole)
    finally:
        await store.close()


async def lying(url: str) -> list[Kept]:
    """Every value, as it lies there."""
    store, found = await below(url), list[Kept]()
    for part in PARTS:
        last: Kept | None = None
        while page := await store.kept(part, last):
            found += page
            last = page[-1]
    await store.close()
    return found


def test_into_an_encrypted_store_and_back(tmp_path: Path) -> None:
    """Every byte comes back; between the two nothing is in the clear, not even in what was taken long ago."""
    path = tmp_path / "a.db"
    asyncio.run(live(str(path), "one", "two"))
    assert found_in(path) == set(SECRETS)
    before = asyncio.run(lying(str(path)))
    values = sum(value.part != "key" for value in before)  # keys are wrapped already
    found = asyncio.run(turned(str(path), "encrypted", whole=True))
    assert (found.done, found.scrubbed, found.key, found.written) == (True, True, NAMES[1], values)
    assert found.under[""] == values
    assert found_in(path) == set()
    assert looks(f"{path}{ON}", "two") == ["ok", "loaded"]
    with pytest.raises(StoreEncrypted):
        looks(str(path), "two")
    assert asyncio.run(turned(str(path), "encrypted")).written == 0, "twice is once"
    found = asyncio.run(turned(str(path), "plain"))
    assert (found.done, found.key, found.written) == (True, "", values)
    assert asyncio.run(lying(str(path))) == before
    assert looks(str(path), "two") == ["ok", "loaded"]
    with pytest.raises(StoreNotEncrypted):
        looks(f"{path}{ON}", "two")


def test_a_new_key_and_the_old_one_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    url = f"{path}{ON}"
    asyncio.run(live(url, "one", "two"))
    shutil.copy(path, tmp_path / "backup.db")
    monkeypatch.setenv("PERDURE_KEY", KEYS[2])
    with pytest.raises(KeyMissing, match=NAMES[1]):
        asyncio.run(turned(str(path)))
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    assert looks(url, "one") == ["ok", "loaded"], "before"
    found = asyncio.run(turned(str(path), whole=True))
    assert (found.done, found.scrubbed, found.key) == (True, True, NAMES[2])
    assert found.under == {NAMES[1]: found.written}
    data = b"".join(file.read_bytes() for file in tmp_path.glob("a.db*") if file.is_file())
    assert bytes.fromhex(NAMES[1]) not in data
    assert bytes.fromhex(NAMES[2]) in data
    monkeypatch.setenv("PERDURE_KEY", KEYS[2])
    assert looks(url, "one") == ["ok", "loaded"], "after"

    async def goes_on() -> object:
        made = letters()
        async with Runtime(url, [made], check=False) as runtime:
            await runtime.signal("open", "word", "told")
            return await runtime.resume("open")

    assert isinstance(asyncio.run(goes_on()), Finished)
    with pytest.raises(KeyMissing, match=NAMES[1]):
        looks(f"{tmp_path / 'backup.db'}{ON}", "one")


@pytest.mark.parametrize("switch", ["", ON])
def test_keys_of_personal_data_are_wrapped_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    """In a store of either kind, with those of forks; what was sealed under them opens."""
    made: Agent[Any, Any, Any] = Agent(
        "person", state=dict, goal=Personal[str], start=lambda goal: {"name": goal}
    )

    @made.step
    async def step(run: Any) -> None:
        if "told" not in run.state:
            run.state["told"] = await run.wait("go", timeout=timedelta(hours=1))
        run.finish(Personal(run.state["name"].reveal()))

    url = f"{tmp_path / 'a.db'}{switch}"

    async def begin() -> None:
        async with Runtime(url, [made], check=False) as runtime:
            for n in range(3):
                await runtime.run(made, f"r{n}", Personal(f"Ada {n}"), patience=timedelta(0))
            await runtime.fork("r0", change=Change(state={"seen": True}), id="f0")

    async def end() -> None:
        async with Runtime(url, [made], check=False) as runtime:
            for name, word in (("r0", "Ada 0"), ("f0", "Ada 0"), ("r2", "Ada 2")):
                await runtime.signal(name, "go", 1)
                assert (await runtime.resume(name)).unwrap().reveal() == word
            assert await runtime.store.sharers("r0") == ("f0",)
            assert (await erasing.erase(runtime.store, "r0")).done
            assert await runtime.store.key("f0") == b""

    if not switch:
        monkeypatch.delenv("PERDURE_KEY")
    asyncio.run(begin())
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    found = asyncio.run(turned(str(tmp_path / "a.db")))
    assert found.done
    keys = [value for value in asyncio.run(lying(str(tmp_path / "a.db"))) if value.part == "key"]
    assert {value.data[1:9].hex() for value in keys} == {NAMES[2]}
    assert len(keys) == 4
    monkeypatch.setenv("PERDURE_KEY", KEYS[2])
    asyncio.run(end())


def test_beside_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go on under the new key while the old one is taken out from under them, again and again."""
    url = f"{tmp_path / 'a.db'}{ON}"
    made: Agent[Any, Any, Any] = Agent("busy", state=dict, start=lambda goal: {"n": 0, "said": []})

    @made.tool(effect="idempotent")
    async def say(n: int) -> str:
        await asyncio.sleep(0.002)
        return f"word {n} " * 50

    @made.step
    async def step(run: Any) -> None:
        run.state["said"] = [*run.state["said"], await say(run.state["n"])]
        run.state["n"] += 1
        if run.state["n"] == 8:
            run.finish(len(run.state["said"]))

    async def work() -> list[int]:
        written = list[int]()
        async with Runtime(url, [made], workers=Serving(8), check=False) as runtime:
            while rows := await runtime.store.list(Query(open_only=True)):
                order = (KEYS[2], KEYS[1]) if len(written) % 2 == 0 else (KEYS[1], KEYS[2])
                assert rows
                monkeypatch.setenv("PERDURE_KEY", ",".join(order))
                try:
                    written.append((await turned(str(tmp_path / "a.db"))).written)
                except RotationUnfinished:
                    written.append(1)  # the worker writes under the key that is the older one here
            for n in range(24):
                assert (await runtime.resume(f"r{n}")).unwrap() == 8
        return written

    async def begin() -> None:
        async with Runtime(url, [made]) as runtime:
            for n in range(24):
                await runtime.start(made, f"r{n}", "go")

    asyncio.run(begin())
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    written = asyncio.run(work())
    assert sum(written) > 0
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    assert asyncio.run(turned(str(tmp_path / "a.db"))).done
    monkeypatch.setenv("PERDURE_KEY", KEYS[2])
    for n in (0, 11, 23):
        assert looks(url, f"r{n}") == ["ok", "loaded"]


class Pestered(MemoryStore):
    """A store in which something comes to be whenever somebody begins to read all of it."""

    meanwhile: Callable[[], Any] | None = None

    async def kept(self, part: Part, after: Kept | None = None) -> tuple[Kept, ...]:
        if part == "event" and after is None and self.meanwhile is not None:
            await self.meanwhile()
        return await super().kept(part, after)


async def test_a_process_that_goes_on_under_the_old_key_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    store, n = Pestered(), 0
    old = SealedStore(store)
    await old.open()
    made = letters()
    async with Runtime(old, [made], check=False) as runtime:
        await runtime.run(made, "r", "goal", patience=timedelta(0))

    async def write() -> None:
        nonlocal n
        n += 1
        await old.deliver(Message("r", f"m-{n}", "note", b"text"))

    store.meanwhile = write
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    with pytest.raises(RotationUnfinished, match="K608"):
        await rotation.rotate(store)
    both = SealedStore(store)
    await both.open()
    assert len(await both.inbox("r")) == n, "nothing is lost"
    store.meanwhile = None
    assert (await rotation.rotate(store)).done


def test_a_store_is_not_encrypted_under_a_living_worker(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")

    async def alone(aim: rotation.Aim, url: str) -> None:
        async with Runtime(url, [letters()]):
            with pytest.raises(WorkerTaken):
                await turned(path, aim)

    asyncio.run(live(path, "one"))
    before = asyncio.run(lying(path))
    asyncio.run(alone("encrypted", path))
    assert asyncio.run(lying(path)) == before
    assert asyncio.run(turned(path, "encrypted")).done
    asyncio.run(alone("plain", path + ON))
    assert looks(path + ON, "one") == ["ok", "loaded"]


def test_what_is_damaged_stays_and_keeps_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    asyncio.run(live(f"{path}{ON}", "one", "two"))
    with sqlite3.connect(path) as connection:
        (data,) = connection.execute("SELECT data FROM perdure_event WHERE key = (1 << 32) + 3").fetchone()
        broken = data[:-1] + bytes((data[-1] ^ 1,))
        connection.execute("UPDATE perdure_event SET data = ? WHERE key = (1 << 32) + 3", (broken,))
    connection.close()
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    found = asyncio.run(turned(str(path)))
    assert (found.done, found.unreadable) == (False, ("one",))
    assert looks(f"{path}{ON}", "one")[0] == "damaged"
    assert looks(f"{path}{ON}", "two") == ["ok", "loaded"]
    monkeypatch.setenv("PERDURE_KEY", KEYS[2])
    with pytest.raises(KeyMissing, match=NAMES[1]):
        looks(f"{path}{ON}", "two")


async def test_a_large_value_is_found_while_its_name_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opened the store before the rotation finds a blob under its old name, and its new one."""
    store = MemoryStore()
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    monkeypatch.setenv("PERDURE_KEY", KEYS[1])
    first = SealedStore(store)
    await first.open()
    made = letters()
    async with Runtime(first, [made], check=False) as runtime:
        await runtime.run(made, "r", "goal", patience=timedelta(0))
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    early = SealedStore(store)
    await early.open()
    assert (await verify(early, "r")).ok
    assert (await rotation.rotate(store)).done
    assert (await verify(early, "r")).ok


@pytest.mark.postgres
def test_on_postgres_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the clear, to another key, and back: what every table holds is searched."""
    import psycopg

    from perdure.codec.frame import body_of
    from tests.database import PLACE, TABLES

    url = PLACE.at(tmp_path)
    sealed = url + ("&encrypt=on" if "?" in url else ON)

    def found() -> set[str]:
        data = b""
        with psycopg.connect(url) as connection:
            for table in TABLES:
                for (row,) in connection.execute(f"SELECT t::text FROM perdure_{table} t".encode()):
                    data += row.encode()
                if table in ("event", "snapshot", "blob", "inbox", "tombstone"):
                    for (value,) in connection.execute(f"SELECT data FROM perdure_{table}".encode()):
                        data += value
                        for start in (0, 16):
                            with suppress(PerdureError):
                                data += bytes(body_of(value[start:]))
        return {word for word in SECRETS if word.encode() in data}

    asyncio.run(live(url, "one"))
    assert found() == set(SECRETS)
    before = asyncio.run(lying(url))
    assert asyncio.run(turned(url, "encrypted", whole=True)).done
    assert found() == set()
    assert looks(sealed, "one") == ["ok", "loaded"]
    with pytest.raises(StoreEncrypted):
        looks(url, "one")

    async def under_a_worker(aim: rotation.Aim) -> None:
        async with Runtime(sealed, [letters()]):
            with pytest.raises(WorkerTaken):
                await turned(url, aim)

    asyncio.run(under_a_worker("plain"))
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    assert asyncio.run(turned(url)).key == NAMES[2]
    monkeypatch.setenv("PERDURE_KEY", KEYS[2])
    assert looks(sealed, "one") == ["ok", "loaded"]
    assert looks(sealed, "open") == ["ok", "loaded"]
    assert asyncio.run(turned(url, "plain")).done
    assert [value for value in asyncio.run(lying(url)) if value.part != "key"] == [
        value for value in before if value.part != "key"
    ]


async def test_a_worker_without_the_new_key_gives_runs_back_untouched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has tried more often than a run survives that loses its workers, and another one ends it."""
    store, made = MemoryStore(), letters()
    old = SealedStore(store)
    async with Runtime(old, [made], check=False) as early:
        await early.run(made, "r", "goal", patience=timedelta(0))
        monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
        assert (await rotation.rotate(store)).done
        async with Runtime(SealedStore(store), [made], check=False) as late:
            await late.signal("r", "word", "told")
            before = await store.read("r"), (await store.row("r")).status
            for _ in range(POISON_CLAIMS + 2):
                with pytest.raises(KeyMissing, match=NAMES[2]):
                    await early.resume("r")
            row = await store.row("r")
            assert (await store.read("r"), row.status) == before
            assert (row.worker, row.claims) == (None, 0)
            assert isinstance(await late.resume("r"), Finished)
