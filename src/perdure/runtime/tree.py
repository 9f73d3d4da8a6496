"""The live, typed state of a run against its committed plain form.

A step changes `LiveState.live` as it likes; `patch` tells what changed, `commit` makes live what was
recorded, `reset` throws a step's changes away. Law 18: after each commit the live state is what the folded
state restores to, types included, and no two places share a mutable object. Knows nothing of events, stores
or calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from perdure.codec import Rolling, Shape, digest, encode, plain
from perdure.codec.record import record_items
from perdure.errors import NotStorable
from perdure.state.events import Delete, Key, OddKey, Op, Ref, Set, Splice, StateList, Value
from perdure.state.patch import Change, Cut, Drop, Other, Place, Put, compare

S = TypeVar("S")

ROOT: Final = "$.state"
"""What paths in error messages start with."""

REF_FROM: Final = 16
"""Values of fewer bytes are written again rather than referred to."""

INNER_FROM: Final = 96
"""Parts of a new value that are looked for on their own have at least this many bytes: each costs a path."""


class LiveState(Generic[S]):
    """The state that a step works on."""

    def __init__(self, shape: Shape[S], plain: Any) -> None:
        self._shape = shape
        self._plain = plain
        self._live: S = shape.restore(plain, where=ROOT)

    @property
    def live(self) -> S:
        """The state as the step sees and changes it; a step may assign another one."""
        return self._live

    @live.setter
    def live(self, value: S) -> None:
        self._live = value

    def patch(self, values: Mapping[int, bytes]) -> tuple[Op, ...]:
        """What turns the committed state into the live one.

        `values` are the open step's recorded values by event; equal bytes are referred to. Raises NotStorable
        with a path such as `$.state.messages[3].content`.
        """
        changes = compare(self._plain, plain(self._live, where=ROOT), ())
        return Scribe(values).ops(changes)

    def commit(self, plain: Any, ops: tuple[Op, ...]) -> None:
        """The patch was folded into `plain`, the new committed state; live becomes what it restores to."""
        self._plain = plain
        self._live = self._shape.restore(plain, where=ROOT)

    def reset(self) -> None:
        """Forget what the step did: live is the committed state again."""
        self._live = self._shape.restore(self._plain, where=ROOT)

    def argument(self, value: object, values: Mapping[int, bytes]) -> tuple[StateList, bytes] | None:
        """If `value` is a list of the live state: the reference to write, and its digest. Else `None`."""
        if type(value) is not list:
            return None
        for path, found in _lists(self._live, ()):
            if found is value:
                return self._reference(path, value, values)
        return None

    def _reference(
        self, path: tuple[Key, ...], value: list[Any], values: Mapping[int, bytes]
    ) -> tuple[StateList, bytes] | None:
        committed: Any = self._plain
        for key in path:
            if type(committed) is not dict or key not in committed:
                return None
            committed = committed[key]
        if type(committed) is not list:
            return None
        items = encode_items(value, where=ROOT)
        count = 0
        for item, old in zip(items, committed, strict=False):
            if item != encode(old):
                break
            count += 1
        scribe = Scribe(values)
        return StateList(path, count, tuple(map(scribe.written, items[count:]))), list_digest(items)


def encode_items(items: list[Any], *, where: str = "$") -> list[bytes]:
    """The value bytes of each element of a list. Raises NotStorable."""
    out = []
    for at, item in enumerate(list(items)):
        try:
            out.append(encode(item))
        except NotStorable:
            out.append(encode(item, where=f"{where}[{at}]"))
    return out


def list_digest(encoded: Iterable[bytes]) -> bytes:
    """The digest of a list, from its elements' value bytes."""
    rolling = Rolling()
    rolling.extend(encoded)
    return rolling.digest()


def argument_digest(value: object, *, where: str = "$") -> bytes:
    """The digest of one argument of a call: what replay compares. Raises NotStorable."""
    if isinstance(value, list):
        return list_digest(encode_items(list.copy(value), where=where))
    return digest(encode(value, where=where))


def _lists(value: Any, path: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], list[Any]]]:
    """The lists of a state that are reached through records and dicts alone, with their paths."""
    if type(value) is list:
        yield path, value
        return
    items = value.items() if type(value) is dict else record_items(value)
    for key, item in items or ():
        if type(key) is str:
            yield from _lists(item, (*path, key))


class Scribe:
    """Writes changes down as the operations of a patch, referring to what the step has recorded already."""

    def __init__(self, values: Mapping[int, bytes]) -> None:
        self._recorded = [(seq, values[seq]) for seq in sorted(values) if len(values[seq]) >= REF_FROM]

    def ops(self, changes: Iterable[Change]) -> tuple[Op, ...]:
        """The changes as operations, in their order."""
        out: list[Op] = []
        for change in changes:
            out += self._op(change)
        return tuple(out)

    def written(self, data: bytes) -> Value:
        """Value bytes, or where the step has recorded them."""
        if len(data) >= REF_FROM:
            for seq, recorded in self._recorded:
                at = recorded.find(data)
                if at >= 0:
                    return Ref(seq, at, len(data))
        return data

    def _op(self, change: Change) -> Iterator[Op]:
        path = tuple(_key(key) for key in change.path)
        if isinstance(change, Drop):
            yield Delete(path)
            return
        later: list[Op] = []
        if isinstance(change, Put):
            yield Set(path, self._value(change.value, change.path, later))
        elif isinstance(change, Cut):
            values = [
                self._value(value, (*change.path, at), later)
                for at, value in enumerate(change.values, change.start)
            ]
            yield Splice(path, change.start, change.length, tuple(values))
        yield from later

    def _value(self, value: Any, path: Place, later: list[Op]) -> Value:
        """A new value; its recorded parts are left out and set `later`."""
        written = self.written(encode(value))
        if isinstance(written, Ref) or not self._recorded or len(written) < INNER_FROM:
            return written
        before = len(later)
        hollow = self._hollow(value, path, later)
        return written if len(later) == before else encode(hollow)

    def _hollow(self, value: Any, path: Place, later: list[Op]) -> Any:
        """The value with `None` for each part that the step has recorded."""
        if type(value) is dict:
            return {
                key: self._part(item, (*path, key if type(key) is str else Other(key)), later)
                for key, item in value.items()
            }
        if type(value) is list or type(value) is tuple:
            return type(value)([self._part(item, (*path, at), later) for at, item in enumerate(value)])
        return value

    def _part(self, value: Any, path: Place, later: list[Op]) -> Any:
        if type(value) not in (str, bytes, dict, list, tuple):
            return value
        data = encode(value)
        if len(data) < INNER_FROM:
            return value
        written = self.written(data)
        if isinstance(written, Ref):
            later.append(Set(tuple(map(_key, path)), written))
            return None
        return self._hollow(value, path, later)


def _key(key: str | int | Other) -> Key:
    return OddKey(encode(key.key)) if isinstance(key, Other) else key
