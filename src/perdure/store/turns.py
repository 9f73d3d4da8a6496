"""Whose turn it is: which of the runs that are free and due a claim takes.

Agents take turns by what their worker drives already; an agent's runs by how long they have waited and how
urgent they are; limits of agents and keys end it. Pure: a store brings the candidates and counts the leases,
so that every store chooses alike.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from perdure.store.protocol import AGEING, Claim
from perdure.store.standing import served

K = TypeVar("K")

ANYTHING = Claim("", 0.0)
"""What a worker asks for that takes any run."""


class Lane(Struct, frozen=True, order=True):
    """Runs that differ in nothing that a claim looks at but how long they have waited, and their keys."""

    agent: str
    version: str
    queue: str
    tags: str
    priority: int


class Candidate(Struct, Generic[K], frozen=True):
    """A run that is free and due since `since`; `name` is how its store finds it again."""

    lane: Lane
    since: int
    name: K
    limit_key: str
    key_limit: int

    @property
    def rank(self) -> int:
        """The lower, the earlier: when it became claimable, and a step of priority counts like `AGEING`."""
        return max(1, self.since - self.lane.priority * AGEING)


def wants(claim: Claim, lane: Lane) -> bool:
    """Whether a claim takes runs of this lane."""
    return (
        served(claim.agents, lane.agent, lane.version)
        and (not claim.queues or lane.queue in claim.queues)
        and (claim.tags is None or not lane.tags or claim.tags.issuperset(lane.tags.split(" ")))
    )


class Turns(Generic[K]):
    """The choice of one claim. `of_agent` and `of_key` count the leases that are held now.

    What `take` gives is taken to be leased from then on; `take` can be asked again with more candidates.
    """

    def __init__(self, claim: Claim, of_agent: Callable[[str], int], of_key: Callable[[str], int]) -> None:
        self._claim = claim
        self._left = claim.limit
        self._of_agent, self._of_key = of_agent, of_key
        self._busy: defaultdict[str, int] = defaultdict(int, claim.busy)
        self._order = {agent: place for place, agent in enumerate(claim.agents)}
        self._last = len(self._order)
        self._rooms: dict[str, int] = {}
        self._keys: dict[str, int] = {}

    @property
    def left(self) -> int:
        """How many runs the claim takes still."""
        return self._left

    def room(self, agent: str) -> int:
        """How many more runs of this agent may be leased; one without a limit has room for all."""
        if agent not in self._rooms:
            most = self._claim.limits.get(agent) if self._claim.drives else None
            self._rooms[agent] = self._left if most is None else max(0, most - self._of_agent(agent))
        return self._rooms[agent]

    def full(self, limit_key: str, key_limit: int) -> bool:
        """Whether all places of a run's key are taken."""
        if not limit_key or not self._claim.drives:
            return False
        if limit_key not in self._keys:
            self._keys[limit_key] = self._of_key(limit_key)
        return self._keys[limit_key] >= key_limit

    def take(self, found: Iterable[Candidate[K]]) -> tuple[list[Candidate[K]], list[Candidate[K]]]:
        """The candidates whose turn it is, in order; and those that would be next but for their full key."""
        waiting: defaultdict[str, deque[Candidate[K]]] = defaultdict(deque)
        for one in sorted(found, key=lambda one: one.rank):
            waiting[one.lane.agent].append(one)
        taken: list[Candidate[K]] = []
        full: list[Candidate[K]] = []
        while self._left:
            agent = self._next([name for name, runs in waiting.items() if runs and self.room(name)], waiting)
            if agent is None:
                break
            one = waiting[agent].popleft()
            if self.full(one.limit_key, one.key_limit):
                full.append(one)
                continue
            taken.append(one)
            self._took(agent, one.limit_key)
        return taken, full

    def _next(self, agents: Sequence[str], waiting: dict[str, deque[Candidate[K]]]) -> str | None:
        if len(agents) < 2:
            return agents[0] if agents else None
        return min(
            agents, key=lambda name: (self._busy[name], self._order.get(name, 0), waiting[name][0].rank)
        )

    def _took(self, agent: str, limit_key: str) -> None:
        self._left -= 1
        self._busy[agent] += 1
        self._rooms[agent] -= 1
        self._last += 1
        self._order[agent] = self._last
        if limit_key:
            self._keys[limit_key] = self._keys.get(limit_key, 0) + 1
