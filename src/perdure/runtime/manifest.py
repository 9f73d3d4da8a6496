"""An agent's code as `recovery.manifest` compares it: recorded with a run, and asked what it carries on.

So that a later deploy can be compared with what a run knows. Reads declarations and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure import codec
from perdure.agent import Agent, Tool
from perdure.recovery.deploys import Carrier, RunKey
from perdure.recovery.manifest import Entry, Manifest


def manifest_of(agent: Agent[Any, Any, Any]) -> Manifest:
    """The agent as it is declared now."""
    return Manifest(
        agent.name,
        agent.version,
        agent.state_version,
        agent.chain.oldest,
        codec.FORMAT,
        _entries(agent.tools),
        _entries(agent.facts),
        {name: tool.model_name for name, tool in sorted(agent.models.items())},
        agent.authorize_fn is not None,
        agent.on_change.pin,
    )


def manifest_bytes(agent: Agent[Any, Any, Any]) -> bytes:
    """The manifest as it is recorded."""
    return codec.encode(manifest_of(agent).plain())


def read_manifest(data: bytes) -> Manifest:
    """A manifest that was recorded."""
    return Manifest.read(codec.decode(data) if data else {})


def carrier_of(agent: Agent[Any, Any, Any]) -> Carrier:
    """Which runs the agent's code carries on."""
    chain = agent.chain
    return Carrier(
        agent.version, agent.state_version, chain.oldest, codec.FORMAT, chain.mark, agent.on_change
    )


def key_of(agent: Agent[Any, Any, Any]) -> RunKey:
    """What the row of a run tells that this code has started."""
    return RunKey(agent.version, agent.state_version, agent.on_change.pin, codec.FORMAT)


def _entries(tools: Mapping[str, Tool[..., Any]]) -> dict[str, Entry]:
    return {name: _entry(tool) for name, tool in sorted(tools.items())}


def _entry(tool: Tool[..., Any]) -> Entry:
    effect = tool.options.effect
    told = "by arguments" if callable(effect) else effect
    facts = tuple(premise.fact.name for premise in tool.options.premises)
    return Entry(told, tool.arguments_digest, tool.result_digest, facts)
