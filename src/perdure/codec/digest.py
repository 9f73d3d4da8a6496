"""Digests: of bytes, of an event after its predecessor, of a list that grows.

All are BLAKE2b with 16 bytes. Each has a defined byte string (docs/format.md), so that any program can
recompute it. Knows nothing of what the bytes mean.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b

SIZE = 16
"""Bytes of every digest."""

GENESIS = b"\0" * SIZE
"""The link before a run's first event."""


_length = struct.Struct(">Q").pack
"""A length or count as 8 bytes."""

_begun = blake2b(digest_size=SIZE).copy
"""A hash that has taken nothing in yet: half the price of making one."""


def digest(*parts: bytes) -> bytes:
    """The digest of byte strings in order; each is preceded by its length, so ("a", "bc") differs from ("ab",
    "c").
    """
    state = _begun()
    for part in parts:
        state.update(_length(len(part)) + part)
    return state.digest()


def chain(previous: bytes, event: bytes) -> bytes:
    """The link of an event: the digest of the previous link and the event's frame as stored."""
    state = _begun()
    state.update(previous + event)
    return state.digest()


class Rolling:
    """The digest of a list of encoded elements, without hashing again what was hashed before.

    Byte string: for each element its length (8 bytes) and its bytes; at the end the number of elements (8
    bytes).
    """

    __slots__ = ("_state", "count")

    def __init__(self) -> None:
        self._state = _begun()
        self.count = 0

    def extend(self, encoded: Iterable[bytes]) -> None:
        """Add elements at the end."""
        for element in encoded:
            self.add(element)

    def add(self, element: bytes) -> None:
        """Add one at the end."""
        self._state.update(_length(len(element)) + element)
        self.count += 1

    def copy(self) -> Rolling:
        """An independent digest that goes on from here."""
        other = Rolling.__new__(Rolling)
        other._state = self._state.copy()
        other.count = self.count
        return other

    def digest(self) -> bytes:
        """The digest of the elements so far; more may follow."""
        state = self._state.copy()
        state.update(_length(self.count))
        return state.digest()
