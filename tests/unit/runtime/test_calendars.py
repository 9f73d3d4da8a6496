"""Timers beside calendars, and signals whose notice is lost: what schedulers and queues get wrong."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import perdure.worker.worker
from perdure.clock import SECOND
from perdure.errors import OtherGoal
from perdure.state import events as e
from perdure.store.protocol import Query
from tests.unit.runtime.stage import LEASE, RUN, Crash, Stage, World, agent, build, dying


def _set(stage: Stage, moment: datetime) -> None:
    """Put the clock to a moment."""
    ahead = round(moment.timestamp()) - stage.clock.now() // SECOND
    if ahead > 0:
        stage.clock.advance(ahead)
    else:
        stage.clock.set_back(-ahead)


@pytest.mark.parametrize(
    "start",
    [
        datetime(2017, 10, 29, 3, 45, fold=1, tzinfo=ZoneInfo("Europe/Helsinki")),
        datetime(2022, 3, 12, 23, 30, tzinfo=ZoneInfo("US/Pacific")),
    ],
)
async def test_hours_are_hours_when_the_clocks_change(stage: Stage, start: datetime) -> None:
    """Five naps of an hour end at five moments an hour apart, whatever a calendar calls them (O-048)."""
    _set(stage, start.astimezone(UTC))

    async def step(run: Any) -> None:
        for _ in range(5):
            await run.sleep(timedelta(hours=1))
        run.finish("woke")

    made = agent(step)
    for _ in range(5):
        assert (await stage.run(made)).status == "waiting"
        stage.clock.advance(3600)
    assert (await stage.run(made)).unwrap() == "woke"
    ends = [body.deadline for body in await stage.bodies(e.WaitOpened)]
    assert [after - before for before, after in pairwise(ends)] == [3600 * SECOND] * 4


async def test_a_dated_run_is_started_once_a_day(stage: Stage) -> None:
    """A cron that fires late, twice, or every hour: the run's id says the day, so each day has one run.

    Field case O-049.
    """
    world = World()

    @perdure.tool(effect="irreversible")
    async def report(day: str) -> str:
        return str(world.act(day))

    async def step(run: Any) -> None:
        run.finish(await report(run.goal))

    made = agent(step, report)
    zone = ZoneInfo("US/Pacific")
    _set(stage, datetime(2022, 3, 12, 0, 0, 5, tzinfo=zone).astimezone(UTC))
    for _ in range(72):
        now = datetime.fromtimestamp(stage.clock.now() // SECOND, zone)
        day = now.date().isoformat()
        assert (await stage.run(made, day, run_id=f"report-{day}")).unwrap() == day
        stage.clock.advance(3600)
    days = [f"2022-03-{day}" for day in (12, 13, 14, 15)]
    assert [act.run_id for act in world.acts] == [f"report-{day}" for day in days]


@pytest.mark.parametrize("where", ["run.create", "run.created"])
async def test_a_start_that_is_cut_off_happens_once(stage: Stage, where: str) -> None:
    """The period is handled and its run is made in one write: a crash leaves both or neither (O-051)."""
    made = agent(_finish)
    with dying(where) as death, suppress(Crash):
        async with stage.runtime(made) as place:
            await place.start(made, "report-2022-03-13", "2022-03-13")
    assert death.dead
    there = await stage.store.list(Query())
    assert len(there) == (where == "run.created")
    for _ in range(2):
        outcome = await stage.run(made, "2022-03-13", run_id="report-2022-03-13")
        assert outcome.unwrap() == "2022-03-13"
    assert len(await stage.store.list(Query())) == 1
    with pytest.raises(OtherGoal):
        await stage.run(made, "2022-03-14", run_id="report-2022-03-13")


async def _until(place: Any, status: str) -> None:
    """Wait until the run stands so and nobody drives it."""
    async with asyncio.timeout(20):
        while (row := await place.store.row(RUN)).status != status or row.worker:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _finish(run: Any) -> None:
    run.finish(run.goal)


async def test_a_run_that_is_due_later_is_not_handed_out_before(stage: Stage) -> None:
    """Three workers, a lease far shorter than the wait: it wakes once, at its time (O-008)."""
    stage.clock.hurried = False
    naps = 10 * LEASE

    async def step(run: Any) -> None:
        await run.sleep(naps)
        run.finish("woke")

    made = agent(step)
    async with (
        stage.runtime(made, workers=1) as place,
        stage.runtime(made, workers=1),
        stage.runtime(made, workers=1),
    ):
        await place.start(made, RUN, "go")
        await _until(place, "waiting")
        epoch = (await place.store.row(RUN)).epoch
        for _ in range(9):
            stage.clock.advance(LEASE)
            await asyncio.sleep(0.01)
        assert (await place.store.row(RUN)).epoch == epoch
        stage.clock.advance(LEASE)
        await _until(place, "succeeded")
    assert len(await stage.bodies(e.WaitClosed)) == 1


async def test_a_signal_whose_notice_is_lost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is told of nothing that others write: it looks by itself now and then (O-069)."""
    monkeypatch.setattr(perdure.worker.worker, "SCAN_SECONDS", 0.1)
    stage = build("sqlite", tmp_path, hurried=False)
    await stage.store.open()

    class Deaf:
        """A store that never tells of a change."""

        def __getattr__(self, name: str) -> Any:
            return getattr(stage.kept or stage.store, name)

        async def changed(self, seen: int, timeout_seconds: float) -> int:
            await asyncio.sleep(timeout_seconds)
            return seen

    async def step(run: Any) -> None:
        run.finish(await run.wait("paid", timeout=3600))

    made = agent(step)
    stage.wrap(Deaf())
    async with stage.runtime(made, workers=1) as place:
        await place.start(made, RUN, "go")
        await _until(place, "waiting")
        await place.signal(RUN, "paid", 5)
        await _until(place, "succeeded")
        assert (await place.outcome(RUN)).unwrap() == 5
    await stage.close()
