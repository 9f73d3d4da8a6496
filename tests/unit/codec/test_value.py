"""Value bytes: everything that can be stored comes back, everything else is refused by path and type."""

from __future__ import annotations

import array
import asyncio
import collections
import datetime as dt
import enum
import math
import pathlib
import socket
import struct
import sys
import threading
import tracemalloc
import types
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pytest

from perdure.codec import decode, encode, plain
from perdure.codec.plain import CHUNK, MAX_DEPTH
from perdure.errors import Damaged, NotStorable, ZoneMissing

UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")


def same(one: Any, other: Any) -> bool:
    """Equal in value, type, order and sign, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True)
        return len(one) == len(other) and all(same(a, c) and same(b, d) for (a, b), (c, d) in pairs)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, set | frozenset):
        return {(type(a), a) for a in one} == {(type(b), b) for b in other}
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, dt.datetime | dt.time):
        zones = (str(one.tzinfo), type(one.tzinfo)) == (str(other.tzinfo), type(other.tzinfo))
        return zones and one.fold == other.fold and one.replace(tzinfo=None) == other.replace(tzinfo=None)
    if isinstance(one, Decimal | complex):
        return repr(one) == repr(other)
    return bool(one == other)


PLAIN: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    -(2**63),
    2**64 - 1,
    2**64,
    -(2**63) - 1,
    2**200,
    -(2**200),
    "",
    "text",
    "a\x00b",
    "\\u0000",
    "\\\\u0000",
    "\udc81",
    "x\ud83d",
    "\ud83d\ude00",
    "\U0001f600",
    b"",
    b"\x00\xff",
    [],
    [1, True, 1.0, "1", None],
    {},
    {"b": 1, "a": 2},
    {1: "a", "1": "b", (2, 3): "c", None: "d"},
    {"\udc81": 1, "plain": 2},
    {2**70: "big", Decimal("1.10"): "exact", b"k": [1]},
    (),
    (1, [2, (3,)], {"k": (4,)}),
    set(),
    {1, "1", (2, frozenset({3}))},
    frozenset({None, True}),
    math.nan,
    math.inf,
    -math.inf,
    -0.0,
    5e-324,
    dt.datetime(2026, 11, 29, 14, 36, 5, 123456),  # noqa: DTZ001  (naive stays naive)
    dt.datetime(2026, 11, 29, 14, 36, tzinfo=dt.UTC),
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
    dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5, seconds=7, microseconds=1))),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.timezone(dt.timedelta(hours=1), "CET")),
    dt.date(2026, 2, 28),
    dt.time(1, 2, 3, 4, fold=1),
    dt.time(1, tzinfo=BERLIN),
    dt.timedelta(-1, 5, 3),
    dt.timedelta.max,
    dt.timedelta.min,
    Decimal("1.10"),
    Decimal("-0"),
    Decimal("NaN"),
    Decimal("sNaN123"),
    Decimal("-Infinity"),
    Decimal("1E+400"),
    Decimal(2**200),
    uuid.UUID("12345678-1234-5678-1234-567812345678"),
    pathlib.Path("/a/b c"),
    pathlib.PurePosixPath("rel/\udc81"),
    pathlib.PureWindowsPath("C:\\x\\y"),
    complex(-0.0, math.inf),
]


@pytest.mark.parametrize("value", PLAIN, ids=map(str, range(len(PLAIN))))
def test_plain_values_come_back_exactly(value: Any) -> None:
    """Field case O-020, O-023, O-025, O-026, O-028."""
    data = encode(value)
    assert same(decode(data), value)
    assert encode(decode(data)) == data
    assert same(plain(value), value)
    # Inside a container the same holds, and the element's bytes do not depend on where it stands.
    assert same(decode(encode({"in": [value]})), {"in": [value]})
    assert data in encode([value])


def test_everything_that_differs_has_different_bytes() -> None:
    twins: list[Any] = [1, True, 1.0, "1", b"1", Decimal(1), (1,), [1], {1}, frozenset({1}), 0.0, -0.0]
    twins += [{}, [], (), dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]
    twins += [dt.datetime(2026, 1, 1)]  # noqa: DTZ001
    assert len({encode(twin) for twin in twins}) == len(twins)


def test_the_bytes_of_a_set_do_not_depend_on_its_order() -> None:
    names = [f"name-{number}" for number in range(200)]
    assert encode(set(names)) == encode(set(names[100:]) | set(names[:100]))
    assert encode(frozenset(names)) != encode(set(names))


class Color(enum.Enum):
    RED = "red"
    DEEP = ("deep", 2)


class Level(enum.IntEnum):
    LOW = 1


class Bits(enum.IntFlag):
    R = 1
    W = 2


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "overridden"


class Number(int):
    def __int__(self) -> int:
        return 99


class Float(float):
    def __float__(self) -> float:
        return 99.0


class Odd(dict[str, int]):
    def items(self) -> Any:
        raise AssertionError("never asked")


class Many(list[int]):
    def __iter__(self) -> Any:
        raise AssertionError("never asked")


class Pair(NamedTuple):
    x: int
    y: Any = None


@dataclass
class Item:
    x: int
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Frozen(msgspec.Struct, frozen=True):
    x: int


class Tagged(msgspec.Struct, tag="t", tag_field="kind"):
    x: int
    gone: int | msgspec.UnsetType = msgspec.UNSET


LOWERED: list[tuple[Any, Any]] = [
    (Color.RED, "red"),
    (Color.DEEP, ("deep", 2)),
    (Level.LOW, 1),
    (Bits.R | Bits.W, 3),
    (Text("t"), "t"),
    (Number(5), 5),
    (Float(5.0), 5.0),
    (Odd(a=1), {"a": 1}),
    (Many([1, 2]), [1, 2]),
    (bytearray(b"x"), b"x"),
    (memoryview(b"xy"), b"xy"),
    (collections.OrderedDict(a=1), {"a": 1}),
    (collections.defaultdict(list, a=[1]), {"a": [1]}),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    (Pair(1, Pair(2)), (1, (2, None))),
    (Item(1, ["a"]), {"x": 1, "tags": ["a"]}),
    ({Color.RED: Level.LOW}, {"red": 1}),
    (Frozen(1), {"x": 1}),
    (Tagged(1), {"kind": "t", "x": 1}),
    ({Point(1), Point(2)}, {(("x", 1), ("y", 0)), (("x", 2), ("y", 0))}),
    ({Frozen(3): "f"}, {(("x", 3),): "f"}),
    (dt.datetime(2026, 1, 1, tzinfo=ZoneInfo.no_cache("UTC")), dt.datetime(2026, 1, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize(("value", "expected"), LOWERED, ids=map(str, range(len(LOWERED))))
def test_records_enums_and_subclasses_become_plain(value: Any, expected: Any) -> None:
    assert same(plain(value), expected)
    assert encode(value) == encode(expected)
    assert same(decode(encode(value)), expected)


@pytest.mark.parametrize("odd", [{"a": (1,)}, {1: "a"}, {"a": Color.RED}, (1,), {"a": [1]}, Text("t")])
def test_one_odd_item_in_a_long_list_is_not_overlooked(odd: Any) -> None:
    """Long lists are looked at in bulk."""
    for place in (0, CHUNK - 1, CHUNK, 2 * CHUNK):
        value: list[Any] = [{"a": 1, "b": "x"} for _ in range(2 * CHUNK)]
        value.insert(place, odd)
        assert same(decode(encode(value))[place], plain(odd))
        assert encode(odd) in encode(value)
        assert len(plain(value)) == 2 * CHUNK + 1


def test_an_ordered_dict_keeps_the_order_that_was_made() -> None:
    value = collections.OrderedDict(a=1, b=2)
    value.move_to_end("a")
    assert list(plain(value)) == ["b", "a"]


class Rotating(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta | None:
        return None if when is None else dt.timedelta(hours=when.hour)

    def dst(self, when: dt.datetime | None) -> None:
        return None

    def tzname(self, when: dt.datetime | None) -> str:
        return "R"


def test_a_zone_of_a_users_own_becomes_its_offset() -> None:
    moment = dt.datetime(2026, 1, 1, 3, tzinfo=Rotating())
    back = decode(encode(moment))
    assert back == moment
    assert back.utcoffset() == dt.timedelta(hours=3)
    with pytest.raises(NotStorable, match="no offset without a date"):
        encode(dt.time(3, tzinfo=Rotating()))


def test_a_plain_tree_shares_nothing_that_can_change() -> None:
    inner: list[Any] = [1]
    value = {"a": inner, "t": (inner,), "s": {1}, "long": [{"k": 1} for _ in range(CHUNK * 2)]}
    tree = plain(value)
    inner.append(2)
    value["s"].add(2)  # type: ignore[attr-defined]
    value["long"][0]["k"] = 2  # type: ignore[index]
    assert tree["a"] == [1]
    assert tree["t"] == ([1],)
    assert tree["s"] == {1}
    assert tree["long"][0] == {"k": 1}


def _generator() -> Any:
    yield 1


async def _coroutine() -> None:
    pass


def test_what_cannot_be_stored_is_refused_by_path_and_type() -> None:
    with socket.socket() as open_socket:
        coroutine = _coroutine()
        refused: list[tuple[Any, str]] = [
            (lambda: 1, "function"),
            (open_socket, "socket.socket"),
            (_generator(), "generator"),
            (coroutine, "coroutine"),
            (types, "module"),
            (Item, "type"),
            (len, "builtin_function_or_method"),
            (sys.stdout, type(sys.stdout).__qualname__),
            (object(), "object"),
            (ValueError("x"), "ValueError"),
            (asyncio.Timeout(None), "asyncio.timeouts.Timeout"),
            (array.array("i", [1]), "array.array"),
            (memoryview(array.array("i", [1])), "memoryview"),
            (range(3), "range"),
            (collections.deque([1]), "collections.deque"),
            (msgspec.Raw(b"\x01"), "msgspec.Raw"),
            (types.SimpleNamespace(a=1), "types.SimpleNamespace"),
            (types.MappingProxyType({}), "mappingproxy"),
            (..., "ellipsis"),
        ]
        for value, name in refused:
            with pytest.raises(NotStorable) as caught:
                encode({"result": {"session": [0, value]}}, where="$")
            assert caught.value.path == "$.result.session[1]"
            assert name in caught.value.type_name
            assert "$.result.session[1]" in caught.value.what
            with pytest.raises(NotStorable):
                plain([value])
        coroutine.close()


def test_the_path_names_keys_of_every_kind() -> None:
    bad = object()
    for value, path in [
        ({"a b": bad}, "$['a b']"),
        ({3: bad}, "$[3]"),
        ({(1, 2): {"x": bad}}, "$[tuple].x"),
        (Item(1, [bad]), "$.tags[0]"),  # type: ignore[list-item]
        ([1] * 100 + [bad], "$[100]"),
        ((1, (bad,)), "$[1][0]"),
        ({frozenset({Pair(1, Point)})}, "$"),
    ]:
        with pytest.raises(NotStorable) as caught:
            encode(value)
        assert caught.value.path.startswith(path), caught.value.path
    with pytest.raises(NotStorable) as caught:
        encode(bad, where="$.args.order")
    assert caught.value.path == "$.args.order"


def test_keys_that_would_become_one_are_refused() -> None:
    fields = (("x", 1), ("y", 0))
    for value in ({Color.RED: 1, "red": 2}, {"red": 1, Color.RED: 2}, {Point(1): 1, fields: 2}):
        with pytest.raises(NotStorable, match="when stored"):
            encode(value)
    with pytest.raises(NotStorable, match="when stored"):
        encode({Color.RED, "red"})


class Hashed(list[int]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


def test_a_key_without_a_stored_form_that_can_be_hashed_is_refused() -> None:
    with pytest.raises(NotStorable, match="cannot be hashed"):
        encode({Hashed([1]): 1})


def test_a_cycle_is_refused_and_says_where_it_closes() -> None:
    inner: list[Any] = []
    value: dict[str, Any] = {"a": {"b": inner}}
    inner.append((1, value))
    with pytest.raises(NotStorable) as caught:
        encode(value)
    assert caught.value.path == "$.a.b[0][1]"
    assert caught.value.type_name == "dict"
    assert caught.value.what == "$.a.b[0][1] (dict) refers back to $"
    item = Item(1)
    item.tags.append(item)  # type: ignore[arg-type]
    with pytest.raises(NotStorable, match="refers back"):
        plain([item])


def test_depth_is_bounded_whatever_the_nesting_is_made_of() -> None:
    def nested(levels: int, kind: Any) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = kind(value)
        return value

    kinds: list[Any] = [lambda v: [v], lambda v: {"k": v}, lambda v: (v,), lambda v: frozenset({v})]
    for kind in (*kinds, lambda v: {3: v}):
        fits = nested(MAX_DEPTH, kind)
        assert decode(encode(fits)) == fits
        with pytest.raises(NotStorable, match="deeper"):
            encode(nested(MAX_DEPTH + 1, kind))
        with pytest.raises(NotStorable):
            encode(nested(900, kind))


def test_a_deep_stack_gives_a_coded_error() -> None:
    def deeper(levels: int) -> Any:
        return deeper(levels - 1) if levels else encode(value)

    value: Any = 1
    for _ in range(100):
        value = [value]
    with pytest.raises(NotStorable, match="stack"):
        deeper(sys.getrecursionlimit() - len(_frames()) - 30)


def _frames() -> list[Any]:
    frames = []
    frame: Any = sys._getframe()
    while frame:
        frames.append(frame)
        frame = frame.f_back
    return frames


def test_a_value_that_another_thread_changes_gives_one_well_formed_value() -> None:
    """Entries come and go while it is encoded; every reading has whole entries and nothing else (O-034)."""
    shared: dict[str, Any] = {"log": [], "by": {}, "seen": set()}
    stop = threading.Event()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            shared["log"].append({"n": number, "t": (number,)})
            shared["by"][f"k{number}"] = (number, number)
            shared["seen"].add(number)
            if number % 50 == 0:
                shared["log"] = []
                shared["by"].clear()
                shared["seen"].clear()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(400):
            back = decode(encode(shared))
            assert list(back) == ["log", "by", "seen"]
            assert all(entry["t"] == (entry["n"],) for entry in back["log"])
            assert all(a == b == int(key[1:]) for key, (a, b) in back["by"].items())
    finally:
        stop.set()
        thread.join()


def test_numpy_is_exact_or_refused() -> None:
    """Field case O-029."""
    np = pytest.importorskip("numpy")
    arrays = [
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([{}, []], dtype=object),
        np.array(1),
        np.array(["2026-01-01"], dtype="datetime64[D]"),
        np.arange(10)[::2],
        np.array([]),
        np.int64(1),
        np.datetime64("2026-01-01"),
    ]
    for value in arrays:
        with pytest.raises(NotStorable) as caught:
            encode({"a": value})
        assert caught.value.path == "$.a"
    assert same(decode(encode(np.float64(0.1))), 0.1)
    assert same(decode(encode(np.str_("x"))), "x")


# ---------------------------------------------------------------------------------------------- hostile bytes


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x01\x02",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\x7f\xff\xff\xff\x01",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\xa1\xff",
        b"\x91" * 5000,
        b"\x81\x81\x01\x01\x01",
        b"\xd4\x7f\x00",  # an extension that no perdure writes
        b"\xd4\x01\xc1",  # a tuple of nothing
        b"\xd5\x02\x91\x90",  # a set of a list
        b"\xc7\x03\x02\x92\x01\x01",  # a set with an element twice
        b"\xc7\x02\x04\x91\x01",  # a key without a value
        b"\xc7\x05\x04\x94\x01\x01\x01\x01",  # a key twice
        b"\xd4\x05\x01",  # an integer that needs no extension
        b"\xd5\x06\xff\xff",  # text that is none
        b"\xc7\x0c\x07" + b"\xff" * 12,  # month 255
        b"\xc7\x0c\x07\x07\xea\x01\x01\x00\x00\x00\x00\x00\x00\x00\x80",  # an unknown kind of zone
        b"\xc7\x04\x08\x00\x00\x00\x00",
        b"\xc7\x08\x09" + b"\xff" * 8,
        b"\xc7\x0c\x0a" + b"\x7f" * 12,
        b"\xc7\x03\x0b1_0",
        b"\xc7\x03\x0b1e5",
        b"\xd4\x0c\x00",
        b"\xd4\x0d\x09",
        b"\xd4\x0e\x00",
        b"\xd8\xff" + b"\xff" * 16,
    ],
)
def test_bytes_that_are_no_value_are_damaged(data: bytes) -> None:
    with pytest.raises(Damaged):
        decode(data)


def _moment_in(zone: bytes) -> bytes:
    body = struct.pack(">HBBBBBIB", 2026, 1, 1, 0, 0, 0, 0, 2 << 1) + zone
    return b"\xc7" + bytes((len(body), 7)) + body


def test_a_zone_that_this_machine_lacks_is_told_as_that() -> None:
    with pytest.raises(ZoneMissing) as caught:
        decode(_moment_in(b"Atlantis/Capital"))
    assert caught.value.key == "Atlantis/Capital"
    assert decode(_moment_in(b"Europe/Berlin")).tzinfo is BERLIN


@pytest.mark.parametrize(
    "key", [b"../../etc/passwd", b"/etc/passwd", b"a\x00b", b"A" * 65, b"", b"Europe/", b"os.system", b"\xff"]
)
def test_a_zone_name_never_becomes_another_file(key: bytes) -> None:
    with pytest.raises(Damaged):
        decode(_moment_in(key))


def test_a_path_of_another_system_is_read_as_its_text() -> None:
    """A WindowsPath cannot be made here; its pure counterpart can."""
    foreign = pathlib.PureWindowsPath if pathlib.Path is not pathlib.WindowsPath else pathlib.PurePosixPath
    for kind, text in ((2, b"/a"), (3, b"c:/a")):
        path = decode(bytes((0xC7, 1 + len(text), 13, kind)) + text)
        assert isinstance(path, pathlib.Path) or type(path) is foreign


def test_claimed_lengths_reserve_no_memory() -> None:
    tracemalloc.start()
    for head in (b"\xdd\x7f\xff\xff\xff\x01", b"\xdf\x7f\xff\xff\xff\x01", b"\xc6\x7f\xff\xff\xff"):
        with pytest.raises(Damaged):
            decode(head)
    with pytest.raises(Damaged):
        decode(b"\xdd\0\x7f\xff\xff" * 50)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
