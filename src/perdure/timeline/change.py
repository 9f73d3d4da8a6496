"""The inputs that a fork changes, as a person gives them, and what they make of a run's plain state.

Plain data only: nothing of a user's is built. Knows no journal and no store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from perdure import codec
from perdure.agent import Budget
from perdure.agent.policy import is_a
from perdure.errors import BadChange
from perdure.timeline.place import MISSING, Place, found_at, parsed, value_at, written

SAME: Final[Any] = object()
"""The goal stays as it is; None is a goal like another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a fork changes; what is left out stays as it was at the point.

    `goal`: another goal. `state`: new values by their places, as in `orders[2].cents`; a place that is not
    there yet may be a new key of an object, or the end of a list. `result`: by the path of a call of the open
    step (`3:1`) another result; of a question or signal another answer. `model`: the model that is called
    from now on, for all declared model functions, or by the function's name. `budget`: limits in place of
    the old ones. Raises BadChange for what cannot be meant.
    """

    goal: Any = SAME
    state: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    model: str | Mapping[str, str] | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        for name, given in (("state", self.state), ("result", self.result)):
            if not is_a(given, Mapping) or not all(is_a(key, str) for key in given):
                raise BadChange(f"Change({name}={given!r:.80}) is no mapping of texts")
        if not _names_models(self.model):
            raise BadChange(f"Change(model={self.model!r:.80}): the name of a model, or a mapping to names")
        if self.budget is not None and not is_a(self.budget, Budget):
            raise BadChange(f"Change(budget={self.budget!r:.80}) is no Budget")

    @property
    def empty(self) -> bool:
        """Whether nothing is changed: the fork only goes another way from the point on."""
        given = (self.model is not None, self.budget is not None, bool(self.state), bool(self.result))
        return self.goal is SAME and not any(given)


def _names_models(model: Any) -> bool:
    if isinstance(model, Mapping):
        return bool(model) and all(is_a(name, str) and name for name in model.values())
    return model is None or (is_a(model, str) and bool(model))


@dataclass(frozen=True, slots=True)
class Changed:
    """One change in words: `what` was changed (`goal`, `state`, `result`, `model`, `budget`), and at which
    `place`. `was` and `now` as plain data; `was` is MISSING where nothing was there.
    """

    what: str
    place: str
    was: Any
    now: Any


def changed_state(state: Any, wanted: Mapping[str, Any]) -> tuple[Any, list[Changed]]:
    """The state with these values at these places, and what they replace. Raises BadPlace, NotStorable."""
    told = []
    for text, value in wanted.items():
        place = parsed(text)
        now = codec.plain(value, where=f"$.state.{text}" if text else "$.state")
        was = _was(state, place)
        told.append(Changed("state", written(place), was, now))
        state = _with(state, place, now)
    return state, told


def _was(state: Any, place: Place) -> Any:
    """What is at a place now; a place that may be made is MISSING. Raises BadPlace for any other."""
    was = value_at(state, place)
    if was is MISSING:
        above = found_at(state, place[:-1])
        if not (type(above) is dict or (type(above) is list and place[-1] == len(above))):
            found_at(state, place)  # raises
    return was


def _with(node: Any, place: Place, value: Any) -> Any:
    """A copy of `node` with another value at a place that is there, or may be made."""
    if not place:
        return value
    key, rest = place[0], place[1:]
    inner = _with(value_at(node, (key,)), rest, value)
    if type(node) is dict:
        return {**node, key: inner}
    items = list(node)
    if key == len(items):
        items.append(inner)
    else:
        items[key] = inner
    return items if type(node) is list else tuple(items)
