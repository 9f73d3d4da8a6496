"""What a store keeps, as it lies there, for whoever writes all of it anew: part by part, value by value.

Knows the parts, and the mark by which a store remembers what its values are under; no store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import msgspec

Part = Literal["event", "snapshot", "blob", "inbox", "info", "left", "key"]
"""The parts of a store: `info` is what a run's row notes, `left` what removed and compacted runs left behind,
`inbox` the messages that were not taken, `key` the keys of personal data.
"""

PARTS: tuple[Part, ...] = get_args(Part)
"""All of them."""

PAGE_BYTES = 1 << 18
"""So much is read, and written anew, together: little enough that nobody waits long for its transaction."""

PAGE_ROWS = 500
"""… and at most so many values."""


MARK = ""
"""Under this name the mark of an encrypted store lies among the keys: no run's id is empty."""


def kids_of(mark: bytes) -> tuple[bytes, ...]:
    """The names of the keys that a mark has, 8 bytes each; zeros stand for no key."""
    return tuple([mark[start : start + 8] for start in range(1, 1 + 8 * mark[0], 8)])


class Kept(msgspec.Struct, frozen=True):
    """One value as it lies in a store. `place` says where, and is the store's own, as is their order."""

    part: Part
    place: tuple[Any, ...]
    run_id: str
    data: bytes
    digest: bytes = b""
    seq: int = 0
    id: str = ""
    kind: str = ""


def page(values: Iterable[Kept]) -> tuple[Kept, ...]:
    """As many of these as are read together, at least one if there is one."""
    found, size = list[Kept](), 0
    for value in values:
        if found and (size + len(value.data) > PAGE_BYTES or len(found) == PAGE_ROWS):
            break
        found.append(value)
        size += len(value.data)
    return tuple(found)
