"""A place in a run's state, as a person writes it: `messages[3].content`, `orders['o-77'].cents`.

Plain data only: nothing of a user's is built or imported. A key that is no text and no whole number has no
written form; it is shown, and cannot be asked for.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from perdure.errors import BadPlace
from perdure.timeline.plain import brief, clean, quoted

Place: TypeAlias = tuple[Any, ...]
"""Keys and indices from the state inwards; the empty one is the state itself."""


class _Missing:
    """In place of a value where there is none."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Any = _Missing()
"""What `value_at` gives for a place that is not there."""

_NAME = re.compile(r"[^\W\d]\w*")
_PART = re.compile(
    r"""(?:^|\.)(?P<name>[^.\[\]'"]+)            # .content, or the first name
      | \[(?P<index>-?\d+)\]                     # [3], [-1]
      | \[(?P<quote>['"])(?P<key>.*?)(?P=quote)\]  # ['o-77']""",
    re.VERBOSE | re.DOTALL,
)


def parsed(text: str) -> Place:
    """The place that the text names; an empty text is the state itself. Raises BadPlace."""
    found: list[Any] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or (not position and text[0] == "."):
            raise BadPlace(f"{clean(text)} is not a place in a state, from character {position + 1} on")
        index, name, key = part["index"], part["name"], part["key"]
        found.append(int(index) if index is not None else name if name is not None else key)
        position = part.end()
    return tuple(found)


def written(place: Place) -> str:
    """The place as text that `parsed` reads again, made harmless; the state itself is `state`."""
    text = ""
    for key in place:
        if isinstance(key, str) and _NAME.fullmatch(key):
            text += f".{key}" if text else key
        elif isinstance(key, str):
            text += f"['{clean(key)}']"
        else:
            text += f"[{key}]" if type(key) is int else f"[{quoted(key, 40)}]"
    return text or "state"


def value_at(state: Any, place: Place) -> Any:
    """The value there, or MISSING. An index counts from the end if it is below 0; it may be a dict's key."""
    for key in place:
        if isinstance(state, dict):
            state = state.get(key, MISSING)
        elif isinstance(state, list | tuple) and type(key) is int and -len(state) <= key < len(state):
            state = state[key]
        else:
            return MISSING
    return state


def found_at(state: Any, place: Place) -> Any:
    """The value there. Raises BadPlace, which says how far the way leads and what is there."""
    for length, key in enumerate(place, 1):
        value = value_at(state, place[:length])
        if value is MISSING:
            before = value_at(state, place[: length - 1])
            where = written(place[: length - 1])
            asked = written((key,)) if isinstance(key, str | int) else quoted(key)
            raise BadPlace(f"{where} has no {asked}: it is {_kind(before)}")
    return value_at(state, place)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        names = ", ".join(brief(key, 20) for key in list(value)[:8])
        return f"an object with {names}{', …' if len(value) > 8 else ''}" if value else "an empty object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return f"the value {quoted(value, 40)}"
