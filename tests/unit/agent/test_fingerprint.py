"""Fingerprints: what is only said does not count, what is data does."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any

import pytest

from perdure.agent.fingerprint import fingerprint
from perdure.codec import Shape


def of(tp: Any) -> bytes:
    return fingerprint(Shape(tp).schema())


@dataclass
class Node:
    """Refers to itself."""

    value: int
    children: list[Node] = field(default_factory=list)


@dataclass
class Knot:
    """The same in other words."""

    value: Annotated[int, "what it holds"]
    children: list[Knot] = field(default_factory=list)


def record(name: str, *fields: Any) -> Any:
    return make_dataclass(name, fields)


def both(*types: Any) -> Any:
    return tuple.__class_getitem__(types)


def test_what_is_only_said_does_not_count() -> None:
    assert len(of(int)) == 16
    assert of(Node) == of(Knot)
    assert of(Annotated[int, "how many"]) == of(int)
    one, two = record("One", ("a", int), ("b", str)), record("Two", ("b", str), ("a", int))
    assert of(one) == of(two), "the order of fields"
    assert of(both(one, two)) == of(both(two, one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (int, str),
        (record("A", ("n", int)), record("A", ("n", str))),
        (record("A", ("n", int)), record("A", ("n", int), ("title", str, ""))),
        (record("A", ("n", int), ("title", str, "")), record("A", ("n", int), ("description", str, ""))),
        (record("A", ("n", int)), record("A", ("n", int, 1))),
        (record("A", ("n", int, 1)), record("A", ("n", int, 2))),
        (list[Node], Node),
        (both(Node, record("A", ("n", int))), both(record("A", ("n", int)), Node)),
    ],
)
def test_what_is_data_counts(one: Any, other: Any) -> None:
    assert of(one) != of(other)


def test_several_schemas_are_told_apart() -> None:
    first, second = Shape(int).schema(), Shape(str).schema()
    assert fingerprint(first, second) != fingerprint(second, first)
    assert fingerprint(first) != fingerprint(first, first)


def test_values_are_taken_verbatim() -> None:
    def enum(*values: Any) -> bytes:
        return fingerprint({"enum": list(values)})

    assert enum({"title": 1}) != enum({"title": 2})
    assert enum("#/$defs/A") != enum("#/$defs/B")
    refers = {"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}, "B": {}}}
    renamed = {"$ref": "#/$defs/C", "$defs": {"C": {"type": "string"}}}
    assert fingerprint(refers) == fingerprint(renamed)
