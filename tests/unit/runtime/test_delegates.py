"""An agent as a tool of another one: what the model is offered, and what it is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure.agent import Agent, Held
from perdure.errors import BadDeclaration
from perdure.store.protocol import Query
from tests.unit.runtime.stage import RUN, Stage, World, agent
from tests.unit.runtime.test_children import poster


def conversation(*turns: Any) -> Any:
    """What the model says: tool calls or text, one after the other."""

    @perdure.model("scripted")
    async def chat(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
        said = sum(message["role"] == "assistant" for message in messages)
        turn = turns[said]
        if isinstance(turn, str):
            return {"role": "assistant", "content": turn}
        calls = [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(turn)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    return chat


def talker(chat: Any, *tools: Any) -> Any:
    """An agent without a step of its own."""
    return Agent("talker", tools=[chat, *tools])


async def test_a_model_uses_an_agent_as_a_tool(stage: Stage) -> None:
    """One child for each of its tool calls; the result is the tool's message."""
    world = World()
    helper = poster(world, name="helper").as_tool("ask_helper", "Let the helper post something.")
    calls = [("ask_helper", '{"goal": "a"}'), ("ask_helper", '{"goal": "b"}')]
    outcome = await stage.run(talker(conversation(calls, "done"), helper), "post a and b", check=True)
    assert outcome.unwrap() == "done"
    messages = (await stage.state())["messages"]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["posted a", "posted b"]
    assert len(await stage.store.list(Query(prefix=f"{RUN}."))) == 2


async def test_a_model_is_told_that_a_child_failed(memory: Stage) -> None:
    """And of arguments that do not fit: no child is made of those."""
    helper = poster(World(), name="helper", fail=True).as_tool()
    calls = [("helper", '{"goal": "a"}'), ("helper", '{"wish": "b"}')]
    assert (await memory.run(talker(conversation(calls, "sorry"), helper), "try")).unwrap() == "sorry"
    told = [m["content"] for m in (await memory.state())["messages"] if m["role"] == "tool"]
    assert "failed: ValueError: no stamps" in told[0]
    assert "wish" in told[1]
    assert len(await memory.store.list(Query(prefix=f"{RUN}."))) == 1


async def test_an_agent_as_a_tool_is_awaited_in_a_step_like_any_tool(memory: Stage) -> None:
    """Called by its name in the code; one that the agent does not list is refused."""
    world = World()
    helper = poster(world, name="helper").as_tool()

    async def step(run: Any) -> None:
        run.finish(await helper("a"))

    assert (await memory.run(agent(step, helper))).unwrap() == "posted a"
    outcome = await memory.run(agent(step, name="unlisted"), run_id="run-2")
    assert isinstance(outcome, Held)
    assert "T202" in outcome.detail


def test_the_schema_is_the_goals() -> None:
    """One parameter, of the agent's goal type; options of calls are not for it."""
    child: Agent[Any, int, str] = Agent("sizes", goal=int, result=str, state=dict, start=lambda n: {})
    made = child.as_tool(description="Count.")
    assert made.description == "Count."
    assert made.name == "sizes"
    assert made.schema["properties"]["goal"]["type"] == "integer"
    assert made.schema["required"] == ["goal"]
    assert made.replace(name="other").name == "other"
    with pytest.raises(BadDeclaration, match="as a tool"):
        made.replace(timeout=timedelta(seconds=1))
    with pytest.raises(BadDeclaration, match="no model accepts"):
        Agent("a b").as_tool()
    with pytest.raises(BadDeclaration, match="no agent"):
        Agent("x", spawns=["sizes"])  # type: ignore[list-item]
