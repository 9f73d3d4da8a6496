"""What the agent's code was when a run began: recorded with the run.

So that a later deploy can be compared with it.
"""

from __future__ import annotations

from typing import Any

from perdure import codec
from perdure.agent import Agent, Tool


def manifest_of(agent: Agent[Any, Any, Any]) -> dict[str, Any]:
    """Versions, and for each tool, model and fact its effect class and the digest of its schema; for one that
    rests on facts also their names.

    Plain data.
    """
    return {
        "agent": agent.name,
        "version": agent.version,
        "state_version": agent.state_version,
        "format": codec.FORMAT,
        "tools": {name: _told(tool) for name, tool in sorted(agent.tools.items())},
        "models": {name: tool.model_name for name, tool in sorted(agent.models.items())},
        "facts": {name: _told(tool) for name, tool in sorted(agent.facts.items())},
    }


def _told(tool: Tool[..., Any]) -> list[Any]:
    effect = tool.options.effect
    told = ["by arguments" if callable(effect) else effect, tool.schema_digest]
    facts = [premise.fact.name for premise in tool.options.premises]
    return [*told, facts] if facts else told
