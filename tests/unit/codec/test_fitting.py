"""Data held against a schema, by a process that does not have the type: it agrees with the type itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from perdure.codec import Shape, misfit, plain
from perdure.errors import ShapeMismatch


@dataclass
class Node:
    """It contains itself."""

    name: str
    below: list[Node] = field(default_factory=list)
    note: Node | None = None


class Size(Enum):
    """Words and numbers."""

    SMALL = "s"
    TWELVE = 12


class Point(msgspec.Struct):
    """Two numbers."""

    x: float
    y: float = 0.0


class Model(pydantic.BaseModel):
    """With limits."""

    n: Annotated[int, pydantic.Field(gt=0, le=9)]
    tag: str = pydantic.Field(default="a", min_length=1, max_length=3)


class Row(TypedDict):
    """Of a table."""

    id: int
    note: NotRequired[str]


FITS: list[tuple[Any, Any]] = [
    (bool, True),
    (int, 3),
    (float, 3),
    (float, 3.5),
    (str, "x"),
    (type(None), None),
    (bytes, b"x"),
    (bytes, "eA=="),
    (date, "2027-01-02"),
    (date, date(2027, 1, 2)),
    (datetime, datetime(2027, 1, 2, tzinfo=UTC)),
    (timedelta, timedelta(days=1)),
    (Decimal, "1.5"),
    (Decimal, Decimal("1.5")),
    (UUID, UUID(int=1)),
    (Literal["a", 1], 1),
    (Size, "s"),
    (Size, 12),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "x")),
    (dict[str, list[int]], {"a": [1]}),
    (int | None, None),
    (int | str, "x"),
    (Node, {"name": "a", "below": [{"name": "b", "note": {"name": "c"}}]}),
    (Node, Node("a", [Node("b")])),
    (Point, {"x": 1}),
    (Model, {"n": 9, "tag": "abc"}),
    (Row, {"id": 1}),
    (Any, {"anything": [None]}),
]

MISFITS: list[tuple[Any, Any, str]] = [
    (bool, 1, "$ should be true or false, and is 1"),
    (int, True, "$ should be a whole number"),
    (int, 1.5, "$ should be a whole number"),
    (int, "1", "$ should be a whole number, and is '1'"),
    (float, "x", "$ should be a number"),
    (str, 5, "$ should be text"),
    (type(None), 0, "$ should be nothing"),
    (Literal["a", 1], True, "$ should be one of 'a', 1"),
    (Size, "x", "$ should be one of 's', 12"),
    (list[int], {"a": 1}, "$ should be a list"),
    (list[int], [1, "2"], "$[1] should be a whole number"),
    (tuple[int, str], [1], "$ should be of 2 items at least"),
    (tuple[int, str], [1, "x", 3], "$[2]"),
    (dict[str, list[int]], {"a": [1, None]}, "$.a[1] should be a whole number"),
    (int | None, "x", "$ should be a whole number or nothing (null)"),
    (Node, {}, "$.name is missing"),
    (Node, {"name": "a", "below": [{"name": 5}]}, "$.below[0].name should be text"),
    (Node, {"name": "a", "other": 1}, "$.other is not known; known are: name, below, note"),
    (Point, {"x": "1"}, "$.x should be a number"),
    (Model, {"n": 0}, "$.n should be more than 0"),
    (Model, {"n": 10}, "$.n should be at most 9"),
    (Model, {"n": 1, "tag": ""}, "$.tag should be of 1 characters at least"),
    (Model, {"n": 1, "tag": "abcd"}, "$.tag should be of 3 characters at most"),
    (Row, {"note": "x"}, "$.id is missing"),
]


@pytest.mark.parametrize(("tp", "value"), FITS)
def test_what_the_type_takes_fits(tp: Any, value: Any) -> None:
    data = plain(value)
    Shape.of(tp).parse(data)
    assert misfit(Shape.of(tp).schema(), data) == ""


@pytest.mark.parametrize(("tp", "value", "said"), MISFITS)
def test_what_the_type_refuses_does_not(tp: Any, value: Any, said: str) -> None:
    with pytest.raises(ShapeMismatch):
        Shape.of(tp).parse(value)
    assert misfit(Shape.of(tp).schema(), value).startswith(said)


def test_a_word_that_is_not_known_forbids_nothing() -> None:
    assert misfit({"type": "string", "pattern": "a+", "x-odd": 1}, "b") == ""
    assert misfit({"type": "hologram"}, 5) == ""
    assert misfit({"const": 5}, 5) == ""
    assert misfit({"const": 5}, 6) == "$ should be 5, and is 6"
    assert misfit({"type": ["integer", "null"]}, None) == ""
    assert misfit({"$ref": "#/$defs/Gone"}, 5) == ""
