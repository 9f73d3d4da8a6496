"""A live state and what is committed of it, for tests: every commit checks law 18."""

from __future__ import annotations

import copy
import enum
from dataclasses import dataclass, field
from typing import Any

from perdure.codec import Shape, decode, plain
from perdure.runtime.tree import LiveState
from perdure.state.events import Op
from perdure.state.patch import apply, same


@dataclass(frozen=True)
class Said:
    """A message that never changes."""

    role: str
    text: str


@dataclass
class Turn:
    """A message that may change."""

    role: str
    parts: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Box:
    """Frozen, and holds a list."""

    items: list[Any]


class Mood(enum.StrEnum):
    """Equal to plain text."""

    CALM = "calm"


@dataclass
class Desk:
    """A state."""

    said: list[Said] = field(default_factory=list)
    log: list[Any] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    by: dict[str, list[Any]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    one: Any = None
    other: Any = None
    count: int = 0


class Driver:
    """A live state and what is committed of it."""

    def __init__(self, tp: Any, state: Any) -> None:
        self.shape: Shape[Any] = Shape.of(tp)
        self.plain = plain(state)
        self.state: LiveState[Any] = LiveState(self.shape, self.plain)

    @property
    def live(self) -> Any:
        """The live state."""
        return self.state.live

    def commit(self, values: dict[int, bytes] | None = None) -> tuple[Op, ...]:
        """Commit the step and check law 18."""
        before = copy.deepcopy(self.plain)
        now = plain(self.live)
        ops = self.state.patch(values or {})
        folded = apply(self.plain, ops, values or {}, decode)
        assert same(self.plain, before)
        assert same(folded, now)
        self.plain = folded
        self.state.commit(folded, ops)
        assert same(plain(self.live), folded)
        assert self.live == self.shape.restore(folded)
        assert self.state.patch({}) == ()
        return ops
