"""States of every kind: what is restored list by list, and what only whole."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from perdure.codec import Shape, encode, plain
from perdure.errors import ShapeMismatch
from perdure.runtime import tree
from perdure.runtime.tree import LiveState, argument_digest
from perdure.state.events import Set, Splice, StateList
from perdure.state.patch import same
from tests.unit.runtime.driver import Desk, Driver, Said, Turn


@pytest.fixture(autouse=True, params=[1, 4], ids=["short lists watched", "short lists compared"])
def watch_from(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trap is set for both ways to look at a list."""
    monkeypatch.setattr(tree, "WATCH_FROM", request.param)


class Packed(msgspec.Struct, tag=True):
    """A Struct state."""

    said: list[Said] = []
    maybe: list[Turn] | None = None


class Model(BaseModel):
    """A pydantic element with hidden attributes."""

    name: str
    free: Any = None
    count: int | None = None
    _hidden: int = PrivateAttr(default=0)


class Models(BaseModel):
    """A pydantic state."""

    models: list[Model] = []
    said: list[Said] = []


class Judged(BaseModel):
    """A pydantic state that judges its lists as a whole."""

    few: list[int] = Field(default=[], max_length=8)
    sums: list[int] = []

    @field_validator("sums")
    @classmethod
    def rising(cls, value: list[int]) -> list[int]:
        if value != sorted(value):
            raise ValueError("not in order")
        return value


class Open(TypedDict):
    """A state of dicts."""

    messages: list[dict[str, Any]]


@dataclass
class Indexed:
    """Its own code looks at the whole list when it is made."""

    said: list[Said] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.index = {one.text: at for at, one in enumerate(self.said)}


class Few(BaseModel):
    """Limits in metadata."""

    items: list[int] = Field(default=[], max_length=5)


class Rising(BaseModel):
    """A validator of a field."""

    items: list[int] = []

    @field_validator("items")
    @classmethod
    def few(cls, value: list[int]) -> list[int]:
        """At most five."""
        return few(value)


class Whole(BaseModel):
    """A validator of the model."""

    items: list[int] = []

    @model_validator(mode="after")
    def few(self) -> Whole:
        """At most five."""
        few(self.items)
        return self


class Made(BaseModel):
    """A constructor of its own."""

    items: list[int] = []

    def __init__(self, **data: Any) -> None:
        few(data.get("items", []))
        super().__init__(**data)


@dataclass
class Limited:
    """A dataclass with a limit that pydantic knows."""

    items: Annotated[list[int], Field(max_length=5)]


class Post(BaseModel):
    """A check after the validation."""

    items: list[int] = []

    def model_post_init(self, context: Any, /) -> None:
        """At most five."""
        few(self.items)


class Rooted(RootModel[list[int]]):
    """A model that is a list."""


class Outer(BaseModel):
    """Limits further in."""

    by: dict[str, Annotated[list[int], Field(max_length=5)]] = {}
    inner: Limited | None = None
    free: dict[str, Any] = {}


@dataclass
class Checked:
    """A dataclass that checks itself."""

    items: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        few(self.items)


class Packet(msgspec.Struct):
    """A Struct that checks itself."""

    items: list[int] = []

    def __post_init__(self) -> None:
        few(self.items)


def few(items: list[int]) -> list[int]:
    """The same, if it is at most five."""
    if len(items) > 5:
        raise ValueError("too many")
    return items


class Within(BaseModel):
    """A validator in an annotation."""

    items: Annotated[list[int], AfterValidator(few)] = []


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("tp", [Few, Rising, Whole, Made, Post, Within, Checked, Packet])
def test_what_judges_a_list_judges_the_whole_of_it(tp: Any, nested: bool) -> None:
    inner = Shape.of(tp).restore({"items": [1, 2, 3, 4]})
    run = Driver(dict[str, tp], {"in": inner}) if nested else Driver(tp, inner)

    def items() -> list[int]:
        found: list[int] = (run.live["in"] if nested else run.live).items
        return found

    items().append(5)
    run.commit()
    items().append(6)
    with pytest.raises(ShapeMismatch):
        run.state.patch({})
    run.state.reset()
    assert run.commit() == ()


@pytest.mark.parametrize(
    ("tp", "state", "name", "item"),
    [
        (Packed, Packed(), "said", Said("user", "a")),
        (Packed, Packed(maybe=[]), "maybe", Turn("user")),
        (Models, Models(models=[], said=[]), "models", Model(name="a")),
        (Models, Models(models=[], said=[]), "said", Said("user", "a")),
        (Judged, Judged(few=[], sums=[]), "few", 1),
        (Judged, Judged(few=[], sums=[]), "sums", 1),
        (Open, {"messages": []}, "messages", {"role": "user"}),
        (dict, {"messages": []}, "messages", {"role": "user"}),
        (Indexed, Indexed(), "said", Said("user", "a")),
        (list[Turn], [], "", Turn("user")),
    ],
)
def test_states_of_every_kind(tp: Any, state: Any, name: str, item: Any) -> None:
    run = Driver(tp, state)

    def items() -> Any:
        live = run.live
        return (
            live if isinstance(live, list) else live[name] if isinstance(live, dict) else getattr(live, name)
        )

    for turn in range(6):
        items().append(copy.deepcopy(item))
        ops = run.commit()
        path = (name,) if name else ()
        assert ops == (Splice(path, turn, 0, (encode(item),)),)
        known = run.state.argument(items(), {})
        assert known == (StateList(path, turn + 1), argument_digest(items()))
    assert not isinstance(run.live, Indexed) or run.live.index == {"a": 5}


def test_models_keep_nothing_that_is_not_stored() -> None:
    run = Driver(Models, Models(models=[Model(name=str(n), free={"deep": [n]}, count=n) for n in range(6)]))
    run.live.models[3] = Model(name="3", free={"deep": [3]})
    run.commit()
    run.live.models[2]._hidden = 5
    run.live.models[3].count = None  # set, and the same: stored from now on
    run.live.models[4].free["deep"].append(1)
    ops = run.commit()
    assert ops == (
        Splice(("models", 4, "free", "deep"), 1, 0, (encode(1),)),
        Set(("models", 3, "count"), encode(None)),
    )
    assert run.live.models[2]._hidden == 0
    assert run.live.models[3].model_fields_set == {"name", "free", "count"}


def test_a_state_of_older_code_gets_its_new_fields_with_the_next_patch() -> None:
    stored = {**plain(Desk()), "turns": [{"role": "user"}] * 5}
    del stored["count"]
    run = Driver(Desk, Desk())
    run.plain = stored
    run.state = LiveState(run.shape, stored)
    ops = run.commit()
    assert Set(("count",), encode(0)) in ops
    assert Set(("turns", 4, "parts"), encode([])) in ops


def test_dicts_with_other_keys_and_sets() -> None:
    run = Driver(dict, {1: "a", None: [1, 2], (1, 2): {3}})
    run.live[None].append(3)
    run.live[(1, 2)].add(4)
    run.live[True] = "b"
    run.commit()
    assert run.live == {1: "b", None: [1, 2, 3], (1, 2): {3, 4}}


def test_limits_further_in_judge_the_whole_list() -> None:
    run = Driver(Outer, Outer(by={"k": [1] * 4}, inner=Limited([1] * 4), free={"k": [1] * 4}))
    for name in ("by", "inner"):
        for number in (5, 6):
            (run.live.by["k"] if name == "by" else run.live.inner.items).append(number)
            if number == 5:
                run.commit()
        with pytest.raises(ShapeMismatch):
            run.state.patch({})
        run.state.reset()
    run.live.free["k"].append([1])
    run.commit()
    run.live.free["k"][4].append(2)
    assert run.commit() == (Splice(("free", "k", 4), 1, 0, (encode(2),)),)


def test_what_did_not_change_stays_the_same_object() -> None:
    run = Driver(Outer, Outer(free={"k": [{"n": n} for n in range(5)]}))
    for turn in range(3):
        first = run.live.free["k"][0]
        run.live.free["k"].append({"n": turn})
        run.live.free.setdefault("new", []).append([turn])
        run.commit()
        assert run.live.free["k"][0] is first
    for turn in range(9):
        run.live.free["new"].append([turn])
        run.commit()
    first = run.live.free["new"][0]
    run.commit()
    assert run.live.free["new"][0] is first


class Priced(BaseModel):
    """A number that comes back as another."""

    price: float


class Fixed(BaseModel):
    """The same, frozen."""

    model_config = ConfigDict(frozen=True)

    price: float


class Tagged(TypedDict):
    """The same as a dict."""

    price: float


class Prices(BaseModel):
    """Lists of them."""

    models: list[Priced] = []
    fixed: list[Fixed] = []
    tagged: list[Tagged] = []


@pytest.mark.parametrize("name", ["models", "fixed", "tagged"])
def test_what_comes_back_as_something_else_is_recorded_with_the_next_patch(name: str) -> None:
    run = Driver(Prices, Prices(models=[], fixed=[], tagged=[]))
    run.plain = {**run.plain, name: [{"price": 1}] * 5}
    run.state = LiveState(run.shape, run.plain)
    assert len(run.commit()) == 1
    assert same(run.plain[name], [{"price": 1.0}] * 5)


class Loose(Said):
    """A subclass of a frozen dataclass may have attributes of its own."""


def test_attributes_of_a_loose_subclass_are_no_state() -> None:
    run = Driver(list[Loose], [Loose("user", "a") for _ in range(5)])
    run.live[2].note = 1
    assert run.commit() == ()
    assert not hasattr(run.live[2], "note")


def test_a_model_that_is_a_list() -> None:
    run = Driver(Rooted, Rooted([1] * 5))
    for turn in range(3):
        run.live.root.append(turn)
        assert run.commit() == (Splice((), 5 + turn, 0, (encode(turn),)),)
    assert run.live == Rooted([1] * 5 + [0, 1, 2])
