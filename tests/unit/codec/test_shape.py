"""Declared types: instances come back exactly, and what does not fit is told by path, never bent."""

from __future__ import annotations

import collections
import collections.abc as abc
import dataclasses
import datetime as dt
import enum
import pathlib
import types
import uuid
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Optional,
    TypeVar,
    Union,
)

import msgspec
import pytest
from typing_extensions import TypeAliasType

from perdure.codec import Shape, decode, encode, plain
from perdure.errors import BadDeclaration, ShapeMismatch
from tests.unit.codec.declared import (
    MOMENT,
    Bits,
    Both,
    Box,
    Cat,
    Cents,
    Cold,
    Color,
    Dog,
    Generic1,
    Guarded,
    IntBox,
    Job,
    Level,
    Loose,
    Message,
    Mood,
    Name,
    Names,
    Node,
    OrderId,
    Pair,
    Partial,
    Plainly,
    Point,
    Prepared,
    Rights,
    Special,
    Stock,
    Struct,
    Typed,
    Untyped,
)

T = TypeVar("T")
U = TypeVar("U")
B = TypeVar("B", bound=str)


EXACT: list[tuple[Any, Any]] = [
    (Message("user", "hi"), Message),
    (Point(1, 2.5), Point),
    (Point(1, 2), Point),
    (Box(Point(1), [Point(2)]), Box[Point]),
    (Box({"any": (1,)}), Box),
    (Both(1, [2], other="x"), Both[int, str]),
    (Both(Point(1), [Point(2)], other=Message("x")), Both[Point, Message]),
    (IntBox(1, [2], "n"), IntBox),
    (Box(Box(Message("a"))), Box[Box[Message]]),
    (Node(1, [Node(2, [Node(3)])], Node(0)), Node),
    (Special(a=2, seed=5), Special),
    (Struct(1, [Point(1)]), Struct),
    (Cold(first_name="x", at=MOMENT), Cold),
    ([Cat("a"), Dog("a")], list[Cat | Dog]),
    (Generic1(Point(3)), Generic1[Point]),
    (Partial(), Partial),
    (Partial(a=1), Partial),
    ({"role": "user", "extra": [Point(1)], "unknown": (1, {2})}, Typed),
    ({}, Loose),
    (Pair(Point(1)), Pair),
    (Untyped(1, (2,)), Untyped),
    (Job.Phase.A, Job.Phase),
    (Job.Phase.ALIAS, Job.Phase),
    (Color.RED, Color),
    (Color.DEEP, Color),
    (Color.SPOT, Color),
    (Level.HIGH, Level),
    (Bits.R | Bits.X, Bits),
    (Bits(0), Bits),
    (Rights.READ | Rights.WRITE, Rights),
    (Mood.GOOD, Mood),
    ({Job.Phase.B: 1, Job.Phase.A: 2}, dict[Job.Phase, int]),
    ({Point(1): [Point(2)]}, dict[Point, list[Point]]),
    ({(1, Point(2)): "x"}, dict[tuple[int, Point], str]),
    ({Point(1), Point(2)}, set[Point]),
    (frozenset({Pair(Point(1)), Pair(Point(2), "z")}), frozenset[Pair]),
    ({frozenset({Level.LOW})}, set[frozenset[Level]]),
    ({1: "a"}, dict[int, str]),
    ((1, "a", Point(1)), tuple[int, str, Point]),
    ((Point(1), Point(2)), tuple[Point, ...]),
    ((), tuple[()]),
    ((1, [2]), tuple),
    ([1, (2,)], list),
    ({"a": {1}}, dict),
    ({1, "x"}, set),
    (None, None),
    (None, Optional[int]),  # noqa: UP045
    (3, int | str),
    ("3", Union[int, str]),  # noqa: UP007
    (1, float),
    (True, int),
    (True, bool),
    (2**100, int),
    (b"x", bytes),
    (1j, complex),
    (MOMENT, dt.datetime),
    (MOMENT, dt.date),
    (MOMENT.date(), dt.date),
    (dt.time(1, fold=1), dt.time),
    (dt.timedelta(1), dt.timedelta),
    (Decimal("1.10"), Decimal),
    (uuid.UUID(int=1), uuid.UUID),
    (pathlib.Path("/a"), pathlib.Path),
    (pathlib.Path("/a"), pathlib.PurePath),
    (pathlib.PureWindowsPath("c:/a"), pathlib.PureWindowsPath),
    ("red", Literal["red", 1] | None),
    (1, Literal["red", 1] | None),
    (Level.LOW, Literal[Level.LOW]),
    ("o-1", OrderId),
    (Name("n"), Name),
    (Cents(5), Cents),
    (Names([Name("a")]), Names),
    (Stock(a=Point(1)), Stock),
    ([Point(1)], Annotated[list[Annotated[Point, "a point"]], "points"]),
    ([1], Final[list[int]]),
    ([Point(1)], abc.Sequence[Point]),
    ((Point(1),), abc.Sequence[Point]),
    ([Point(1)], abc.Iterable[Point]),
    ([1], abc.MutableSequence[int]),
    ({"a": Point(1)}, abc.Mapping[str, Point]),
    ({Point(1)}, abc.Set[Point]),
    (collections.OrderedDict(a=Point(1)), collections.OrderedDict[str, Point]),
    (collections.Counter("aab"), collections.Counter[str]),
    (collections.defaultdict(list, a=[Point(1)]), collections.defaultdict[str, list[Point]]),
    ({"a": [1, (2, {3})]}, Any),
    ({"a": [1, (2, {3})]}, object),
    ([Message("a"), Point(1), "x", None, MOMENT], list[Message | Point | str | dt.datetime | None]),
    ("b", B),
]


def alike(one: Any, other: Any) -> bool:
    """Equal in value and type, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(
            alike(a, b) and alike(one[a], other[b]) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if dataclasses.is_dataclass(one):
        return all(alike(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    if isinstance(one, msgspec.Struct):
        return all(alike(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__)
    return bool(one == other)


@pytest.mark.parametrize(("value", "declared"), EXACT, ids=map(str, range(len(EXACT))))
def test_a_declared_type_brings_instances_back(value: Any, declared: Any) -> None:
    """Field case O-022."""
    shape = Shape.of(declared)
    stored = decode(encode(value))
    back = shape.restore(stored)
    assert alike(back, value)
    assert encode(back) == encode(value)
    assert Shape.of(list[declared]).restore([stored])[0] == value
    # The other way in: the plain tree is the same as the bytes say.
    assert alike(shape.restore(plain(value)), value)


def test_what_comes_out_shares_no_container_with_what_went_in() -> None:
    for declared in (Any, dict[str, list[int]], dict, Typed):
        stored: dict[str, Any] = {"role": [1], "long": [1] * 100}
        if declared is Typed:
            stored["role"] = "user"
        back = Shape.of(declared).restore(stored)
        back["long"].append(2)
        back["new"] = 1
        assert stored["long"] == [1] * 100
        assert "new" not in stored
    seen = {1}
    Shape.of(Any).restore([seen])[0].add(2)
    assert seen == {1}
    many = [{"a": 1} for _ in range(100)]
    back = Shape.of(list).restore(many)
    back[0]["a"] = 2
    assert many[0] == {"a": 1}


def test_post_init_runs_and_fields_are_what_was_stored() -> None:
    value = Prepared(["b", "a"])
    value.names.append("zero")
    value.names = ["z", "y"]
    back = Shape.of(Prepared).restore(plain(value))
    assert back.names == ["z", "y"]
    assert back.index == {"z": 0, "y": 1}


def test_missing_fields_take_their_defaults() -> None:
    assert Shape.of(Message).restore({"role": "a"}) == Message("a")
    first, second = (Shape.of(Box[int]).restore({"item": 1}) for _ in range(2))
    assert first.more == []
    assert first.more is not second.more
    assert Shape.of(Struct).restore({"a": 1}) == Struct(1)
    assert Shape.of(Pair).restore(({"x": 1},)) == Pair(Point(1))


MISFITS: list[tuple[Any, Any, str, str, str]] = [
    ("x", int, "$", "int", "str 'x'"),
    (True, str, "$", "str", "bool True"),
    (1.0, int, "$", "int", "float 1.0"),
    ([1], tuple[int], "$", "tuple[int]", "list"),
    ((1,), list[int], "$", "list[int]", "tuple"),
    ([1], set[int], "$", "set[int]", "list"),
    ({"role": 1}, Message, "$.role", "str", "int 1"),
    ({}, Message, "$.role", "a value", "missing"),
    ({"role": "a", "kind": "b"}, Message, "$.kind", "a field of Message", "no field for"),
    ({"role": "a", "content": None}, Message, "$.content", "str", "None"),
    ([{"item": {"x": 1}}, {"item": {"x": "1"}}], list[Box[Point]], "$[1].item.x", "int", "str"),
    ({"a b": {"x": []}}, dict[str, Point], "$['a b'].x", "int", "list"),
    ({"value": 1, "kids": [{"value": 2, "kids": [{}]}]}, Node, "$.kids[0].kids[0].value", "a value", ""),
    ("c", Job.Phase, "$", "'a', 'b'", "'c'"),
    (True, Level, "$", "Level", "True"),
    (8.0, Bits, "$", "Bits", "float"),
    ("blue", Literal["red", 1], "$", "'red', 1", "'blue'"),
    (True, Literal["red", 1], "$", "'red', 1", "True"),
    ((1, 2), tuple[int, int, int], "$", "3 items", "2 items"),
    ((1, "x"), tuple[int, int], "$[1]", "int", "str"),
    ({"type": "bird", "name": "x"}, Cat | Dog, "$", "Cat", "dict"),
    ({"name": "x"}, Cat, "$", "type = 'cat'", "None"),
    (1.5, int | str | None, "$", "int or str", "float"),
    ({"n": -1}, Guarded, "$", "Guarded", "n is negative"),
    ({"extra": []}, Typed, "$.role", "a value", "missing"),
    ({1: 2}, dict[str, int], "$[1]", "str", "int 1"),
    ({("x", 1)}, set[Point], "${}", "Point", "tuple"),
    ((1,), Pair, "$[0]", "Point", "int"),
    ((), Pair, "$", "Pair of 2 items", "0 items"),
    (2**5000, str, "$", "str", "an integer of 5001 bits"),
    (MOMENT.date(), dt.datetime, "$", "datetime", "date"),
]


@pytest.mark.parametrize(("data", "declared", "path", "expected", "was"), MISFITS)
def test_data_that_does_not_fit_is_told_by_path(
    data: Any, declared: Any, path: str, expected: str, was: str
) -> None:
    with pytest.raises(ShapeMismatch) as caught:
        Shape.of(declared).restore(data)
    assert caught.value.path == path
    assert expected in caught.value.expected
    assert was in caught.value.found
    assert caught.value.code == "M301"


def test_where_begins_the_path() -> None:
    with pytest.raises(ShapeMismatch, match=r"^\[M301\] \$\.state\.role should be str, and is int 1"):
        Shape.of(Message).restore({"role": 1}, where="$.state")


def test_data_that_is_nested_too_deeply_is_told() -> None:
    data: Any = {"value": 1}
    for _ in range(2000):
        data = {"value": 1, "kids": [data]}
    with pytest.raises(ShapeMismatch, match="too deeply"):
        Shape.of(Node).restore(data)


# ---------------------------------------------------------------------------------------------- unions


@dataclass
class Success:
    value: int


@dataclass
class Failure:
    value: int


@dataclass
class Wider:
    value: int
    note: str = ""


@dataclass
class Marked:
    kind: Literal["marked"]
    value: int


@dataclass
class Other:
    kind: Literal["other"]
    value: int


def test_a_union_is_never_guessed() -> None:
    with pytest.raises(ShapeMismatch, match=r"fits Success and Failure; give them a Literal field"):
        Shape.of(Success | Failure).restore(plain(Success(1)))
    colliding: list[tuple[Any, Any]] = [
        (Job.Phase | str, "a"),
        (dict[str, int] | Success, {"value": 1}),
        (Name | str, "n"),
    ]
    for declared, data in colliding:
        with pytest.raises(ShapeMismatch, match="fits"):
            Shape.of(declared).restore(data)
    # Where the data itself decides, it does.
    assert Shape.of(Job.Phase | str).restore("z") == "z"
    assert Shape.of(dict[str, int] | Success).restore({"other": 1}) == {"other": 1}
    for value in (Marked("marked", 1), Other("other", 1)):
        assert Shape.of(Marked | Other).restore(plain(value)) == value
    for wide in (Success(1), Wider(1), Wider(1, "n")):
        back = Shape.of(Wider | Success).restore(plain(wide))
        assert (type(back), back) == (type(wide), wide)
    # And where both readings are the same thing there is nothing to choose.
    assert Shape.of(list[int] | list[str]).restore([]) == []
    assert Shape.of(Literal["a"] | str).restore("a") == "a"  # noqa: PYI051
    assert Shape.of(dt.date | dt.datetime).restore(MOMENT) == MOMENT
    assert Shape.of(int | float | bool).restore(True) is True


def test_the_type_that_got_furthest_is_blamed() -> None:
    with pytest.raises(ShapeMismatch) as caught:
        Shape.of(Marked | int).restore({"kind": "marked", "value": "x"})
    assert caught.value.path == "$.value"


# ---------------------------------------------------------------------------------------------- declarations


class Unstorable(enum.Enum):
    CALL = object()


class Twins(enum.Enum):
    ONE = Point(1)
    TWO = {"x": 1, "y": 0.0}  # noqa: RUF012


@dataclass
class Bad:
    file: Plainly


@dataclass
class Unresolved:
    item: Missing  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Mixed(dict[str, int]):
    a: int = 0


@pytest.mark.parametrize(
    "declared",
    [
        Plainly,
        abc.Callable[[], int],
        type[int],
        collections.deque[int],
        range,
        ValueError,
        Unstorable,
        Twins,
        Bad,
        Unresolved,
        Mixed,
        "Message",
        list["Message"],
        collections.defaultdict,
        collections.defaultdict[str, Point],
    ],
)
def test_types_that_cannot_be_stored_are_refused_at_declaration(declared: Any) -> None:
    with pytest.raises(BadDeclaration) as caught:
        Shape.of(declared)
    assert caught.value.code == "C102"


def test_a_refused_field_is_named() -> None:
    with pytest.raises(BadDeclaration) as caught:
        Shape.of(list[Bad])
    assert caught.value.where == "Bad.file"


def test_shapes_are_compiled_once() -> None:
    assert Shape.of(list[Message]) is Shape.of(list[Message])
    unhashable = Annotated[int, {"a": []}]
    assert Shape.of(unhashable).restore(1) == 1


def test_local_classes_may_refer_to_themselves() -> None:
    @dataclass
    class Tree:
        kids: list[Tree]

    value = Tree([Tree([])])
    assert Shape.of(Tree).restore(plain(value)) == value


_WITHIN: Any = "Nested"
Nested: Any = TypeAliasType("Nested", str | abc.Mapping[str, _WITHIN] | abc.Sequence[_WITHIN])


def test_an_alias_may_name_itself_as_text() -> None:
    """So does what libraries declare for nested data; another name that is only text is still refused."""
    tree = {"a": ["b", {"c": "d"}]}
    shape: Shape[Any] = Shape(Nested)
    assert shape.restore(decode(encode(tree))) == tree
    with pytest.raises(ShapeMismatch):
        shape.restore({"a": [1.5]})
    elsewhere: Any = "Elsewhere"
    other: Any = TypeAliasType("Other", list[elsewhere])
    with pytest.raises(BadDeclaration, match="'Elsewhere' is written as text"):
        Shape(other)


def test_a_reply_of_pydantic_ai_is_a_result_like_any_other() -> None:
    """Its messages can be declared as a model's result or kept in the state."""
    messages: Any = import_module("pydantic_ai.messages")
    usage: Any = import_module("pydantic_ai.usage")
    call = messages.ToolCallPart("refund", {"cents": 12}, "c1")
    reply = messages.ModelResponse(
        [messages.TextPart("Done."), call], usage=usage.RequestUsage(input_tokens=3, output_tokens=4)
    )
    asked = messages.ModelRequest(
        [messages.UserPromptPart("hi"), messages.ToolReturnPart("refund", {"paid": [1, "two"]}, "c1")]
    )
    assert Shape(messages.ModelResponse).restore(decode(encode(reply))) == reply
    conversation: Any = types.GenericAlias(list, (messages.ModelMessage,))
    assert Shape(conversation).restore(decode(encode([asked, reply]))) == [asked, reply]


class Phase(enum.Enum):
    """Its member is stored as 1."""

    FIRST = 1


def test_a_literal_of_two_values_that_are_stored_alike_is_refused() -> None:
    """The number came back as the member."""
    with pytest.raises(BadDeclaration, match="stored as the same value"):
        Shape.of(Literal[1, Phase.FIRST])
    kept = Shape.of(Literal[1, True, "1"])
    for value in (1, True, "1"):
        assert type(kept.restore(value)) is type(value)
