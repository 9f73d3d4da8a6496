"""What events are made of: values and where they are stored, changes of a state, arguments of calls.

User values are *value bytes* (`perdure.codec.encode`); what is stored elsewhere already is referred to.
docs/format.md specifies each part. `events` gives all of these names on.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Effect: TypeAlias = Literal["read", "idempotent", "transactional", "irreversible"]
"""What repeating a call does."""


class OddKey(Struct, frozen=True, array_like=True, gc=False, tag=2):
    """A dict key that is no plain string, as value bytes."""

    data: bytes


Key: TypeAlias = str | int | OddKey
"""One place in a state tree: a field or string key, a list index, or any other dict key."""


class Ref(Struct, frozen=True, array_like=True, gc=False, tag=0):
    """Bytes `start : start + length` of the value that event `seq` recorded."""

    seq: int
    start: int
    length: int


Value: TypeAlias = bytes | Ref
"""A stored value: its bytes, or where they are already."""


class Set(Struct, frozen=True, array_like=True, gc=False, tag="="):
    """Put a value at a path; a new dict key goes last."""

    path: tuple[Key, ...]
    value: Value


class Delete(Struct, frozen=True, array_like=True, gc=False, tag="-"):
    """Remove a dict key."""

    path: tuple[Key, ...]


class Splice(Struct, frozen=True, array_like=True, gc=False, tag="+"):
    """In the list at a path, replace `count` items from `start` by `values`; in a text or bytes, characters.

    An append has start = length, count = 0.
    """

    path: tuple[Key, ...]
    start: int
    count: int
    values: tuple[Value, ...]


Op: TypeAlias = Set | Delete | Splice
"""One change of a patch."""


class StateList(Struct, frozen=True, array_like=True, gc=False, tag=1):
    """An argument that is a list of the state: its first `count` committed items, then `extra`."""

    path: tuple[Key, ...]
    count: int
    extra: tuple[Value, ...] = ()


class Omitted(Struct, frozen=True, array_like=True, gc=False, tag=3):
    """An argument of a read that was digested and not kept; `size` is the length of its value bytes."""

    size: int


Argument: TypeAlias = bytes | Ref | StateList | Omitted
"""A recorded argument: value bytes, a reference, or only its size (the call's digest covers it)."""


class Body(Struct, frozen=True, array_like=True, gc=False):
    """What happened; the subclass's tag is the event's kind."""
