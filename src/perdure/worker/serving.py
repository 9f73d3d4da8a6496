"""What a worker is told: how many runs, of which queues, with which tags, and how long it may take to end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from perdure.agent.placing import words_of
from perdure.errors import BadSetting

CONCURRENCY = 100
"""Runs that a worker drives at once, if nothing else is said."""

GRACE = timedelta(seconds=10)
"""So long a worker that stops waits for the calls that it has made; then they are left as they are."""


@dataclass(frozen=True)
class Serving:
    """How a worker serves: at most `concurrency` runs at once, of these `queues` (none: of every queue).

    `tags`: what it offers; a run that needs another one is left to others. `grace`: when it is stopped, it
    begins no call any more, and waits so long for those that it has begun. Raises BadSetting.
    """

    concurrency: int = CONCURRENCY
    queues: Collection[str] = ()
    tags: Collection[str] = ()
    grace: timedelta = GRACE

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise BadSetting(f"concurrency={self.concurrency!r}: a worker drives at least one run")
        if self.grace < timedelta(0):
            raise BadSetting(f"grace={self.grace!r}: a time, or none")
        object.__setattr__(self, "queues", words_of(self.queues, "queues"))
        object.__setattr__(self, "tags", words_of(self.tags, "tags"))
