"""Bodies <-> frames: what is stored for an event or a snapshot.

A frame is a version byte, a flags byte and MessagePack, compressed when that pays. It knows which versions
it can read and refuses newer ones by name; bytes that are no frame are Damaged. It does not know what a body
means.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from perdure.codec.upcast import UPCASTS, upcast
from perdure.codec.value import UNREADABLE, decode, encode, read_extension
from perdure.errors import Damaged, NewerFormat, TooLarge

if TYPE_CHECKING:
    from backports import zstd
else:
    try:
        from compression import zstd
    except ImportError:  # before Python 3.14
        from backports import zstd

FORMAT: Final = 1
"""The version of everything that this room writes: the first byte of every frame."""

_BARE: Final = bytes((FORMAT, 0))
"""How a frame begins that is not compressed."""

COMPRESSED: Final = 1
"""Flag: the body is a zstd frame, preceded by the body's length (4 bytes)."""

COMPRESS_FROM: Final = 4096
"""Bodies from this many bytes on are compressed: a database page, so that a page is saved for the time.

Measured on prose: 4 KiB become 1.8 in 30 us (and 18 us to read); 300 bytes become 230 in 27 us.
"""

BODY_MOST: Final = 1 << 30
"""The longest body, in bytes: a frame that claims more is not believed."""

LEVEL: Final = 1
"""zstd's level."""

T = TypeVar("T")

_pack = Encoder().encode


def pack(body: object) -> bytes:
    """The frame of a body: a msgspec Struct, or builtins.

    Fields annotated `Any` or `object` of a Struct hold plain data and keep it exactly; the other fields are
    written as MessagePack has them, so that the declared type must bring them back. Raises NotStorable,
    TooLarge.
    """
    if not isinstance(body, Struct):
        data = encode(body)
    else:
        names = _plain_fields(type(body))
        data = _pack(_with_values(body, names) if names else body)
    if len(data) >= COMPRESS_FROM:
        if len(data) > BODY_MOST:
            raise TooLarge(f"a body of {len(data)} bytes is longer than {BODY_MOST}")
        small = zstd.compress(data, LEVEL)
        if len(small) + 4 < len(data):
            return bytes((FORMAT, COMPRESSED)) + len(data).to_bytes(4, "big") + small
    return _BARE + data


def unpack(frame: bytes, type: type[T]) -> T:  # noqa: A002  (the word that callers write)
    """The body of a frame, as `type`. Raises NewerFormat (M304) or Damaged (S107)."""
    wanted: Any = type
    try:
        data = memoryview(frame)[2:] if frame[:2] == _BARE and len(frame) > 2 else body_of(frame)
        if frame[0] < FORMAT:
            body: T = _of_older(frame[0], data, wanted)
        elif _is_struct(wanted):
            body = _decoder(wanted).decode(data)
        else:
            body = msgspec.convert(decode(data), wanted)
    except UNREADABLE as error:
        raise Damaged(
            f"a frame of {len(frame)} bytes does not decode: {str(error) or error.__class__.__name__}"
        ) from None
    return body


def _of_older(version: int, data: bytes | memoryview, wanted: Any) -> Any:
    """A body that an older perdure wrote, brought to today's format and then read."""
    kind = getattr(wanted, "__name__", "")
    return msgspec.convert(upcast(kind, decode(data), version, FORMAT, UPCASTS), wanted)


@lru_cache(maxsize=256)
def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def body_of(frame: bytes) -> bytes | memoryview:
    """The MessagePack inside a frame."""
    if len(frame) < 3:
        raise Damaged(f"a frame of {len(frame)} bytes is cut off")
    version, flags = frame[0], frame[1]
    if version > FORMAT:
        raise NewerFormat(
            f"the frame has format {version}, this perdure reads up to {FORMAT}", version=version
        )
    if version == 0 or flags & ~COMPRESSED:
        raise Damaged(f"a frame begins with format {version} and flags {flags}, which no perdure writes")
    return _inflated(frame) if flags else memoryview(frame)[2:]


def _inflated(frame: bytes) -> bytes:
    length = int.from_bytes(frame[2:6], "big")
    if length > BODY_MOST:
        raise Damaged(f"a frame claims {length} bytes, more than any has")
    reader = zstd.ZstdDecompressor()
    try:
        data = reader.decompress(frame[6:], length + 1)
    except zstd.ZstdError as error:
        raise Damaged(f"a compressed frame does not decompress: {error}") from None
    if len(data) != length or not reader.eof or reader.unused_data:
        raise Damaged(f"a compressed frame claims {length} bytes and does not have just these")
    return data


def _with_values(body: Struct, names: tuple[str, ...]) -> Struct:
    """The body with the plain data of these fields as value bytes, in place."""
    return msgspec.structs.replace(body, **{name: Raw(encode(getattr(body, name))) for name in names})


@lru_cache(maxsize=256)
def _plain_fields(kind: type[Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type in (Any, object))


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> Decoder[Any]:
    return Decoder(kind, ext_hook=read_extension)
