"""Real processes on one file, killed by SIGKILL, told to end by SIGTERM, stopped and let go on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from perdure import Runtime
from perdure.journal import Past, history, load, verify
from perdure.state import events as e
from perdure.store.sqlite import SQLiteStore
from perdure.timeline.late import late_results
from tests.processes import said as out
from tests.processes import until
from tests.unit.runtime.shop import Shop, heard, shop, stop


async def told(place: Shop) -> tuple[Past, list[Any]]:
    """The run, and its facts, verified."""
    store = SQLiteStore(place.store)
    await store.open()
    try:
        assert (await verify(store, "r")).ok
        past = await load(store, "r")
        return past, [event.body for event in await history(store, "r")]
    finally:
        await store.close()


# ------------------------------------------------------------------------------------------------------- kill


@pytest.mark.parametrize(
    ("kind", "deaths"),
    [
        ("irreversible", "before"),
        ("irreversible", "after"),
        ("irreversible", "step"),
        ("irreversible", "after hook step"),
        ("irreversible", "before hook hook after"),
        ("idempotent", "before"),
        ("idempotent", "after"),
        ("idempotent", "step"),
        ("idempotent", "after after step"),
    ],
)
async def test_killed_anywhere_it_pays_once(tmp_path: Path, kind: str, deaths: str) -> None:
    """Killed before the payment, after it, after its receipt, and while it is found out what became of it.

    An idempotent payment may be sent again: with one key, by which the other side knows it.
    """
    killed = len(deaths.split())
    with shop(tmp_path, kind, *deaths.split()) as place:
        said = [out(place.counter()) for _ in range(killed + 1)]
        past, _ = await told(place)
    assert said == ["killed"] * killed + ["succeeded"]
    assert len({key for key, _ in place.ledger}) == 1
    assert 1 <= len(place.ledger) <= (1 if kind == "irreversible" else killed + 1)
    assert place.asked == 1  # its reply was durable before anything was paid
    assert past.row.epoch == killed + 1
    assert past.record.ended == "succeeded"


# ----------------------------------------------------------------------------------------------------- follow


async def test_of_two_processes_one_drives_and_the_other_follows(tmp_path: Path) -> None:
    """Both have the same outcome."""
    with shop(tmp_path, "irreversible", opened=False) as place:
        driver = place.counter()
        until(lambda: place.ledger, driver)
        follower = place.counter()
        until(lambda: place.workers == 2, follower)
        place.open()
        assert (out(driver), out(follower)) == ("succeeded", "succeeded")
        assert [pid for _, pid in place.ledger] == [driver.pid]
        past, _ = await told(place)
    assert past.record.resumes == 0
    assert past.row.epoch == 1


async def test_a_follower_takes_over_from_a_driver_that_is_killed(tmp_path: Path) -> None:
    """At once: the lease would last for an hour, and its hook finds the payment."""
    with shop(tmp_path, "irreversible", opened=False) as place:
        driver = place.counter()
        until(lambda: place.ledger, driver)
        follower = place.counter()
        until(lambda: place.workers == 2, follower)
        driver.kill()
        assert out(follower) == "succeeded"
        assert [pid for _, pid in place.ledger] == [driver.pid]
        past, facts = await told(place)
    assert past.record.resumes == 1
    assert past.row.epoch == 2
    [verdict] = [fact for fact in facts if isinstance(fact, e.CallReconciled)]
    assert (verdict.verdict, verdict.by) == ("done", "hook")


async def test_a_driver_that_stood_still_is_overtaken_and_its_late_result_is_kept(tmp_path: Path) -> None:
    """Stopped in the middle of a payment, it wakes after the end: two payments, and both are seen.

    Field case O-006, O-040.
    """
    with shop(tmp_path, "thread", opened=False) as place:
        driver = place.counter(lease=1.0)
        until(lambda: place.ledger, driver)
        stop(driver)
        assert out(place.counter(lease=1.0)) == "held"
        async with Runtime(str(place.store)) as runtime:
            await runtime.resolve("r", "1:1", by="ada", not_done=True)
        place.open()
        second = place.counter(lease=1.0)
        assert out(second) == "succeeded"
        assert [pid for _, pid in place.ledger] == [driver.pid, second.pid]
        before, _ = await told(place)
        driver.send_signal(signal.SIGCONT)
        said, complaint = driver.communicate(timeout=30)
        assert (driver.returncode, said.strip()) == (0, "succeeded")
        past, _ = await told(place)
    assert past.record == before.record  # nothing follows the end
    [(_, late)] = late_results(past.inbox)
    assert (late.path, late.attempt, late.outcome, late.key) == ("1:1", 1, "done", place.ledger[0][0])
    assert "it was made again: it may have happened twice" in complaint


# ---------------------------------------------------------------------------------------------------- workers


async def test_a_worker_that_is_told_to_end_ends_its_step_and_no_other(tmp_path: Path) -> None:
    """SIGTERM while it pays: the receipt is written, the run is free, and the next worker goes on."""
    with shop(tmp_path, "irreversible", opened=False) as place:
        out(place.counter("start"))
        worker = place.worker()
        until(lambda: place.ledger, worker)
        worker.send_signal(signal.SIGTERM)
        heard(worker, "stopping")
        place.open()
        out(worker)
        assert worker.returncode == 0
        past, facts = await told(place)
        assert (past.record.step, past.record.calls, past.row.worker) == (1, {}, None)
        assert not [fact for fact in facts if isinstance(fact, e.CallUnknown)]
        assert len(place.ledger) == 1
        assert out(place.counter("twice")) == "succeeded"
        assert len(place.ledger) == 2


async def test_when_a_worker_is_killed_another_one_goes_on(tmp_path: Path) -> None:
    """Though the dead one's lease has not run out."""
    with shop(tmp_path, "irreversible", opened=False) as place:
        out(place.counter("start"))
        workers = [place.worker(), place.worker()]
        until(lambda: place.ledger)
        until(lambda: place.workers == 2)
        [dead] = [worker for worker in workers if worker.pid == place.ledger[0][1]]
        [alive] = [worker for worker in workers if worker is not dead]
        dead.kill()
        until(lambda: place.asked == 2 and len(place.ledger) == 2, alive)
        place.open()
        assert out(place.counter("twice")) == "succeeded"
        alive.send_signal(signal.SIGTERM)
        out(alive)
        past, _ = await told(place)
    assert [pid for _, pid in place.ledger] == [dead.pid, alive.pid]
    assert past.record.resumes == 1
