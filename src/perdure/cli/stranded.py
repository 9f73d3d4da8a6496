"""Open runs that a code does not carry on: found from their rows, nothing is loaded but the code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from perdure.agent import families
from perdure.cli.app import load
from perdure.runtime.manifest import refusal_of
from perdure.store.protocol import RunRow
from perdure.timeline.condition import Condition
from perdure.timeline.plain import clean

Judge = Callable[[RunRow, Condition], Condition | None]
"""How a run stands for this code if it is stranded; None if it is not."""


def judge_of(apps: Sequence[str]) -> Judge:
    """Whether a run is stranded for the code of these agents. Raises AppNotFound, BadDeclaration."""
    known = {agent.name: agent for agent in families([load(app) for app in apps])}
    for agent in known.values():
        agent.validate()

    def judge(row: RunRow, state: Condition) -> Condition | None:
        if row.terminal:
            return None
        agent = known.get(row.agent)
        if agent is None:
            return replace(state, because=f"blocked: this code has no agent {clean(row.agent)}")
        refusal = refusal_of(agent, row)
        if refusal is None:
            return None
        why = refusal.what.partition("by this code: ")[2]
        return replace(state, because=f"blocked: version; [{refusal.code}] {clean(why)}")

    return judge
