"""What today's code would do in the place of a run: recorded outcomes, stand-ins, and where it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure import Agent, Approval, Runtime, fact
from perdure.agent import current_call
from perdure.errors import BadPoint, BadSetting, NotServed, StepHangs
from perdure.store.memory import MemoryStore
from perdure.timeline.simulated import Simulated, simulated_document

Acts = list[tuple[str, Any]]


class Refused(Exception):
    """A definite failure."""


def desk(acts: Acts, *, prompt: str = "be kind", cents: int = 5, more: bool = False) -> Agent[Any, Any, Any]:
    """An agent that asks a model, pays what it is told, waits for a signal, and mails."""
    agent: Agent[Any, Any, Any] = Agent(
        "desk", state=dict, start=lambda goal: {"messages": [prompt, goal], "paid": 0}
    )

    @agent.model("gpt")
    async def chat(messages: list[str]) -> str:
        acts.append(("chat", list(messages)))
        return f"reply {len(messages)}"

    @agent.tool(effect="irreversible", raises=[Refused])
    async def pay(cents: int) -> str:
        acts.append(("pay", cents))
        if cents > 100:
            raise Refused("too much")
        return f"paid {cents}"

    @agent.tool(effect="irreversible", approval=Approval(when=lambda to: to == "boss"))
    async def mail(to: str) -> str:
        acts.append(("mail", to))
        return "sent"

    @agent.step
    async def step(run: Any) -> None:
        messages = run.state["messages"]
        messages.append(await chat(messages))
        try:
            messages.append(await pay(cents))
        except Refused as error:
            messages.append(f"refused: {error}")
        messages.append(await run.wait("go"))
        if more:
            messages.append(await mail("boss"))
        run.state["at"] = run.now().isoformat()
        run.finish(len(messages))

    return agent


async def _lived(acts: Acts) -> MemoryStore:
    store = MemoryStore()
    agent = desk(acts)
    async with Runtime(store, [agent]) as place:
        await place.run(agent, "r", "help", patience=timedelta(0))
        await place.signal("r", "go", "went", id="1")
        await place.resume("r", patience=timedelta(0))
    return store


async def _simulated(make: Callable[[Acts], Agent[Any, Any, Any]], **given: Any) -> tuple[Simulated, Acts]:
    acts: Acts = []
    store = await _lived([])
    before = [list(run.events) for run in store._runs.values()]
    async with Runtime(store, [make(acts)]) as place:
        found = await place.simulate("r", **given)
    assert [list(run.events) for run in store._runs.values()] == before
    return found, acts


def simulated(make: Callable[[Acts], Agent[Any, Any, Any]], **given: Any) -> tuple[Simulated, Acts]:
    """The run, simulated by the agent that `make` makes; and what was really done."""
    return asyncio.run(_simulated(make, **given))


def calls(found: Simulated) -> list[tuple[str, str, str]]:
    """Each call in short: what it is, its name, who said what it came to."""
    return [(call.sameness, call.name, call.source) for call in found.calls]


def test_the_same_code_does_the_same_and_does_nothing() -> None:
    found, acts = simulated(desk)
    assert acts == []
    assert found.same
    assert calls(found) == [("same", "chat", "recorded"), ("same", "pay", "recorded")]
    assert (found.ended, found.result) == (found.then_ended, found.then_result) == ("succeeded", 5)
    assert found.spent == found.then_spent
    assert (found.changes, found.stops, found.error) == ((), (), "")


def test_another_call_without_a_stand_in_stops_with_the_line() -> None:
    found, acts = simulated(lambda acts: desk(acts, cents=7))
    assert acts == []
    [stop] = found.stops
    assert (stop.step, stop.path, stop.what) == (1, "1:1", "pay(cents=7)")
    assert "its arguments differ" in stop.why
    assert stop.place.startswith(__file__)
    assert stop.way == "a stand-in for tool pay"
    assert calls(found) == [("same", "chat", "recorded"), ("missing", "pay", "")]
    assert not found.same
    assert found.ended == ""


def test_a_stand_in_says_what_another_call_comes_to() -> None:
    seen: list[Any] = []

    def pay(cents: int) -> str:
        call = current_call()
        seen.append((cents, call.run_id, call.path, call.tool))
        return f"would pay {cents}"

    found, acts = simulated(lambda acts: desk(acts, cents=7), stand_ins={"pay": pay})
    assert acts == []
    assert seen == [(7, "r", "1:1", "pay")]
    assert calls(found) == [("same", "chat", "recorded"), ("changed", "pay", "stand-in")]
    [changed] = [call for call in found.calls if call.sameness == "changed"]
    assert (changed.args, changed.then_args) == ({"cents": 7}, {"cents": 5})
    assert (changed.value, changed.then_value) == ("would pay 7", "paid 5")
    assert found.ended == "succeeded"
    assert [(change.place, change.was, change.now) for change in found.changes] == [
        (("messages", 3), "paid 5", "would pay 7")
    ]


def test_what_a_stand_in_raises_is_the_error_of_its_call() -> None:
    async def pay(cents: int) -> str:
        raise Refused(f"not {cents}")

    found, _ = simulated(lambda acts: desk(acts, cents=7), stand_ins={"pay": pay})
    assert found.state["messages"][3] == "refused: not 7"


def test_a_stand_in_cannot_act_by_a_tool() -> None:
    def with_tool(acts: Acts) -> Agent[Any, Any, Any]:
        agent = desk(acts, cents=7)
        stand_ins["pay"] = agent.tool_named("pay").fn  # type: ignore[union-attr]
        stand_ins["mail"] = agent.tool_named("mail")
        return desk(acts, cents=7, more=True)

    stand_ins: dict[str, Any] = {}
    found, acts = simulated(with_tool, stand_ins=stand_ins)
    assert [name for name, _ in acts] == ["pay"]  # an undeclared function is the user's own
    [mail] = [call for call in found.calls if call.name == "mail"]
    assert (mail.sameness, mail.standing, mail.asks) == ("new", "failed", True)
    assert "StricterInside" in found.error


def test_another_prompt_asks_the_model_anew() -> None:
    found, acts = simulated(lambda acts: desk(acts, prompt="be short"))
    assert acts == []
    [stop] = found.stops
    assert (stop.path, stop.way) == ("1:0", "a stand-in for model chat")
    assert "be short" in stop.what

    found, acts = simulated(
        lambda acts: desk(acts, prompt="be short"), stand_ins={"chat": lambda messages: "ok"}
    )
    assert acts == []
    assert calls(found) == [("changed", "chat", "stand-in"), ("same", "pay", "recorded")]
    assert found.ended == "succeeded"


def test_a_model_is_asked_only_if_it_is_named() -> None:
    found, acts = simulated(lambda acts: desk(acts, prompt="be short"), live=["chat"])
    assert acts == [("chat", ["be short", "help"])]
    assert calls(found) == [("changed", "chat", "model"), ("same", "pay", "recorded")]


@pytest.mark.parametrize("given", [{"live": ["pay"]}, {"live": ["chta"]}, {"anew": ["chta"]}])
def test_a_name_of_nothing_is_refused_and_a_tool_is_no_model_to_ask(given: dict[str, Any]) -> None:
    with pytest.raises(BadSetting) as caught:
        simulated(lambda acts: desk(acts, cents=7), **given)
    assert "one of" in caught.value.remedy


def test_a_stand_in_for_nothing_is_told() -> None:
    found, _ = simulated(desk, stand_ins={"pya": lambda cents: "paid"})
    assert [note for note in found.notes if "pya" in note]
    assert not simulated(desk, stand_ins={"pay": lambda cents: "paid"})[0].notes


def test_recorded_outcomes_may_be_left_aside() -> None:
    found, acts = simulated(desk, anew=["chat"])
    assert [(stop.path, stop.why) for stop in found.stops] == [
        ("1:0", "its recorded outcomes are not to be used")
    ]
    found, acts = simulated(desk, anew=["chat"], stand_ins={"chat": lambda messages: "better"})
    assert acts == []
    assert calls(found) == [("same", "chat", "stand-in"), ("same", "pay", "recorded")]
    assert found.state["messages"][2] == "better"
    assert not found.same


def test_a_new_call_and_the_permission_that_it_would_ask_for() -> None:
    found, acts = simulated(lambda acts: desk(acts, more=True), stand_ins={"mail": lambda to: "noted"})
    assert acts == []
    [mail] = [call for call in found.calls if call.name == "mail"]
    assert (mail.sameness, mail.asks, mail.value) == ("new", True, "noted")
    assert found.spent.calls == found.then_spent.calls + 1


def test_another_goal() -> None:
    found, _ = simulated(desk, goal="hurry", stand_ins={"chat": lambda messages: f"{messages[1]}!"})
    assert found.state["messages"][1:3] == ["hurry", "hurry!"]
    assert found.ended == "succeeded"


def test_from_every_point_on_the_same_code_does_the_same() -> None:
    for at in range(1, 10):
        found, acts = simulated(desk, at=at)
        assert acts == []
        assert found.same, (at, found)


def test_from_a_point_on_what_was_before_is_served() -> None:
    found, acts = simulated(lambda acts: desk(acts, prompt="never seen", cents=5), at=2)
    assert acts == []
    assert calls(found) == [("same", "pay", "recorded")]
    assert found.same


@pytest.mark.parametrize(
    ("at", "words"),
    [(99, "no event 99"), (-1, "no event -1"), (10, "nothing is left"), (11, "nothing is left")],
)
def test_a_point_that_the_run_has_not(at: int, words: str) -> None:
    with pytest.raises(BadPoint, match=words):
        simulated(desk, at=at)


def test_a_signal_that_never_came_has_a_stand_in_too() -> None:
    async def main(**given: Any) -> Simulated:
        store = MemoryStore()
        agent = desk([])
        async with Runtime(store, [agent]) as place:
            await place.run(agent, "r", "help", patience=timedelta(0))
            return await place.simulate("r", **given)

    found = asyncio.run(main())
    assert [(stop.path, stop.what, stop.way) for stop in found.stops] == [
        ("1:2", "waits for signal 'go'", "a stand-in for go")
    ]
    assert calls(found) == [("same", "chat", "recorded"), ("same", "pay", "recorded")]
    found = asyncio.run(main(stand_ins={"go": lambda: "gone"}))
    assert found.ended == "succeeded"
    assert found.state["messages"][4] == "gone"


def test_children_come_to_what_they_came_to() -> None:
    child: Agent[Any, Any, Any] = Agent("child", state=dict, goal=int, start=lambda goal: {"x": goal})
    goal_of: dict[str, int] = {"cents": 3}
    parent: Agent[Any, Any, Any] = Agent("parent", state=dict, start=lambda goal: {"all": []})

    @child.step
    async def work(run: Any) -> None:
        run.finish(run.state["x"] * 2)

    @parent.step
    async def step(run: Any) -> None:
        run.state["all"] += await run.gather(run.spawn(child, 1), run.spawn(child, goal_of["cents"]))
        run.finish(sum(run.state["all"]))

    async def main(**given: Any) -> Simulated:
        store = MemoryStore()
        async with Runtime(store, [parent]) as place:
            goal_of["cents"] = 3
            await place.run(parent, "p", "go")
            goal_of["cents"] = given.pop("cents")
            return await place.simulate("p", **given)

    assert asyncio.run(main(cents=3)).same
    found = asyncio.run(main(cents=4))
    [stop] = found.stops
    assert stop.what.startswith("waits for child")
    found = asyncio.run(main(cents=4, stand_ins={"child": lambda goal: goal * 10}))
    assert (found.ended, found.result) == ("succeeded", 42)


def test_an_error_of_the_step_is_told_with_its_line() -> None:
    def broken(acts: Acts) -> Agent[Any, Any, Any]:
        agent = desk(acts)

        async def step(run: Any) -> None:
            raise ValueError("new in this code")

        agent.step_fn = step
        return agent

    found, _ = simulated(broken)
    assert found.error.startswith("ValueError: new in this code (")
    assert calls(found) == [("missing", "chat", ""), ("missing", "pay", "")]


def test_a_step_that_never_ends_is_an_error() -> None:
    def endless(acts: Acts) -> Agent[Any, Any, Any]:
        agent = desk(acts)

        async def step(run: Any) -> None:
            await asyncio.sleep(3600)

        agent.step_fn = step
        return agent

    from perdure.clock import SYSTEM
    from perdure.timeline.simulate import simulate
    from perdure.timeline.simulation import Given

    async def main() -> None:
        store = await _lived([])
        await simulate(store, [endless([])], SYSTEM, "r", Given(), seconds=0.2)

    with pytest.raises(StepHangs, match=r"within 0\.2 s"):
        asyncio.run(main())


def test_other_agents_are_refused() -> None:
    with pytest.raises(NotServed, match="run r was made by agent desk; this code has other"):
        simulated(lambda acts: _other())


def _other() -> Agent[Any, Any, Any]:
    agent: Agent[Any, Any, Any] = Agent("other", state=dict, start=lambda goal: {})
    agent.step(_nothing)
    return agent


async def _nothing(run: Any) -> None:
    run.finish("")


def test_facts_are_as_they_were() -> None:
    reads: list[str] = []

    @fact(fresh_for=timedelta(minutes=1))
    async def order(order_id: str) -> str:
        reads.append(order_id)
        return "open"

    agent: Agent[Any, Any, Any] = Agent("a", state=dict, start=lambda goal: {"x": ""}, tools=[order])

    @agent.tool(effect="irreversible", premises=[order])
    async def pay(order_id: str) -> str:
        return "paid"

    @agent.step
    async def step(run: Any) -> None:
        run.state["x"] = await order("o-1") + await pay("o-1")
        run.finish(run.state["x"])

    async def main() -> Simulated:
        async with Runtime(MemoryStore(), [agent]) as place:
            await place.run(agent, "r", "go", check=False)
            reads.clear()
            return await place.simulate("r")

    assert asyncio.run(main()).same
    assert reads == []


def test_a_document_for_programs() -> None:
    found, _ = simulated(lambda acts: desk(acts, cents=7))
    document = simulated_document(found)
    assert document["counts"] == {"same": 1, "missing": 1}
    assert document["stops"][0]["what"] == "pay(cents=7)"
    assert document["calls"][1]["then_args"] == {"cents": 5}
    assert document["spent"]["calls"] == 1


async def test_what_calls_were_given_of_the_state_is_told_without_a_copy_for_each() -> None:
    """A conversation handed to a model in each step would else be kept as often as there are steps."""
    agent: Agent[Any, Any, Any] = Agent("talker", state=dict, start=lambda goal: {"messages": [{"n": 0}]})

    @agent.model("gpt")
    async def chat(messages: list[Any]) -> Any:
        return {"n": len(messages)}

    @agent.step
    async def step(run: Any) -> None:
        run.state["messages"].append(await chat(run.state["messages"]))
        if len(run.state["messages"]) == 9:
            run.finish("done")

    async with Runtime(MemoryStore(), [agent]) as place:
        await place.run(agent, "r", "go", patience=timedelta(0))
        found = await place.simulate("r")
    assert found.same
    for side in ("args", "then_args"):
        told = [getattr(call, side)["messages"] for call in found.calls]
        assert told == [[{"n": n} for n in range(length)] for length in range(1, 9)]
        assert all(one is other for short in told for one, other in zip(short, told[-1], strict=False))
