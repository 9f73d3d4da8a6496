"""A host for code that is only looked at: it has a clock, and a wall where the store would be (law 14).

Whatever an execution would write or send through it raises instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from perdure.agent import Agent, Providers
from perdure.clock import Clock
from perdure.runtime.drive import Host
from perdure.runtime.leases import Leases
from perdure.runtime.limits import Limits
from perdure.store.protocol import Store

STEP_SECONDS = 5.0
"""So long a step may take that is executed for a look; it only goes through what is recorded."""


class _Clockwork:
    """All that a look may have of a store: its clock, and what it would take."""

    def __init__(self, store: Store) -> None:
        self.url = store.url
        self.value_bytes = store.value_bytes
        self.now = store.now

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a look uses the store: {name}")


def spectator(store: Store, clock: Clock, known: Mapping[str, Agent[Any, Any, Any]], name: str) -> Host:
    """The host of a look at runs of this store. `name`: what looks; its threads are to be shut down."""
    still = cast(Store, _Clockwork(store))
    return Host(
        store=still,
        clock=clock,
        leases=Leases(still, name, clock),
        limits=Limits(clock),
        providers=Providers(),
        threads=ThreadPoolExecutor(1, thread_name_prefix=f"perdure-{name}"),
        known=dict(known),
    )
