"""What is mutable below the elements of a list, and whether it still holds what it held.

After a commit every element is an object that the codec made, and nobody else's. So an element is unchanged
inside if everything mutable below it still holds the same objects, in the same order: a test of identity,
which sees what `==` does not (1 and True, an alias, an enum in place of its value) and runs in the
interpreter's C loops. Below what is immutable there is nothing to test. What cannot be watched this way (a
set, a model with hidden attributes) is named, and has to be compared by its plain form. Knows nothing of
plain forms beyond what an element was restored from.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from gc import get_referents
from itertools import accumulate, chain
from operator import attrgetter, is_, itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from perdure.codec.plain import ATOMS
from perdure.codec.record import is_model, is_root_model

BULK: Final = 4
"""So many elements are looked at all at once first; that pays when they are alike."""

_IMMUTABLE: Final[frozenset[type]] = ATOMS | {
    complex,
    dt.date,
    dt.datetime,
    dt.time,
    dt.timedelta,
    dt.timezone,
    decimal.Decimal,
    uuid.UUID,
    zoneinfo.ZoneInfo,
    msgspec.UnsetType,
    pathlib.PurePosixPath,
    pathlib.PureWindowsPath,
    pathlib.PosixPath,
    pathlib.WindowsPath,
}


_TEXT: Final[frozenset[type]] = frozenset({str})

_SAME_IF_EQUAL: Final[frozenset[type]] = frozenset({type(None), bool, int, str, bytes})
"""Two values of one of these types that are equal are the same: no float, for 0.0 equals -0.0."""


# ---------------------------------------------------------------------------------------- kinds of records


class Kind(msgspec.Struct, frozen=True):
    """How records of one class are watched. `row`: all fields at once; `frozen`: they cannot be set."""

    names: tuple[str, ...]
    fields: tuple[Callable[[Any], Any], ...]
    row: Callable[[Any], tuple[Any, ...]]
    frozen: bool
    has_dict: bool
    model: bool


@lru_cache(maxsize=4096)
def _kind(cls: type) -> Kind | None:
    """How to watch records of a class; `None` if they are no records or have more than their fields."""
    if issubclass(cls, msgspec.Struct):
        names = cls.__struct_fields__
        return _made(cls, names, frozen=bool(cls.__struct_config__.frozen))
    if is_model(cls):
        return _model_kind(cls)
    if dataclasses.is_dataclass(cls) and not issubclass(cls, tuple | list | dict | set | str | BaseException):
        # A subclass that is no dataclass itself may have attributes of its own.
        own = vars(cls).get("__dataclass_params__")
        names = tuple(field.name for field in dataclasses.fields(cls))
        return _made(cls, names, frozen=own is not None and own.frozen)
    return None


def _made(cls: type, names: tuple[str, ...], *, frozen: bool, model: bool = False) -> Kind:
    fields = tuple(attrgetter(name) for name in names)
    row = attrgetter(*names) if len(names) > 1 else lambda record: tuple([field(record) for field in fields])
    return Kind(names, fields, row, frozen, has_dict=bool(cls.__dictoffset__), model=model)


def _model_kind(cls: Any) -> Kind | None:
    config = cls.model_config
    if is_root_model(cls) or cls.__private_attributes__ or config.get("extra") == "allow":
        return None
    return _made(cls, tuple(cls.model_fields), frozen=bool(config.get("frozen")), model=True)


# ---------------------------------------------------------------------------------------- blocks


def _children(containers: Sequence[Any]) -> list[Any]:
    """The values of dicts and the items of lists, one after the other."""
    out: list[Any] = []
    for container in containers:
        out.extend(container.values() if type(container) is dict else container)
    return out


def _referents(containers: Sequence[Any]) -> list[Any]:
    """The same in one C loop, in whatever order; keys of dicts come along if not all of them are plain
    text.
    """
    return get_referents(*containers)


def _trusted() -> Callable[[Sequence[Any]], list[Any]]:
    """`_referents` where this interpreter's collector shows dicts and lists as expected, else `_children`."""
    one, two, three = object(), object(), object()
    shown = [get_referents({"a": one, "b": two, "c": 1}), get_referents([one, two, three])]
    wanted = [[one, two, 1], [one, two, three]]
    both = all(
        len(seen) == len(want) and (all(map(is_, seen, want)) or all(map(is_, seen[::-1], want)))
        for seen, want in zip(shown, wanted, strict=True)
    )
    untracked = get_referents({"a": "x", "b": 2.5})
    return _referents if both and len(untracked) == 2 else _children


look_below: Callable[[Sequence[Any]], list[Any]] = _trusted()
"""What dicts and lists hold now, in an order that depends only on them."""


class Survey:
    """What is mutable below one element."""

    __slots__ = ("containers", "records")

    def __init__(self) -> None:
        self.containers: list[Any] = []
        self.records: list[Any] = []

    def covers(self, value: Any, stored: Any) -> bool:
        """Look at a value just restored from `stored`; can it be watched by identity?

        Not so if it came back as something else than was stored, such as a record with a field more: it has
        to be compared until that is recorded.
        """
        cls: Any = type(value)
        if cls in _IMMUTABLE:
            return cls is type(stored)
        if cls is dict:
            if type(stored) is not dict or len(stored) != len(value):
                return False
            self.containers.append(value)
            for (key, item), other in zip(value.items(), stored.values(), strict=True):
                if type(key) is not str or not (
                    type(item) is type(other) if type(item) in _IMMUTABLE else self.covers(item, other)
                ):
                    return False
            return True
        if cls is list or cls is tuple:
            if cls is list:
                self.containers.append(value)
            return type(stored) is cls and len(stored) == len(value) and all(map(self.covers, value, stored))
        if isinstance(value, enum.Enum):
            return True
        kind = _kind(cls)
        return kind is not None and type(stored) is dict and self._covers_record(value, kind, stored)

    def _covers_record(self, value: Any, kind: Kind, stored: dict[Any, Any]) -> bool:
        for name in kind.names:
            item = getattr(value, name, _MISSING)
            if name in stored:
                if not self.covers(item, stored[name]):
                    return False
            elif item is not msgspec.UNSET and not (
                item is None and kind.model and name not in value.__pydantic_fields_set__
            ):
                return False
        if kind.frozen:
            return True
        if kind.has_dict and len(value.__dict__) != len(kind.names):
            return False
        self.records.append(value)
        return True


_MISSING: Final = object()
"""In place of a field that was never set."""


class _Column:
    """The records of one class in a block, and what their fields hold."""

    __slots__ = ("expected", "kind", "records", "sets")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.records: list[Any] = []
        self.expected: list[list[Any]] = [[] for _ in kind.fields]
        self.sets: list[set[str]] = []

    def add(self, record: Any) -> None:
        self.records.append(record)
        for field, expected in zip(self.kind.fields, self.expected, strict=True):
            expected.append(field(record))
        if self.kind.model:
            self.sets.append(set(record.__pydantic_fields_set__))

    def cut(self, count: int) -> None:
        del self.records[count:]
        del self.sets[count:]
        for expected in self.expected:
            del expected[count:]

    def intact(self, part: slice | None = None) -> bool:
        kind, records = self.kind, self.records if part is None else self.records[part]
        try:
            for field, expected in zip(kind.fields, self.expected, strict=True):
                if not all(map(is_, map(field, records), expected if part is None else expected[part])):
                    return False
        except AttributeError:  # a field was deleted
            return False
        if kind.has_dict and sum(map(len, map(vars, records))) != len(kind.names) * len(records):
            return False
        return not kind.model or list(map(_fields_set, records)) == self.sets[part or _ALL]


_fields_set: Final = attrgetter("__pydantic_fields_set__")
_ALL: Final = slice(None)


class _Span(NamedTuple):
    """What belongs to the element at index `at`: containers, what they hold, and records by column."""

    at: int
    containers: slice
    held: slice
    records: list[tuple[_Column, int]]


class Block:
    """Neighbouring elements of a list, and what is mutable below them: `spans`, and elements that have to be
    `compared`. If there is neither, their identity says all.
    """

    __slots__ = (
        "_columns",
        "_containers",
        "_copies",
        "_exact",
        "_held",
        "_kinds",
        "_twin_dicts",
        "_twin_keys",
        "_twins",
        "compared",
        "spans",
    )

    def __init__(self) -> None:
        self.spans: list[_Span] = []
        self._containers: list[Any] = []
        self._held: list[Any] = []
        self._kinds: list[type] = []
        self._exact = True  # every value that is held is the same as any that equals it and has its type
        self._copies: list[Any] = []
        self._twins: list[int] = []
        self._twin_dicts: list[dict[str, Any]] = []
        self._twin_keys: list[str] = []
        self._columns: dict[type, _Column] = {}
        self.compared: list[int] = []

    def add(self, start: int, values: list[Any], stored: list[Any]) -> None:
        """Watch more elements (one or more), just restored from `stored`; `start`: the index of the first."""
        if len(values) < BULK:
            at_once = False
        elif type(values[0]) is dict:
            at_once = self._add_flat(start, values, stored)
        else:
            at_once = _are_frozen(values, stored)
        if not at_once:
            for at, (value, other) in enumerate(zip(values, stored, strict=True), start):
                self._add(at, value, other)

    def _add_flat(self, start: int, values: list[Any], stored: list[Any]) -> bool:
        """Watch elements that are all dicts of immutable values, many at once; False if they are not."""
        if set(map(type, values)) != {dict} or set(map(type, stored)) != {dict}:
            return False
        held, other = look_below(values), look_below(stored)
        kinds = list(map(type, held))
        lengths = list(map(len, values))
        if (
            not ATOMS.issuperset(kinds)
            or kinds != list(map(type, other))
            or not _TEXT.issuperset(map(type, chain.from_iterable(values)))
        ):
            return False
        first, first_held = len(self._containers), len(self._held)
        ends = list(accumulate(lengths, initial=first_held))
        self.spans += [
            _Span(start + at, slice(first + at, first + at + 1), slice(ends[at], ends[at + 1]), [])
            for at in range(len(values))
        ]
        self._twins_in(
            values, [at for at, value in enumerate(values) if len(set(value.values())) < len(value)]
        )
        self._hold(values, held, kinds)
        return True

    def _add_flat_dict(self, at: int, value: Any, stored: Any) -> bool:
        """The same for one element: most of them come one by one."""
        if type(value) is not dict or type(stored) is not dict:
            return False
        held = look_below((value,))
        kinds = list(map(type, held))
        if (
            not ATOMS.issuperset(kinds)
            or kinds != list(map(type, look_below((stored,))))
            or not _TEXT.issuperset(map(type, value))
        ):
            return False
        first, first_held = len(self._containers), len(self._held)
        span = slice(first, first + 1), slice(first_held, first_held + len(held))
        self.spans.append(_Span(at, *span, []))
        if len(set(held)) < len(held):
            self._twins_in([value], (0,))
        self._hold([value], held, kinds)
        return True

    def _hold(self, containers: list[Any], held: list[Any], kinds: list[type]) -> None:
        """Note what these containers hold now."""
        self._containers += containers
        self._held += held
        self._kinds += kinds
        self._exact = self._exact and _SAME_IF_EQUAL.issuperset(kinds)
        self._copies += [container.copy() for container in containers]

    def _twins_in(self, containers: list[Any], places: Iterable[int]) -> None:
        """Note containers, about to be added, in which keys may change places unseen."""
        first = len(self._containers)
        for place in places:
            self._twins.append(first + place)
            self._twin_dicts.append(containers[place])
            self._twin_keys += containers[place]

    def _add(self, at: int, value: Any, stored: Any) -> None:
        cls: Any = type(value)
        if cls in ATOMS and cls is type(stored):
            return
        kind = None if cls is dict else _kind(cls)
        if kind is not None and kind.frozen and _is_flat(value, kind, stored):
            return
        if kind is None and self._add_flat_dict(at, value, stored):
            return
        survey = Survey()
        if not survey.covers(value, stored):
            self.compared.append(at)
            return
        containers, records = survey.containers, survey.records
        if not containers and not records:
            return
        first, first_held = len(self._containers), len(self._held)
        if containers:
            swapping = [at for at, one in enumerate(containers) if type(one) is dict and _may_swap(one)]
            self._twins_in(containers, swapping)
            held = look_below(containers)
            self._hold(containers, held, list(map(type, held)))
        rows = [self._add_record(record) for record in records]
        span = slice(first, len(self._containers)), slice(first_held, len(self._held))
        self.spans.append(_Span(at, *span, rows))

    def _add_record(self, record: Any) -> tuple[_Column, int]:
        cls: Any = type(record)
        column = self._columns.get(cls)
        if column is None:
            kind = _kind(cls)
            assert kind is not None
            column = self._columns[cls] = _Column(kind)
        column.add(record)
        return column, len(column.records) - 1

    def cut(self, start: int) -> None:
        """Watch no element from index `start` on."""
        self.compared = [at for at in self.compared if at < start]
        count = next((place for place, span in enumerate(self.spans) if span.at >= start), len(self.spans))
        gone = self.spans[count:]
        if not gone:
            return
        for span in reversed(gone):
            for column, row in reversed(span.records):
                column.cut(row)
        first = gone[0].containers.start
        self._twins = [place for place in self._twins if place < first]
        self._twin_dicts = [self._containers[place] for place in self._twins]
        self._twin_keys = [key for place in self._twins for key in self._copies[place]]
        del self.spans[count:], self._containers[first:], self._copies[first:]
        del self._held[gone[0].held.start :], self._kinds[gone[0].held.start :]

    def suspects(self) -> list[int]:
        """Indices of the elements that may have changed inside, in order."""
        if not self.spans or self._intact():
            return self.compared
        changed = self._changed(self.spans)
        return sorted(changed + self.compared) if self.compared else changed

    def _changed(self, spans: list[_Span]) -> list[int]:
        """Which of these elements are not intact, by halves."""
        if len(spans) == 1:
            return [spans[0].at]
        out: list[int] = []
        middle = len(spans) // 2
        for half in (spans[:middle], spans[middle:]):
            if not self._these_intact(half):
                out += self._changed(half)
        return out

    def _intact(self) -> bool:
        """Does everything below the elements hold the same objects still, in the same order?"""
        if self._containers and not (
            self._holds_what_it_held()
            and (not self._twins or list(chain.from_iterable(self._twin_dicts)) == self._twin_keys)
        ):
            return False
        return all(column.intact() for column in self._columns.values())

    def _holds_what_it_held(self) -> bool:
        """`_holds_the_same` of all containers. Lists compare identical values in C, so that equality is asked
        in place of identity where it says as much.
        """
        if not self._exact:
            return self._holds_the_same(self._containers, self._held, self._copies)
        held = look_below(self._containers)
        return (
            list(map(type, held)) == self._kinds and held == self._held and self._containers == self._copies
        )

    def _these_intact(self, spans: list[_Span]) -> bool:
        part = slice(spans[0].containers.start, spans[-1].containers.stop)
        held = slice(spans[0].held.start, spans[-1].held.stop)
        containers, copies = self._containers[part], self._copies[part]
        if not self._holds_the_same(containers, self._held[held], copies):
            return False
        if list(map(list, containers)) != list(map(list, copies)):
            return False
        rows: dict[_Column, slice] = {}
        for span in spans:
            for column, row in span.records:
                rows[column] = slice(rows[column].start if column in rows else row, row + 1)
        return all(column.intact(part) for column, part in rows.items())

    @staticmethod
    def _holds_the_same(containers: list[Any], expected: list[Any], copies: list[Any]) -> bool:
        held = look_below(containers)
        if len(held) != len(expected) or not all(map(is_, held, expected)):
            return False
        try:
            # The same values in the same order; were they moved to other keys, or over a container's end?
            return containers == copies
        except Exception:  # noqa: BLE001  the `__eq__` of a value that moved: so something did move
            return False


def _are_frozen(values: list[Any], stored: list[Any]) -> bool:
    """Are these all frozen records of one class with immutable fields, each just as it was stored?"""
    cls: Any = type(values[0])
    kind = _kind(cls)
    if kind is None or not kind.frozen or set(map(type, values)) != {cls} or set(map(type, stored)) != {dict}:
        return False
    try:
        for name, field in zip(kind.names, kind.fields, strict=True):
            kinds = list(map(type, map(field, values)))
            if not _IMMUTABLE.issuperset(kinds) or kinds != list(map(type, map(itemgetter(name), stored))):
                return False
    except (AttributeError, KeyError):  # a field is not set, or was not stored
        return False
    return True


def _is_flat(value: Any, kind: Kind, stored: Any) -> bool:
    """Does a record hold immutable values alone, all of them as they were stored?"""
    if type(stored) is not dict:
        return False
    try:
        kinds = list(map(type, kind.row(value)))
        stands = list(map(type, map(stored.__getitem__, kind.names)))
        return kinds == stands and _IMMUTABLE.issuperset(kinds)
    except (AttributeError, KeyError):  # a field is not set, or was not stored
        return False


def _may_swap(value: dict[str, Any]) -> bool:
    """May two keys change places without any value seeming to move? So it is if two values are equal."""
    seen: set[Any] = set()
    others = 0
    for item in value.values():
        if type(item) in ATOMS:
            if item in seen:
                return True
            seen.add(item)
        else:
            others += 1
    return others > 1 or (others == 1 and len(value) > 1 and not _unlike_any(value))


def _unlike_any(value: dict[str, Any]) -> bool:
    """Is the one value that is no atom a dict or list, which equals no atom?"""
    return all(type(item) in ATOMS or type(item) in (dict, list, tuple) for item in value.values())
