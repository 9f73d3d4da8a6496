"""Any user value -> a plain tree: the one form in which perdure keeps it, whatever type was declared for it.

A plain tree is made of exact builtins (None, bool, int, float, str, bytes, list, dict, tuple, set,
frozenset) and of datetime, date, time, timedelta, Decimal, UUID, complex, paths and Secrets. Records
(dataclass, Struct, pydantic model) become dicts of their fields, enum members their values, subclasses of
builtins their base. The tree is always a deep copy: each container is copied in one stroke before it is
walked, so that a value that another thread changes meanwhile still gives one well-formed tree. Knows no
bytes. What it cannot bring back it refuses, naming path and type.
"""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import chain
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from msgspec import Struct

from perdure.codec.naming import shown, step_of, type_name
from perdure.codec.record import Reader, is_root_model, record_items, record_reader
from perdure.codec.sealed import Sealed
from perdure.codec.secret import Secret
from perdure.errors import NotStorable

MAX_DEPTH = 128
"""How deep a value may be nested. Bounded so that no reader of it can run out of stack."""

ATOMS: frozenset[type] = frozenset({type(None), bool, int, float, str, bytes})
"""Immutable plain types that MessagePack has natively."""

_all_atoms = ATOMS.issuperset
_all_text = frozenset({str}).issuperset

PATHS: tuple[type[PurePath], ...] = (PurePosixPath, PureWindowsPath, PosixPath, WindowsPath)
"""The plain path types, in the order of their marks on disk."""


class Walk(Struct, eq=False, gc=False):
    """One walk through one value. `special`: something was met that MessagePack does not have natively."""

    special: bool = False


class Refused(Exception):
    """Why a value cannot be stored, and the way to it, innermost first."""

    def __init__(self, why: str, type_name: str) -> None:
        super().__init__(why)
        self.why = why
        self.type_name = type_name
        self.trail: list[str] = []
        self.holders: list[object] = []

    def through(self, step: str, holder: object) -> None:
        """Note one container on the way out."""
        self.trail.append(step)
        self.holders.append(holder)


Lower: TypeAlias = Callable[[Any, Walk, int], Any]
"""How the instances of one type are lowered: value, walk, depth -> plain."""


def plain(value: object, *, where: str = "$") -> Any:
    """The plain tree of a value, sharing no list, dict or set with it.

    `where` is the path that error messages start with. Raises NotStorable (T205) with `path` and `type_name`.
    """
    return walked(value, where, Walk())


def walked(value: object, where: str, walk: Walk) -> Any:
    """`plain`, leaving in `walk` what was met."""
    kind = type(value)
    if kind in ATOMS:
        return value
    try:
        return (_LOWER.get(kind) or _learn(kind))(value, walk, 0)
    except Refused as refused:
        raise _not_storable(refused, where) from None
    except RuntimeError as error:  # RecursionError is one; the other is an iterator's, of a dict that grew
        if not isinstance(error, RecursionError):
            raise _not_storable(Refused("was changed by another thread", type_name(value)), where) from error
        raise _not_storable(
            Refused("is nested too deeply for the stack that is left", type_name(value)), where
        ) from None


def lower(value: Any, walk: Walk, depth: int) -> Any:
    """One node of a walk."""
    kind = type(value)
    if kind in ATOMS:
        return value
    return (_LOWER.get(kind) or _learn(kind))(value, walk, depth)


def _not_storable(refused: Refused, where: str) -> NotStorable:
    steps, holders = refused.trail[::-1], refused.holders[::-1]
    why, name = refused.why, refused.type_name
    first: dict[int, int] = {}
    for place, holder in enumerate(holders):
        if id(holder) in first:
            target = where + "".join(steps[: first[id(holder)]])
            steps, why, name = steps[:place], f"refers back to {target}", type_name(holder)
            break
        first[id(holder)] = place
    if len(steps) > 24:
        steps = [*steps[:12], "...", *steps[-6:]]
    path = where + "".join(steps)
    remedy = "await it: a call that is not awaited is not made" if name == "coroutine" else None
    return NotStorable(f"{path} ({name}) {why}", remedy=remedy, path=path, type_name=name)


# ---------------------------------------------------------------------------------------------- containers


def _enter(value: object, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Refused(f"is nested deeper than {MAX_DEPTH} levels", type_name(value))


def _dict(value: dict[Any, Any], walk: Walk, depth: int) -> dict[Any, Any]:
    if depth >= MAX_DEPTH:
        _enter(value, depth)
    # The copy is both: what is walked, safe from other threads, and what comes out.
    out = dict.copy(value)
    if _all_text(map(type, out)) and _all_atoms(map(type, out.values())):
        return out
    key: Any = None
    try:
        for key, item in out.items():
            if type(key) is not str:
                break
            kind = type(item)
            if kind not in ATOMS:
                out[key] = (_LOWER.get(kind) or _learn(kind))(item, walk, depth + 1)
        else:
            return out
    except Refused as refused:
        refused.through(step_of(key), value)
        raise
    return _entries(dict.copy(value), value, walk, depth)


def _entries(copy: dict[Any, Any], holder: object, walk: Walk, depth: int) -> dict[Any, Any]:
    """The entries of a private copy that has keys other than text."""
    if depth >= MAX_DEPTH:
        _enter(holder, depth)
    out: dict[Any, Any] = {}
    key: Any = None
    try:
        for key, item in copy.items():
            if type(key) is not str:
                _put(out, key, item, walk, depth)
            else:
                # An earlier key of another type may have become this text.
                if key in out:
                    raise Refused(
                        f"has two keys that both become {shown(key)} when stored", type_name(holder)
                    )
                out[key] = item if type(item) in ATOMS else lower(item, walk, depth + 1)
    except Refused as refused:
        refused.through(step_of(key), holder)
        raise
    return out


def _put(out: dict[Any, Any], key: object, item: object, walk: Walk, depth: int) -> None:
    stored = lower_key(key, walk, depth + 1)
    if stored in out:
        raise Refused(
            f"is a key that becomes {shown(stored)} when stored, as another key does", type_name(key)
        )
    if type(stored) is not str:
        walk.special = True
    out[stored] = lower(item, walk, depth + 1)


def _list(value: list[Any], walk: Walk, depth: int) -> list[Any]:
    if depth >= MAX_DEPTH:
        _enter(value, depth)
    out = list.copy(value)
    if len(out) < CHUNK:
        _items(out, 0, len(out), value, walk, depth)
        return out
    for start in range(0, len(out), CHUNK):
        flat = flat_copy(out[start : start + CHUNK]) if depth < MAX_DEPTH - 1 else None
        if flat is None:
            _items(out, start, min(start + CHUNK, len(out)), value, walk, depth)
        else:
            out[start : start + CHUNK] = flat
    return out


def _items(out: list[Any], start: int, end: int, holder: object, walk: Walk, depth: int) -> None:
    """Lower a stretch of a list's copy in its place."""
    place = start
    try:
        for place in range(start, end):
            item = out[place]
            kind = type(item)
            if kind not in ATOMS:
                out[place] = (_LOWER.get(kind) or _learn(kind))(item, walk, depth + 1)
    except Refused as refused:
        refused.through(f"[{place}]", holder)
        raise


CHUNK = 32
"""Items of a long list that are looked at together."""

_TEXT_ONLY = frozenset({str})


def flat_copy(items: list[Any]) -> list[Any] | None:
    """The copy of a stretch of a long list that is all single values, or all dicts of them.

    A long conversation is that, and to look at all types at once is three times faster. None: it must be
    walked.
    """
    kinds = set(map(type, items))
    if kinds <= ATOMS:
        return items
    if kinds != {dict}:
        return None
    copies = list(map(dict.copy, items))
    if not set(map(type, chain.from_iterable(copies))) <= _TEXT_ONLY:
        return None
    return copies if set(map(type, chain.from_iterable(map(dict.values, copies)))) <= ATOMS else None


def _tuple(value: tuple[Any, ...], walk: Walk, depth: int) -> tuple[Any, ...]:
    _enter(value, depth)
    walk.special = True
    out = list(tuple.__iter__(value))
    _items(out, 0, len(out), value, walk, depth)
    return tuple(out)


def _set(value: set[Any], walk: Walk, depth: int) -> set[Any]:
    return _members(set.copy(value), value, walk, depth)


def _frozenset(value: frozenset[Any], walk: Walk, depth: int) -> frozenset[Any]:
    return frozenset(_members(frozenset.__iter__(value), value, walk, depth))


def _members(items: Iterable[Any], holder: object, walk: Walk, depth: int) -> set[Any]:
    _enter(holder, depth)
    walk.special = True
    out: set[Any] = set()
    item: Any = None
    try:
        for item in items:
            stored = lower_key(item, walk, depth + 1)
            if stored in out:
                raise Refused(
                    f"becomes {shown(stored)} when stored, as another element does", type_name(item)
                )
            out.add(stored)
    except Refused as refused:
        refused.through(f"{{{shown(item)}}}", holder)
        raise
    return out


def lower_key(value: Any, walk: Walk, depth: int) -> Any:
    """A dict key or set element: like `lower`, but records become tuples of (field, value), which can be
    hashed.
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    _enter(value, depth)
    if isinstance(value, enum.Enum):
        return lower_key(value.value, walk, depth + 1)
    if isinstance(value, tuple):
        walk.special = True
        return tuple(lower_key(item, walk, depth + 1) for item in tuple.__iter__(value))
    if isinstance(value, frozenset):
        walk.special = True
        return _frozenset(value, walk, depth)
    fields = record_items(value)
    if fields is not None:
        walk.special = True
        return tuple((name, lower_key(item, walk, depth + 1)) for name, item in fields)
    stored = lower(value, walk, depth)
    try:
        hash(stored)
    except TypeError:
        raise Refused(
            "cannot be a dict key or set element: its stored form cannot be hashed", type_name(value)
        ) from None
    return stored


# ---------------------------------------------------------------------------------------------- records and
# enums


def _record(read: Reader) -> Lower:
    """How the records of one class are lowered."""

    def fields(value: Any, walk: Walk, depth: int) -> dict[str, Any]:
        if depth >= MAX_DEPTH:
            _enter(value, depth)
        out = dict(read(value))
        if _all_atoms(map(type, out.values())):
            return out
        name = ""
        try:
            for name, item in out.items():
                kind = type(item)
                if kind not in ATOMS:
                    out[name] = (_LOWER.get(kind) or _learn(kind))(item, walk, depth + 1)
        except Refused as refused:
            refused.through(step_of(name), value)
            raise
        return out

    return fields


def _root_model(value: Any, walk: Walk, depth: int) -> Any:
    _enter(value, depth)
    try:
        return lower(value.root, walk, depth + 1)
    except Refused as refused:
        refused.through(".root", value)
        raise


def _enum(value: enum.Enum, walk: Walk, depth: int) -> Any:
    _enter(value, depth)
    return lower(value.value, walk, depth + 1)


# ---------------------------------------------------------------------------------------------- single values


def _special(value: Any, walk: Walk, depth: int) -> Any:
    walk.special = True
    return value


def _buffer(value: bytearray | memoryview, walk: Walk, depth: int) -> bytes:
    if isinstance(value, memoryview) and (value.ndim != 1 or value.format not in ("B", "b", "c")):
        raise Refused("is a view of something other than plain bytes", "memoryview")
    return bytes(value)


def _datetime(value: dt.datetime, walk: Walk, depth: int) -> dt.datetime:
    walk.special = True
    zone = value.tzinfo
    if type(value) is dt.datetime and (zone is None or _kept(zone)):
        return value
    if getattr(value, "nanosecond", 0):
        raise Refused("has nanoseconds, which datetime cannot hold", type_name(value))
    if zone is not None and not _kept(zone):
        offset = value.utcoffset()
        if offset is None:
            raise Refused("has a time zone that gives no offset", type_name(value))
        zone = dt.timezone(offset)
    return dt.datetime(
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        zone,
        fold=value.fold,
    )


def _time(value: dt.time, walk: Walk, depth: int) -> dt.time:
    walk.special = True
    zone = value.tzinfo
    if type(value) is dt.time and (zone is None or _kept(zone)):
        return value
    if zone is not None and not _kept(zone):
        offset = value.utcoffset()
        if offset is None:
            raise Refused("has a time zone that gives no offset without a date", type_name(value))
        zone = dt.timezone(offset)
    return dt.time(value.hour, value.minute, value.second, value.microsecond, zone, fold=value.fold)


def _kept(zone: dt.tzinfo) -> bool:
    """Zones that come back as they are; any other becomes its offset at that moment."""
    return type(zone) is dt.timezone or (type(zone) is ZoneInfo and zone.key is not None)


def _date(value: dt.date, walk: Walk, depth: int) -> dt.date:
    walk.special = True
    return dt.date(value.year, value.month, value.day)


def _timedelta(value: dt.timedelta, walk: Walk, depth: int) -> dt.timedelta:
    walk.special = True
    if getattr(value, "nanoseconds", 0):
        raise Refused("has nanoseconds, which timedelta cannot hold", type_name(value))
    return dt.timedelta(value.days, value.seconds, value.microseconds)


def _decimal(value: Decimal, walk: Walk, depth: int) -> Decimal:
    walk.special = True
    return Decimal(Decimal.__str__(value))


def _uuid(value: uuid.UUID, walk: Walk, depth: int) -> uuid.UUID:
    walk.special = True
    return uuid.UUID(int=value.int)


def _refuse(value: object, walk: Walk, depth: int) -> Any:
    raise Refused("cannot be stored", type_name(value))


def _based(base: Callable[[Any], Any]) -> Lower:
    """A subclass of an immutable builtin becomes its base, past whatever the subclass overrides."""
    return lambda value, walk, depth: base(value)


# ---------------------------------------------------------------------------------------------- which type
# goes where

_LOWER: dict[type, Lower] = {}


_EXACT: dict[type, Lower] = {
    **{kind: lambda value, walk, depth: value for kind in ATOMS},
    dict: _dict,
    list: _list,
    tuple: _tuple,
    set: _set,
    frozenset: _frozenset,
    dt.datetime: _datetime,
    dt.time: _time,
    dt.date: _special,
    dt.timedelta: _special,
    Decimal: _special,
    uuid.UUID: _special,
    complex: _special,
    Secret: _special,
    Sealed: _special,
    bytearray: _buffer,
    memoryview: _buffer,
    **dict.fromkeys(PATHS, _special),
}

_BASES: tuple[tuple[type, Lower], ...] = (
    (str, _based(str.__str__)),
    (int, _based(int.__int__)),
    (float, _based(float.__float__)),
    (bytes, _based(lambda value: bytes(memoryview(value)))),
    (bytearray, _buffer),
    (dict, _dict),
    (list, _list),
    (tuple, _tuple),
    (set, _set),
    (frozenset, _frozenset),
    (dt.datetime, _datetime),
    (dt.date, _date),
    (dt.time, _time),
    (dt.timedelta, _timedelta),
    (Decimal, _decimal),
    (uuid.UUID, _uuid),
)
"""Subclasses, the more special base first (a datetime is a date)."""

_LEARNED_MOST = 4096


def register(kind: type, how: Lower) -> None:
    """Lower instances of a type in this way from now on."""
    _EXACT[kind] = _LOWER[kind] = how


def _learn(kind: type) -> Lower:
    """Find and remember how instances of a type are lowered."""
    found = _find(kind)
    if len(_LOWER) > _LEARNED_MOST:
        _LOWER.clear()
        _LOWER.update(_EXACT)
    _LOWER[kind] = found
    return found


def _find(kind: Any) -> Lower:
    if issubclass(kind, type):
        return _refuse
    if issubclass(kind, enum.Enum):
        return _enum
    base = next((handler for base, handler in _BASES if issubclass(kind, base)), None)
    read = record_reader(kind)
    if read is not None and (base is not None or issubclass(kind, BaseException)):
        # Its fields and its content as a builtin would both have to be kept; one place holds one value.
        return _refuse
    if is_root_model(kind):
        return _root_model
    return base or _refuse if read is None else _record(read)


_LOWER.update(_EXACT)
