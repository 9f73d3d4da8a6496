"""A call whose reply never came: each effect class by its own rule, at resume and live (laws 2, 3 and 4)."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    CallFailed,
    Done,
    Finished,
    Held,
    LeftUnknown,
    NotDone,
    Retry,
    Run,
    Runtime,
    Unknown,
    codec,
    current_call,
    tool,
)
from perdure.errors import BadArguments, NothingToResolve, RunEnded
from perdure.state import events as e
from perdure.store.protocol import Message
from tests.unit.runtime.desk import Desk, Outside, agent_of, in_memory

AFTER_INTENT = ["intent.durable", "call.act", "call.acted", "receipt.queued"]


class Refused(Exception):
    """A definite failure."""


def payer(outside: Outside, **options: Any) -> Any:
    """A tool that pays."""

    @tool(**options)
    async def pay(cents: int) -> str:
        return str(outside.act(f"paid {cents}"))

    return pay


def one_payment(pay: Any, **options: Any) -> Any:
    """An agent that pays once and finishes with the receipt."""

    async def step(run: Run[Any]) -> None:
        receipt = await pay(5)
        run.state["log"].append(receipt)
        run.finish(receipt)

    return agent_of(step, pay, **options)


def asked(pay: Any, *answers: Any) -> list[Any]:
    """Give the tool a hook with these answers, the last one for ever; returns the keys it was asked for."""
    keys: list[Any] = []

    @pay.reconcile  # type: ignore[untyped-decorator]
    async def paid(cents: int) -> Any:
        keys.append((current_call().key, cents))
        answer = answers[min(len(keys), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return keys


# -------------------------------------------------------------------------------------------- found at resume


async def test_a_read_is_made_again() -> None:
    desk, outside = in_memory(), Outside()
    agent = one_payment(payer(outside, effect="read"))
    await desk.crash(agent, "call.acted")
    assert (await desk.run(agent)).unwrap() == "paid 5"
    assert outside.done == ["paid 5", "paid 5"]


@pytest.mark.parametrize("boundary", AFTER_INTENT)
async def test_an_idempotent_call_is_sent_again_with_its_key_and_arguments(boundary: str) -> None:
    desk, outside = in_memory(), Outside()
    agent = one_payment(payer(outside, effect="idempotent"))
    await desk.crash(agent, boundary)
    assert (await desk.run(agent)).unwrap() == "paid 5"
    intents = await desk.facts(e.CallIntended)
    assert [intent.attempt for intent in intents] == [1, 2]
    assert len({(intent.key, intent.head.digest) for intent in intents}) == 1
    assert set(outside.keys) == {intents[0].key}


@pytest.mark.parametrize("boundary", AFTER_INTENT)
async def test_an_irreversible_call_without_hook_holds_at_once_and_is_not_made_again(boundary: str) -> None:
    desk, outside = in_memory(), Outside()
    agent = one_payment(payer(outside))
    await desk.crash(agent, boundary)
    before = list(outside.done)
    held = await desk.run(agent)
    assert isinstance(held, Held)
    assert held.reason == "unknown-outcome"
    assert any("--not-done" in remedy and "1:0" in remedy for remedy in held.remedies)
    assert outside.done == before
    assert isinstance(await desk.run(agent), Held)
    assert outside.done == before


async def test_a_crash_before_the_intent_is_durable_is_no_unknown_call() -> None:
    desk, outside = in_memory(), Outside()
    agent = one_payment(payer(outside))
    await desk.crash(agent, "intent.write")
    assert (await desk.run(agent)).unwrap() == "paid 5"
    assert outside.done == ["paid 5"]


async def test_a_settled_call_is_never_made_again() -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside)

    async def step(run: Run[Any]) -> None:
        first = await pay(5)
        second = await pay(6)
        run.finish([first, second])

    await desk.crash(agent_of(step, pay), "intent.durable", 2)
    assert outside.done == ["paid 5"]
    held = await desk.run(agent_of(step, pay))
    assert held.reason == "unknown-outcome"
    assert "1:1" in held.remedies[0]
    assert outside.done == ["paid 5"]


async def test_done_becomes_the_receipt() -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside)
    keys = asked(pay, Done("found"))
    agent = one_payment(pay)
    await desk.crash(agent, "call.acted")
    assert (await desk.run(agent)).unwrap() == "found"
    assert len(outside.acts) == 1
    assert keys == [(outside.keys[0], 5)]
    verdicts = await desk.facts(e.CallReconciled)
    assert [(one.verdict, one.by) for one in verdicts] == [("done", "hook")]


async def test_not_done_counts_only_after_the_grace_window_and_keeps_the_key() -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside, timeout=timedelta(seconds=20))
    keys = asked(pay, NotDone("not there"))
    agent = one_payment(pay)
    await desk.crash(agent, "intent.durable")
    began = desk.clock.now()
    assert (await desk.run(agent)).unwrap() == "paid 5"
    assert len(keys) > 2
    (verdict,) = [event for event in await desk.events() if isinstance(event.body, e.CallReconciled)]
    assert verdict.at >= began + 20_000_000
    assert verdict.body.evidence == "not there"
    intents = await desk.facts(e.CallIntended)
    assert len(intents) == 2
    assert {intent.key for intent in intents} == {outside.keys[0]}


async def test_a_late_arrival_within_the_grace_window_is_believed() -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside, timeout=timedelta(seconds=20))
    asked(pay, NotDone(), NotDone(), Done("arrived"))
    agent = one_payment(pay)
    await desk.crash(agent, "intent.durable")
    assert (await desk.run(agent)).unwrap() == "arrived"
    assert outside.done == []


@pytest.mark.parametrize("answer", [Unknown("no line"), OSError("no line"), "neither of the three"])
async def test_a_hook_that_cannot_tell_until_the_end_holds(answer: Any) -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside)
    keys = asked(pay, answer)
    agent = one_payment(pay)
    await desk.crash(agent, "call.acted")
    held = await desk.run(agent)
    assert isinstance(held, Held)
    assert held.reason == "unknown-outcome"
    if isinstance(answer, Exception):
        assert "no line" in held.detail
    assert len(keys) > 3
    assert len(outside.acts) == 1


async def test_a_hook_that_recovers_settles() -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside)
    asked(pay, OSError("no line"), Unknown(), Done("found"))
    agent = one_payment(pay)
    await desk.crash(agent, "call.acted")
    assert (await desk.run(agent)).unwrap() == "found"


async def test_a_done_that_is_not_of_the_declared_type_does_not_become_a_receipt() -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside)
    asked(pay, Done({"not": "a text"}))
    agent = one_payment(pay)
    await desk.crash(agent, "call.acted")
    held = await desk.run(agent)
    assert held.reason == "unknown-outcome"
    assert "str" in held.detail


@pytest.mark.parametrize("boundary", ["reconcile.ask", "reconcile.answered", "reconcile.queued"])
async def test_a_crash_while_asking_is_asked_again(boundary: str) -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside)
    asked(pay, Done("found"))
    agent = one_payment(pay)
    await desk.crash(agent, "call.acted")
    await desk.crash(agent, boundary)
    assert (await desk.run(agent)).unwrap() == "found"
    assert len(outside.acts) == 1


async def test_past_the_receivers_memory_of_keys_an_idempotent_call_holds() -> None:
    desk, outside = in_memory(), Outside()
    agent = one_payment(payer(outside, effect="idempotent", key_ttl=timedelta(minutes=10)))
    await desk.crash(agent, "call.acted")  # an hour passes
    held = await desk.run(agent)
    assert held.reason == "unknown-outcome"
    assert "key_ttl" in held.detail
    assert len(outside.acts) == 1


async def test_past_the_receivers_memory_the_hook_of_an_idempotent_call_is_asked() -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside, effect="idempotent", key_ttl=timedelta(minutes=10))
    asked(pay, Done("found"))
    agent = one_payment(pay)
    await desk.crash(agent, "call.acted")
    assert (await desk.run(agent)).unwrap() == "found"
    assert len(outside.acts) == 1


# ------------------------------------------------------------------------------------------------------- live


def broken_line(outside: Outside, breaks: int, **options: Any) -> Any:
    """A tool whose first replies are lost after the act."""

    @tool(**options)
    async def pay(cents: int) -> str:
        outside.act(f"paid {cents}")
        if len(outside.acts) <= breaks:
            raise ConnectionError("the reply was lost")
        return f"paid {cents}"

    return pay


async def test_live_an_idempotent_call_is_sent_again_until_a_reply_comes() -> None:
    desk, outside = in_memory(), Outside()
    agent = one_payment(broken_line(outside, 3, effect="idempotent"))
    assert (await desk.run(agent)).unwrap() == "paid 5"
    assert len(outside.acts) == 4
    assert len(set(outside.keys)) == 1
    assert {fact.cause for fact in await desk.facts(e.CallUnknown)} == {"connection"}


async def test_live_an_idempotent_call_without_any_reply_goes_to_a_person() -> None:
    desk, outside = in_memory(), Outside()
    agent = one_payment(broken_line(outside, 99, effect="idempotent"))
    held = await desk.run(agent)
    assert held.reason == "unknown-outcome"
    assert len(outside.acts) == 8
    assert len(set(outside.keys)) == 1


async def test_live_an_irreversible_call_without_reply_holds_or_asks() -> None:
    desk, outside = in_memory(), Outside()
    held = await desk.run(one_payment(broken_line(outside, 99)))
    assert held.reason == "unknown-outcome"
    assert len(outside.acts) == 1

    desk, outside = in_memory(), Outside()
    pay = broken_line(outside, 99)
    asked(pay, Done("found"))
    assert (await desk.run(one_payment(pay))).unwrap() == "found"
    assert len(outside.acts) == 1


async def test_a_tool_that_raises_unknown_is_unknown() -> None:
    desk, outside = in_memory(), Outside()

    @tool()
    async def pay(cents: int) -> str:
        outside.act(cents)
        raise Unknown("half a reply")

    held = await desk.run(one_payment(pay))
    assert held.reason == "unknown-outcome"
    assert len(outside.acts) == 1


async def test_a_tool_that_raises_not_done_has_not_acted() -> None:
    desk = in_memory()

    @tool()
    async def pay(cents: int) -> str:
        raise NotDone("the till is closed")

    async def step(run: Run[Any]) -> None:
        try:
            await pay(5)
        except CallFailed as error:
            run.finish(f"{error.type_name}: {error.message}")

    assert (await desk.run(agent_of(step, pay), check=True)).unwrap() == "NotDone: the till is closed"


@pytest.mark.parametrize("crashes", [False, True])
async def test_left_unknown_is_told_to_the_agent_live_and_replayed(crashes: bool) -> None:
    desk, outside = in_memory(), Outside()
    pay = broken_line(outside, 99, unknown="raise")
    look_around = payer(outside, effect="read", name="look")
    seen: list[str] = []

    async def step(run: Run[Any]) -> None:
        try:
            await pay(5)
        except LeftUnknown as error:
            seen.append(error.path)
        run.finish(await look_around(1))

    agent = agent_of(step, pay, look_around)
    if crashes:
        await desk.crash(agent, "call.act")
        assert outside.done == []
    assert (await desk.run(agent, check=True)).unwrap() == "paid 1"
    assert set(seen) == {"1:0"}
    assert outside.done.count("paid 5") == (0 if crashes else 1)
    verdicts = await desk.facts(e.CallReconciled)
    assert [(one.verdict, one.by) for one in verdicts] == [("left-unknown", "policy")]
    assert isinstance(await desk.run(agent), Finished)


# -------------------------------------------------------------------------------------------- a person's word


async def held_desk(outside: Outside, **options: Any) -> tuple[Desk, Any]:
    """A run that is held for the outcome of its one payment, which happened."""
    desk, pay = in_memory(), payer(outside, **options)
    agent = one_payment(pay)
    await desk.crash(agent, "call.acted")
    assert isinstance(await desk.run(agent), Held)
    return desk, agent


async def after(desk: Desk, agent: Any, say: Any) -> Any:
    """What the run comes to after a person's word."""
    async with desk.runtime(agent) as runtime:
        await say(runtime)
    return await desk.run(agent)


async def test_a_person_says_done() -> None:
    outside = Outside()
    desk, agent = await held_desk(outside)

    async def say(runtime: Runtime) -> None:
        await runtime.resolve("r", "1:0", by="ada", done="receipt 7", note="seen in the bank")

    assert (await after(desk, agent, say)).unwrap() == "receipt 7"
    assert len(outside.acts) == 1
    (verdict,) = await desk.facts(e.CallReconciled)
    assert (verdict.by, verdict.evidence) == ("person:ada", "seen in the bank")


async def test_a_person_says_not_done_and_it_is_made_again_with_its_key() -> None:
    outside = Outside()
    desk, agent = await held_desk(outside)

    async def say(runtime: Runtime) -> None:
        await runtime.resolve("r", "1:0", by="ada", not_done=True)

    assert (await after(desk, agent, say)).unwrap() == "paid 5"
    assert len(outside.acts) == 2
    assert len(set(outside.keys)) == 1


async def test_a_person_says_failed() -> None:
    outside = Outside()
    desk, agent = await held_desk(outside)

    async def say(runtime: Runtime) -> None:
        await runtime.resolve("r", "1:0", by="ada", failed="the account is closed")

    held = await after(desk, agent, say)
    assert held.reason == "step-error"
    assert "the account is closed" in held.detail
    assert len(outside.acts) == 1


async def test_what_a_person_may_say_is_judged_at_once() -> None:
    outside = Outside()
    desk, agent = await held_desk(outside)
    async with desk.runtime(agent) as runtime:
        with pytest.raises(BadArguments):
            await runtime.resolve("r", "1:0", by="ada")
        with pytest.raises(BadArguments):
            await runtime.resolve("r", "1:0", by="ada", done="x", not_done=True)
        with pytest.raises(NothingToResolve):
            await runtime.resolve("r", "1:9", by="ada", done="x")
        with pytest.raises(Exception, match="result"):
            await runtime.resolve("r", "1:0", by="ada", done={"not": "a text"})
        with pytest.raises(NothingToResolve):
            await runtime.retry("r", by="ada", restart=True)
        await runtime.resolve("r", "1:0", by="ada", done="ok")
        assert isinstance(await runtime.run(agent, "r", "go"), Finished)
        for said in (runtime.release("r", by="ada"), runtime.retry("r", by="ada")):
            with pytest.raises(RunEnded):
                await said
        with pytest.raises((NothingToResolve, RunEnded)):
            await runtime.resolve("r", "1:0", by="ada", done="again")


async def test_two_words_about_one_call_the_first_counts() -> None:
    outside = Outside()
    desk, agent = await held_desk(outside)

    async def say(runtime: Runtime) -> None:
        await runtime.resolve("r", "1:0", by="ada", done="first")
        with suppress(NothingToResolve):
            await runtime.resolve("r", "1:0", by="bob", not_done=True)

    assert (await after(desk, agent, say)).unwrap() == "first"
    assert len(outside.acts) == 1


async def test_a_release_of_an_unknown_call_asks_again_and_acts_nothing() -> None:
    outside = Outside()
    desk, agent = await held_desk(outside)

    async def say(runtime: Runtime) -> None:
        await runtime.release("r", by="ada")

    assert (await after(desk, agent, say)).reason == "unknown-outcome"
    assert len(outside.acts) == 1


async def test_a_release_asks_a_hook_that_was_mended() -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside)
    answers: list[Any] = [Unknown()]

    @pay.reconcile  # type: ignore[untyped-decorator]
    async def paid(cents: int) -> Any:
        return answers[0]

    agent = one_payment(pay)
    await desk.crash(agent, "call.acted")
    assert isinstance(await desk.run(agent), Held)
    answers[0] = Done("found")

    async def say(runtime: Runtime) -> None:
        await runtime.release("r", by="ada")

    assert (await after(desk, agent, say)).unwrap() == "found"


async def test_release_and_retry_of_a_run_that_is_not_held_are_refused() -> None:
    desk = in_memory()

    async def step(run: Run[Any]) -> None:
        await run.sleep(3600)

    agent = agent_of(step)
    await desk.run(agent)
    async with desk.runtime(agent) as runtime:
        for said in (runtime.release("r", by="ada"), runtime.retry("r", by="ada")):
            with pytest.raises(NothingToResolve):
                await said


async def test_a_retry_executes_the_step_again_and_serves_what_was_settled() -> None:
    desk, outside = in_memory(), Outside()
    pay, broken = payer(outside), [True]

    async def step(run: Run[Any]) -> None:
        receipt = await pay(5)
        if broken[0]:
            raise ValueError("a bug")
        run.finish(receipt)

    agent = agent_of(step, pay)
    held = await desk.run(agent)
    assert held.reason == "step-error"
    broken[0] = False

    async def say(runtime: Runtime) -> None:
        with pytest.raises(NothingToResolve):
            await runtime.retry("r", by="ada", restart=True)
        await runtime.retry("r", by="ada")

    assert (await after(desk, agent, say)).unwrap() == "paid 5"
    assert len(outside.acts) == 1


async def test_a_restart_makes_the_reads_of_a_step_anew_at_new_paths() -> None:
    desk, outside = in_memory(), Outside()
    look, broken = payer(outside, effect="read"), [True]

    async def step(run: Run[Any]) -> None:
        receipt = await look(len(outside.acts))
        if broken[0]:
            raise ValueError("a bug")
        run.finish(receipt)

    agent = agent_of(step, look)
    assert isinstance(await desk.run(agent), Held)
    broken[0] = False

    async def say(runtime: Runtime) -> None:
        await runtime.retry("r", by="ada", restart=True)

    assert (await after(desk, agent, say)).unwrap() == "paid 1"
    assert [fact.path for fact in await desk.facts(e.CallSettled)] == ["1:0", "1r1:0"]


# ------------------------------------------------------------------------------------------------------- keys


async def test_not_done_is_tried_again_with_one_key_and_a_declared_failure_is_final() -> None:
    desk, outside = in_memory(), Outside()

    @tool(raises=[Refused], retry=Retry(attempts=3))
    async def pay(cents: int) -> str:
        outside.act(cents)
        if len(outside.acts) < 3:
            raise NotDone("closed")
        raise Refused("no such account")

    held = await desk.run(one_payment(pay))
    assert "Refused" in held.detail
    assert len(outside.acts) == 3
    assert len(set(outside.keys)) == 1
    settled = await desk.facts(e.CallSettled)
    assert [(one.outcome, one.final) for one in settled] == [
        ("not_done", False),
        ("not_done", False),
        ("failed", True),
    ]


async def test_keys_differ_by_run_path_and_arguments_and_not_by_process() -> None:
    desk, outside = in_memory(), Outside()
    pay = payer(outside, effect="idempotent")

    async def step(run: Run[Any]) -> None:
        for cents in (5, 5, 6):
            await pay(cents)
        run.finish()

    agent = agent_of(step, pay)
    await desk.run(agent, run_id="a")
    await desk.run(agent, run_id="b")
    assert len(set(outside.keys)) == 6
    again = in_memory()
    outside.acts.clear()
    await again.crash(agent, "call.acted", 2, run_id="a")
    await again.run(agent, run_id="a")
    assert len(set(outside.keys)) == 3
    assert len(outside.acts) >= 4


async def test_a_word_about_an_earlier_attempt_does_not_count() -> None:
    desk, outside = in_memory(), Outside()
    agent = one_payment(payer(outside, effect="idempotent"))
    await desk.crash(agent, "call.acted")
    await desk.crash(agent, "call.acted")
    for attempt, word in ((1, "earlier"), (2, "this one")):
        said = {"path": "1:0", "attempt": attempt, "verdict": "done", "value": codec.encode(word)}
        data = codec.encode({"by": "ada", "note": "", **said})
        await desk.store.deliver(Message("r", f"word-{attempt}", "resolve", data))
    assert (await desk.run(agent)).unwrap() == "this one"
    assert len(outside.acts) == 2
