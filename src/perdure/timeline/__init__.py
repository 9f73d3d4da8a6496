"""A run's past, with no agent alive: nothing here loads a user's code.

Looks write and send nothing (law 14); only what keeps runs (bundle, pruning) writes, each run in one commit.
"""

from typing import Any

NO_GOAL: Any = object()
"""The run's own goal, as what a simulation begins with."""
