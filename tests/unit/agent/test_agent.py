"""Agents: what they list, how their first state is made, and what is refused, naming agent and place."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NotRequired, Required, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from perdure.agent import Agent, Budget, Call, Finished, Hybrid, Principal, Retry, Run, Tool, fact, tool
from perdure.agent import agent as room
from perdure.agent.agent import families
from perdure.errors import BadDeclaration, LoopRunning, NoRuntime

MINUTE = timedelta(minutes=1)
untyped: Callable[..., Any] = Agent
"""`Agent` without its types, for what type checkers refuse."""


@fact(fresh_for=MINUTE)
async def order(order_id: str) -> str:
    return order_id


@tool(premises=[order])
async def refund(order_id: str) -> str:
    return order_id


@tool(effect="read")
async def look(order_id: str) -> str:
    return order_id


class Ledger:
    @tool(effect="read")
    async def balance(self, account: str) -> int:
        return 1


# ---------------------------------------------------------------------------------------------- what it lists


def test_an_agent_lists_what_it_was_given() -> None:
    ledger = Ledger()
    agent = Agent("desk", tools=[refund, ledger.balance])

    @agent.tool(effect="idempotent")
    async def stamp(paper: str) -> None: ...

    @agent.model("small-1")
    async def chat(messages: list[Any]) -> Any: ...

    @agent.fact(fresh_for=MINUTE)
    async def rate(currency: str) -> float:
        return 1.0

    assert list(agent.tools) == ["refund", "balance", "stamp"]
    assert list(agent.models) == ["chat"]
    assert list(agent.facts) == ["order", "rate"]
    listed: list[Tool[..., Any]] = [refund, ledger.balance, stamp, chat, rate, order]
    assert all(agent.lists(one) for one in listed)
    assert all(agent.tool_named(one.name) == one for one in listed)
    assert agent.tool_named("nobody") is None
    others: list[Tool[..., Any]] = [look, Ledger().balance, refund.replace(), Ledger.balance]
    assert not any(agent.lists(one) for one in others)


def test_a_variant_takes_the_originals_place() -> None:
    small = refund.replace(unknown="raise")
    agent = Agent("desk", tools=[small])
    assert agent.lists(small)
    assert not agent.lists(refund), "the original's rules are others"
    assert agent.tool_named("refund") == small


def test_two_agents_of_one_name_are_not_served_together() -> None:
    """Whose code would carry on a run of that name?"""
    one, child = Agent("desk"), Agent("child")
    assert families([one, one]) == [one]
    for served in ([one, Agent("desk")], [Agent("boss", spawns=[child]), Agent("child")]):
        with pytest.raises(BadDeclaration, match="two agents are called") as raised:
            families(served)
        assert f"{__file__}:" in raised.value.what
        assert f"{__file__}:" in str(raised.value.where)
    with pytest.raises(BadDeclaration, match="is no agent"):
        families([refund])  # type: ignore[list-item]


def test_an_option_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(BadDeclaration, match="no option 'stat'") as raised:
        Agent("desk", stat=dict)  # type: ignore[call-arg]
    assert {"state", "goal", "start", "budget", "storage"} <= set(re.findall(r"\w+", raised.value.remedy))


def test_one_name_means_one_thing() -> None:
    other = look.replace(name="refund")
    with pytest.raises(BadDeclaration) as raised:
        Agent("desk", tools=[refund, other])
    assert "two of the name 'refund'" in raised.value.what
    assert raised.value.what.count(f"{__file__}:") == 2, "both places are told"
    assert 'replace(name="...")' in raised.value.remedy
    Agent("desk", tools=[refund, refund, order])

    agent = Agent("desk", tools=[refund])
    with pytest.raises(BadDeclaration, match="two of the name"):

        @agent.model("small-1")
        async def refund_(text: str) -> str:
            return text

        agent._register(refund_.replace(name="refund"))


def test_only_declared_functions_are_listed() -> None:
    def plain() -> None: ...

    for wrong in (plain, "refund", None, Ledger):
        with pytest.raises(BadDeclaration, match="which is not declared"):
            untyped("desk", tools=[wrong])
    with pytest.raises(BadDeclaration, match="of no Ledger") as raised:
        Agent("desk", tools=[Ledger.balance])
    assert raised.value.remedy == "list it of an instance: x.balance"


def test_an_agents_own_method_is_noticed_before_it_runs() -> None:
    agent = Agent("desk")

    class Desk:
        @agent.tool(effect="read")
        async def look(self, order_id: str) -> str:
            return order_id

    with pytest.raises(BadDeclaration, match="of no Desk"):
        agent.validate()


# ---------------------------------------------------------------------------------------------- first state


@dataclass
class Chat:
    messages: list[dict[str, Any]] = field(default_factory=list)


class Packed(msgspec.Struct):
    done: int = 0


class Model(BaseModel):
    done: int = 0


class Needy(BaseModel):
    order_id: str
    done: int = 0


class Optional(TypedDict, total=False):
    n: int


class Partly(Optional, total=False):
    m: Required[int]


class Mixed(TypedDict):
    n: int
    m: NotRequired[int]


@dataclass
class Goal:
    order_id: str


def test_without_a_state_a_text_is_the_first_message() -> None:
    agent = Agent("desk")
    assert agent.first_state("Refund o.") == {"messages": [{"role": "user", "content": "Refund o."}]}
    assert agent.first_state("a") is not agent.first_state("a")
    assert agent.state_shape.restore({"messages": []}) == {"messages": []}
    assert agent.goal_shape.restore("a") == "a"


@pytest.mark.parametrize(
    ("state", "first"),
    [
        (Chat, Chat()),
        (Packed, Packed()),
        (Model, Model()),
        (Optional, {}),
        (dict, {}),
        (dict[str, int], {}),
        (list, []),
    ],
)
def test_a_state_that_needs_nothing_begins_empty(state: Any, first: Any) -> None:
    assert untyped("desk", state=state).first_state("goal") == first


def test_start_makes_the_first_state_of_the_goal() -> None:
    agent = Agent("desk", state=Chat, goal=Goal, start=lambda goal: Chat([{"content": goal.order_id}]))
    assert agent.first_state(Goal("o")) == Chat([{"content": "o"}])
    plain = untyped("desk", goal=Goal, start=lambda goal: {"id": goal.order_id})
    assert plain.first_state(Goal("o")) == {"id": "o"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"state": Goal}, "Goal needs order_id"),
        ({"state": Needy}, "Needy needs order_id"),
        ({"state": Mixed}, "Mixed needs n"),
        ({"state": Partly}, "Partly needs m"),
        ({"goal": Goal}, "its first state is made of a Goal"),
        ({"start": lambda: 1}, "does not take (goal)"),
        ({"start": lambda goal, other: {}}, "does not take (goal)"),
    ],
)
def test_how_a_run_starts_is_settled_at_the_declaration(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDeclaration) as raised:
        untyped("desk", **options)
    assert told in raised.value.what
    assert raised.value.remedy


def test_start_computes_and_calls_nothing() -> None:
    async def start(goal: str) -> dict[str, Any]:
        return {}

    with pytest.raises(BadDeclaration, match="start is async"):
        untyped("desk", start=start)


# ---------------------------------------------------------------------------------------------- policies


def test_policies_are_kept() -> None:
    agent = Agent(
        "desk",
        version="2",
        state_version=3,
        budget=Budget(usd=1.0),
        retry=Retry(2),
        wait_limit=MINUTE,
        storage="log",
        durability="strict",
        max_concurrency=4,
    )
    assert (agent.version, agent.state_version, agent.budget) == ("2", 3, Budget(usd=1.0))
    assert (agent.retry, agent.wait_limit, agent.storage) == (Retry(2), MINUTE, "log")
    assert (agent.durability, agent.max_concurrency) == ("strict", 4)
    usual = Agent("desk")
    assert (usual.version, usual.state_version, usual.budget, usual.retry) == ("1", 1, None, None)
    assert (usual.wait_limit, usual.storage) == (
        timedelta(days=7),
        Hybrid(resume_within=timedelta(milliseconds=20)),
    )
    assert (usual.durability, usual.max_concurrency) == ("effects", None)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"name": ""}, "1 to 200 printable"),
        ({"name": "a\nb"}, "1 to 200 printable"),
        ({"name": None}, "1 to 200 printable"),
        ({"version": 2}, "version=2: 1 to 100 characters"),
        ({"version": "a b"}, "version='a b': 1 to 100 characters"),
        ({"on_change": "hold"}, "on_change='hold' is no DeployPolicy"),
        ({"state_version": 0}, "state_version=0"),
        ({"state_version": "2"}, "state_version='2'"),
        ({"durability": "none"}, "durability='none'"),
        ({"storage": "disk"}, "storage='disk'"),
        ({"wait_limit": timedelta(0)}, "longer than 0"),
        ({"wait_limit": None}, "longer than 0"),
        ({"max_concurrency": 0}, "max_concurrency=0"),
        ({"bugdet": 1}, "no option 'bugdet'"),
    ],
)
def test_policies_that_cannot_work_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDeclaration) as raised:
        untyped(**{"name": "desk", **options})
    assert told in raised.value.what
    assert str(raised.value.where).startswith(f"{__file__}:")


def test_types_that_cannot_be_stored_are_told_before_a_run() -> None:
    agent = Agent("desk", result=Iterator)
    with pytest.raises(BadDeclaration, match="agent desk: its result cannot be stored"):
        agent.validate()

    agent = Agent("desk")

    @agent.tool()
    async def act(how: Iterator[int]) -> None: ...

    with pytest.raises(BadDeclaration, match="parameter 'how'"):
        agent.validate()


def test_types_may_be_defined_after_the_agent() -> None:
    agent = Agent("desk", state=Early, start=lambda _: Early(Late()))

    @agent.tool(effect="read")
    async def act(late: Late) -> Late:
        return late

    agent.validate()
    assert agent.state_shape.restore({"late": {"n": 2}}) == Early(Late(2))


@dataclass
class Early:
    late: Late


@dataclass
class Late:
    n: int = 1


# ----------------------------------------------------------------------------------- step and others


def test_the_step_takes_the_run() -> None:
    agent = Agent("desk")
    untyped_step: Callable[..., Any] = agent.step

    def plain(run: Any) -> None: ...
    async def nothing() -> None: ...
    async def more(run: Any, other: int) -> None: ...
    async def stream(run: Any) -> Any:
        yield run

    for wrong, told in [
        (plain, "not async def"),
        (nothing, "does not take (run)"),
        (more, "does not take (run)"),
        (stream, "not async def"),
    ]:
        with pytest.raises(BadDeclaration) as raised:
            untyped_step(wrong)
        assert told in raised.value.what
        assert __file__ in raised.value.what

    @agent.step
    async def step(run: Run, extra: int = 0) -> None: ...

    assert agent.step_fn is step
    with pytest.raises(BadDeclaration, match="two steps"):
        agent.step(step)


def test_migrations_lead_up_to_the_state_version() -> None:
    agent = Agent("desk", state_version=3)

    @agent.migration(1)
    def first(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "one": 1}

    @agent.migration(2)
    def second(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "two": 2}

    assert {at: step.fn for at, step in agent.migrations.items()} == {1: first, 2: second}
    for version in (0, 3, -1):
        with pytest.raises(BadDeclaration, match=f"from version {version}"):
            agent.migration(version)
    with pytest.raises(BadDeclaration, match="two migrations from version 1"):
        agent.migration(1)(first)
    untyped_migration: Callable[..., Any] = Agent("desk", state_version=2).migration(1)

    async def later(old: dict[str, Any]) -> dict[str, Any]:
        return old

    with pytest.raises(BadDeclaration, match="is async"):
        untyped_migration(later)
    with pytest.raises(BadDeclaration, match="does not take"):
        untyped_migration(lambda: 1)


def test_who_may_do_what_is_declared_once() -> None:
    agent = Agent("desk")

    @agent.authorize
    def allowed(who: Principal, call: Call) -> bool:
        return True

    assert agent.authorize_fn is allowed
    with pytest.raises(BadDeclaration, match="two authorize functions"):
        agent.authorize(allowed)
    untyped_authorize: Callable[..., Any] = Agent("desk").authorize
    with pytest.raises(BadDeclaration, match="does not take"):
        untyped_authorize(lambda who: True)


# ---------------------------------------------------------------------------------------------- running it


class Noting:
    """A door that notes who went through."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    async def run(self, agent: Any, run_id: str, goal: Any, **options: Any) -> Finished[str]:
        self.seen.append((agent, run_id, goal, options))
        return Finished("done", run_id=run_id)


def test_a_run_goes_through_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting()
    monkeypatch.setattr(room, "door", noting)
    agent = Agent("desk")
    ana = Principal("ana")
    assert asyncio.run(agent.run("o", "goal")).unwrap() == "done"
    agent.run_sync("p", "goal", principal=ana, store="memory:", check=True, budget=Budget(usd=1))
    unset: dict[str, Any] = {"principal": None, "store": None, "check": None, "budget": None, "placing": {}}
    given = {"principal": ana, "store": "memory:", "check": True, "budget": Budget(usd=1), "placing": {}}
    assert noting.seen == [(agent, "o", "goal", unset), (agent, "p", "goal", given)]


async def test_the_blocking_door_is_shut_on_a_running_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting()
    monkeypatch.setattr(room, "door", noting)
    with pytest.raises(LoopRunning) as raised:
        Agent("desk").run_sync("o", "goal")
    assert "await agent.run" in raised.value.remedy
    assert noting.seen == []


async def test_a_declaration_that_cannot_work_stops_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting()
    monkeypatch.setattr(room, "door", noting)
    agent = Agent("desk")

    @agent.tool()
    async def act(how: Iterator[int]) -> None: ...

    with pytest.raises(BadDeclaration):
        await agent.run("o", "goal")
    assert noting.seen == []


async def test_without_a_runtime_an_agent_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "door", None)
    with pytest.raises(NoRuntime, match="agent desk"):
        await Agent("desk").run("o", "goal")


def test_declarations_need_no_store() -> None:
    """Importing the room loads what a store is asked and the cipher, but no store, journal or runtime."""
    code = (
        "import sys, types; package = types.ModuleType('perdure'); package.__path__ = [sys.argv[1]];"
        "sys.modules['perdure'] = package; import perdure.agent;"
        "print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('perdure.')}))"
    )
    folder = str(Path(room.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "agent cipher clock codec errors recovery state store"
