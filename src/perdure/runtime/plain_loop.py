"""The step of an agent that declares none: ask the model, run its tool calls, until it answers without any.

It speaks to the model in the words of the API that the model declares (`style`), and reads a reply in any.
"""

from __future__ import annotations

from typing import Any

from perdure.agent import Agent, one_turn, read_reply
from perdure.errors import BadDeclaration


def plain_loop(agent: Agent[Any, Any, Any]) -> Any:
    """A step function for an agent whose state is {"messages": [...]} and that has exactly one model."""
    models = list(agent.models.values())
    if len(models) != 1:
        raise BadDeclaration(
            f"agent {agent.name} has no step and {len(models)} models",
            remedy="declare one model with @agent.model(...), or a step with @agent.step",
        )
    model = models[0]
    schemas = agent.tool_schemas(model.options.style)
    takes_tools = "tools" in model.parameters.names

    async def step(run: Any) -> None:
        messages = run.state["messages"]
        args = (messages, schemas) if takes_tools else (messages,)
        reply = read_reply(await run.call(model, *args))
        messages.append(reply.message)
        if not reply.tool_calls:
            run.finish(reply.text)
            return
        messages.extend(one_turn(await run.tools(reply.tool_calls)))

    return step
