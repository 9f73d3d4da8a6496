"""Changes of a state -> the operations of a patch, in bytes.

What the open step has recorded already is referred to: a changed value, or a part of one, whose bytes occur
inside a recorded value is stored there and nowhere else (equal bytes, never identity). Knows nothing of live
objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from perdure.codec import encode
from perdure.codec.redaction import refuse_leak
from perdure.codec.secret import KNOWN
from perdure.state.events import Delete, Key, OddKey, Op, Ref, Set, Splice, Value
from perdure.state.patch import Change, Cut, Drop, Edit, Other, Place

REF_FROM: Final = 16
"""Values of fewer bytes are written again rather than referred to."""

PART_FROM: Final = 96
"""Parts of a new value that are looked for on their own have at least this many bytes: each costs a path."""

_TEXTS: Final = frozenset({str, bytes})
_CONTAINERS: Final = frozenset({dict, list, tuple})
_PARTS: Final = _TEXTS | _CONTAINERS

NOTHING_KNOWN: Final[Mapping[int, bytes]] = {}
"""No value was written before."""


class Scribe:
    """Writes the changes of one step. `values` are the step's recorded values by event, `known` the bytes of
    plain values that were written before, by the object's identity.
    """

    def __init__(self, values: Mapping[int, bytes], known: Mapping[int, bytes] = NOTHING_KNOWN) -> None:
        self._recorded: list[tuple[int, bytes]] = []
        for one in sorted(values.items()):
            if len(one[1]) >= REF_FROM:
                self._recorded.append(one)
        self._known = known

    def ops(self, changes: Iterable[Change]) -> tuple[Op, ...]:
        """The changes as operations, in their order."""
        out: list[Op] = []
        for change in changes:
            keys = keys_of(change.path)
            if isinstance(change, Cut):
                out += self.spliced(keys, change)
            elif isinstance(change, Edit):
                out.append(self._edited(keys, change))
            elif isinstance(change, Drop):
                out.append(Delete(keys))
            else:
                later: list[Op] = []
                out.append(Set(keys, self._value(change.value, change.path, None, later)))
                out += later
        return tuple(out)

    def _edited(self, keys: tuple[Key, ...], change: Edit) -> Op:
        """A change inside a text; if the step has recorded the whole of it, that is referred to.

        Raises SecretLeaked: pieces of a secret are harmless, the text that they make is not.
        """
        if KNOWN.forms:
            refuse_leak(encode(change.whole), place_of(keys))
        if self._recorded:
            written = self.written(encode(change.whole))
            if type(written) is Ref:
                return Set(keys, written)
        piece = (self.written(encode(change.piece)),) if change.piece else ()
        return Splice(keys, change.start, change.length, piece)

    def spliced(self, keys: tuple[Key, ...], cut: Cut) -> list[Op]:
        """What one list has instead of some of its items. `keys`: its path as a fact has it."""
        later: list[Op] = []
        _, path, start, length, items = cut
        values: list[Value] = []
        for at, value in enumerate(items, start):
            values.append(self._value(value, path, at, later))
        return [Splice(keys, start, length, tuple(values)), *later]

    def written(self, data: bytes) -> Value:
        """Value bytes, or where the step has recorded them."""
        if len(data) >= REF_FROM:
            for seq, recorded in self._recorded:
                at = 0 if recorded == data else recorded.find(data)
                if at >= 0:
                    return Ref(seq, at, len(data))
        return data

    def _value(self, value: Any, path: Place, at: int | None, later: list[Op]) -> Value:
        """A new value at a path, or at an index below it; recorded parts are left out and set `later`."""
        data = self._known.get(id(value)) or encode(value)
        if not self._recorded:
            return data
        written = self.written(data)
        if len(data) < PART_FROM or written is not data or type(value) not in _CONTAINERS:
            return written
        hollow = self._hollow(value, path if at is None else (*path, at), later)
        return encode(hollow) if later and hollow is not value else data

    def _hollow(self, value: Any, path: Place, later: list[Op]) -> Any:
        """The value with `None` for each part that the step has recorded; itself if none is."""
        changed: dict[Any, Any] = {}
        holder = type(value)
        for key, item in value.items() if holder is dict else enumerate(value):
            kind = type(item)
            # A character has at most four bytes.
            if kind not in _PARTS or (kind in _TEXTS and len(item) * 4 < PART_FROM):
                continue
            part = self._part(
                item, (*path, Other(key) if holder is dict and type(key) is not str else key), later
            )
            if part is not item:
                changed[key] = part
        if not changed:
            return value
        if holder is dict:
            return {**value, **changed}
        return holder([changed.get(at, item) for at, item in enumerate(value)])

    def _part(self, value: Any, path: Place, later: list[Op]) -> Any:
        data = encode(value)
        if len(data) < PART_FROM:
            return value
        written = self.written(data)
        if written is not data:
            later.append(Set(keys_of(path), written))
            return None
        return self._hollow(value, path, later) if type(value) in _CONTAINERS else value


def place_of(keys: Sequence[Key]) -> str:
    """Where a change is, for people."""
    return "$.state" + "".join(f"[{key!r}]" for key in keys)


def keys_of(path: Sequence[str | int | Other]) -> tuple[Key, ...]:
    """A path as a fact has it: what is no proper text, unpaired surrogates in it, is an odd key as well."""
    return tuple([_key(key) for key in path])


def _key(key: str | int | Other) -> Key:
    if type(key) is Other:
        return OddKey(encode(key.key))
    if type(key) is str and not key.isascii() and any("\ud800" <= one <= "\udfff" for one in key):
        return OddKey(encode(key))
    return key  # type: ignore[return-value]
