"""What a person is told of a step that does not match its record: both values, the place, the line."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure import Held, Run, tool
from perdure.runtime.difference import WIDTH, both, differences, shown, told
from tests.unit.runtime.desk import agent_of, in_memory

Code = Callable[[Run[Any]], Awaitable[None]]


@tool(effect="read")
async def look(at: Any) -> str:
    """Look."""
    return "seen"


@tool()
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


async def checked(code: Code) -> Held[Any]:
    """What a step comes to that is not the same twice."""
    held = await in_memory().run(agent_of(code, look, pay), check=True)
    assert isinstance(held, Held)
    assert held.reason == "not-repeatable"
    assert held.detail.startswith("[R202] ")
    assert len(held.detail) < 1000
    return held


def line_of(code: Code, plus: int) -> str:
    """The place `plus` lines below the `async def` of this code."""
    inner: Any = code
    return f"{__file__}:{inner.__code__.co_firstlineno + plus}"


async def test_another_argument_is_told_with_both_values_and_the_line_of_the_step() -> None:
    numbers = itertools.count(7)

    async def code(run: Run[Any]) -> None:
        await look(0)
        await look(
            next(numbers),
        )
        run.finish()

    held = await checked(code)
    assert "at 1:1 the arguments of look differ: at recorded 7, now 8" in held.detail
    assert held.detail.endswith(f"({line_of(code, 2)})")
    assert "run.now(), run.random()" in held.remedies[0]
    assert held.remedies[1].startswith("perdure retry")


async def test_a_part_of_a_long_argument_that_no_journal_keeps() -> None:
    numbers = itertools.count(7)

    async def code(run: Run[Any]) -> None:
        text = "x" * 500 + f" the time is {next(numbers)} " + "y" * 500
        await look({"messages": [{"role": "system", "content": text}, {"role": "user"}]})
        run.finish()

    detail = (await checked(code)).detail
    assert "at['messages'][0]['content'] recorded" in detail
    assert "the time is 7" in detail
    assert "the time is 8" in detail


async def test_another_state_is_told_with_both_values() -> None:
    numbers = itertools.count(7)

    async def code(run: Run[Any]) -> None:
        await look(0)
        run.state["log"].append({"at": next(numbers), "same": 1})

    assert "$.state['log'][0]['at'] first 7, replayed 8" in (await checked(code)).detail


async def test_another_result_is_told_with_both_values() -> None:
    numbers = itertools.count(7)

    async def code(run: Run[Any]) -> None:
        run.finish([await look(0), next(numbers)])

    assert "$.result[1] first 7, replayed 8" in (await checked(code)).detail


async def test_an_ending_that_came_once_is_told() -> None:
    numbers = itertools.count(7)

    async def code(run: Run[Any]) -> None:
        run.state["log"].append(1)
        if next(numbers) == 7:
            run.finish()

    assert (
        "the first execution of the step ended it as succeeded, the replayed one did not"
        in (await checked(code)).detail
    )


async def test_an_error_of_the_replayed_step_is_told_with_its_line() -> None:
    numbers = itertools.count(7)

    async def code(run: Run[Any]) -> None:
        await look(0)
        if next(numbers) == 8:
            raise ValueError("only the second time")
        run.finish()

    detail = (await checked(code)).detail
    assert "ValueError: only the second time" in detail
    assert line_of(code, 3) in detail


async def test_a_call_of_one_tool_of_several_is_told_with_the_line_that_waits_for_it() -> None:
    numbers = itertools.count(7)

    async def code(run: Run[Any]) -> None:
        wanted = [{"id": "c1", "name": "look", "arguments": {"at": next(numbers)}}]
        await run.tools(wanted)
        run.finish()

    detail = (await checked(code)).detail
    assert "at recorded 7, now 8" in detail
    assert line_of(code, 2) in detail


async def test_a_line_in_a_helper_of_the_step_and_in_a_branch() -> None:
    numbers = itertools.count(7)

    async def helper() -> None:
        await look(next(numbers))

    async def code(run: Run[Any]) -> None:
        await run.gather(helper())
        run.finish()

    assert line_of(helper, 1) in (await checked(code)).detail  # type: ignore[arg-type]


async def test_a_call_that_is_no_longer_made_is_told_with_its_arguments() -> None:
    desk = in_memory()

    async def before(run: Run[Any]) -> None:
        await pay(5)
        await run.sleep(10)

    async def after(run: Run[Any]) -> None:
        run.finish()

    assert (await desk.run(agent_of(before, pay))).status == "waiting"
    desk.clock.advance(11)
    held = await desk.run(agent_of(after, pay))
    assert isinstance(held, Held)
    assert held.detail == "[R201] at 1:0 recorded pay(cents=5), which the code no longer asks for"


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (1, True, [("$", 1, True)]),
        ([1, 2], [1, 2], []),
        ([float("nan")], [float("nan")], []),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, [("$['a'][1]['b']", 2, 3)]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [("$", {"a": 1, "b": 2}, {"b": 2, "a": 1})]),
    ],
)
def test_places_that_differ(one: Any, other: Any, found: list[Any]) -> None:
    assert differences(one, other, "$") == found


def test_what_only_one_side_has() -> None:
    assert told(differences([1], [1, 2], "$"), "first", "replayed") == "$[1] first nothing, replayed 2"
    assert told(differences({"a": 1}, {}, "$"), "first", "replayed") == "$['a'] first 1, replayed nothing"


def test_what_is_told_is_bounded() -> None:
    huge = {f"key {number}": ["x" * 10_000] * 50 for number in range(2000)}
    assert len(shown(huge)) <= WIDTH
    left, right = both("a" * 9000 + "b" * 9000, "a" * 9000 + "c" * 9000)
    assert len(left) < WIDTH + 10
    assert "ab" in left
    assert "ac" in right
    words = told(differences(list(range(100)), list(range(1, 101)), "$"), "first", "replayed")
    assert words.endswith("; and 97 more")
    assert len(words) < 200
