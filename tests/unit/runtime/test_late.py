"""A result that arrives after its run was taken over: used, remembered, or a conflict for a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from perdure import Finished, Held, Run, Runtime, codec, tool
from perdure.journal import load
from perdure.runtime.messages import late_of
from perdure.state import events as e
from perdure.timeline.late import late_lines, late_results
from perdure.timeline.reason import why
from perdure.timeline.view import lines
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
    before = (await desk.store.row("r")).inbox
    bank.answers.set()
    for _ in range(5000):
        row = await desk.store.row("r")
        if row.inbox > before or row.terminal:  # or it carried the run on itself, as a follower does
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


async def ended(desk: Desk, bank: Bank, runtime: Runtime, **verdict: Any) -> list[Any]:
    """The next process learns this verdict and ends the run; then the first one gets its answer."""
    await runtime.run(bank.agent, "r", "go")
    await runtime.resolve("r", "1:0", by="ada", **verdict)
    assert isinstance(await runtime.run(bank.agent, "r", "go"), Finished)
    before = await desk.events()
    bank.answers.set()
    for _ in range(1000):
        if (await desk.store.row("r")).pending:
            break
        await asyncio.sleep(0.001)
    return before


async def test_a_late_result_of_a_run_that_has_ended_is_kept_beside_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two acts and one event of it: no event may follow the end, and nobody would know (law 15)."""
    desk, bank = in_memory(), Bank()
    async with overtaken(desk, bank) as runtime:
        before = await ended(desk, bank, runtime, not_done=True)
        assert bank.outside.done == ["receipt 0", "receipt 1"]
        assert await desk.events() == before
        past = await load(desk.store, "r")
        [(at, late)] = late_results(past.inbox)
        assert (late.path, late.attempt, late.name, late.effect) == ("1:0", 1, "pay", "irreversible")
        assert (late.key, late.outcome) == (bank.outside.keys[0], "done")
        assert codec.decode(late.value) == "receipt 0"
        assert late.receipt.value == late.value
        told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert len(told) == 1
        assert told[0].startswith(
            "run r had ended as succeeded before it was told that attempt 1 of call 1:0 ("
        )
        assert told[0].endswith(" had happened, and it was made again: it may have happened twice")
        answer = why(past.row, past.record, desk.store.now(), inbox=past.inbox)
        assert [fact.text for fact in answer.facts if fact.label == "late"] == [
            "attempt 1 of call 1:0 (pay) had happened; it was told 0 µs ago, after the end"
        ]
        shown = lines(before)
        [line] = late_lines(shown, past.inbox)
        assert (line.kind, line.text, line.at, line.seq) == ("late", "pay", at, before[-1].seq)
        assert line.detail[-1] == "it was made again: it may have happened twice"
        assert isinstance(await runtime.run(bank.agent, "r", "go"), Finished)


async def test_a_late_result_after_the_end_that_agrees_is_no_conflict(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk, bank = in_memory(), Bank()
    async with overtaken(desk, bank) as runtime:
        before = await ended(desk, bank, runtime, done="receipt 0")
        assert await desk.events() == before
        past = await load(desk.store, "r")
        assert len(list(late_results(past.inbox))) == 1
        [line] = late_lines(lines(before), past.inbox)
        assert line.detail == ("done", "not used", "attempt 1, after the run had ended")
        assert "may have happened twice" not in caplog.text


async def test_a_late_result_of_a_pruned_run_is_its_tombstone(caplog: pytest.LogCaptureFixture) -> None:
    """O-019."""
    desk, bank = in_memory(), Bank()
    async with overtaken(desk, bank) as runtime:
        await runtime.run(bank.agent, "r", "go")
        await runtime.resolve("r", "1:0", by="ada", done="receipt 0")
        await runtime.run(bank.agent, "r", "go")
        await desk.store.drop("r", (b"kept",))
        bank.answers.set()
        for _ in range(1000):
            if len(await desk.store.tombstones("r")) > 1:
                break
            await asyncio.sleep(0.001)
        kept, data = await desk.store.tombstones("r")
        assert kept == b"kept"
        assert late_of(data).words == "attempt 1 of call 1:0 (pay) had happened"
        assert (
            "run r was pruned before it was told that attempt 1 of call 1:0 (pay) had happened" in caplog.text
        )
