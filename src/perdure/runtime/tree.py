"""The live, typed state of a run against its committed plain form.

A step changes `LiveState.live` as it likes; `patch` tells what changed, `commit` makes live what was
recorded, `reset` throws a step's changes away. Law 18: after each commit the live state is what the folded
state restores to, types included, and no two places share a mutable object. A patch depends on nothing but
the two plain forms: how a list is watched changes what a step costs, never what is recorded. Knows nothing
of events, stores or calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from perdure.codec import Rolling, Shape, digest, encode
from perdure.codec import plain as plain_of
from perdure.codec.naming import step_of
from perdure.codec.plain import ATOMS, Walk
from perdure.codec.record import record_items
from perdure.errors import NotStorable, ShapeMismatch
from perdure.runtime.places import WHOLE, Places, places_in
from perdure.runtime.scribe import Scribe
from perdure.runtime.watch import Scan, Watch, lowered
from perdure.state.events import Op, StateList
from perdure.state.patch import Cut, compare, same, whole

S = TypeVar("S")

Path: TypeAlias = tuple[str, ...]
"""Where a list is in a state: names of fields and text keys."""

ROOT: Final = "$.state"
"""What paths in error messages start with."""

WATCH_FROM: Final = 4
"""Shorter lists are cheaper to lower and restore than to watch."""

DEEPEST: Final = 32
"""Lists deeper than this are not looked for; a dict may contain itself."""


# ------------------------------------------------------------------------------------------------ digests


def encode_items(items: Iterable[Any], *, where: str = "$", start: int = 0) -> list[bytes]:
    """The value bytes of each element of a list. Raises NotStorable."""
    out = []
    for at, item in enumerate(items, start):
        try:
            out.append(encode(item))
        except NotStorable:
            encode(item, where=f"{where}[{at}]")
            raise
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


# ------------------------------------------------------------------------------------------------ the state


_Watched: TypeAlias = tuple[Path, Watch, Scan, list[Any]]
"""A watched list: where, what of it is known, how it is found now, and the live list that comes."""


class _Next(Struct, eq=False):
    """What a patch has prepared for its commit."""

    ops: tuple[Op, ...]
    live: Any
    lists: list[_Watched]
    found: list[Path]


class LiveState(Generic[S]):
    """The state that a step works on. `shape`: its declared type; `plain`: its committed form, never changed
    here. Raises ShapeMismatch if the one does not fit the other. `live` is the state as the step sees and
    changes it; a step may assign another one.
    """

    live: S

    def __init__(self, shape: Shape[S], plain: Any) -> None:
        self._shape = shape
        self._places = places_in(shape.type)
        self._load(plain)

    def _load(self, plain: Any) -> None:
        """Begin anew from a committed state."""
        self._plain = plain
        self._next: _Next | None = None
        self._watches: dict[Path, Watch] = {}
        self._lists: dict[Path, list[Any]] = {}
        live: S = self._shape.restore(plain, where=ROOT)
        found = lists_in(live, self._places)
        self._watch(live, [path for path, items in found if len(items) >= WATCH_FROM])
        self.live = live

    def _watch(self, live: Any, paths: Iterable[Path]) -> None:
        for path in paths:
            found, stored = _at(live, path), _at(self._plain, path)
            if type(found) is list and type(stored) is list and len(found) == len(stored):
                self._watches[path] = Watch(found.copy(), stored, path)
                self._lists[path] = found

    def patch(self, values: Mapping[int, bytes]) -> tuple[Op, ...]:
        """What turns the committed state into the live one.

        `values` are the open step's recorded values by event; equal bytes are referred to. Raises NotStorable
        with a path such as `$.state.messages[3].content`, and ShapeMismatch for a value that the state's type
        would not take back.
        """
        look = _Look(self._watches)
        try:
            following = self._appended(look, values) or self._changed(look, values)
        except NotStorable:
            plain_of(self.live, where=ROOT)  # raises the same with the whole path
            raise
        if following is None:
            self._places = WHOLE
            self._watches = {}
            return self.patch(values)
        self._next = following
        return following.ops

    def _appended(self, look: _Look, values: Mapping[int, bytes]) -> _Next | None:
        """The same as `_changed`, found at less cost, if all that was done to the state is that its watched
        lists have grown; else `None`.
        """
        live, plain = self.live, self._plain
        parts = dict(_parts(live) or ()) if type(live) is self._places.kind else {}
        if not parts or type(plain) is not dict or list(parts) != list(plain):
            return None
        hollow, scribe = plain.copy(), Scribe(values, look.known)
        ops: list[Op] = []
        for name, item in parts.items():
            old = plain[name]
            if item is old and type(item) in ATOMS:
                continue
            path = (name,)
            watch = self._watches.get(path)
            if watch is None or type(item) is not list:
                if not look.leaves(old, item, self._places.part(name), path):
                    return None
                continue
            scan = look.scans[path] = watch.scan(item, look.known)
            if type(scan.anew) is not range:
                return None
            hollow[name] = scan.renewed
            if scan.renewed:
                ops += scribe.spliced(watch.keys, Cut("splice", path, len(old), 0, scan.renewed))
        try:
            return self._next_of(tuple(ops), hollow, look)
        except ShapeMismatch:
            return None  # `_changed` raises the same with the true indices

    def _changed(self, look: _Look, values: Mapping[int, bytes]) -> _Next | None:
        """What comes after what was done to the state; `None` if its type cannot be restored list by list
        after all. Raises NotStorable, ShapeMismatch.
        """
        look.found = []
        now = look.lower(self.live, self._places, ())
        return self._prepared(Scribe(values, look.known).ops(compare(self._plain, now, ())), now, look)

    def _prepared(self, ops: tuple[Op, ...], now: Any, look: _Look) -> _Next | None:
        """Restore what changed; `None` if the state's type cannot be restored list by list after all."""
        hollow = _replaced(now, {path: scan.renewed for path, scan in look.scans.items()})
        try:
            return self._next_of(ops, hollow, look)
        except ShapeMismatch:
            self._shape.restore(whole(now), where=ROOT)  # raises the same with the true indices
            return None

    def _next_of(self, ops: tuple[Op, ...], hollow: Any, look: _Look) -> _Next | None:
        """`hollow`: the plain state, of whose watched lists only what is made anew is there."""
        live = self._shape.restore(hollow, where=ROOT)
        lists = []
        for path, scan in look.scans.items():
            fresh = _at(live, path)
            if type(fresh) is not list or len(fresh) != len(scan.anew):
                return None
            lists.append((path, self._watches[path], scan, fresh))
        return _Next(ops, live, lists, look.found)

    def commit(self, plain: Any, ops: tuple[Op, ...]) -> None:
        """The patch was folded into `plain`, the new committed state; live becomes what that restores to."""
        following, self._next = self._next, None
        if following is None or (following.ops is not ops and following.ops != ops):
            self._load(plain)
            return
        stored = []
        for path, _, scan, _ in following.lists:
            items = _at(plain, path)
            if type(items) is not list or len(items) != scan.length:
                self._load(plain)
                return
            stored.append(items)
        self._settle(following, plain, stored)

    def _settle(self, following: _Next, plain: Any, stored: list[Any]) -> None:
        """`stored`: the committed lists of `plain` that are watched."""
        self._plain = plain
        self._watches = {}
        self._lists = {}
        for at, (path, watch, scan, fresh) in enumerate(following.lists):
            watch.settle(scan, fresh, stored[at])
            self._watches[path] = watch
            self._lists[path] = fresh
        if following.found:
            self._watch(following.live, following.found)
        # Last of all: a thread that still has hold of the state must not meet it half-made.
        self.live = following.live

    def reset(self) -> None:
        """Forget what the step did: live is the committed state again."""
        self._next = None
        look = _Look(self._watches)
        look.scans = {path: watch.untouched() for path, watch in self._watches.items()}
        following = self._prepared((), self._plain, look)
        if following is None:
            self._load(self._plain)
        else:
            self._settle(following, self._plain, [watch.plain for _, watch, *_ in following.lists])

    def argument(self, value: object, values: Mapping[int, bytes]) -> tuple[StateList, bytes] | None:
        """If `value` is a list of the live state: the reference to write, and its digest. Else `None`.

        The reference names the committed elements that the list begins with, and has the rest in bytes; the
        digest is `argument_digest(value)`, made of what is new alone. Raises NotStorable.
        """
        if type(value) is not list:
            return None
        path = self._path_of(value)
        if path is None:
            return None
        watch = self._watches.get(path)
        if watch is None:
            stored = _at(self._plain, path)
            if type(stored) is not list:
                return None
            watch = Watch([], stored, path)
        count, items = watch.beginning(value)
        if not items:
            return StateList(watch.keys, count), watch.digest(count)
        rolling = watch.rolling(count)
        tail = encode_items(items, where=ROOT + "".join(map(step_of, path)), start=count)
        rolling.extend(tail)
        return StateList(watch.keys, count, tuple(map(Scribe(values).written, tail))), rolling.digest()

    def _path_of(self, value: list[Any]) -> Path | None:
        for path, known in self._lists.items():
            if known is value:
                return path
        return _path_to(value, self.live, ())


class _Look(Struct, eq=False):
    """One look at a live state: its plain form, in which watched lists share what is unchanged."""

    watches: Mapping[Path, Watch]
    scans: dict[Path, Scan] = {}
    found: list[Path] = []
    known: dict[int, bytes] = {}

    def leaves(self, old: Any, value: Any, places: Places, path: Path) -> bool:
        """Whether a part without watched lists is as it was. Raises NotStorable."""
        scanned = len(self.scans)
        return same(old, self.lower(value, places, path)) and len(self.scans) == scanned

    def lower(self, value: Any, places: Places, path: Path) -> Any:
        """The plain form of what is at `path`. Raises NotStorable."""
        kind = type(value)
        if kind in ATOMS:
            return value
        if kind is list and places.lists:
            watch = self.watches.get(path)
            if watch is not None:
                scan = self.scans.get(path)
                if scan is None:
                    scan = self.scans[path] = watch.scan(value, self.known)
                return scan.plain
            if len(value) >= WATCH_FROM:
                self.found.append(path)
        elif kind is places.kind and len(path) < DEEPEST:
            parts = _parts(value)
            if parts is not None:
                return {
                    name: item if type(item) in ATOMS else self.lower(item, places.part(name), (*path, name))
                    for name, item in parts
                }
        return lowered(value, len(path), Walk())


def _parts(value: Any) -> Iterable[tuple[str, Any]] | None:
    """The parts of a dict with text keys, or of a record."""
    if type(value) is not dict:
        return record_items(value)
    value = dict.copy(value)
    return value.items() if all(type(key) is str for key in value) else None


def lists_in(value: Any, places: Places, path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    """The lists of a state that are reached through records and dicts alone, with their paths."""
    kind = type(value)
    if kind is list and places.lists:
        yield path, value
    elif kind not in ATOMS and kind is places.kind and len(path) < DEEPEST:
        for name, item in _parts(value) or ():
            yield from lists_in(item, places.part(name), (*path, name))


def _path_to(value: list[Any], tree: Any, path: Path) -> Path | None:
    """Where a list is in a live state, below records and dicts of any kind."""
    if tree is value:
        return path
    if type(tree) in ATOMS or type(tree) is list or len(path) >= DEEPEST:
        return None
    for name, item in _parts(tree) or ():
        if type(item) not in ATOMS:
            found = _path_to(value, item, (*path, name))
            if found is not None:
                return found
    return None


def _at(tree: Any, path: Path) -> Any:
    """What is at a path of a plain or live tree; `None` if nothing is."""
    for name in path:
        tree = tree.get(name) if type(tree) is dict else getattr(tree, name, None)
    return tree


def _replaced(tree: Any, parts: Mapping[Path, Any]) -> Any:
    """A plain tree with other values at some paths; dicts on the way are copied."""
    if () in parts:
        return parts[()]
    root = dict(tree) if parts else tree
    own: dict[Path, dict[str, Any]] = {(): root}
    for path, part in parts.items():
        holder = root
        for depth in range(1, len(path)):
            above = path[:depth]
            if above not in own:
                own[above] = holder[path[depth - 1]] = dict(holder[path[depth - 1]])
            holder = own[above]
        holder[path[-1]] = part
    return root
