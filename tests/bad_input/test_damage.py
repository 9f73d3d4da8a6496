"""Stored bytes that changed, or are gone: never served; their run is held as damaged, the others go on."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from perdure import Agent, Run, Runtime
from perdure.errors import Damaged
from perdure.journal import history, load
from perdure.store import open_store
from tests.bad_input.bench import acts, checked, journal_digest, perdure, refused, told

clerk: Agent[dict[str, object], str, str] = Agent(
    "clerk", state=dict[str, object], start=lambda goal: {"count": 0}, result=str, storage="snapshot"
)


@clerk.tool(effect="irreversible")
async def scan(number: int) -> str:
    """A large result that cannot be compressed."""
    return random.Random(number).randbytes(300_000).hex()


@clerk.step
async def step(run: Run[dict[str, object], str, str]) -> None:
    """Two steps with a large value in the first."""
    if run.state["count"] == 0:
        run.state["count"] = 1
        run.state["page"] = await scan(1)
        run.state["again"] = (await scan(2))[:10]
        if run.goal == "fail":
            raise ValueError("stop here")
    else:
        raise ValueError("stop later")


def change(store: Path, sql: str, *values: object) -> int:
    """Change the file behind perdure's back; how many rows were."""
    connection = apsw.Connection(str(store))
    connection.execute(sql, values)
    count = connection.changes()
    connection.close()
    return count


def flip(store: Path, table: str, column: str, run_id: str, where: str = "1", at: int = -3) -> None:
    """Flip one bit in one stored value of the run."""
    connection = apsw.Connection(str(store))
    number = "run_no" if table == "blob" else "key >> 32"
    condition = f"{number} = (SELECT run_no FROM perdure_run WHERE run_id = ?) AND {where} LIMIT 1"
    found = connection.execute(f"SELECT rowid, {column} FROM perdure_{table} WHERE {condition}", (run_id,))
    rowid, data = found.fetchone() or (0, b"")
    changed = bytearray(data)
    changed[at] ^= 4
    connection.execute(f"UPDATE perdure_{table} SET {column} = ? WHERE rowid = ?", (bytes(changed), rowid))
    assert connection.changes() == 1
    connection.close()


RUN_EVENTS = "key >> 32 = (SELECT run_no FROM perdure_run WHERE run_id = 'lost-1')"
LAST = f"(SELECT max(key) FROM perdure_event WHERE {RUN_EVENTS})"

DAMAGE: dict[str, Callable[[Path], object]] = {
    "a bit of an event": lambda store: flip(store, "event", "data", "lost-1", "key & 0xffffffff = 2"),
    "a bit of the first event": lambda store: flip(store, "event", "data", "lost-1", "key & 0xffffffff = 1"),
    "a bit of a digest": lambda store: flip(store, "event", "digest", "lost-1", "key & 0xffffffff = 2"),
    "the format byte": lambda store: flip(store, "event", "data", "lost-1", "key & 0xffffffff = 2", at=0),
    "an event in the middle": lambda store: change(
        store, f"DELETE FROM perdure_event WHERE {RUN_EVENTS} AND key & 0xffffffff = 2"
    ),
    "the last event": lambda store: change(store, f"DELETE FROM perdure_event WHERE key = {LAST}"),
    "the last two events": lambda store: change(
        store, f"DELETE FROM perdure_event WHERE key >= {LAST} - 1 AND {RUN_EVENTS}"
    ),
    "every event": lambda store: change(store, f"DELETE FROM perdure_event WHERE {RUN_EVENTS}"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_run_is_never_served_and_the_others_go_on(store: Path, what: str) -> None:
    place = store.parent
    DAMAGE[what](store)
    before, done = journal_digest(store), acts(place)
    every = perdure("verify", cwd=place)
    assert every.code == 1, every
    assert re.search(r"^damaged  lost-1@\d+: ", every.out, re.MULTILINE), every
    assert "2 of 3 runs whole" in every.out
    told(perdure("run", "agent.py", "--id", "lost-1", cwd=place), "S107", 1, "lost-1")
    why = perdure("why", "lost-1", cwd=place)
    assert why.code == 0, why
    assert "damaged" in why.out
    assert "perdure verify lost-1" in why.out
    assert (journal_digest(store), acts(place)) == (before, done)


def test_a_damaged_run_takes_no_answer_and_the_others_go_on(store: Path) -> None:
    place = store.parent
    DAMAGE["the last event"](store)
    before, done = journal_digest(store), acts(place)
    for command in ("show lost-1", "resolve lost-1 1/1 --not-done", "retry lost-1", "release lost-1"):
        told(perdure(*command.split(), cwd=place), "S107", 1, "lost-1")
    assert perdure("verify", "paid-1", cwd=place).code == 0
    assert (journal_digest(store), acts(place)) == (before, done)
    assert perdure("run", "agent.py", "o-9", "--id", "paid-9", cwd=place).code == 0
    assert acts(place) == [*done, "o-9"]


def test_a_run_found_damaged_when_it_is_claimed_is_held(store: Path) -> None:
    place = store.parent
    assert perdure("retry", "lost-1", cwd=place).code == 0  # a message: the next process claims it
    flip(store, "event", "data", "lost-1", "key & 0xffffffff = 2")
    before, done = journal_digest(store), acts(place)
    told(perdure("run", "agent.py", "--id", "lost-1", cwd=place), "S107", 1, "lost-1")
    listed = perdure("runs", "--json", cwd=place).document["runs"]
    [row] = [row for row in listed if row["run_id"] == "lost-1"]
    assert (row["status"], row["needs"]) == ("held", "person"), row
    assert "damaged" in row["because"]
    why = perdure("why", "lost-1", "--json", cwd=place)
    assert why.code == 0, why
    assert "damaged" in why.document["why"]["headline"]
    assert any("perdure verify lost-1" in remedy for remedy in why.document["why"]["remedies"])
    assert (journal_digest(store), acts(place)) == (before, done)


async def _held_clerk(path: Path, goal: str) -> None:
    outcome = await clerk.run("big-1", goal, store=str(path), check=False)
    assert outcome.status == "held"


async def test_a_damaged_snapshot_is_passed_over_and_named_by_verify(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    await _held_clerk(path, "go")
    store = open_store(str(path))
    await store.open()
    whole = (await load(store, "big-1")).record
    assert len(await store.snapshots("big-1")) == 1
    flip(path, "snapshot", "data", "big-1")
    assert (await load(store, "big-1")).record == whole
    await store.close()
    assert not checked_here(path)
    answer = perdure("verify", cwd=tmp_path)
    assert (answer.code, "snapshot" in answer.out) == (1, True), answer
    assert perdure("show", "big-1", cwd=tmp_path).code == 0


def checked_here(path: Path) -> bool:
    """Whether verify, in a process of its own, finds the run whole."""
    return perdure("verify", "big-1", cwd=path.parent).code == 0


@pytest.mark.parametrize("how", ["a bit", "gone"])
async def test_a_damaged_large_value_is_never_served(tmp_path: Path, how: str) -> None:
    path = tmp_path / "perdure.db"
    await _held_clerk(path, "fail")
    if how == "gone":
        assert change(path, "DELETE FROM perdure_blob") == 2
    else:
        flip(path, "blob", "data", "big-1")
    store = open_store(str(path))
    await store.open()
    with refused(Damaged, "big-1"):
        await history(store, "big-1")
    with refused(Damaged, "big-1"):
        async with Runtime(store, [clerk]) as runtime:
            await runtime.outcome("big-1")
    await store.close()
    answer = perdure("verify", cwd=tmp_path)
    assert (answer.code, "large value" in answer.out) == (1, True), answer


def test_verify_of_one_run_names_where(store: Path) -> None:
    flip(store, "event", "data", "lost-1", "key & 0xffffffff = 3")
    found = checked(store, "lost-1")
    assert (found.ok, found.seq, found.events) == (False, 3, 2)
    document = perdure("verify", "lost-1", "--json", cwd=store.parent).document
    assert document["runs"][0]["damage"]["seq"] == 3
