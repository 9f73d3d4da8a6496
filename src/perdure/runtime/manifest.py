"""An agent's code as `recovery.manifest` compares it: recorded with a run, and asked what it carries on.

So that a later deploy can be compared with what a run knows. Reads declarations and decides nothing.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from perdure import codec
from perdure.agent import Agent, Tool
from perdure.errors import MigrationFailed, MigrationGap, NewerFormat, NotServed, PerdureError, StateNewer
from perdure.recovery.deploys import Carrier, RunKey
from perdure.recovery.manifest import Entry, Manifest
from perdure.store.protocol import RunRow


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
    return _declared(agent).manifest


def read_manifest(data: bytes) -> Manifest:
    """A manifest that was recorded."""
    return Manifest.read(codec.decode(data) if data else {})


def carrier_of(agent: Agent[Any, Any, Any]) -> Carrier:
    """Which runs the agent's code carries on."""
    return _declared(agent).carrier


class _Declared(Struct, frozen=True):
    """What an agent's declarations come to; the same for all its runs until one is added."""

    parts: tuple[object, ...]
    manifest: bytes
    carrier: Carrier


_known: WeakKeyDictionary[Agent[Any, Any, Any], _Declared] = WeakKeyDictionary()


def _declared(agent: Agent[Any, Any, Any]) -> _Declared:
    parts, known = _parts(agent), _known.get(agent)
    if known is None or len(known.parts) != len(parts) or not all(map(operator.is_, known.parts, parts)):
        manifest = codec.encode(manifest_of(agent).plain())
        known = _known[agent] = _Declared(parts, manifest, _carrier(agent))
    return known


def _parts(agent: Agent[Any, Any, Any]) -> tuple[object, ...]:
    """Everything that is declared, none of which changes by itself."""
    return (
        *(agent.name, agent.version, agent.state_version, agent.state_shape, agent.on_change),
        *(agent.authorize_fn, codec.FORMAT, None),
        *(*agent.tools.values(), None),
        *(*agent.facts.values(), None),
        *(*agent.models.values(), None),
        *(*agent.migrations.keys(), *agent.migrations.values()),
    )


def _carrier(agent: Agent[Any, Any, Any]) -> Carrier:
    chain = agent.chain
    schema = json.dumps(agent.state_shape.schema(), sort_keys=True)
    goal = json.dumps(agent.goal_shape.schema(), sort_keys=True)
    mark = codec.digest(chain.mark.encode(), schema.encode(), goal.encode()).hex()[:12]
    return Carrier(agent.version, agent.state_version, chain.oldest, codec.FORMAT, mark, agent.on_change)


def refusal_of(agent: Agent[Any, Any, Any], row: RunRow, *, again: bool = False) -> PerdureError | None:
    """Why the agent's code does not carry on the run of this row, as its key tells; None if it does.

    `again`: migrations that have failed before count as not tried yet.
    """
    carrier, key = carrier_of(agent), RunKey.read(row.version)
    why = carrier.refusal(key, again=again)
    if not why:
        return None
    what = f"run {row.run_id} is not carried on by this code: {why}"
    if key.strange or key.format > carrier.format:
        return NewerFormat(what, run_id=row.run_id)
    if key.state > carrier.state:
        return StateNewer(what, run_id=row.run_id)
    if carrier.mark in key.unfit:
        return MigrationFailed(what, run_id=row.run_id)
    if key.state < carrier.oldest and (key.version == agent.version or not key.pinned):
        return MigrationGap(what, run_id=row.run_id)
    return NotServed(what, remedy=_ways(key), run_id=row.run_id)


def _ways(key: RunKey) -> str:
    return f"start a worker with code of version {key.version}, or name it in DeployPolicy(compatible=...)"


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
