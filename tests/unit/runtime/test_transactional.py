"""Transactional calls: with the user's own table, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import apsw
import pytest

import perdure
from perdure.agent import Held, NotDone, Retry, current_call, use
from perdure.errors import CallFailed, NotStorable, StatementFailed, TransactionTooLong
from perdure.state import events as e
from tests.unit.runtime.stage import RUN, Stage, World, agent


class Refused(Exception):
    """A definite failure."""


def booker(**options: Any) -> Any:
    """A tool that books a line in a table of its own."""

    @perdure.tool(effect="transactional", **options)
    def book(line: str) -> int:
        call = current_call()
        call.tx.execute("CREATE TABLE IF NOT EXISTS ledger (line TEXT, key TEXT, n INTEGER)")
        call.tx.execute("INSERT INTO ledger VALUES (?, ?, (SELECT count(*) FROM ledger))", (line, call.key))
        if line == "refused":
            raise Refused("not this one")
        if line == "broken":
            raise ValueError("a mistake")
        if line == "lambda":
            return lambda: None  # type: ignore[return-value]
        [(count,)] = call.tx.execute("SELECT count(*) FROM ledger")
        return int(count)

    return book


async def ledger(stage: Stage) -> list[str]:
    """The lines that are in the table, by a look past the store."""
    path: str = stage.store.place.path  # type: ignore[attr-defined]
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [line for (line,) in connection.execute("SELECT line FROM ledger ORDER BY n")]
    except apsw.SQLError:
        return []
    finally:
        connection.close()


async def test_it_is_booked_once_and_its_receipt_with_it(sqlite: Stage) -> None:
    """No intent: the receipt and the line are one commit. The check does not book again."""
    book = booker()

    async def step(run: Any) -> None:
        run.state["log"].append(await run.call(book, f"line {len(run.state['log'])}"))
        if len(run.state["log"]) == 3:
            run.finish(run.state["log"])

    assert (await sqlite.run(agent(step, book), check=True)).unwrap() == [1, 2, 3]
    assert await ledger(sqlite) == ["line 0", "line 1", "line 2"]
    assert await sqlite.bodies(e.CallIntended) == []
    assert len({body.key for body in await sqlite.bodies(e.CallSettled)}) == 3
    await sqlite.blameless()


@pytest.mark.parametrize(
    "boundary", ["transact.enter", "transact.committed", "receipt.served", "step.commit"]
)
async def test_a_crash_around_it_books_it_once(sqlite: Stage, boundary: str) -> None:
    """Before the commit it did not happen, after it it did: in no case is there anything to find out."""
    book = booker()

    async def step(run: Any) -> None:
        run.finish(await run.call(book, "a"))

    made = agent(step, book)
    await sqlite.crash(made, boundary)
    assert await ledger(sqlite) == ([] if boundary == "transact.enter" else ["a"])
    assert (await sqlite.run(made, check=True)).unwrap() == 1
    assert await ledger(sqlite) == ["a"]
    assert "call.unknown" not in await sqlite.kinds()


@pytest.mark.parametrize(
    ("line", "error"),
    [("refused", Refused), ("broken", CallFailed), ("lambda", NotStorable)],
)
async def test_what_its_body_raises_rolls_it_back_and_is_recorded(
    sqlite: Stage, line: str, error: Any
) -> None:
    """Declared exceptions as themselves, others as CallFailed; the table is as it was, nothing is unknown."""
    book = booker(raises=[Refused])

    async def step(run: Any) -> None:
        try:
            await run.call(book, line)
        except error as failure:
            run.state["log"].append(type(failure).__name__)
        run.state["log"].append(await run.call(book, "good"))
        run.finish()

    made = agent(step, book, durability="strict")
    await sqlite.crash(made, "step.commit")
    assert (await sqlite.run(made, check=True)).status == "succeeded"
    assert await sqlite.state() == {"log": [error.__name__, 1]}
    assert await ledger(sqlite) == ["good"]
    outcomes = [(body.outcome, body.final) for body in await sqlite.bodies(e.CallSettled)]
    assert outcomes == [("failed", True), ("done", True)]


async def test_a_statement_that_fails_is_told_as_itself_and_recorded(sqlite: Stage) -> None:
    """The database's own words; the failure is served again after a crash, not tried again."""
    tried: list[int] = []

    @perdure.tool(effect="transactional")
    def bad() -> None:
        tried.append(1)
        current_call().tx.execute("INSERT INTO nowhere VALUES (1)")

    async def step(run: Any) -> None:
        try:
            await run.call(bad)
        except StatementFailed as failure:
            run.finish(str(failure.what))

    made = agent(step, bad, durability="strict")
    await sqlite.crash(made, "step.commit")
    assert "nowhere" in (await sqlite.run(made, check=True)).unwrap()
    assert tried == [1]


async def test_one_that_takes_too_long_is_rolled_back(sqlite: Stage) -> None:
    """The writer belongs to all runs: after the tool's timeout the statement is interrupted."""

    @perdure.tool(effect="transactional", timeout=timedelta(milliseconds=30))
    def slow() -> None:
        tx = current_call().tx
        tx.execute("CREATE TABLE IF NOT EXISTS ledger (line TEXT, key TEXT, n INTEGER)")
        tx.execute("INSERT INTO ledger VALUES ('slow', '', 0)")
        tx.execute("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c")

    async def step(run: Any) -> None:
        try:
            await run.call(slow)
        except TransactionTooLong as failure:
            run.finish(type(failure).__name__)

    assert (await sqlite.run(agent(step, slow), check=True)).unwrap() == "TransactionTooLong"
    assert await ledger(sqlite) == []


async def test_retries_of_a_transactional_tool(sqlite: Stage) -> None:
    """Undeclared failures are definite here, so that they can be retried: counted, backed off, then final."""
    tried: list[tuple[int, str]] = []

    @perdure.tool(effect="transactional", retry=Retry(attempts=3, backoff=10), raises=[Refused])
    def moody(good: int) -> str:
        tried.append((current_call().attempt, current_call().key))
        if len(tried) < good:
            raise ConnectionError("try again")
        return "at last"

    async def step(run: Any) -> None:
        run.state["log"].append(await run.call(moody, 3))
        try:
            await run.call(moody, 100)
        except CallFailed as failure:
            run.finish(failure.type_name)

    before = sqlite.clock.now()
    assert (await sqlite.run(agent(step, moody), check=True)).unwrap() == "ConnectionError"
    assert [attempt for attempt, _ in tried] == [1, 2, 3, 1, 2, 3]
    assert len({key for _, key in tried}) == 6  # each after a recorded definite failure
    assert sqlite.clock.now() - before >= 2 * (10 + 20) * 1_000_000


async def test_a_body_that_says_not_done_keeps_its_key(sqlite: Stage) -> None:
    """NotDone is no failure: the same key, again."""
    keys: list[str] = []

    @perdure.tool(effect="transactional", retry=Retry(attempts=2, backoff=1))
    def moody() -> str:
        keys.append(current_call().key)
        if len(keys) == 1:
            raise NotDone("locked")
        return "done"

    async def step(run: Any) -> None:
        run.finish(await run.call(moody))

    assert (await sqlite.run(agent(step, moody), check=True)).unwrap() == "done"
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_together_with_other_branches(sqlite: Stage) -> None:
    """Intents, reads, now() and two bookings at once: each happens once, and the replay agrees."""
    book, world = booker(), World()

    @perdure.tool(effect="irreversible")
    async def pay(cents: int) -> str:
        await asyncio.sleep(0)
        return str(world.act(f"paid {cents}"))

    async def branch(run: Any, name: str) -> list[Any]:
        first = [run.random(), run.new_id()]
        booked = await run.call(book, name)
        return [*first, booked, run.now(), await pay(len(name)), run.random()]

    async def step(run: Any) -> None:
        run.state["log"] = await run.gather(*(branch(run, name) for name in ("a", "bb", "ccc")))
        run.finish(sorted(entry[2] for entry in run.state["log"]))

    made = agent(step, book, pay, durability="strict")
    assert (await sqlite.run(made, check=True, run_id="whole")).unwrap() == [1, 2, 3]
    await sqlite.crash(made, "step.commit")
    assert (await sqlite.run(made, check=True)).unwrap() == [4, 5, 6]
    assert sorted(await ledger(sqlite)) == ["a", "a", "bb", "bb", "ccc", "ccc"]
    assert len(world) == 6
    await sqlite.blameless(world)


async def test_a_cancel_that_came_first_forbids_it(sqlite: Stage) -> None:
    """Law 17: the transaction is fenced by the inbox, like an intent."""
    book = booker()

    @perdure.tool(effect="read")
    async def look() -> None:
        await place.cancel(RUN, by="ada")

    async def step(run: Any) -> None:
        await look()
        run.finish(await run.call(book, "a"))

    made = agent(step, book, look)
    async with sqlite.runtime(made) as place:
        assert (await place.run(made, RUN, "go")).status == "cancelled"
    assert await ledger(sqlite) == []


async def test_a_large_result_is_whole_in_the_same_commit(sqlite: Stage) -> None:
    """No blob is needed that a crash could lose."""

    @perdure.tool(effect="transactional")
    def dump() -> bytes:
        return bytes(1 << 20)

    async def step(run: Any) -> None:
        run.finish(len(await run.call(dump)))

    made = agent(step, dump)
    await sqlite.crash(made, "transact.committed")
    assert (await sqlite.store.stats()).blob_bytes == 0
    assert (await sqlite.run(made, check=True)).unwrap() == 1 << 20
    assert [event.kind for event in await sqlite.events()].count("call.settled") == 1


async def test_an_async_one_is_refused_with_the_remedy(memory: Stage) -> None:
    """On these stores the body runs in the writer's thread."""

    @perdure.tool(effect="transactional")
    async def book() -> None:
        return None

    async def step(run: Any) -> None:
        await book()

    held = await memory.run(agent(step, book))
    assert isinstance(held, Held)
    assert "T213" in held.detail


async def test_what_is_injected_for_the_call_is_closed_after_it(sqlite: Stage) -> None:
    """Also when the body raises."""
    open_now: list[str] = []

    async def line(call: perdure.Call) -> AsyncIterator[str]:
        open_now.append(call.path)
        yield "the line"
        open_now.remove(call.path)

    @perdure.tool(effect="transactional", raises=[Refused])
    def book(bad: bool, wire: str = use(line)) -> str:
        assert open_now
        if bad:
            raise Refused(wire)
        return wire

    async def step(run: Any) -> None:
        try:
            await run.call(book, True)
        except Refused:
            run.finish(await run.call(book, False))

    assert (await sqlite.run(agent(step, book), check=True)).unwrap() == "the line"
    assert open_now == []
