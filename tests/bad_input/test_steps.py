"""Steps that do what a step must not, models that ask for what is not there, agents that cannot work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Budget, Finished, Held, Retry, Run, Tool, tool
from perdure.errors import BadDeclaration, BadSetting, NoRun, PerdureError
from tests.bad_input.bench import all_whole, refused, rows, speaks


def agent_of(step: Any, *tools: Any) -> Agent[dict[str, Any], str, Any]:
    """An agent with this step."""
    made: Agent[dict[str, Any], str, Any] = Agent(
        "clerk", state=dict[str, Any], start=lambda goal: {}, tools=list(tools)
    )
    made.step(step)
    return made


def counting() -> tuple[Tool[..., Any], list[str]]:
    """An irreversible tool, and what it has done."""
    done: list[str] = []

    @tool(effect="irreversible")
    async def pay(order: str, cents: int = 1) -> str:
        """Pays."""
        done.append(order)
        return f"paid {order}"

    return pay, done


async def held(agent: Agent[Any, Any, Any], path: Path, reason: str, *names: str) -> Held[Any]:
    """Run the agent with its check; it must come to be held for this reason."""
    outcome = await agent.run("r", "go", store=str(path), check=True)
    assert isinstance(outcome, Held), outcome
    assert outcome.reason == reason, outcome
    for name in names:
        assert name in outcome.detail, outcome.detail
    assert any(remedy.startswith("perdure ") for remedy in outcome.remedies), outcome.remedies
    all_whole(path)
    return outcome


async def test_a_step_that_reads_the_clock_is_found_out_at_once(tmp_path: Path) -> None:
    async def step(run: Run[Any, Any, Any]) -> None:
        run.state["at"] = time.monotonic_ns()
        run.finish()

    await held(agent_of(step), tmp_path / "perdure.db", "not-repeatable", "$.state", "at")
    assert rows(tmp_path / "perdure.db") == [("r", "held", 2)]


async def test_a_tool_called_from_a_raw_thread_does_not_act(tmp_path: Path) -> None:
    pay, done = counting()
    caught: list[PerdureError] = []

    def alone() -> None:
        try:
            pay("o-1").send(None)
        except PerdureError as error:
            caught.append(error)

    async def step(run: Run[Any, Any, Any]) -> None:
        thread = threading.Thread(target=alone)
        thread.start()
        thread.join()
        run.finish("done")

    outcome = await agent_of(step, pay).run("r", "go", store=str(tmp_path / "perdure.db"), check=False)
    assert isinstance(outcome, Finished)
    [error] = caught
    assert isinstance(error, NoRun)
    speaks(error, "T206", "pay")
    assert done == []
    all_whole(tmp_path / "perdure.db")


async def test_a_call_in_finally_while_the_step_unwinds_does_not_act(tmp_path: Path) -> None:
    pay, done = counting()

    async def step(run: Run[Any, Any, Any]) -> None:
        try:
            await run.sleep(timedelta(days=2))
        finally:
            await pay("o-1")
        run.finish()

    path = tmp_path / "perdure.db"
    for _ in range(2):
        outcome = await agent_of(step, pay).run("r", "go", store=str(path))
        assert outcome.status == "waiting", outcome
    assert done == []
    all_whole(path)


async def test_a_swallowed_signal_commits_nothing(tmp_path: Path) -> None:
    pay, done = counting()

    async def step(run: Run[Any, Any, Any]) -> None:
        run.state["begun"] = True
        swallowed = []
        try:
            await run.sleep(timedelta(days=2))
        except BaseException as signal:  # noqa: BLE001  (the mistake that is tested)
            swallowed.append(signal)
        try:
            await pay("o-1")
        except BaseException as signal:  # noqa: BLE001  (the mistake that is tested)
            swallowed.append(signal)
        run.finish("slept")

    await held(agent_of(step, pay), tmp_path / "perdure.db", "signal-swallowed", "BaseException")
    assert done == []


WANTED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown tool": ({"name": "refund", "arguments": "{}"}, "there is no tool 'refund'"),
    "arguments that are no JSON": ({"name": "pay", "arguments": "{order:"}, "JSON"),
    "arguments that are no object": ({"name": "pay", "arguments": "[1]"}, "JSON object"),
    "an argument of another type": ({"name": "pay", "arguments": '{"order": "o", "cents": "many"}'}, "cents"),
    "an argument too many": ({"name": "pay", "arguments": '{"order": "o", "tip": 1}'}, "tip"),
    "an argument missing": ({"name": "pay", "arguments": "{}"}, "order"),
    "a name that is no proper text": ({"name": "a\udc81\0", "arguments": "{}"}, "there is no tool"),
    "deeply nested arguments": (
        {"name": "pay", "arguments": '{"order":' + "[" * 300 + "]" * 300 + "}"},
        "order",
    ),
}


@pytest.mark.parametrize("what", WANTED)
async def test_what_a_model_asks_for_wrongly_is_its_answer(tmp_path: Path, what: str) -> None:
    pay, done = counting()
    function, name = WANTED[what]
    answers: list[Any] = []

    async def step(run: Run[Any, Any, Any]) -> None:
        calls = [
            {"id": "c1", "type": "function", "function": function},
            {"id": "c2", "type": "function", "function": {"name": "pay", "arguments": '{"order": "good"}'}},
        ]
        run.state["answers"] = await run.tools(calls)
        answers[:] = run.state["answers"]
        run.finish("done")

    path = tmp_path / "perdure.db"
    outcome = await agent_of(step, pay).run("r", "go", store=str(path), check=True)
    assert isinstance(outcome, Finished), outcome
    assert name in str(answers[0]["content"]), answers
    assert (answers[0]["tool_call_id"], answers[1]["content"]) == ("c1", "paid good")
    assert done == ["good"]
    all_whole(path)


# ---------------------------------------------------------------------------------------------- declarations


async def _async(goal: Any) -> Any:
    return goal


def _two_tools() -> None:
    pay, _ = counting()
    other, _ = counting()
    Agent("desk", tools=[pay, other])


def _not_declared() -> None:
    Agent("desk", tools=[print])  # type: ignore[list-item]


def _plain_step() -> None:
    Agent("desk").step(lambda run: None)  # type: ignore[arg-type, return-value]


def _step_without_run() -> None:
    @Agent("desk").step  # type: ignore[arg-type]
    async def step() -> None: ...


def _two_steps() -> None:
    desk = Agent("desk")
    desk.step(_async)
    desk.step(_async)


def _effect() -> None:
    tool(effect="harmless")(_async)  # type: ignore[arg-type]


def _bare() -> None:
    tool(_async)  # type: ignore[arg-type]


def _stars() -> None:
    @tool(effect="read")
    async def many(*args: int) -> None: ...

    Agent("desk", tools=[many]).validate()


def _reconcile_names() -> None:
    pay, _ = counting()

    @pay.reconcile
    async def found(invoice: str) -> Any: ...


def _state_needs() -> None:
    class Needy:
        def __init__(self, order: str) -> None: ...

    Agent("desk", state=Needy)


def _unstorable_result() -> None:
    @tool(effect="read")
    async def connect() -> threading.Lock:
        raise NotImplementedError

    Agent("desk", tools=[connect]).validate()


DECLARATIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "two tools of one name": (_two_tools, "'pay'"),
    "a function that is not declared": (_not_declared, "print"),
    "a step that is not async": (_plain_step, "async"),
    "a step that takes no run": (_step_without_run, "(run)"),
    "two steps": (_two_steps, "two steps"),
    "an unknown effect class": (_effect, "harmless"),
    "a decorator without parentheses": (_bare, "tool"),
    "star arguments": (_stars, "args"),
    "a hook of other parameters": (_reconcile_names, "invoice"),
    "a state that needs arguments": (_state_needs, "Needy"),
    "a result that cannot be stored": (_unstorable_result, "connect"),
    "a name that is empty": (lambda: Agent(""), "name"),
    "a name with NUL": (lambda: Agent("a\0b"), "name"),
    "an unknown option": (lambda: Agent("desk", colour="red"), "colour"),  # type: ignore[call-arg]
    "a storage that is none": (lambda: Agent("desk", storage="cloud"), "cloud"),  # type: ignore[arg-type]
    "a durability that is none": (lambda: Agent("desk", durability="hope"), "hope"),  # type: ignore[arg-type]
    "a start that is async": (lambda: Agent("desk", start=_async), "start"),
    "version 0 of the state": (lambda: Agent("desk", state_version=0), "state_version"),
    "a migration of the future": (lambda: Agent("desk").migration(3), "3"),
}


@pytest.mark.parametrize("what", DECLARATIONS)
def test_a_declaration_that_cannot_work_is_named(what: str) -> None:
    declare, name = DECLARATIONS[what]
    with pytest.raises(BadDeclaration) as caught:
        declare()
    speaks(caught.value, "C102")
    assert name in caught.value.what + caught.value.remedy, caught.value


def test_a_setting_that_is_out_of_range_is_named() -> None:
    for make, name in (
        (lambda: Budget(usd=-1), "usd"),
        (lambda: Budget(steps=-1), "steps"),
        (lambda: Retry(attempts=0), "attempts"),
    ):
        with refused(BadSetting, name):
            make()
