"""Golden bytes: what perdure wrote once, it writes and reads for ever.

`values-v1.json` lists expressions with the value bytes they had when the format was made; `frames-v1.json`
bodies with their frames. A format that changes gets a new version and new files; these stay. A new kind of
value is a new row.
"""

from __future__ import annotations

import collections
import datetime
import enum
import json
import math
import pathlib
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from perdure.codec import decode, encode, pack, plain, unpack

HERE = pathlib.Path(__file__).parent


@dataclass(frozen=True)
class Point:
    """A record of the tables."""

    x: int
    y: float = 0.5


class Phase(enum.StrEnum):
    """An enum of the tables."""

    OPEN = "open"


NAMES: dict[str, Any] = {
    "Decimal": Decimal,
    "Phase": Phase,
    "Point": Point,
    "ZoneInfo": ZoneInfo,
    "collections": collections,
    "datetime": datetime,
    "math": math,
    "pathlib": pathlib,
    "uuid": uuid,
}


def rows(name: str) -> list[list[Any]]:
    """The rows of one table."""
    table: list[list[Any]] = json.loads((HERE / name).read_text("utf-8"))
    return table


def made(expression: str) -> Any:
    """The value of a row."""
    return eval(expression, dict(NAMES))


@pytest.mark.parametrize(("expression", "written"), rows("values-v1.json"))
def test_value_bytes_stay_as_they_were(expression: str, written: str) -> None:
    value = made(expression)
    assert encode(value).hex() == written
    back = decode(bytes.fromhex(written))
    assert encode(back).hex() == written
    if not isinstance(back, set | frozenset):  # whose order in memory is not told
        assert repr(back) == repr(plain(value))


@pytest.mark.parametrize(("expression", "written", "exact"), rows("frames-v1.json"))
def test_frames_stay_readable(expression: str, written: str, exact: bool) -> None:
    """Bytes are compared where they are ours alone; compressed ones depend on the version of zstd."""
    body = made(expression)
    frame = bytes.fromhex(written)
    assert unpack(frame, type(body)) == body
    if exact:
        assert pack(body) == frame


def test_the_tables_have_every_kind() -> None:
    codes = set()
    for _, written in rows("values-v1.json"):
        data = bytes.fromhex(written)
        if 0xD4 <= data[0] <= 0xD8:
            codes.add(data[1])
        elif data[0] == 0xC7:
            codes.add(data[2])
    assert codes == set(range(1, 15))
