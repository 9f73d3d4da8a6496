"""A result that arrives after its run was taken over: used, remembered, or a conflict for a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from perdure import Finished, Held, Run, Runtime, tool
from perdure.state import events as e
from tests.unit.runtime.desk import LEASE, Desk, Outside, agent_of, in_memory


class Bank:
    """A bank whose first answer is slow."""

    def __init__(self, **options: Any) -> None:
        self.outside = Outside()
        self.sent = asyncio.Event()
        self.answers = asyncio.Event()
        self.first = True
        self.dwell = False

        @tool(**options)
        async def pay(cents: int) -> str:
            first, self.first = self.first, False
            receipt = self.outside.act(f"receipt {len(self.outside.acts)}")
            if first:
                self.sent.set()
                await self.answers.wait()
            return str(receipt)

        async def step(run: Run[Any]) -> None:
            receipt = await pay(5)
            if self.dwell:
                await run.sleep(LEASE * 10)
            run.finish(receipt)

        self.agent = agent_of(step, pay)


@asynccontextmanager
async def overtaken(desk: Desk, bank: Bank) -> AsyncIterator[Runtime]:
    """A process that pays and gets no answer until its lease is gone; the next process is given."""
    async with desk.runtime(bank.agent) as slow:
        first = asyncio.create_task(slow.run(bank.agent, "r", "go"))
        await bank.sent.wait()
        desk.clock.advance(LEASE + 1)
        async with desk.runtime(bank.agent) as runtime:
            yield runtime
        first.cancel()
        await asyncio.wait([first])


async def answer(desk: Desk, bank: Bank) -> None:
    """The first process gets its answer, and hands it over."""
    bank.answers.set()
    for _ in range(1000):
        row = await desk.store.row("r")
        if row.pending or row.terminal:  # or it carried the run on itself, as a follower does
            return
        await asyncio.sleep(0.001)
    raise AssertionError("no late result was handed over")


async def test_a_late_result_settles_a_call_that_is_held_as_unknown() -> None:
    desk, bank = in_memory(), Bank()
    async with overtaken(desk, bank) as runtime:
        held = await runtime.run(bank.agent, "r", "go")
        assert isinstance(held, Held)
        assert held.reason == "unknown-outcome"
        await answer(desk, bank)
        assert (await runtime.run(bank.agent, "r", "go")).unwrap() == "receipt 0"
    assert len(bank.outside.acts) == 1
    assert [fact.used for fact in await desk.facts(e.CallLate)] == [True]


async def test_a_late_result_of_a_call_that_was_settled_alike_is_only_remembered() -> None:
    desk, bank = in_memory(), Bank()
    bank.dwell = True
    async with overtaken(desk, bank) as runtime:
        await runtime.run(bank.agent, "r", "go")
        await runtime.resolve("r", "1:0", by="ada", done="receipt 0")

        waiting = await runtime.run(bank.agent, "r", "go", patience=timedelta(0))
        assert waiting.status == "waiting"
        await answer(desk, bank)
        waiting = await runtime.run(bank.agent, "r", "go", patience=timedelta(0))
        assert waiting.status == "waiting"
    assert [fact.used for fact in await desk.facts(e.CallLate)] == [False]


async def test_a_late_result_of_a_call_that_was_made_again_holds_as_a_conflict() -> None:

    desk, bank = in_memory(), Bank()
    bank.dwell = True
    async with overtaken(desk, bank) as runtime:
        await runtime.run(bank.agent, "r", "go")
        await runtime.resolve("r", "1:0", by="ada", not_done=True)
        waiting = await runtime.run(bank.agent, "r", "go", patience=timedelta(0))
        assert waiting.status == "waiting"
        assert bank.outside.done == ["receipt 0", "receipt 1"]
        await answer(desk, bank)
        held = await runtime.run(bank.agent, "r", "go", patience=timedelta(0))
        assert isinstance(held, Held)
        assert held.reason == "conflict"
        assert "1:0" in held.detail
        assert all("RUN" not in remedy for remedy in held.remedies)
        await runtime.release("r", by="ada", note="the bank took one back")
        desk.clock.advance(LEASE * 10)
        assert (await runtime.run(bank.agent, "r", "go", patience=timedelta(0))).unwrap() == "receipt 1"
    assert len(bank.outside.acts) == 2


async def test_a_late_result_of_an_idempotent_call_that_was_sent_again_is_no_conflict() -> None:

    desk, bank = in_memory(), Bank(effect="idempotent")
    bank.dwell = True
    async with overtaken(desk, bank) as runtime:
        assert (await runtime.run(bank.agent, "r", "go", patience=timedelta(0))).status == "waiting"
        await answer(desk, bank)
        assert (await runtime.run(bank.agent, "r", "go", patience=timedelta(0))).status == "waiting"
    assert len(set(bank.outside.keys)) == 1


async def test_a_late_result_of_a_run_that_has_ended_changes_nothing() -> None:
    desk, bank = in_memory(), Bank()
    async with overtaken(desk, bank) as runtime:
        await runtime.run(bank.agent, "r", "go")
        await runtime.resolve("r", "1:0", by="ada", done="receipt 0")
        assert isinstance(await runtime.run(bank.agent, "r", "go"), Finished)
        before = await desk.events()
        bank.answers.set()
        await asyncio.sleep(0.02)
        assert await desk.events() == before
