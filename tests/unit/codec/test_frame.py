"""Frames: version first, compressed when it pays, never trusted."""

from __future__ import annotations

import datetime as dt
import tracemalloc
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from backports import zstd

from perdure.codec import FORMAT, encode, pack, unpack
from perdure.codec.frame import BODY_MOST, COMPRESS_FROM, COMPRESSED
from perdure.errors import Damaged, NewerFormat, NotStorable


class Inner(msgspec.Struct, frozen=True, array_like=True, tag="in"):
    pair: tuple[int, ...]


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    name: str
    inner: Inner | None
    value: bytes
    state: Any = None
    more: object = None


MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STATE = {"t": (1, {2}), "at": MOMENT, 3: Decimal("1.10"), "big": 2**70, "s": "\udc81"}


def test_a_struct_comes_back_with_its_plain_data_exact() -> None:
    body = Snapshot("n", Inner((1, 2)), encode((1,)), STATE, (1, [2]))
    frame = pack(body)
    assert frame[:2] == bytes((FORMAT, 0))
    assert unpack(frame, Snapshot) == body
    assert encode(STATE) in frame
    assert pack(unpack(frame, Snapshot)) == frame


def test_builtins_come_back_exact() -> None:
    for body in ({"a": (1, 2)}, [1, "x", None], "text", {1: 2}):
        assert unpack(pack(body), type(body)) == body
    with pytest.raises(NotStorable):
        pack({"a": object()})
    with pytest.raises(NotStorable, match="object"):
        pack(Snapshot("n", None, b"", object()))


def test_large_bodies_are_compressed_when_that_pays() -> None:
    text = Snapshot("n", None, b"", "the same again " * 1000)
    frame = pack(text)
    assert frame[1] == COMPRESSED
    assert len(frame) < 500
    assert unpack(frame, Snapshot) == text
    small = pack(Snapshot("n", None, b"", "the same again " * 50))
    assert small[1] == 0
    noise = Snapshot("n", None, _noise(COMPRESS_FROM * 2))
    assert pack(noise)[1] == 0
    assert unpack(pack(noise), Snapshot) == noise


def _noise(size: int) -> bytes:
    state, out = 1, bytearray()
    while len(out) < size:
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        out += (state >> 33).to_bytes(4, "big")
    return bytes(out)


def test_a_newer_format_is_refused_by_name() -> None:
    with pytest.raises(NewerFormat) as caught:
        unpack(bytes((FORMAT + 1,)) + pack([])[1:], list)
    assert caught.value.version == FORMAT + 1


def test_every_single_changed_byte_is_damage_or_another_body() -> None:
    """Digests tell damage; the decoder must still end in a body or in a coded error, whatever the byte."""
    for body in (Snapshot("n", Inner((1,)), b"v", STATE), Snapshot("n", None, b"", "again " * 1000)):
        frame = pack(body)
        for place in range(len(frame)):
            for change in (0x01, 0x80, 0xFF):
                broken = bytearray(frame)
                broken[place] ^= change
                try:
                    unpack(bytes(broken), Snapshot)
                except (Damaged, NewerFormat):
                    continue


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x01",
        b"\x01\x00",
        b"\x00\x00\x90",
        b"\x01\x02\x90",
        b"\x01\x80\x90",
        b"\x01\x00\xc1",
        b"\x01\x00\x90\x90",
        b"\x01\x01\x00\x00\x00\x01",
        b"\x01\x01\x00\x00\x00\x01nonsense",
        b"\x01\x01" + (BODY_MOST + 1).to_bytes(4, "big") + zstd.compress(b"\x90"),
        b"\x01\x01" + (2).to_bytes(4, "big") + zstd.compress(b"\x90"),
        b"\x01\x01" + (1).to_bytes(4, "big") + zstd.compress(b"\x90\x90\x90"),
        b"\x01\x01" + (1).to_bytes(4, "big") + zstd.compress(b"\x90") + b"more",
        b"\x01\x01" + (1).to_bytes(4, "big") + zstd.compress(b"\x90")[:-1],
    ],
)
def test_bytes_that_are_no_frame_are_damaged(frame: bytes) -> None:
    with pytest.raises(Damaged):
        unpack(frame, list)


def test_a_frame_of_another_type_is_damaged() -> None:
    with pytest.raises(Damaged):
        unpack(pack([1, 2]), Snapshot)


def test_a_bomb_takes_no_more_than_it_claims() -> None:
    bomb = b"\x01\x01" + (1000).to_bytes(4, "big") + zstd.compress(b"\x00" * 50_000_000)
    tracemalloc.start()
    with pytest.raises(Damaged):
        unpack(bomb, list)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
