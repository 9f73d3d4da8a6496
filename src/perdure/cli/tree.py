"""A state as it is drawn in a terminal: one line for each value, inner values below their own; and what
differs between two states.

Every line is bounded; nothing of a store's text is drawn before `timeline.plain` made it harmless.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from perdure.cli.screen import Screen
from perdure.cli.text import Text
from perdure.timeline.amounts import counted
from perdure.timeline.comparison import Change
from perdure.timeline.place import MISSING, written
from perdure.timeline.plain import brief, lines, quoted

ACROSS = 400
"""Characters of one value at most; a terminal shows fewer."""

AROUND = 2
"""Lines, or words, of a long text that are shown beside what differs in it."""


def tree(value: Any, name: Any = None, depth: int = 0) -> Iterator[Text]:
    """The lines of a value, from the outside inwards."""
    label = Text("  " * depth)
    if name is not None:
        label.append(f"[{name}] " if type(name) is int else f"{brief(name, 60)}: ", "dim")
    if isinstance(value, dict) and value:
        if name is not None:
            yield label
        for key, item in value.items():
            yield from tree(item, key, depth + (name is not None))
    elif isinstance(value, list | tuple) and value:
        yield Text.of(label, (counted(len(value), "item"), "dim"))
        for index, item in enumerate(value):
            yield from tree(item, index, depth + (name is not None))
    else:
        yield Text.of(label, _leaf(value))


def _leaf(value: Any) -> str:
    return quoted(value, ACROSS)


def draw_tree(screen: Screen, value: Any, *, most: int | None) -> int:
    """Draw a value, at most `most` lines of it; returns how many were left out."""
    drawn = list(tree(value))
    kept = drawn if most is None or len(drawn) <= most else drawn[:most]
    for line in kept:
        screen.draw(line.shortened(screen.width))
    return len(drawn) - len(kept)


def draw_change(screen: Screen, change: Change) -> None:
    """Draw one place where two states differ: what was there and what is there now."""
    name = written(change.place)
    if change.was is MISSING:
        screen.draw(Text.of((f"  + {name}  ", "green"), _leaf(change.now)).shortened(screen.width))
    elif change.now is MISSING:
        screen.draw(Text.of((f"  - {name}  ", "red"), _leaf(change.was)).shortened(screen.width))
    elif isinstance(change.was, str) and isinstance(change.now, str) and _long(change.was, change.now):
        screen.draw(Text(f"  ~ {name}", "yellow"))
        for line in _text_lines(change.was, change.now):
            screen.draw(Text.of("      ", line).shortened(screen.width))
    else:
        sides = f"{_leaf(change.was)} → {_leaf(change.now)}"
        screen.draw(Text.of((f"  ~ {name}  ", "yellow"), sides).shortened(screen.width))


def _long(was: str, now: str) -> bool:
    return max(len(was), len(now)) > 60 or "\n" in was or "\n" in now


def _text_lines(was: str, now: str) -> Iterator[Text]:
    """The lines, or in a text of one line the words, in which two texts differ, with what is around them."""
    parted = "\n" in was or "\n" in now
    one, other = (lines(was), lines(now)) if parted else (was.split(" "), now.split(" "))
    for line in difflib.unified_diff(one, other, n=AROUND if parted else 0, lineterm=""):
        if line.startswith(("---", "+++", "@@")):
            continue
        style = {"+": "green", "-": "red"}.get(line[:1], "dim")
        yield Text(f"{line[:1]} {brief(line[1:], ACROSS)}", style)
