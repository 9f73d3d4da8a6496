"""A disk that fills up: what was done is kept, what ended can be removed, and all goes on with room."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import FOREVER, Agent
from perdure.errors import DiskFull
from perdure.host import Runtime
from perdure.store import SQLiteStore
from perdure.store.protocol import Query, Store
from perdure.timeline import erasing
from perdure.timeline.bundle import adopt, bundled, packed, unpacked
from perdure.timeline.compaction import compacted
from perdure.timeline.pruning import Rule, planned, prune
from tests.bad_input.bench import acts, all_whole, journal_digest, perdure, speaks, told

FILLING = """
import contextlib
import os
from pathlib import Path

from perdure import Agent, Run

desk = Agent("desk", state=dict, start=lambda goal: {"paid": []})
OUTSIDE = Path(os.environ["OUTSIDE"])


def fill():
    with contextlib.suppress(OSError), open("filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


@desk.tool(effect="irreversible")
async def pay(order: str) -> str:
    with open(OUTSIDE / "acts.txt", "a") as file:
        file.write(order + "\\n")
    if order == "o-2" and os.environ.get("FILL"):
        fill()
    return f"paid {order}" + "." * 1000


@desk.step
async def step(run: Run) -> None:
    for number in range(1, 60):
        run.state["paid"].append(await pay(f"o-{number}"))
    run.finish(len(run.state["paid"]))
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT TRIED: no right to mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up_in_an_act_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    """Field case O-079."""
    (small_disk / "agent.py").write_text(FILLING)
    outside, path = str(tmp_path), small_disk / "perdure.db"
    told(
        perdure("run", "agent.py", "go", "--id", "r", cwd=small_disk, FILL="1", OUTSIDE=outside),
        "S103",
        1,
        str(path),
    )
    done = acts(tmp_path)
    assert done == [f"o-{number}" for number in range(1, len(done) + 1)]
    assert 2 <= len(done) < 59
    for command in ("runs", "show r", "why r", "verify"):
        answer = perdure(*command.split(), cwd=small_disk)
        assert answer.code == 0, (command, answer)
    told(perdure("run", "agent.py", "--id", "r", cwd=small_disk, OUTSIDE=outside), "S103", 1)
    done = acts(tmp_path)  # closing the first process gave some room back; nothing was acted twice in it
    assert done == [f"o-{number}" for number in range(1, len(done) + 1)]
    all_whole(path)
    (small_disk / "filler").unlink()
    answer = perdure("run", "agent.py", "--id", "r", "--json", cwd=small_disk, OUTSIDE=outside)
    assert (answer.code, answer.document["result"]) == (0, 59), answer
    assert acts(tmp_path) == [f"o-{number}" for number in range(1, 60)]
    all_whole(path)


# --------------------------------------------------------------------------- what removes, and what adds


def keeper() -> Agent[Any, Any, Any]:
    """Six steps with an act each, the receipts of some size; then it ends, or waits."""
    agent: Agent[Any, Any, Any] = Agent("keeper", state=dict, start=lambda goal: {"n": 0}, wait_limit=FOREVER)

    @agent.model("m")
    async def think(n: int) -> str:
        return f"{n}" * 20_000

    @agent.tool(effect="irreversible")
    async def pay(n: int) -> str:
        return f"paid {n}" * 2000

    @agent.step
    async def step(run: Any) -> None:
        n = run.state["n"]
        run.state["last"] = [await think(n), await pay(n)]
        run.state["n"] = n + 1
        if n == 5:
            run.finish("done" if run.goal == "end" else await run.wait("word"))

    return agent


async def lived(path: Path, reserve: int) -> bytes:
    """Three runs that have ended and one that waits; and one that was exported and is not there any more."""
    store, agent = SQLiteStore(path, reserve_bytes=reserve), keeper()
    async with Runtime(store, [agent]) as runtime:
        for name in ("a", "b", "c", "open"):
            await runtime.run(agent, name, "wait" if name == "open" else "end", check=False)
        await store.key("a", b"k" * 32)
    await store.close()
    (path.parent.parent / "elsewhere").mkdir(exist_ok=True)
    elsewhere = SQLiteStore(path.parent.parent / "elsewhere" / "runs.db")
    async with Runtime(elsewhere, [agent]) as runtime:
        await runtime.run(agent, "brought", "end", check=False)
        data = packed(await bundled(elsewhere, "brought"))
    await elsewhere.close()
    return data


def fill(folder: Path) -> None:
    """Leave nothing of a disk."""
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


async def _prune(store: Store, _data: bytes) -> None:
    found = await prune(store, (await planned(store, Rule())).rows, keep="audit")
    assert not found.unreadable


async def _compact(store: Store, _data: bytes) -> None:
    for row in await store.list(Query()):
        await compacted(store, row.run_id)


async def _erase(store: Store, _data: bytes) -> None:
    assert (await erasing.erase(store, "a")).done


async def _import(store: Store, data: bytes) -> None:
    await adopt(store, unpacked(data))


Work = Callable[[Store, bytes], Awaitable[None]]


async def attempted(path: Path, work: Work, data: bytes, reserve: int) -> DiskFull | None:
    """The work in a store that is opened for it; its refusal, if it was refused."""
    store = SQLiteStore(path, reserve_bytes=reserve)
    try:
        await store.open()
        await work(store, data)
    except DiskFull as full:
        return full
    finally:
        await store.close()
    return None


@pytest.mark.parametrize("work", [_prune, _compact, _erase])
async def test_what_removes_works_on_a_disk_without_a_byte(small_disk: Path, work: Work) -> None:
    """Opening a store needs room too, which the reserve gives; afterwards that is there again."""
    path, reserve = small_disk / "perdure.db", 1 << 20
    data = await lived(path, reserve)
    fill(small_disk)
    assert await attempted(path, work, data, reserve) is None
    all_whole(path)
    (small_disk / "filler").unlink()
    assert await attempted(path, _import, data, reserve) is None
    assert (small_disk / "perdure.db-reserve").stat().st_size == reserve
    all_whole(path)


@pytest.mark.parametrize("work", [_prune, _compact, _erase, _import])
async def test_without_a_reserve_it_is_refused_and_done_once_there_is_room(
    small_disk: Path, work: Work
) -> None:
    path = small_disk / "perdure.db"
    data = await lived(path, 0)
    before = journal_digest(path)
    fill(small_disk)
    full = await attempted(path, work, data, 0)
    assert full is not None
    speaks(full, "S103", str(path))
    (small_disk / "filler").unlink()
    assert journal_digest(path) == before
    all_whole(path)
    assert await attempted(path, work, data, 0) is None
    all_whole(path)
    if work is not _erase:
        assert journal_digest(path) != before


@pytest.mark.parametrize("work", [_prune, _compact, _import])
async def test_a_disk_that_fills_up_under_an_open_store_leaves_before_or_after(
    small_disk: Path, work: Work
) -> None:
    path = small_disk / "perdure.db"
    data = await lived(path, 0)
    store = SQLiteStore(path, reserve_bytes=0)
    await store.open()
    fill(small_disk)
    with contextlib.suppress(DiskFull):
        await work(store, data)
    all_whole(path)
    (small_disk / "filler").unlink()
    await work(store, data)
    await store.close()
    all_whole(path)


async def test_an_export_that_does_not_fit_leaves_no_file(small_disk: Path, tmp_path: Path) -> None:
    path, target = tmp_path / "perdure.db", small_disk / "a.perdure"
    await lived(path, 0)
    fill(small_disk)
    told(perdure("export", "a", target, cwd=tmp_path), "U709", 1, str(target))
    assert not target.exists()
    (small_disk / "filler").unlink()
    assert perdure("export", "a", target, cwd=tmp_path).code == 0
    assert unpacked(target.read_bytes()).run_id == "a"
