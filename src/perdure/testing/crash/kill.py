"""When a process dies: at the n-th time that it reaches a named boundary, or at its n-th boundary of any
name.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

ANY = "*"
"""Stands for whatever boundary comes."""

TOLD = "caller.told"
"""A boundary of the trial's own: the caller has its outcome. The engine's own are in
`perdure.runtime.boundary`.
"""


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL when `boundary` is reached for the `hit`-th time in one process; the first is 1."""

    boundary: str
    hit: int = 1

    def __str__(self) -> str:
        return f"{self.boundary}:{self.hit}"


def parse_kills(text: str) -> tuple[Kill, ...]:
    """`call.acted:2,*:5` as kills of the first, the second … process. Raises ValueError."""
    kills = []
    for part in filter(None, text.split(",")):
        name, _, hit = part.strip().partition(":")
        kills.append(Kill(name, int(hit or 1)))
    return tuple(kills)


class Hook:
    """What `perdure.runtime.boundary` calls: counts, tells `seen`, and kills this process at its point."""

    def __init__(self, kill: Kill | None, seen: Callable[[str], None] | None = None) -> None:
        self.hits: Counter[str] = Counter()
        self._kill = kill
        self._seen = seen

    def __call__(self, name: str) -> None:
        self.hits[name] += 1
        self.hits[ANY] += 1
        if self._seen is not None:
            self._seen(name)
        kill = self._kill
        if kill is not None and kill.boundary in (name, ANY) and self.hits[kill.boundary] == kill.hit:
            os.kill(os.getpid(), signal.SIGKILL)
