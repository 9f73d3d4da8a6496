"""A run's state brought to today's version, as plain data: computed, never written here."""

from __future__ import annotations

from typing import Any

from perdure.agent import Agent
from perdure.recovery.migrations import Migrated


def migrated(plain: Any, from_version: int, agent: Agent[Any, Any, Any]) -> Migrated:
    """Today's state of a run whose plain state has this version; `plain` itself is not changed.

    Raises StateNewer (M303), MigrationGap (M302), MigrationFailed (M306) and, if what comes out does not fit
    the agent's type, ShapeMismatch (M301) with `path`, `expected` and `found`.
    """
    return agent.chain.apply(plain, from_version, agent.state_shape)
