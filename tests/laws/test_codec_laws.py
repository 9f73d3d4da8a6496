"""Laws of the codec over random values and random bytes.

* What is encoded comes back, types and order and sign included, in one byte form.
* Restoring a declared type changes nothing: lowering the instance gives the data that it was made of.
* Bytes that nobody wrote give a value or Damaged, never anything else.
* The digest of a list does not depend on how it was put together.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import pathlib
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.codec import Rolling, Shape, decode, encode, pack, plain, restore_error, unpack
from perdure.errors import Damaged, NewerFormat, ShapeMismatch, ZoneMissing

ZONES = st.one_of(
    st.none(),
    st.just(dt.UTC),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "UTC"]).map(ZoneInfo),
    st.builds(
        dt.timezone,
        st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)),
    ),
)

TEXT = st.text(st.integers(0, 0x10FFFF).map(chr), max_size=8)  # lone surrogates and NUL included

SINGLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**300), 2**300),
    st.floats(allow_nan=True, allow_infinity=True),
    TEXT,
    st.binary(max_size=20),
    st.datetimes(timezones=st.none()),
    st.datetimes(timezones=ZONES, allow_imaginary=True),
    st.dates(),
    st.times(timezones=ZONES),
    st.timedeltas(),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.uuids(),
    st.complex_numbers(),
    TEXT.map(pathlib.PurePosixPath),
    TEXT.map(pathlib.Path),
)

KEYS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXT, st.binary(max_size=5), st.dates(), st.uuids()),
    lambda inner: st.one_of(st.tuples(inner), st.tuples(inner, inner), st.frozensets(inner, max_size=3)),
    max_leaves=4,
)

VALUES: st.SearchStrategy[Any] = st.recursive(
    SINGLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), min_size=30, max_size=70),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=5), inner, max_size=5),
        st.dictionaries(KEYS, inner, max_size=4),
        st.sets(KEYS, max_size=4),
        st.frozensets(KEYS, max_size=4),
    ),
    max_leaves=20,
)


def exact(value: Any) -> Any:
    """A form in which two values are equal only if they are the same in type, order, sign and zone."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, [(exact(key), exact(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return kind, [exact(item) for item in value]
    if isinstance(value, set | frozenset):
        return kind, sorted(repr(exact(item)) for item in value)
    if isinstance(value, float):
        return kind, struct.pack(">d", value)
    if isinstance(value, complex):
        return kind, struct.pack(">dd", value.real, value.imag)
    if isinstance(value, dt.datetime | dt.time):
        return kind, repr(value), value.fold
    return kind, repr(value)


@given(VALUES)
def test_what_is_encoded_comes_back(value: Any) -> None:
    data = encode(value)
    back = decode(data)
    assert exact(back) == exact(value)
    assert encode(back) == data
    assert exact(plain(value)) == exact(value)
    assert exact(decode(memoryview(data))) == exact(value)


@given(VALUES, VALUES)
def test_different_values_have_different_bytes(one: Any, other: Any) -> None:
    assert (encode(one) == encode(other)) == (exact(one) == exact(other))


@given(st.binary(max_size=60))
@settings(max_examples=1000)
def test_random_bytes_are_a_value_or_damaged(data: bytes) -> None:
    for read in (decode, lambda raw: unpack(raw, list), lambda raw: unpack(raw, Record), restore_error):
        try:
            read(data)
        except (Damaged, ZoneMissing, NewerFormat):
            continue


@given(VALUES, st.data())
@settings(max_examples=500)
def test_changed_bytes_are_a_value_or_damaged(value: Any, data: st.DataObject) -> None:
    """Bytes that were a value once reach deeper into the reader than random ones."""
    raw = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(raw)))
    try:
        back = decode(bytes(raw[:end] if data.draw(st.booleans()) else raw))
    except (Damaged, ZoneMissing):
        return
    repr(back)


# ------------------------------------------------------------------------------------------ declared types


class Phase(enum.StrEnum):
    """A text enum."""

    OPEN = "open"
    SHUT = "shut"


class Level(enum.IntEnum):
    """A number enum."""

    LOW = 1
    HIGH = 2


class Bits(enum.IntFlag):
    """Flags."""

    R = 1
    W = 2


@dataclass(frozen=True)
class Point:
    """A record that can be a key."""

    x: int
    y: float = 0.0


class Pair(NamedTuple):
    """A record that is a tuple."""

    point: Point
    tag: str | None = None


class Keys(TypedDict, total=False):
    """A record that is a dict."""

    a: int
    when: dt.datetime


class Record(msgspec.Struct):
    """A Struct."""

    name: str
    data: bytes = b""


@dataclass
class Everything:
    """A state with one field of each kind."""

    text: str
    points: list[Point]
    by: dict[Point, Phase]
    seen: set[Pair]
    row: tuple[Level, Bits, Decimal]
    keys: Keys
    record: Record | Point | None
    loose: Any
    kids: list[Everything]


POINTS = st.builds(Point, st.integers(), st.one_of(st.integers(), st.floats(allow_nan=False)))
EVERYTHING = st.builds(
    Everything,
    text=TEXT,
    points=st.lists(POINTS, max_size=3),
    by=st.dictionaries(POINTS, st.sampled_from(Phase), max_size=3),
    seen=st.sets(st.builds(Pair, POINTS, st.none() | TEXT), max_size=3),
    row=st.tuples(st.sampled_from(Level), st.integers(0, 3).map(Bits), st.decimals(allow_nan=False)),
    keys=st.fixed_dictionaries({}, optional={"a": st.integers(), "when": st.datetimes(timezones=ZONES)}),
    record=st.none() | POINTS | st.builds(Record, TEXT, st.binary(max_size=3)),
    loose=VALUES,
    kids=st.just([]),
)


def typed(value: Any) -> Any:
    """`exact`, for instances of declared types too."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field.name, typed(getattr(value, field.name))) for field in dataclasses.fields(value)]
        return type(value).__name__, fields
    if isinstance(value, msgspec.Struct):
        return type(value).__name__, [typed(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, dict):
        return type(value).__name__, [(typed(key), typed(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [typed(item) for item in value]
    if isinstance(value, set | frozenset):
        return type(value).__name__, sorted(repr(typed(item)) for item in value)
    return exact(value)


@given(EVERYTHING, st.lists(EVERYTHING, max_size=2))
def test_restoring_changes_nothing(value: Everything, kids: list[Everything]) -> None:
    value.kids = kids
    data = encode(value)
    back: Everything = Shape.of(Everything).restore(decode(data))
    assert typed(back) == typed(value)
    assert encode(back) == data
    assert encode(plain(back)) == data


SHAPES = [
    *(int, float, str, bytes, Phase, Level, Bits, Point, Pair, Keys, Record, Everything, list, dict),
    *(list[Point], dict[str, int], dict[Point, int], set[Pair], tuple[int, str], tuple[Point, ...]),
    *(Point | Record | None, int | str, list[int] | dict[str, Any] | None, dt.date, Decimal, pathlib.Path),
]


@given(VALUES, st.sampled_from(SHAPES))
@settings(max_examples=500)
def test_any_data_fits_unchanged_or_is_a_mismatch(value: Any, declared: Any) -> None:
    stored = plain(value)
    shape = Shape.of(declared)
    try:
        back = shape.restore(stored)
    except ShapeMismatch:
        return
    finally:
        assert exact(stored) == exact(value)
    again = plain(back)
    if not isinstance(again, dict):
        assert encode(again) == encode(stored)
    else:  # defaults of missing fields may be added, nothing else
        assert all(encode(again[key]) == encode(item) for key, item in stored.items())
    try:
        shape.parse(stored)
    except ShapeMismatch:
        return


@given(VALUES)
def test_frames_keep_plain_data(value: Any) -> None:
    body = Holder("name", value)
    frame = pack(body)
    assert pack(unpack(frame, Holder)) == frame
    assert exact(unpack(frame, Holder).state) == exact(value)


class Holder(msgspec.Struct, array_like=True):
    """A body with plain data in it."""

    name: str
    state: Any


@given(st.lists(st.lists(st.binary(max_size=5), max_size=4), max_size=5))
def test_a_rolling_digest_depends_on_the_elements_alone(parts: list[list[bytes]]) -> None:
    pieces, whole = Rolling(), Rolling()
    for part in parts:
        pieces = pieces.copy()
        pieces.extend(part)
    flat = [element for part in parts for element in part]
    whole.extend(flat)
    assert pieces.digest() == whole.digest()
    assert pieces.count == whole.count == len(flat)
    other = Rolling()
    other.extend([*flat, b""])
    assert other.digest() != whole.digest()
