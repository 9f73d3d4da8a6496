"""The hook that is asked what became of a call: hooks of every kind, and what happens meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from perdure import CallFailed, Done, NotDone, Run, Runtime, Unknown, current_call, tool, use
from perdure.runtime import reconcile
from perdure.state import events as e
from tests.unit.runtime.desk import LEASE, Outside, agent_of, in_memory


def lost(outside: Outside, **options: Any) -> Any:
    """A tool whose first reply is lost after the act."""

    @tool(**options)
    async def pay(cents: int) -> str:
        receipt = outside.act(f"paid {cents}")
        if len(outside.acts) == 1:
            raise ConnectionError("the reply was lost")
        return str(receipt)

    return pay


def one_payment(pay: Any) -> Any:
    """An agent that pays once."""

    async def step(run: Run[Any]) -> None:
        run.finish(await pay(5))

    return agent_of(step, pay)


async def test_a_plain_hook_runs_in_a_thread_and_blocks_nobody() -> None:
    desk, outside = in_memory(), Outside()
    pay, threads = lost(outside), []

    @pay.reconcile  # type: ignore[untyped-decorator]
    def paid(cents: int) -> Done[str]:
        threads.append(threading.current_thread())
        time.sleep(0.02)
        return Done(f"found {cents} {current_call().key == outside.keys[0]}")

    assert (await desk.run(one_payment(pay))).unwrap() == "found 5 True"
    assert threads
    assert threading.main_thread() not in threads


async def test_a_hook_has_what_is_injected() -> None:
    desk, outside = in_memory(), Outside()
    pay = lost(outside)

    def bank() -> Outside:
        return outside

    @pay.reconcile  # type: ignore[untyped-decorator]
    async def paid(cents: int, bank: Outside = use(bank)) -> Done[str]:
        return Done(bank.find(current_call().key))

    assert (await desk.run(one_payment(pay))).unwrap() == "paid 5"
    assert len(outside.acts) == 1


async def test_a_hook_that_never_answers_is_a_hook_that_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "HOOK_SECONDS", 0.005)
    desk, outside = in_memory(), Outside()
    pay = lost(outside)

    @pay.reconcile  # type: ignore[untyped-decorator]
    async def paid(cents: int) -> Done[str]:
        await asyncio.Event().wait()
        raise AssertionError

    held = await desk.run(one_payment(pay))
    assert held.reason == "unknown-outcome"
    assert "no answer within" in held.detail
    assert len(outside.acts) == 1


async def test_a_hook_whose_call_times_out_by_itself_says_so() -> None:
    desk, outside = in_memory(), Outside()
    pay = lost(outside)

    @pay.reconcile  # type: ignore[untyped-decorator]
    async def paid(cents: int) -> Done[str]:
        raise TimeoutError("the bank sleeps")

    assert "the bank sleeps" in (await desk.run(one_payment(pay))).detail


async def test_arguments_that_todays_tool_does_not_take_hold_the_run() -> None:
    desk, outside = in_memory(), Outside()
    before = one_payment(lost(outside))
    await desk.crash(before, "call.acted")

    @tool()
    async def pay(cents: list[str]) -> str:
        return str(outside.act("paid once more"))

    @pay.reconcile
    async def paid(cents: list[str]) -> Done[str]:
        return Done("found")

    made = one_payment(pay)
    held = await desk.run(made)
    assert (held.reason, "arguments pay" in held.detail) == ("changed", True)
    async with desk.runtime(made) as place:
        await place.release("r", by="ana")
    held = await desk.run(made)
    assert held.reason == "unknown-outcome"
    assert "cents" in held.detail
    assert len(outside.acts) == 1


@pytest.mark.parametrize("word", ["done", "not_done", "failed"])
@pytest.mark.parametrize("answer", [Done("the hook"), NotDone(), Unknown()])
async def test_a_persons_word_that_comes_while_the_hook_is_asked_counts(word: str, answer: Any) -> None:
    desk, outside = in_memory(), Outside()
    pay, told, applied = lost(outside), asyncio.Event(), asyncio.Event()
    rooms: list[Runtime] = []

    @tool()
    async def note(text: str) -> str:
        return str(outside.act(text))

    @pay.reconcile  # type: ignore[untyped-decorator]
    async def paid(cents: int) -> Any:
        if not told.is_set():
            said: dict[str, Any] = {"done": {"done": "a person"}, "failed": {"failed": "a person"}}.get(
                word, {"not_done": True}
            )
            await rooms[0].resolve("r", "1:0.0.0", by="ada", **said)
            told.set()
            await applied.wait()
        return answer

    async def other() -> str:
        await told.wait()
        receipt = await note("noted")  # its intent takes the word in
        applied.set()
        return str(receipt)

    async def step(run: Run[Any]) -> None:
        try:
            receipts = await run.gather(pay(5), other())
            run.finish(receipts[0])
        except CallFailed as error:
            run.finish(str(error))

    agent = agent_of(step, pay, note)
    async with desk.runtime(agent) as runtime:
        rooms.append(runtime)
        result = (await runtime.run(agent, "r", "go")).unwrap()
    assert {"done": "a person", "not_done": "paid 5", "failed": "a person"}[word] in result
    assert outside.done.count("paid 5") == (2 if word == "not_done" else 1)
    (verdict,) = await desk.facts(e.CallReconciled)
    assert verdict.by == "person:ada"


async def test_the_other_side_remembers_a_key_from_its_first_use() -> None:
    desk, outside = in_memory(), Outside()

    @tool(effect="idempotent", key_ttl=timedelta(seconds=LEASE * 1.5))
    async def pay(cents: int) -> str:
        return str(outside.act(f"paid {cents}"))

    agent = one_payment(pay)
    await desk.crash(agent, "call.acted")  # at 0
    await desk.crash(agent, "call.acted")  # at 1 lease: the key is remembered
    held = await desk.run(agent)  # at 2 leases it is not, although it was sent half its life ago
    assert held.reason == "unknown-outcome"
    assert "key_ttl" in held.detail
    assert len(outside.acts) == 2
