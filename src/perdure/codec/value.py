"""Plain trees <-> value bytes: MessagePack, and one small extension for each kind that MessagePack lacks.

A value has exactly one byte form, whatever type was declared for it, so that bytes can be compared and digested.
docs/format.md has the table of extensions. Reading never imports or calls anything that the bytes name; bytes that are
not a value raise Damaged, whoever wrote them.
"""

from __future__ import annotations

import datetime as dt
import pathlib
import re
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder, Ext

from perdure.codec.plain import PATHS, Walk, walked
from perdure.errors import Damaged, TooLarge, ZoneMissing

TUPLE: Final = 1
SET: Final = 2
FROZENSET: Final = 3
PAIRS: Final = 4
INTEGER: Final = 5
TEXT: Final = 6
DATETIME: Final = 7
DATE: Final = 8
TIME: Final = 9
TIMEDELTA: Final = 10
DECIMAL: Final = 11
UUID: Final = 12
PATH: Final = 13
COMPLEX: Final = 14

_MOMENT = struct.Struct(">HBBBBBIB")
_CLOCK = struct.Struct(">BBBIB")
_DAY = struct.Struct(">HBB")
_SPAN = struct.Struct(">iii")
_OFFSET = struct.Struct(">q")
_COMPLEX = struct.Struct(">dd")

_NAIVE, _FIXED, _KEYED, _NAMED = 0, 1, 2, 3
"""What follows a moment: nothing, an offset, a zone's key, an offset and its name."""

_ZONE_KEY = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*")
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_MICROSECOND = dt.timedelta(microseconds=1)


def encode(value: object, *, where: str = "$") -> bytes:
    """The value bytes of any value that can be stored.

    `where` is the path that error messages start with. Raises NotStorable (T205) with `path` and `type_name`.
    """
    walk = Walk()
    tree = walked(value, where, walk)
    try:
        if not walk.special:
            try:
                return _pack(tree)
            except (OverflowError, UnicodeEncodeError):
                pass  # an integer beyond 64 bits or a lone surrogate: the extensions have them
        return _pack(_wire(tree))
    except ValueError as error:
        raise TooLarge(f"{where} is larger than 4 GiB in one piece", where=where) from error


def decode(data: bytes | memoryview) -> Any:
    """Value bytes -> plain data. Raises Damaged (S107), or ZoneMissing (M305) for a zone unknown to this machine."""
    try:
        return _unpack(data)
    except _UNREADABLE as error:
        raise Damaged(f"{len(data)} bytes are not a value: {str(error) or type(error).__name__}") from None


# ---------------------------------------------------------------------------------------------- to bytes

_pack = Encoder().encode


def _wire(tree: Any) -> Any:
    """A plain tree with everything that MessagePack lacks turned into extensions."""
    writer = _WRITE.get(type(tree))
    return tree if writer is None else writer(tree)


def _wire_text(text: str) -> Any:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return Ext(TEXT, text.encode("utf-8", "surrogatepass"))
    return text


def _wire_int(number: int) -> Any:
    if _INT_MIN <= number <= _INT_MAX:
        return number
    return Ext(INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))


def _wire_dict(tree: dict[Any, Any]) -> Any:
    keys = [_wire_text(key) if type(key) is str else None for key in tree]
    if all(type(key) is str for key in keys):
        return {key: _wire(item) for key, item in tree.items()}
    flat = [_wire(part) for pair in tree.items() for part in pair]
    return Ext(PAIRS, _pack(flat))


def _wire_set(code: int) -> Callable[[Any], Ext]:
    def write(tree: set[Any]) -> Ext:
        # In the order of their bytes: the order of a set in memory changes from process to process.
        parts = sorted(_pack(_wire(item)) for item in tree)
        return Ext(code, _array_head(len(parts)) + b"".join(parts))

    return write


def _array_head(count: int) -> bytes:
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


def _wire_datetime(moment: dt.datetime) -> Ext:
    kind, zone = _zone_bytes(moment.tzinfo)
    head = _MOMENT.pack(
        moment.year,
        moment.month,
        moment.day,
        moment.hour,
        moment.minute,
        moment.second,
        moment.microsecond,
        moment.fold | kind << 1,
    )
    return Ext(DATETIME, head + zone)


def _wire_time(clock: dt.time) -> Ext:
    kind, zone = _zone_bytes(clock.tzinfo)
    head = _CLOCK.pack(clock.hour, clock.minute, clock.second, clock.microsecond, clock.fold | kind << 1)
    return Ext(TIME, head + zone)


def _zone_bytes(zone: dt.tzinfo | None) -> tuple[int, bytes]:
    if zone is None:
        return _NAIVE, b""
    if isinstance(zone, ZoneInfo):
        return _KEYED, zone.key.encode()
    assert isinstance(zone, dt.timezone)
    offset = _OFFSET.pack(zone.utcoffset(None) // _MICROSECOND)
    given = zone.__getinitargs__()  # type: ignore[attr-defined]
    if len(given) == 1:
        return _FIXED, offset
    return _NAMED, offset + given[1].encode("utf-8", "surrogatepass")


def _wire_path(path: pathlib.PurePath) -> Ext:
    return Ext(PATH, bytes((PATHS.index(type(path)),)) + str(path).encode("utf-8", "surrogatepass"))


_WRITE: dict[type, Callable[[Any], Any]] = {
    str: _wire_text,
    int: _wire_int,
    list: lambda tree: [_wire(item) for item in tree],
    dict: _wire_dict,
    tuple: lambda tree: Ext(TUPLE, _pack([_wire(item) for item in tree])),
    set: _wire_set(SET),
    frozenset: _wire_set(FROZENSET),
    dt.datetime: _wire_datetime,
    dt.date: lambda day: Ext(DATE, _DAY.pack(day.year, day.month, day.day)),
    dt.time: _wire_time,
    dt.timedelta: lambda span: Ext(TIMEDELTA, _SPAN.pack(span.days, span.seconds, span.microseconds)),
    Decimal: lambda number: Ext(DECIMAL, str(number).encode("ascii")),
    uuid.UUID: lambda value: Ext(UUID, value.bytes),
    complex: lambda number: Ext(COMPLEX, _COMPLEX.pack(number.real, number.imag)),
    **dict.fromkeys(PATHS, _wire_path),
}


# ---------------------------------------------------------------------------------------------- from bytes

_UNREADABLE = (MsgspecError, ValueError, TypeError, ArithmeticError, struct.error, RecursionError)
"""Everything that reading arbitrary bytes can raise: each means that they are not a value."""


def _malformed(why: str) -> NoReturn:
    raise ValueError(why)


def read_extension(code: int, data: memoryview) -> Any:
    """One extension's value; for MessagePack decoders that meet value bytes inside something else."""
    reader = _READ.get(code)
    if reader is None:
        _malformed(f"extension {code} is unknown")
    return reader(bytes(data))


_unpack = Decoder(ext_hook=read_extension).decode
_array = Decoder(list[Any], ext_hook=read_extension).decode


def _read_set(data: bytes) -> set[Any]:
    items = _array(data)
    out = set(items)
    return out if len(out) == len(items) else _malformed("a set has an element twice")


def _read_pairs(data: bytes) -> dict[Any, Any]:
    flat = _array(data)
    out = dict(zip(flat[::2], flat[1::2], strict=True))
    return out if len(out) * 2 == len(flat) else _malformed("a dict has a key twice")


def _read_int(data: bytes) -> int:
    number = int.from_bytes(data, "big", signed=True)
    if _INT_MIN <= number <= _INT_MAX or len(data) != number.bit_length() // 8 + 1:
        _malformed("an integer is not in its shortest form")
    return number


def _read_datetime(data: bytes) -> dt.datetime:
    year, month, day, hour, minute, second, micro, mark = _MOMENT.unpack_from(data)
    zone = _read_zone(mark >> 1, data[_MOMENT.size :])
    return dt.datetime(year, month, day, hour, minute, second, micro, zone, fold=mark & 1)


def _read_time(data: bytes) -> dt.time:
    hour, minute, second, micro, mark = _CLOCK.unpack_from(data)
    return dt.time(hour, minute, second, micro, _read_zone(mark >> 1, data[_CLOCK.size :]), fold=mark & 1)


def _read_zone(kind: int, data: bytes) -> dt.tzinfo | None:
    if kind == _NAIVE and not data:
        return None
    if kind == _KEYED:
        return _zone(data.decode("ascii"))
    if kind not in (_FIXED, _NAMED) or (kind == _FIXED and len(data) != _OFFSET.size):
        _malformed("a time zone has an unknown form")
    (offset,) = _OFFSET.unpack_from(data)
    span = dt.timedelta(microseconds=offset)
    if kind == _FIXED:
        return dt.timezone(span)
    return dt.timezone(span, data[_OFFSET.size :].decode("utf-8", "surrogatepass"))


def _zone(key: str) -> ZoneInfo:
    # The key becomes a file name: only the form that zone names have may reach the file system.
    if len(key) > 64 or not _ZONE_KEY.fullmatch(key):
        _malformed("a time zone has a name that no zone can have")
    try:
        return ZoneInfo(key)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        raise ZoneMissing(f"this machine does not know the time zone {key}", key=key) from error


def _read_decimal(data: bytes) -> Decimal:
    text = data.decode("ascii")
    number = Decimal(text)
    return number if str(number) == text else _malformed("a decimal is not in its own form")


def _read_path(data: bytes) -> pathlib.PurePath:
    kind = PATHS[data[0]] if data and data[0] < len(PATHS) else _malformed("a path has an unknown form")
    text = data[1:].decode("utf-8", "surrogatepass")
    # A path of the other system cannot touch files here, but its text is kept.
    foreign = issubclass(kind, pathlib.Path) and not isinstance(pathlib.Path(), kind)
    return PATHS[data[0] - 2](text) if foreign else kind(text)


_Read: TypeAlias = Callable[[bytes], Any]

_READ: dict[int, _Read] = {
    TUPLE: lambda data: tuple(_array(data)),
    SET: _read_set,
    FROZENSET: lambda data: frozenset(_read_set(data)),
    PAIRS: _read_pairs,
    INTEGER: _read_int,
    TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
    DATETIME: _read_datetime,
    DATE: lambda data: dt.date(*_DAY.unpack(data)),
    TIME: _read_time,
    TIMEDELTA: lambda data: dt.timedelta(*_SPAN.unpack(data)),
    DECIMAL: _read_decimal,
    UUID: lambda data: uuid.UUID(bytes=data),
    PATH: _read_path,
    COMPLEX: lambda data: complex(*_COMPLEX.unpack(data)),
}
