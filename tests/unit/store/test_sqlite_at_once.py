"""A commit on the event loop's own thread: only for a run that writes alone, and never where it could take
long.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.errors import StaleEpoch
from perdure.store import SQLiteStore, sqlite
from perdure.store.protocol import Batch, Stored
from perdure.store.sqlite import writer
from perdure.store.sqlite.transaction import Transaction
from perdure.store.sqlite.turn import Turn
from perdure.testing.contract.trial import events, new_run
from tests.unit.store.test_sqlite_file import opened


@pytest.fixture(autouse=True)
def always_brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is: what commits take is told by the tests that are about it."""
    monkeypatch.setattr(writer, "BRIEF_SECONDS", 3600.0)
    monkeypatch.setattr(sqlite, "BREATH_SECONDS", 3600.0)


def urgent(run_id: str, seq: int, **more: Any) -> Batch:
    """The next event of a run that has `seq` events, waited for."""
    return Batch(run_id, 0, seq, events(seq + 1, seq + 1), urgent=True, **more)


async def alone(store: SQLiteStore) -> None:
    """Run `r` has two events, and was the last to write."""
    await store.create(new_run())
    await store.append(urgent("r", 1))


async def test_a_run_that_writes_alone_has_its_commit_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await alone(store)
        before = (await store.stats()).commits
        for seq in range(2, 12):
            future = store.append(urgent("r", seq))
            assert future.done()
            assert future.result().seq == seq + 1
            # Durable: another connection sees it already.
            connection = apsw.Connection(str(tmp_path / "runs.db"))
            assert connection.execute("SELECT count(*) FROM perdure_event").get == seq + 1
            connection.close()
        assert (await store.stats()).commits - before == 10
        assert await store.read("r") == events(1, 12)


async def test_whoever_waits_for_it_hears_of_it_like_of_any_other(tmp_path: Path) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await alone(store)
        seen = await store.changed(0, 0)
        waiting = asyncio.ensure_future(store.changed(seen, 30))
        await asyncio.sleep(0)
        assert store.append(urgent("r", 2)).done()
        assert await waiting != seen


async def test_what_nobody_waits_for_is_left_to_the_thread(tmp_path: Path) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await alone(store)
        future = store.append(Batch("r", 0, 2, events(3, 3)))
        assert not future.done()
        # And nothing overtakes it.
        after = store.append(urgent("r", 3))
        assert not after.done()
        assert (await after).seq == 4
        assert future.done()


async def test_several_runs_share_their_commits(tmp_path: Path) -> None:
    async with opened(tmp_path / "runs.db") as store:
        names = [f"r{number}" for number in range(20)]
        await asyncio.gather(*(store.create(new_run(name)) for name in names))
        before = (await store.stats()).commits

        async def one(name: str) -> None:
            for seq in range(1, 11):
                await store.append(urgent(name, seq))

        await asyncio.gather(*map(one, names))
        commits = (await store.stats()).commits - before
        assert commits <= 60, f"{commits} commits for 200 appends of 20 runs"


async def test_slow_commits_are_left_to_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await alone(store)
        monkeypatch.setattr(writer, "BRIEF_SECONDS", 0.0)
        future = store.append(urgent("r", 2))
        assert not future.done()
        assert (await future).seq == 3


def test_what_commits_take_is_learned_here_and_unlearned_by_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    learner = writer.Writer.__new__(writer.Writer)
    learner._commit_seconds = float("inf")
    learner._learn(0.0002, here=False)
    assert learner._commit_seconds == 0.0002
    learner._learn(0.005, here=False)  # it waited for the interpreter, perhaps: not heard
    assert learner._commit_seconds == 0.0002
    for _ in range(30):  # one in ten waits for a processor: the others count
        learner._learn(0.006, here=True)
        for _ in range(9):
            learner._learn(0.0002, here=True)
    assert learner._commit_seconds < 0.0005
    for _ in range(20):
        learner._learn(0.006, here=True)
    assert learner._commit_seconds > writer.BRIEF_SECONDS
    for _ in range(10):
        learner._learn(0.0002, here=False)
    assert learner._commit_seconds < writer.BRIEF_SECONDS
    learner._learn(0.05, here=True)  # no processor is waited for so long
    assert learner._commit_seconds > writer.BRIEF_SECONDS


async def test_the_loop_turns_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await alone(store)
        monkeypatch.setattr(sqlite, "BREATH_SECONDS", 0.0)
        assert store.append(urgent("r", 2)).done()
        future = store.append(urgent("r", 3))
        assert not future.done()
        await future
        await asyncio.sleep(0)
        assert store.append(urgent("r", 4)).done()


async def test_a_turn_that_another_process_has_is_not_waited_for_here(tmp_path: Path) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await alone(store)
        other = Turn(store.place.turn)
        other.take()
        future = store.append(urgent("r", 2))
        assert not future.done()
        await asyncio.sleep(0.02)
        assert not future.done()
        other.give()
        other.close()
        assert (await future).seq == 3


async def test_another_programs_lock_is_not_waited_for_here(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with opened(path, busy_seconds=30) as store:
        await alone(store)
        foreign = apsw.Connection(str(path))
        foreign.execute("BEGIN IMMEDIATE")
        future = store.append(urgent("r", 2))
        assert not future.done()
        foreign.close(True)
        assert (await future).seq == 3
        assert store.append(urgent("r", 3)).done()


async def test_a_refusal_is_told_at_once_and_harms_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await alone(store)
        future = store.append(Batch("r", 7, 2, events(3, 3), urgent=True))
        assert isinstance(future.exception(), StaleEpoch)
        assert store.append(urgent("r", 2)).result().seq == 3
        assert await store.read("r") == events(1, 3)


async def test_a_users_code_never_runs_on_the_loops_thread(tmp_path: Path) -> None:
    seen: list[threading.Thread] = []

    def act(_tx: object) -> Sequence[Stored]:
        seen.append(threading.current_thread())
        return ()

    async with opened(tmp_path / "runs.db") as store:
        await alone(store)
        await store.append(urgent("r", 2, act=act))
    assert len(seen) == 1
    assert seen[0] is not threading.main_thread()


async def test_an_interrupt_amid_a_commit_passes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "runs.db") as store:
        await alone(store)

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Transaction, "flush", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.append(urgent("r", 2))
        assert (await store.append(urgent("r", 2))).seq == 3
        assert await store.read("r") == events(1, 3)
