"""Plain trees <-> value bytes: MessagePack, and one small extension for each kind that MessagePack lacks.

A value has exactly one byte form, whatever type was declared for it, so that bytes can be compared and
digested. docs/format.md has the table of extensions. Reading never imports or calls anything that the bytes
name; bytes that are not a value raise Damaged, whoever wrote them.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, NoReturn, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder, Ext

from perdure.codec.plain import PATHS, Walk, walked
from perdure.codec.sealed import Sealed
from perdure.codec.secret import Secret
from perdure.errors import Damaged, TooLarge, ZoneMissing


class Code:
    """The MessagePack extension of each kind of value. A number is never given another meaning."""

    TUPLE = 1
    SET = 2
    FROZENSET = 3
    PAIRS = 4
    INTEGER = 5
    TEXT = 6
    DATETIME = 7
    DATE = 8
    TIME = 9
    TIMEDELTA = 10
    DECIMAL = 11
    UUID = 12
    PATH = 13
    COMPLEX = 14
    SECRET = 15
    SEALED = 16


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
    return written(walked(value, where, walk), walk, where)


def written(tree: Any, walk: Walk, where: str = "$") -> bytes:
    """The value bytes of what a walk has made plain. Raises TooLarge."""
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
    """Value bytes -> plain data. Raises Damaged (S107), or ZoneMissing (M305) for a zone unknown to this
    machine.
    """
    try:
        return _unpack(data)
    except UNREADABLE as error:
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
        return Ext(Code.TEXT, text.encode("utf-8", "surrogatepass"))
    return text


def _wire_int(number: int) -> Any:
    if _INT_MIN <= number <= _INT_MAX:
        return number
    return Ext(Code.INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))


def _wire_dict(tree: dict[Any, Any]) -> Any:
    keys = [_wire_text(key) if type(key) is str else None for key in tree]
    if all(type(key) is str for key in keys):
        return {key: _wire(item) for key, item in tree.items()}
    flat = [_wire(part) for pair in tree.items() for part in pair]
    return Ext(Code.PAIRS, _pack(flat))


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
    return Ext(Code.DATETIME, head + zone)


def _wire_time(clock: dt.time) -> Ext:
    kind, zone = _zone_bytes(clock.tzinfo)
    head = _CLOCK.pack(clock.hour, clock.minute, clock.second, clock.microsecond, clock.fold | kind << 1)
    return Ext(Code.TIME, head + zone)


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


def _wire_path(path: PurePath) -> Ext:
    return Ext(Code.PATH, bytes((PATHS.index(type(path)),)) + str(path).encode("utf-8", "surrogatepass"))


_WRITE: dict[type, Callable[[Any], Any]] = {
    str: _wire_text,
    int: _wire_int,
    list: lambda tree: [_wire(item) for item in tree],
    dict: _wire_dict,
    tuple: lambda tree: Ext(Code.TUPLE, _pack([_wire(item) for item in tree])),
    set: _wire_set(Code.SET),
    frozenset: _wire_set(Code.FROZENSET),
    dt.datetime: _wire_datetime,
    dt.date: lambda day: Ext(Code.DATE, _DAY.pack(day.year, day.month, day.day)),
    dt.time: _wire_time,
    dt.timedelta: lambda span: Ext(Code.TIMEDELTA, _SPAN.pack(span.days, span.seconds, span.microseconds)),
    Decimal: lambda number: Ext(Code.DECIMAL, str(number).encode("ascii")),
    uuid.UUID: lambda value: Ext(Code.UUID, value.bytes),
    complex: lambda number: Ext(Code.COMPLEX, _COMPLEX.pack(number.real, number.imag)),
    Secret: lambda secret: Ext(Code.SECRET, secret.name.encode("utf-8", "surrogatepass")),
    Sealed: lambda sealed: Ext(Code.SEALED, sealed.data),
    **dict.fromkeys(PATHS, _wire_path),
}


# ---------------------------------------------------------------------------------------------- from bytes

UNREADABLE = (MsgspecError, ValueError, TypeError, ArithmeticError, struct.error, RecursionError)
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


def _read_path(data: bytes) -> PurePath:
    kind = PATHS[data[0]] if data and data[0] < len(PATHS) else _malformed("a path has an unknown form")
    text = data[1:].decode("utf-8", "surrogatepass")
    # A path of the other system cannot touch files here, but its text is kept.
    foreign = issubclass(kind, Path) and not isinstance(Path(), kind)
    return PATHS[data[0] - 2](text) if foreign else kind(text)


_Read: TypeAlias = Callable[[bytes], Any]

_READ: dict[int, _Read] = {
    Code.TUPLE: lambda data: tuple(_array(data)),
    Code.SET: _read_set,
    Code.FROZENSET: lambda data: frozenset(_read_set(data)),
    Code.PAIRS: _read_pairs,
    Code.INTEGER: _read_int,
    Code.TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
    Code.DATETIME: _read_datetime,
    Code.DATE: lambda data: dt.date(*_DAY.unpack(data)),
    Code.TIME: _read_time,
    Code.TIMEDELTA: lambda data: dt.timedelta(*_SPAN.unpack(data)),
    Code.DECIMAL: _read_decimal,
    Code.UUID: lambda data: uuid.UUID(bytes=data),
    Code.PATH: _read_path,
    Code.COMPLEX: lambda data: complex(*_COMPLEX.unpack(data)),
    Code.SEALED: Sealed,
    Code.SECRET: lambda data: Secret(data.decode("utf-8", "surrogatepass")),
}
