"""pydantic models: the instance comes back equal, or the difference is told."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar
from zoneinfo import ZoneInfo

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, SecretStr, field_validator

from perdure.codec import Shape, decode, encode, plain
from perdure.errors import NotStorable, ShapeMismatch

T = TypeVar("T")
BERLIN = ZoneInfo("Europe/Berlin")


class Phase(enum.StrEnum):
    A = "a"


class Item(BaseModel):
    x: int
    note: str | None = None


class Box(BaseModel, Generic[T]):
    item: T


@dataclass
class Holder:
    box: Box[Item]
    more: list[Box[int]]


class Rich(BaseModel):
    at: dt.datetime
    naive: dt.datetime
    amount: Decimal
    phase: Phase
    names: set[str]
    pair: tuple[int, str]
    raw: bytes
    by: dict[int, Item]
    nested: list[Box[Item]]
    holder: Holder
    kept: str = Field(exclude=True, default="k")


class Renamed(BaseModel):
    schema_: dict[str, Any] = Field(alias="schema")
    other: int = Field(validation_alias="o", serialization_alias="p")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Cold(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: int


class Names(RootModel[list[Item]]):
    pass


class Private(BaseModel):
    a: int
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)


class Left(BaseModel):
    kind: Literal["left"] = "left"
    x: int


class Right(BaseModel):
    kind: Literal["right"] = "right"
    x: int


class Either(BaseModel):
    side: Annotated[Left | Right, Field(discriminator="kind")]


@pydantic.dataclasses.dataclass
class Mixed:
    item: Item
    n: int = 0


def rich() -> Rich:
    return Rich(
        at=dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        naive=dt.datetime(2026, 1, 1),  # noqa: DTZ001
        amount=Decimal("1.10"),
        phase=Phase.A,
        names={"b", "a"},
        pair=(1, "x"),
        raw=b"\x00\xff",
        by={1: Item(x=1)},
        nested=[Box[Item](item=Item(x=2, note="n"))],
        holder=Holder(Box[Item](item=Item(x=3)), [Box[int](item=4)]),
        kept="not the default",
    )


MODELS: list[tuple[Any, Any]] = [
    (Item(x=1), Item),
    (Item(x=1, note=None), Item),
    (Box[Item](item=Item(x=1)), Box[Item]),
    ([Box[Item](item=Item(x=1))], list[Box[Item]]),
    (Holder(Box[Item](item=Item(x=1)), [Box[int](item=2)]), Holder),
    (rich(), Rich),
    (Renamed(schema={"a": 1}, o=2), Renamed),  # type: ignore[call-arg]
    (Open(a=1, b=(1, 2)), Open),  # type: ignore[call-arg]
    ({Cold(a=1), Cold(a=2)}, set[Cold]),
    ({Cold(a=1): 1}, dict[Cold, int]),
    (Names([Item(x=1)]), Names),
    (Private(a=1), Private),
    ([Left(x=1), Right(x=2)], list[Left | Right]),
    (Either(side=Right(x=1)), Either),
    (Mixed(Item(x=1)), Mixed),
    ([Item(x=1), None], list[Item | None]),
]


@pytest.mark.parametrize(("value", "declared"), MODELS, ids=map(str, range(len(MODELS))))
def test_a_declared_model_comes_back_equal(value: Any, declared: Any) -> None:
    """Field case O-021."""
    back = Shape.of(declared).restore(decode(encode(value)))
    assert back == value
    assert type(back) is type(value)
    assert encode(back) == encode(value)
    if isinstance(value, BaseModel):
        assert back.model_fields_set == value.model_fields_set


def test_zones_and_folds_survive_validation() -> None:
    back = Shape.of(Rich).restore(plain(rich()))
    assert back.at.tzinfo is BERLIN
    assert back.at.fold == 1
    assert back.naive.tzinfo is None
    assert str(back.amount) == "1.10"
    assert back.kept == "not the default"
    assert type(back.holder.box) is Box[Item]


class Untold(BaseModel):
    model_config = ConfigDict(extra="allow")
    data: Any


def test_an_instance_shares_no_container_with_the_data() -> None:
    stored: dict[str, Any] = {"data": {"a": [1]}, "more": [1]}
    back = Shape.of(Untold).restore(stored)
    back.data["a"].append(2)
    back.more.append(2)
    reply = completion()
    data = plain(reply)
    again = Shape.of(type(reply)).restore(data)
    again.from_the_future["a"].append(2)
    assert stored == {"data": {"a": [1]}, "more": [1]}
    assert data == plain(reply)


def test_fields_that_were_never_set_stay_unset() -> None:
    """A server tells a field that is null from one that is not there."""
    assert plain(Item(x=1)) == {"x": 1}
    assert plain(Item(x=1, note=None)) == {"x": 1, "note": None}
    assert Shape.of(Item).restore({"x": 1}).model_dump(exclude_unset=True) == {"x": 1}


def test_without_a_declared_type_plain_data_comes_back() -> None:
    value = [Box[Item](item=Item(x=1))]
    assert decode(encode(value)) == [{"item": {"x": 1}}]


class Narrow(BaseModel):
    x: int


class Wide(Narrow):
    y: int = 0


class Upper(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def louder(cls, name: str) -> str:
        return name + "!"


class Angry(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def fails(cls, name: str) -> str:
        raise RuntimeError("a validator with a fault of its own")


class Keeper(BaseModel):
    one: Narrow


@pytest.mark.parametrize(
    ("data", "declared", "path", "expected", "was"),
    [
        ({"x": "one"}, Item, "$.x", "valid integer", "'one'"),
        ({}, Item, "$.x", "Field required", ""),
        ({"x": 1, "gone": 2}, Item, "$.gone", "Item", "which it would lose"),
        ({"x": "1"}, Item, "$.x", "Item", "which it turns into int 1"),
        ({"one": {"x": 1, "y": 2}}, Keeper, "$.one.y", "Keeper", "which it would lose"),
        ({"name": "x"}, Upper, "$.name", "Upper", "turns into str 'x!'"),
        ({"name": "x"}, Angry, "$", "Angry", "a fault of its own"),
        ([{"item": {"x": 1}}, {"item": 1}], list[Box[Item]], "$[1].item", "Box[Item]", "int 1"),
        ("x", Item, "$", "Item", "str"),
        ({"item": {"x": None}}, Box[Item], "$.item.x", "integer", "None"),
    ],
)
def test_data_that_a_model_would_change_is_a_mismatch(
    data: Any, declared: Any, path: str, expected: str, was: str
) -> None:
    with pytest.raises(ShapeMismatch) as caught:
        Shape.of(declared).restore(data)
    assert caught.value.path == path
    assert expected in caught.value.expected
    assert was in caught.value.found


def test_a_subclass_in_the_place_of_its_base_is_not_cut_down() -> None:
    with pytest.raises(ShapeMismatch, match=r"\$\.one\.y"):
        Shape.of(Keeper).restore(plain(Keeper(one=Wide(x=1, y=2))))


def test_an_int_in_a_float_field_is_the_same_number() -> None:
    class Cost(BaseModel):
        usd: float

    cost = Cost(usd=0.5)
    cost.usd = 1
    assert Shape.of(Cost).restore(plain(cost)) == cost


def test_secrets_and_other_opaque_fields_are_refused() -> None:
    class Login(BaseModel):
        password: SecretStr

    with pytest.raises(NotStorable) as caught:
        encode({"login": Login(password=SecretStr("x"))})
    assert caught.value.path == "$.login.password"
    assert "SecretStr" in caught.value.type_name


def test_json_is_read_by_name_and_by_alias() -> None:
    shape = Shape.of(Renamed)
    assert shape.parse({"schema": {}, "o": 1}) == shape.parse({"schema_": {}, "other": 1})
    parsed = Shape.of(Rich.model_fields["nested"].annotation).parse([{"item": {"x": 1}}])
    assert parsed == [Box[Item](item=Item(x=1))]
    with pytest.raises(ShapeMismatch):
        Shape.of(Item).parse({"x": "one"})


def test_a_model_describes_itself() -> None:
    schema = Shape.of(Holder).schema()
    assert schema["properties"]["box"] == {"$ref": "#/$defs/Box[Item]"}
    assert "Item" in schema["$defs"]


# ---------------------------------------------------------------------------------------------- SDK models


def completion(**change: Any) -> Any:
    """A chat completion as the OpenAI client makes it of a server's reply: built leniently, not validated."""
    chat = pytest.importorskip("openai.types.chat")
    body: dict[str, Any] = {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "logprobs": None,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "t-1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                    ],
                },
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        "from_the_future": {"a": [1]},
    }
    return chat.ChatCompletion.construct(**{**body, **change})


def test_an_sdk_reply_comes_back_equal() -> None:
    reply = completion()
    back = Shape.of(type(reply)).restore(decode(encode(reply)))
    assert back == reply
    assert back.to_dict() == reply.to_dict()
    assert back.choices[0].message.tool_calls[0].function.name == "f"
    assert back.from_the_future == {"a": [1]}


def test_an_sdk_reply_that_its_own_types_refuse_comes_back_equal() -> None:
    """Servers that speak a protocol loosely send what the client's types do not allow."""
    choice = {"index": 0, "finish_reason": "because", "message": {"role": "assistant"}}
    reply = completion(choices=[choice], created=None)
    with pytest.raises(pydantic.ValidationError):
        type(reply).model_validate(plain(reply))
    back = Shape.of(type(reply)).restore(decode(encode(reply)))
    assert back == reply
    assert back.choices[0].finish_reason == "because"
    assert back.to_dict() == reply.to_dict()
