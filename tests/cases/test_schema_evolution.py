"""States whose shape has changed: snapshots older than a field, gaps in a chain, parts that were missing."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from perdure import FOREVER, Agent
from perdure.codec import decode
from perdure.errors import MigrationGap
from perdure.journal import history
from perdure.state import events as e
from perdure.state.fold import fold_all
from perdure.state.record import RunRecord
from tests.unit.runtime.stage import RUN, Stage


@dataclass
class Total:
    """Version one."""

    total: int = 0


@dataclass
class Amount:
    """Version two: another name, and a part that version one did not have."""

    amount: int = 0
    currency: str = "EUR"


def counter(version: int) -> Any:
    """It counts to three, waits, and counts on."""
    shape: Any = Total if version == 1 else Amount
    made: Agent[Any, Any, Any] = Agent(
        "counter", state=shape, start=lambda goal: shape(), state_version=version, storage="snapshot"
    )
    field = "total" if version == 1 else "amount"

    @made.step
    async def step(run: Any) -> None:
        count = getattr(run.state, field)
        if count == 3:
            await run.wait("go", timeout=FOREVER)
        setattr(run.state, field, count + 1)
        if count == 4:
            run.finish(count + 1)

    return made


def renaming(made: Any) -> Any:
    """With the migration."""
    made.migration(1)(lambda old: {"amount": old["total"]})
    return made


@pytest.mark.parametrize("damaged", [False, True])
async def test_a_snapshot_older_than_a_field_is_migrated(
    memory: Stage, caplog: pytest.LogCaptureFixture, damaged: bool
) -> None:
    """O-012: a snapshot from before a renamed field could not be built, though the events would have loaded.
    It is migrated; one whose bytes are damaged is passed over for the events, with a warning; the state is
    what a full replay gives.
    """
    assert (await memory.run(counter(1))).status == "waiting"
    store: Any = memory.store
    kept = store._runs[RUN].snapshots
    assert kept
    if damaged:
        kept[-1] = replace(kept[-1], data=kept[-1].data[:-1] + b"?")
    async with memory.runtime() as place:
        await place.signal(RUN, "go", None)
    with caplog.at_level(logging.WARNING, "perdure.journal"):
        assert (await memory.run(renaming(counter(2)))).unwrap() == 5
    assert ("earlier events are read instead" in caplog.text) is damaged
    assert await memory.state() == {"amount": 5, "currency": "EUR"}
    events = await history(memory.store, RUN)
    before = [event for event in events if event.kind != "run.finished"]
    assert fold_all(RunRecord(), before, decode).state == {"amount": 5, "currency": "EUR"}
    assert [event.body.to_version for event in events if isinstance(event.body, e.RunMigrated)] == [2]


async def test_a_part_that_was_not_there_gets_its_default(stage: Stage) -> None:
    """O-014: stored states without a newer key crashed the loader. A part with a default needs no migration;
    a gap in a chain is refused with both version numbers, and the run is as it was.
    """
    assert (await stage.run(counter(1))).status == "waiting"
    before = await stage.store.read(RUN)
    with pytest.raises(MigrationGap, match=r"from version 1 .*|its state has version 1, .* to 2"):
        await stage.run(counter(2))
    assert await stage.store.read(RUN) == before
    async with stage.runtime() as place:
        await place.signal(RUN, "go", None)
    assert (await stage.run(renaming(counter(2)), check=True)).unwrap() == 5
    assert (await stage.state())["currency"] == "EUR"
