"""Results that come together."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import perdure
from perdure.state import events as e
from tests.unit.runtime.stage import LEASE, RUN, Stage, agent

WIDTH, ROUNDS = 16, 50


@pytest.mark.parametrize("plain", [False, True])
async def test_results_that_come_together_are_all_kept(stage: Stage, plain: bool) -> None:
    """O-033: two that saved at once dropped one another's results. Sixteen are released by one barrier, fifty
    times: each round has its sixteen, live, in the journal and after a crash.
    """
    barrier, gate = threading.Barrier(WIDTH), asyncio.Barrier(WIDTH)

    @perdure.tool(effect="idempotent", name="work")
    async def work_here(n: int) -> int:
        await gate.wait()
        return n

    @perdure.tool(effect="idempotent", name="work")
    def work_in_a_thread(n: int) -> int:
        barrier.wait(20)
        return n

    work: Any = work_in_a_thread if plain else work_here

    async def step(run: Any) -> None:
        log = run.state["log"]
        log.append(await run.map(work, range(WIDTH), limit=WIDTH))
        if len(log) == ROUNDS:
            run.finish(log)

    # Strict: a half of a round that was kept would wait for the other half.
    made = agent(step, work, durability="strict")
    await stage.crash(made, "step.committed", ROUNDS // 2)
    assert (await stage.run(made)).unwrap() == [list(range(WIDTH))] * ROUNDS
    receipts = [body.path for body in await stage.bodies(e.CallSettled)]
    assert len(receipts) == len(set(receipts)) == WIDTH * ROUNDS
    assert (RUN, LEASE) == ("run-1", 30.0)
