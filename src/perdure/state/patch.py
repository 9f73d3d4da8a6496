"""The difference between two plain states, and its application. Law 5: pure; law 18 rests on it.

`diff` compares type-exactly (1, True and 1.0 differ, NaN equals NaN, a tuple is no list, the order of keys
counts) and answers what changed, so that a patch grows with the change and not with the state. `apply`
turns the old state into the new one and never touches what it was given: it copies the containers on the
touched paths and shares all the rest. This file knows plain data only: it refuses to know how a value
becomes bytes (`read` is passed in) and what type a user gave to his state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import copysign, isnan
from operator import is_
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from perdure.errors import Damaged
from perdure.state.events import Delete, Key, OddKey, Op, Ref, Set, Splice, Value

Read: TypeAlias = Callable[[bytes], Any]
"""Value bytes to plain data."""

TEXT_FROM = 256
"""A text of which so many characters (or bytes) stay is changed where it changed, not written anew."""

EDITS = 64
"""How many insertions and removals in one list are looked for; beyond, the rest is one replaced stretch."""


class Other(NamedTuple):
    """A dict key that is not a string, in the path of a change."""

    key: Any


Place: TypeAlias = tuple[str | int | Other, ...]
"""Where a change is: string keys, list indices, other keys."""


class Put(NamedTuple):
    """`value` is at `path` now."""

    kind: Literal["set"]
    path: Place
    value: Any


class Drop(NamedTuple):
    """The dict key at `path` is gone."""

    kind: Literal["delete"]
    path: Place


class Cut(NamedTuple):
    """In the list at `path`, `length` items from `start` gave way to `values`."""

    kind: Literal["splice"]
    path: Place
    start: int
    length: int
    values: Sequence[Any]


class Edit(NamedTuple):
    """In the text (or bytes) at `path`, `length` characters from `start` gave way to `piece`: it is `whole`
    now.
    """

    kind: Literal["edit"]
    path: Place
    start: int
    length: int
    piece: str | bytes
    whole: str | bytes


Change: TypeAlias = Put | Drop | Cut | Edit
"""One change, in terms of plain values. Each holds for what the changes before it made."""


class Grown(Struct, eq=False):
    """In place of a new list: all of `base`, an old list, and `tail`. Spares comparing and copying what is
    old.

    It may stand wherever dicts alone are around it.
    """

    base: list[Any]
    tail: list[Any]


def whole(value: Any) -> Any:
    """A plain value with real lists in place of those that have `Grown`."""
    if type(value) is Grown:
        return value.base + value.tail
    if type(value) is not dict:
        return value
    inside = {key: whole(item) for key, item in value.items()}
    return value if all(map(is_, inside.values(), value.values())) else inside


class Stretch(NamedTuple):
    """Old items `start : stop` gave way to new items `new_start : new_stop`."""

    start: int
    stop: int
    new_start: int
    new_stop: int


# ------------------------------------------------------------------------------------------------ equality

_PLAIN_EQUAL = frozenset({str, int, bool, bytes, type(None)})
_TEXT = frozenset({str})
_SPLICED = frozenset({list, tuple, str, bytes})


def same(old: Any, new: Any) -> bool:
    """Are two plain values the same, types and key order included?"""
    if old is new:
        return True
    kind = type(old)
    if kind is not type(new):
        return False
    if kind in _PLAIN_EQUAL:
        return bool(old == new)
    if kind is dict:
        return len(old) == len(new) and all(
            same(a, b) and same(x, y) for (a, x), (b, y) in zip(old.items(), new.items(), strict=True)
        )
    if kind is list or kind is tuple:
        return len(old) == len(new) and all(map(same, old, new))
    if kind is float:
        return bool(old == new and copysign(1.0, old) == copysign(1.0, new)) or (isnan(old) and isnan(new))
    return bool(exact(old) == exact(new))


def exact(value: Any) -> Any:
    """A hashable stand-in for a plain value: two stand-ins are equal exactly if the values are the same."""
    kind = type(value)
    if kind in _PLAIN_EQUAL:
        return (kind, value)
    if kind is dict:
        return (kind, tuple((exact(key), exact(item)) for key, item in value.items()))
    if kind is list or kind is tuple:
        return (kind, tuple(map(exact, value)))
    if kind is set or kind is frozenset:
        return (kind, frozenset(map(exact, value)))
    return (kind, getattr(value, "exactly", None) or repr(value))


# ------------------------------------------------------------------------------------------------ diff


def diff(old: Any, new: Any) -> list[Change]:
    """What turns plain value `old` into plain value `new`: an empty list if they are the same."""
    return compare(old, new, ())


def compare(old: Any, new: Any, path: Place) -> list[Change]:
    """`diff` of the values at `path` of a larger tree."""
    changes = _changes(old, new, path)
    return [Put("set", path, whole(new))] if changes is None else changes


def _changes(old: Any, new: Any, path: Place) -> list[Change] | None:
    """The changes inside a value; `None` if nothing of it is left, so that it is better written anew."""
    if old is new:
        return []
    if type(new) is Grown:
        if new.base is old:
            return [Cut("splice", path, len(old), 0, new.tail)]
        new = new.base + new.tail
    kind = type(old)
    if kind is type(new):
        if kind is dict:
            return _dict_changes(old, new, path)
        if kind is list or kind is tuple:
            return list_changes(old, new, path)
        if same(old, new):
            return []
        if kind is str or kind is bytes:
            return _text_changes(old, new, path)
    return None


def _text_changes(old: Any, new: Any, path: Place) -> list[Change] | None:
    """The change inside a text; `None` if too little of it stays."""
    if len(new) < TEXT_FROM or len(old) < TEXT_FROM:
        return None
    limit = min(len(old), len(new))
    start = _longest(limit, lambda low, high: bool(old[low:high] == new[low:high]))
    ahead, behind = len(old), len(new)
    end = _longest(
        limit - start,
        lambda low, high: bool(old[ahead - high : ahead - low] == new[behind - high : behind - low]),
    )
    if start + end < TEXT_FROM:
        return None
    return [Edit("edit", path, start, ahead - start - end, new[start : behind - end], new)]


def _longest(limit: int, alike: Callable[[int, int], bool]) -> int:
    """How far two texts agree, up to `limit`; `alike` compares a stretch of them at the speed of C."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if alike(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _dict_changes(old: dict[Any, Any], new: dict[Any, Any], path: Place) -> list[Change] | None:
    changes: list[Change] = []
    kept: Mapping[Any, Any] = old
    if not _TEXT.issuperset(map(type, old)) and any(map(_elusive, old)):
        return [] if same(old, new) else None
    if list(old) != list(new) or not _TEXT.issuperset(map(type, new)):
        left = _kept(old, new)
        if left is None or 2 * sum(1 for key in new if key in old and key not in left) > len(new):
            return None  # mostly another order
        kept = left
        changes += [Drop("delete", _below(path, key)) for key in old if key not in kept]
    anew = True
    for key, value in new.items():
        inside: list[Change] | None = None
        if key in kept:
            before = old[key]
            if before is value:
                anew = False
                continue
            inside = _changes(before, value, _below(path, key))
        if inside is None:
            changes.append(Put("set", _below(path, key), whole(value)))
        else:
            anew = False
            changes += inside
    return None if anew and (old or new) else changes


def _kept(old: dict[Any, Any], new: dict[Any, Any]) -> dict[Any, None] | None:
    """The keys that may stay where they are; all others are removed and then set, which puts them last.

    Keys that stay keep the old order and come before all that are set, so they are the longest beginning of
    the new dict that the old one has in this order. `None`: a key of the new dict cannot be looked up.
    """
    kept: dict[Any, None] = {}
    standing = iter(old)
    open_end = True
    for key in new:
        if _elusive(key):
            return None
        if open_end:
            # `in` on the iterator consumes the old keys up to the one that is found
            open_end = any(same(key, candidate) for candidate in standing)
        if open_end:
            kept[key] = None
    return kept


def _elusive(key: Any) -> bool:
    """Can a key not be found by one that is the same? NaN equals nothing, itself included."""
    if type(key) is tuple or type(key) is frozenset:
        return any(map(_elusive, key))
    return bool(key != key)


def _below(path: Place, key: Any) -> Place:
    return (*path, key if type(key) is str else Other(key))


def list_changes(old: Sequence[Any], new: Sequence[Any], path: Place) -> list[Change]:
    """The changes that turn one list (or tuple) into another."""

    def alike(at: int, new_at: int) -> bool:
        return same(old[at], new[new_at])

    # Changes are spelt out from the last to the first, so that earlier indices stay what they were.
    changes: list[Change] = []
    for start, stop, new_start, new_stop in reversed(align(len(old), len(new), alike, _shared(old, new))):
        paired = min(stop - start, new_stop - new_start)
        count = stop - start - paired
        rest = list(new[new_start + paired : new_stop])
        pending = [rest] if count or rest else []
        for step in reversed(range(paired)):
            at = start + step
            inside = _changes(old[at], new[new_start + step], (*path, at))
            if inside is None:
                pending.append([new[new_start + step]])
                count += 1
                continue
            if pending:
                changes.append(_cut(path, at + 1, count, pending))
                pending, count = [], 0
            changes += inside
        if pending:
            changes.append(_cut(path, start, count, pending))
    return changes


def _shared(old: Sequence[Any], new: Sequence[Any]) -> int:
    """How many items at the beginning are the very same objects; asked in blocks, at the speed of C."""
    limit = min(len(old), len(new))
    at = 0
    while at < limit and all(map(is_, old[at : at + 256], new[at : at + 256])):
        at = min(at + 256, limit)
    return at


def _cut(path: Place, start: int, count: int, pending: list[list[Any]]) -> Cut:
    return Cut("splice", path, start, count, [item for part in reversed(pending) for item in part])


# ------------------------------------------------------------------------------------------------ alignment


def align(old: int, new: int, alike: Callable[[int, int], bool], start: int = 0) -> list[Stretch]:
    """Where a list of `old` items and one of `new` items differ, in order; `alike(i, j)` compares two items.

    The first `start` items are known to be the same.

    Common beginning and end are taken off; between them the shortest edit is looked for, up to `EDITS` edits,
    so that a window that slides, or a change in the middle with an append, costs what changed.
    """
    limit = min(old, new)
    while start < limit and alike(start, start):
        start += 1
    while old > start and new > start and alike(old - 1, new - 1):
        old -= 1
        new -= 1
    if old == start and new == start:
        return []
    if old == start or new == start or (old - start == 1 and new - start == 1):
        return [Stretch(start, old, start, new)]
    pairs = _shortest_edit(old - start, new - start, lambda i, j: alike(start + i, start + j))
    if pairs is None:
        return [Stretch(start, old, start, new)]
    return list(_gaps(pairs, start, old, new))


def _gaps(pairs: list[tuple[int, int]], start: int, old: int, new: int) -> Iterator[Stretch]:
    at, new_at = start, start
    for i, j in pairs:
        i, j = start + i, start + j
        if i > at or j > new_at:
            yield Stretch(at, i, new_at, j)
        at, new_at = i + 1, j + 1
    if old > at or new > new_at:
        yield Stretch(at, old, new_at, new)


def _shortest_edit(old: int, new: int, alike: Callable[[int, int], bool]) -> list[tuple[int, int]] | None:
    """The pairs of equal items on a shortest path through the edit graph; `None` beyond `EDITS` edits."""
    furthest = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(EDITS, old + new) + 1):
        trail.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            at = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            new_at = at - diagonal
            while new_at >= 0 and at < old and new_at < new and alike(at, new_at):
                at += 1
                new_at += 1
            furthest[diagonal] = at
            if at >= old and new_at >= new:
                return _walk_back(trail, old, new)
    return None


def _walk_back(trail: list[dict[int, int]], at: int, new_at: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(trail) - 1, -1, -1):
        furthest = trail[edits]
        diagonal = at - new_at
        down = diagonal == -edits or (
            diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if down else diagonal - 1
        before_at = furthest[before]
        before_new = before_at - before
        while at > max(before_at, 0) and new_at > max(before_new, 0):
            at -= 1
            new_at -= 1
            pairs.append((at, new_at))
        at, new_at = before_at, before_new
    pairs.reverse()
    return pairs


# ------------------------------------------------------------------------------------------------ apply


def apply(state: Any, patch: Sequence[Op], values: Mapping[int, bytes], read: Read) -> Any:
    """The state after a patch. `state` is left as it was, and shares what the patch does not touch.

    `values` are the recorded values that a `Ref` may point into, by event; `read` turns value bytes into
    plain data. Raises `Damaged` if a path or a reference does not exist.
    """
    return Work(read).apply(state, patch, values)


NO_VALUES: Mapping[int, bytes] = MappingProxyType({})
"""Nothing is recorded."""


class Work(Struct, eq=False):
    """Patches being applied: knows which containers are its own copies, so that each is copied once.

    What it has copied it changes in place from then on, so several patches may follow one another in one
    `Work` only if nobody else is shown the states between them.
    """

    read: Read
    values: Mapping[int, bytes] = NO_VALUES
    own: dict[int, Any] = {}

    def apply(self, state: Any, patch: Sequence[Op], values: Mapping[int, bytes]) -> Any:
        """The state after one more patch; see `apply`."""
        self.values = values
        for op in patch:
            state = self.change(state, op, 0)
        return state

    def change(self, node: Any, op: Op, depth: int) -> Any:
        """`node`, which is `depth` places down the path of `op`, after the change."""
        path = op.path
        if type(op) is Splice:
            if depth == len(path):
                return self.splice(node, op)
        elif depth == len(path):
            if type(op) is Set:
                return self.value(op.value)
            raise Damaged("a patch deletes the whole state")
        elif type(op) is Delete and depth == len(path) - 1:
            return self.delete(node, op)
        key = self.key(node, path, depth)
        if isinstance(node, dict):
            if key in node:
                item = self.change(node[key], op, depth + 1)
            elif type(op) is Set and depth == len(path) - 1:
                item = self.value(op.value)
            else:
                raise _no_place(path, depth)
            node = self.owned(node)
            node[key] = item
            return node
        item = self.change(node[key], op, depth + 1)
        if type(node) is tuple:
            return (*node[:key], item, *node[key + 1 :])
        node = self.owned(node)
        node[key] = item
        return node

    def key(self, node: Any, path: tuple[Key, ...], depth: int) -> Any:
        """The key or index in `node` that a path means at a depth. Raises Damaged."""
        key: Any = path[depth]
        if type(node) is dict:
            if type(key) is OddKey:
                key = self.read(key.data)
                try:
                    hash(key)
                except TypeError:
                    raise _no_place(path, depth) from None
                return key
            if type(key) is str:
                return key
        elif (type(node) is list or type(node) is tuple) and type(key) is int and 0 <= key < len(node):
            return key
        raise _no_place(path, depth)

    def delete(self, node: Any, op: Delete) -> Any:
        """`node` without a key that it has. Raises Damaged."""
        key = self.key(node, op.path, len(op.path) - 1)
        if type(node) is not dict or key not in node:
            raise _no_place(op.path, len(op.path) - 1)
        node = self.owned(node)
        del node[key]
        return node

    def splice(self, node: Any, op: Splice) -> Any:
        """`node`, a list, tuple, text or bytes, with something else in place of a part. Raises Damaged."""
        if type(node) not in _SPLICED:
            raise _no_place(op.path, len(op.path))
        if op.start < 0 or op.count < 0 or op.start + op.count > len(node):
            raise Damaged(
                f"a patch replaces {op.start}:{op.start + op.count} of {len(node)} items or characters"
            )
        items = list(map(self.value, op.values))
        if type(node) is str or type(node) is bytes:
            if any(type(item) is not type(node) for item in items):
                raise Damaged(f"a patch puts something else into a text: {op.path!r}", path=op.path)
            text: Any = node
            return text[:0].join((text[: op.start], *items, text[op.start + op.count :]))
        if type(node) is tuple:
            return (*node[: op.start], *items, *node[op.start + op.count :])
        node = self.owned(node)
        node[op.start : op.start + op.count] = items
        return node

    def owned(self, node: Any) -> Any:
        """`node` if it is a copy of ours already, else a copy."""
        if id(node) in self.own:
            return node
        copy = node.copy()
        self.own[id(copy)] = copy
        return copy

    def value(self, value: Value) -> Any:
        """What a value of a patch stands for, as plain data. Raises Damaged."""
        if type(value) is not Ref:
            return self.read(value)  # type: ignore[arg-type]
        recorded = self.values.get(value.seq)
        if recorded is None:
            raise Damaged(f"a patch refers to event {value.seq}, which recorded no value", seq=value.seq)
        if value.start < 0 or value.length <= 0 or value.start + value.length > len(recorded):
            raise Damaged(f"a patch refers beyond the bytes of event {value.seq}", seq=value.seq)
        return self.read(recorded[value.start : value.start + value.length])


def _no_place(path: tuple[Key, ...], depth: int) -> Damaged:
    return Damaged(f"a patch names a place that does not exist: {path[: depth + 1]!r}", path=path)
