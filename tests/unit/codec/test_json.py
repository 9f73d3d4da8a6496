"""JSON as models and HTTP callers write it: read into declared types, and described by their schemas."""

from __future__ import annotations

import collections.abc as abc
import datetime as dt
import pathlib
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest

from perdure.codec import Shape, plain
from perdure.errors import ShapeMismatch
from tests.unit.codec.declared import MOMENT, Box, Cat, Job, Level, Message, Node, Pair, Point, Typed
from tests.unit.codec.test_shape import Marked, Other, alike


def test_json_forms_are_read_and_exact_data_too() -> None:
    cases: list[tuple[Any, Any, Any]] = [
        (dt.datetime, "2026-11-29T00:00:00Z", MOMENT),
        (dt.date, "2026-11-29", MOMENT.date()),
        (dt.time, "01:02:03", dt.time(1, 2, 3)),
        (dt.timedelta, "PT90S", dt.timedelta(seconds=90)),
        (dt.timedelta, 1.5, dt.timedelta(seconds=1.5)),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 1.1, Decimal("1.1")),
        (Decimal, 3, Decimal(3)),
        (uuid.UUID, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
        (bytes, "AAE=", b"\x00\x01"),
        (pathlib.Path, "/a", pathlib.Path("/a")),
        (complex, "1+2j", 1 + 2j),
        (int, 2.0, 2),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[Point], [{"x": 1}], {Point(1)}),
        (frozenset[str], ["a"], frozenset({"a"})),
        (dict[int, str], {"1": "a", "-2": "b"}, {1: "a", -2: "b"}),
        (dict[Level, str], {"1": "a"}, {Level.LOW: "a"}),
        (Pair, [{"x": 1}, "b"], Pair(Point(1), "b")),
        (Pair, {"first": {"x": 1}}, Pair(Point(1))),
        (Job.Phase, "a", Job.Phase.A),
        (Box[dt.date], {"item": "2026-11-29"}, Box(MOMENT.date())),
        (str | dt.date, "2026-11-29", "2026-11-29"),
        (dt.date | int, "2026-11-29", MOMENT.date()),
        (int | dt.date | None, None, None),
        (Marked | Other, {"kind": "other", "value": 1}, Other("other", 1)),
        (abc.Sequence[int], [1], [1]),
    ]
    for declared, data, value in cases:
        assert alike(Shape.of(declared).parse(data), value), (declared, data)


@pytest.mark.parametrize(
    ("declared", "data"),
    [
        (int, "2"),
        (int, 2.5),
        (int, True),
        (float, True),
        (float, "1.0"),
        (Decimal, True),
        (Decimal, "abc"),
        (bytes, "not base64!"),
        (dt.datetime, "yesterday"),
        (dt.datetime, 5),
        (uuid.UUID, "x"),
        (set[str], ["a", 1]),
        (dict[int, str], {"a": "b"}),
        (Message, {"role": "a", "rol": "b"}),
        (Level, 9),
        (Annotated[int, msgspec.Meta(ge=1)], 0),
        (Annotated[int, msgspec.Meta(gt=1, le=5)], 6),
        (Annotated[int, msgspec.Meta(lt=5)], 5),
        (Annotated[int, msgspec.Meta(multiple_of=5)], 6),
        (Annotated[str, msgspec.Meta(max_length=2)], "abc"),
        (Annotated[list[int], msgspec.Meta(min_length=1)], []),
        (Annotated[str, msgspec.Meta(pattern="^a")], "b"),
    ],
)
def test_json_that_does_not_fit_is_refused(declared: Any, data: Any) -> None:
    with pytest.raises(ShapeMismatch):
        Shape.of(declared).parse(data)


def test_stored_data_is_not_judged_by_limits_again() -> None:
    assert Shape.of(Annotated[int, msgspec.Meta(ge=1)]).restore(0) == 0


@dataclass
class Order:
    """What to buy."""

    id: Annotated[str, "the order's number", msgspec.Meta(min_length=1)]
    cents: Annotated[int, msgspec.Meta(ge=0, description="how much")] = 0
    at: dt.datetime | None = None
    items: list[Point] = field(default_factory=list)
    phase: Job.Phase = Job.Phase.A


def test_the_schema_says_what_parse_takes() -> None:
    assert Shape.of(Order).schema() == {
        "type": "object",
        "description": "What to buy.",
        "properties": {
            "id": {"type": "string", "minLength": 1, "description": "the order's number"},
            "cents": {"type": "integer", "minimum": 0, "description": "how much", "default": 0},
            "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
            "items": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
            "phase": {"type": "string", "enum": ["a", "b"], "default": "a"},
        },
        "required": ["id"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.0}},
                "required": ["x"],
                "additionalProperties": False,
            }
        },
    }
    assert Shape.of(Node).schema()["$ref"] == "#/$defs/Node"
    assert Shape.of(Any).schema() == {}
    assert Shape.of(Typed).schema()["required"] == ["role"]
    assert "additionalProperties" not in Shape.of(Typed).schema()
    assert Shape.of(Cat).schema()["properties"]["type"] == {"const": "cat"}
    assert Shape.of(tuple[int, str]).schema()["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert Shape.of(Literal["a", 1]).schema() == {"enum": ["a", 1]}
    assert Shape.of(dict[str, int]).schema()["additionalProperties"] == {"type": "integer"}


class Branch(NamedTuple):
    name: str
    kids: list[Branch]


def test_a_type_that_contains_itself_has_a_schema() -> None:
    schema = Shape.of(Branch).schema()
    assert schema["prefixItems"][1]["items"] == {"$ref": "#/$defs/Branch"}
    assert schema["$defs"]["Branch"]["prefixItems"][1]["items"] == {"$ref": "#/$defs/Branch"}
    value = Branch("a", [Branch("b", [])])
    assert Shape.of(Branch).restore(plain(value)) == value


def test_classes_of_one_name_have_definitions_of_their_own() -> None:
    @dataclass
    class Inner:
        a: int

    first: Any = Inner

    @dataclass
    class Inner:  # type: ignore[no-redef]
        b: str

    schema = Shape.of(tuple[first, Inner]).schema()
    assert set(schema["$defs"]) == {"Inner", "Inner_2"}
