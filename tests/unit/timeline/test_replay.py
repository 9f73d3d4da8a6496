"""Whole histories against today's code: what is a difference, and what is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from perdure import Agent, DeployPolicy, Retry, tool
from tests.unit.timeline.clerks import clerk, difference, look, pay, plain, replayed


def test_every_step_is_executed_and_given_what_its_calls_came_to() -> None:
    found = replayed(clerk(plain), clerk(plain))
    assert (found.verdict, found.steps, found.calls, found.status) == ("same", 3, 6, "succeeded")
    assert found.told() == "run r: 3 steps, no difference"


def test_the_first_difference_is_told_and_no_echo_of_it() -> None:
    async def other(run: Any) -> None:
        log = run.state["log"]
        log.append(await look(len(log)))
        log.append(await pay(len(log) + (len(log) > 2)))
        if len(log) == 6:
            run.finish(len(log))

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step, found.path) == ("call", 2, "2:1")
    assert (found.recorded, found.now) == ("pay(cents=3)", "pay(cents=4)")
    assert found.place.startswith(f"{__file__}:")
    assert found.digests[0] != found.digests[1]


def test_a_call_that_is_no_longer_made() -> None:
    async def other(run: Any) -> None:
        log = run.state["log"]
        log += ["page", "paid"]
        if len(log) == 6:
            run.finish(len(log))

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.path, found.recorded, found.now) == ("call", "1:0", "look(at=0)", "nothing")
    assert found.place.startswith(f"{__file__}:")


def test_a_call_that_is_new() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        await look(99)

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.path, found.recorded, found.now) == ("call", "1:2", "nothing", "look(at=99)")


def test_another_state() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        run.state["log"][-1] = run.state["log"][-1].upper()

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step, found.path) == ("state", 1, "")
    assert (found.recorded, found.now) == ("$.state['log'][1] = 'paid 1'", "$.state['log'][1] = 'PAID 1'")
    assert found.place.startswith(f"{__file__}:")


def test_another_end() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        if len(run.state["log"]) == 6:
            run.finish("six")

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step) == ("ending", 3)
    assert found.recorded == "ends it as succeeded with 6"
    assert found.now == "ends it as succeeded with 'six'"

    async def fails(run: Any) -> None:
        await plain(run)
        if len(run.state["log"]) == 6:
            run.fail("no")

    assert difference(clerk(plain), clerk(fails)).now.startswith("ends it as failed with")


def test_where_an_error_came_from_is_no_difference() -> None:
    """The same code some lines further down, or in another file."""

    async def fails(run: Any) -> None:
        await look(0)
        try:
            raise ValueError("no")
        except ValueError as error:
            run.fail(error)

    async def fails_elsewhere(run: Any) -> None:
        await look(0)
        try:
            raise ValueError("no")
        except ValueError as error:
            run.fail(error)

    found = replayed(clerk(fails), clerk(fails_elsewhere))
    assert (found.verdict, found.status) == ("same", "failed"), found.told()


def test_an_end_that_comes_too_early() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        run.finish(6)

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step, found.recorded) == ("ending", 1, "goes on with the run")


def test_an_error_with_its_line() -> None:
    async def other(run: Any) -> None:
        await plain(run)
        raise ValueError("two\nlines")

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.now) == ("error", "raises ValueError: two lines")
    assert found.place.startswith(f"{__file__}:")


def test_another_start_and_one_that_is_never_the_same() -> None:
    found = difference(clerk(plain), clerk(plain, start=lambda goal: {"log": [], "prompt": "kind"}))
    assert (found.aspect, found.step, found.seq) == ("start", 0, 1)
    assert found.now == "$.state['prompt'] = 'kind'"

    counter = iter(range(100))
    again = replayed(clerk(plain), clerk(plain, start=lambda goal: {"log": [], "n": next(counter)}))
    assert again.verdict == "same"
    assert "not compared" in again.notes[0]

    def broken(goal: str) -> Any:
        raise KeyError(goal)

    assert difference(clerk(plain), clerk(plain, start=broken)).now == "raises KeyError: 'goal'"


def test_a_step_that_never_ends() -> None:
    async def other(run: Any) -> None:
        if run.state["log"]:
            await asyncio.sleep(3600)
        await plain(run)

    found = difference(clerk(plain), clerk(other))
    assert (found.aspect, found.step, found.now) == ("hangs", 2, "no end within 0.5 s")


# ------------------------------------------------------------------------------------------ no difference


def test_what_a_tool_does_inside_is_none() -> None:
    @tool(effect="idempotent", name="pay", retry=Retry(attempts=3, backoff=0.1), timeout=timedelta(seconds=1))
    async def pay_otherwise(cents: int) -> str:
        raise AssertionError("never called")

    async def other(run: Any) -> None:
        log = run.state["log"]
        log.append(await look(len(log)))
        log.append(await pay_otherwise(len(log)))
        if len(log) == 6:
            run.finish(len(log))

    assert replayed(clerk(plain), clerk(other, tools=[look, pay_otherwise])).ok


def test_a_renamed_tool_is_none_if_the_policy_says_so() -> None:
    @tool(effect="irreversible")
    async def charge(cents: int) -> str:
        raise AssertionError("never called")

    async def other(run: Any) -> None:
        log = run.state["log"]
        log.append(await look(len(log)))
        log.append(await charge(len(log)))
        if len(log) == 6:
            run.finish(len(log))

    told = DeployPolicy(renamed={"pay": "charge"})
    assert replayed(clerk(plain), clerk(other, tools=[look, charge], on_change=told)).ok
    found = difference(clerk(plain), clerk(other, tools=[look, charge]))
    assert (found.recorded, found.now) == ("pay(cents=1)", "charge(cents=1)")


def test_code_behind_a_marker_that_came_later_is_none() -> None:
    async def other(run: Any) -> None:
        if run.since("audit"):
            await look(99)
        await plain(run)

    assert replayed(clerk(plain), clerk(other)).ok
    assert replayed(clerk(other), clerk(other)).ok  # and where it was there from the start


def test_a_field_that_came_later_with_a_default_is_none() -> None:
    @dataclass
    class Old:
        log: list[str] = field(default_factory=list)

    @dataclass
    class New:
        log: list[str] = field(default_factory=list)
        seen: int = 0

    async def step(run: Any) -> None:
        run.state.log.append(await look(len(run.state.log)))
        if len(run.state.log) == 3:
            run.finish(3)

    was = clerk(step, state=Old, start=lambda goal: Old())
    assert replayed(was, clerk(step, state=New, start=lambda goal: New())).ok

    async def counts(run: Any) -> None:
        await step(run)
        run.state.seen += 1

    found = difference(was, clerk(counts, state=New, start=lambda goal: New()))
    assert (found.aspect, found.step) == ("state", 1)


def test_a_result_that_no_longer_fits_is_one() -> None:
    @tool(effect="read", name="look")
    async def look_number(at: int) -> int:
        return at

    async def other(run: Any) -> None:
        run.state["log"].append(await look_number(len(run.state["log"])))

    found = difference(clerk(plain), clerk(other, tools=[look_number, pay]))
    assert (found.aspect, found.path) == ("call", "1:0")
    assert found.recorded == "a result of look: 'page 0'"
    assert found.now.startswith("it no longer fits:")


# ------------------------------------------------------------------------------------------------- migrations


def test_old_steps_are_executed_with_their_state_migrated() -> None:
    async def new(run: Any) -> None:
        log = run.state["pages"]
        log.append(await look(len(log)))
        log.append(await pay(len(log)))
        if len(log) == 6:
            run.finish(len(log))

    def now(step: Callable[[Any], Any] = new) -> Agent[Any, Any, Any]:
        agent = clerk(step, start=lambda goal: {"pages": []}, state_version=2)

        @agent.migration(1)
        def rename(state: dict[str, Any]) -> dict[str, Any]:
            return {"pages": state["log"]}

        return agent

    assert replayed(clerk(plain), now()).ok

    async def other(run: Any) -> None:
        await new(run)
        run.state["pages"][-1] = "other"

    found = difference(clerk(plain), now(other))
    assert (found.aspect, found.recorded) == ("state", "$.state['pages'][1] = 'paid 1'")


def test_steps_without_a_way_to_today_are_left_out_and_told() -> None:
    agent = clerk(plain, state_version=3)

    @agent.migration(2)
    def same(state: dict[str, Any]) -> dict[str, Any]:
        return state

    found = replayed(clerk(plain), agent)
    assert found.ok
    assert found.steps == 0
    assert found.notes == ("steps with state version 1 have no way to today's: not replayed",)


def test_a_state_from_newer_code_is_refused() -> None:
    found = replayed(clerk(plain, state_version=2), clerk(plain))
    assert found.verdict == "refused"
    assert found.refused.startswith("[M303]")
    assert found.told().startswith("run r cannot be replayed: [M303]")
