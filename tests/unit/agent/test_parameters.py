"""Parameters: binding as Python binds, typed arguments from plain data, schemas; and what is refused."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent import use
from perdure.agent.parameters import Parameters, origin_of
from perdure.codec import plain
from perdure.errors import BadArguments, BadDeclaration

if TYPE_CHECKING:
    from nowhere import Unknowable  # type: ignore[import-not-found]


def client() -> str:
    return "client"


def parameters(fn: Callable[..., Any]) -> Parameters:
    return Parameters(fn, origin_of(fn))


# ---------------------------------------------------------------------------------------------- binding

KINDS = [
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
]
NAMES = "abcde"


@st.composite
def signatures(draw: st.DrawFn) -> inspect.Signature:
    kinds = sorted(draw(st.lists(st.sampled_from(KINDS), max_size=5)))
    made: list[inspect.Parameter] = []
    defaulted = False
    for name, kind in zip(NAMES, kinds, strict=False):
        if kind is inspect.Parameter.KEYWORD_ONLY:
            has_default = draw(st.booleans())
        else:
            has_default = defaulted = defaulted or draw(st.booleans())
        made.append(
            inspect.Parameter(name, kind, default=f"default {name}" if has_default else inspect._empty)
        )
    return inspect.Signature(made)


def function_of(signature: inspect.Signature) -> Callable[..., Any]:
    def fn(*args: Any, **kwargs: Any) -> Any:
        return signature.bind(*args, **kwargs)

    fn.__signature__ = signature  # type: ignore[attr-defined]
    return fn


@given(
    signatures(),
    st.lists(st.integers(), max_size=6),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(), max_size=5),
)
def test_binds_as_python_does(signature: inspect.Signature, args: list[int], kwargs: dict[str, int]) -> None:
    fn = function_of(signature)
    subject = parameters(fn)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        with pytest.raises(BadArguments):
            subject.bind(tuple(args), kwargs)
        with pytest.raises(BadArguments):
            subject.split(tuple(args), kwargs)
        return
    bound.apply_defaults()
    found = subject.bind(tuple(args), kwargs)
    assert list(found.items()) == list(bound.arguments.items()), (
        "names in signature order, defaults filled in"
    )
    assert subject.split(tuple(args), kwargs) == (found, {})
    # What was bound can be handed to the function again, whatever its kinds of parameters.
    positional, named = subject.arguments(found, {})
    again = signature.bind(*positional, **named)
    assert again.arguments == bound.arguments


def test_injected_parameters_are_not_the_callers() -> None:
    async def fn(a: int, bank: str = use(client), b: int = 2, *, c: int = 3) -> None: ...

    subject = parameters(fn)
    assert subject.names == ("a", "b", "c")
    assert list(subject.injected) == ["bank"]
    assert subject.bind((1,), {"b": 5}) == {"a": 1, "b": 5, "c": 3}
    assert subject.bind((1,), {}) == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(BadArguments, match="bank"):
        subject.bind((1,), {"bank": "mine"})
    with pytest.raises(BadArguments, match="by position"):
        subject.bind((1, "mine"), {})
    # A plain call may give them, as any Python function's.
    assert subject.split((1, "mine", 7), {}) == ({"a": 1, "b": 7, "c": 3}, {"bank": "mine"})
    assert subject.split((1,), {"bank": "mine"}) == ({"a": 1, "b": 2, "c": 3}, {"bank": "mine"})
    assert "bank" not in subject
    assert "b" in subject


def test_misfits_say_what_fits() -> None:
    def fn(a: int, b: int) -> None: ...

    subject = parameters(fn)
    for args, kwargs, told in [
        ((), {}, "missing 'a', 'b'"),
        ((1,), {}, "missing 'b'"),
        ((1, 2, 3), {}, "takes 2 arguments by position, got 3"),
        ((1,), {"a": 2}, "'a' twice"),
        ((1, 2), {"c": 3}, "no parameter 'c'"),
    ]:
        with pytest.raises(BadArguments) as raised:
            subject.bind(args, kwargs)
        assert told in raised.value.what
        assert raised.value.remedy == "its parameters: a, b"


def test_a_partial_keeps_what_it_was_given() -> None:
    def fn(a: int, b: int = 1, c: object = None) -> int:
        """Told."""
        return a

    subject = parameters(functools.partial(fn, c=object()))
    assert subject.names == ("a", "b")
    assert subject.bind((1,), {"b": 3}) == {"a": 1, "b": 3}
    with pytest.raises(BadArguments, match="'c'"):
        subject.bind((1,), {"c": 3})
    first = parameters(functools.partial(fn, 5))
    assert first.names == ("b", "c")
    assert first.told.text == "Told."


# ---------------------------------------------------------------------------------------------- declarations


def test_stars_have_no_place() -> None:
    def many(*items: int) -> None: ...
    def named(**items: int) -> None: ...

    cases: list[tuple[Callable[..., Any], str]] = [(many, r"\*items"), (named, r"\*\*items")]
    for fn, told in cases:
        with pytest.raises(BadDeclaration, match=told) as raised:
            parameters(fn)
        assert f"{__file__}:" in str(raised.value.where)


def test_a_default_must_be_storable() -> None:
    def fn(a: int, bank: object = object()) -> None: ...

    with pytest.raises(BadDeclaration) as raised:
        parameters(fn)
    assert "'bank'" in raised.value.what
    assert raised.value.remedy == "inject it: bank=use(provider)"


def test_an_injected_parameter_has_a_name_to_be_given_by() -> None:
    def fn(bank: str = use(client), /) -> None: ...

    with pytest.raises(BadDeclaration, match="positional-only"):
        parameters(fn)


@dataclass
class Order:
    number: str
    cents: int


class Colour(enum.Enum):
    RED = "red"


def test_types_are_resolved_when_they_are_needed() -> None:
    def early(a: Later) -> Later | None: ...

    subject = parameters(early)
    assert subject.shapes["a"].restore({"n": 1}) == Later(1)
    assert subject.result.restore(None) is None


@dataclass
class Later:
    n: int


def test_types_of_the_function_around_a_declaration_are_found() -> None:
    @dataclass
    class Local:
        n: int

    def fn(a: Local) -> list[Local]:
        return [a]

    class Holder:
        @dataclass
        class Inner:
            n: int

        def method(self, a: Inner, b: Local) -> None: ...

        declared = parameters(method)

    assert parameters(fn).shapes["a"].restore({"n": 1}) == Local(1)
    assert Holder.declared.without_first().shapes["b"].restore({"n": 2}) == Local(2)
    assert Holder.declared.without_first().shapes["a"].restore({"n": 2}) == Holder.Inner(2)


def test_a_type_that_only_the_checker_sees_is_named() -> None:
    def fn(a: Unknowable, bank: Unknowable = use(client)) -> None: ...

    subject = parameters(fn)
    assert subject.names == ("a",), "an injected parameter's type is nobody's business"
    with pytest.raises(BadDeclaration) as raised:
        _ = subject.shapes
    assert "'Unknowable'" in raised.value.what
    assert "'a'" in raised.value.what
    assert "TYPE_CHECKING" in raised.value.remedy


def test_a_type_that_cannot_be_stored_is_named() -> None:
    def fn(a: Callable[[], int]) -> None: ...

    with pytest.raises(BadDeclaration, match="parameter 'a'"):
        _ = parameters(fn).shapes


# ---------------------------------------------------------------------------------------------- plain data


def test_arguments_from_plain_data() -> None:
    def fn(
        order: Order, at: datetime, cents: Decimal, tag: str = "none", *, bank: str = use(client)
    ) -> None: ...

    subject = parameters(fn)
    at = datetime(2026, 11, 29, tzinfo=UTC)
    stored = {"cents": Decimal("1.5"), "at": at, "order": {"number": "o", "cents": 3}}
    expected = {"order": Order("o", 3), "at": at, "cents": Decimal("1.5"), "tag": "none"}
    assert list(subject.restore(stored).items()) == list(expected.items()), "in signature order"
    # A model writes JSON, in which dates and decimals are text.
    spoken = {"order": {"number": "o", "cents": 3}, "at": "2026-11-29T00:00:00Z", "cents": "1.5"}
    assert subject.parse(spoken) == expected
    assert subject.restore({name: plain(value) for name, value in expected.items()}) == expected


@pytest.mark.parametrize(
    ("given", "path", "told"),
    [
        ({}, "$.order", "missing 'order'"),
        ({"order": {"number": "o"}}, "$.order", "cents"),
        ({"order": {"number": "o", "cents": "3"}}, "$.order.cents", "int"),
        ({"order": {"number": "o", "cents": 3}, "colour": "blue"}, "$.colour", "red"),
        ({"order": {"number": "o", "cents": 3}, "bank": "mine"}, "$.bank", "injected"),
        ({"order": {"number": "o", "cents": 3}, "tip": 1}, "$.tip", "no parameter 'tip'"),
        ("text", "$", "object"),
    ],
)
def test_misfits_name_path_expected_and_found(given: Any, path: str, told: str) -> None:
    def fn(order: Order, colour: Colour = Colour.RED, *, bank: str = use(client)) -> None: ...

    for read in (parameters(fn).parse, parameters(fn).restore):
        with pytest.raises(BadArguments) as raised:
            read(given)
        error = raised.value
        assert told in f"{error.what} {error.expected}"
        assert error.path.startswith(path)
        assert error.expected
        assert error.found


# ---------------------------------------------------------------------------------------------- schemas


def test_the_schema_is_what_models_want() -> None:
    def fn(
        number: str,
        count: Annotated[int, "how many"] = 1,
        /,
        *,
        colour: Colour = Colour.RED,
        order: Order | None = None,
        bank: str = use(client),
    ) -> None:
        """Do it.

        Args:
            number: which one,
                exactly
            bank: never told
        """

    schema = parameters(fn).schema
    assert schema["type"] == "object"
    assert list(schema["properties"]) == ["number", "count", "colour", "order"]
    assert schema["required"] == ["number"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["number"] == {"type": "string", "description": "which one, exactly"}
    assert schema["properties"]["count"] == {"type": "integer", "description": "how many", "default": 1}
    assert schema["properties"]["colour"]["default"] == "red"
    assert schema["properties"]["order"]["default"] is None


def test_a_default_that_json_cannot_express_is_not_told() -> None:
    def fn(a: float = float("inf"), b: bytes = b"x") -> None: ...

    assert all("default" not in told for told in parameters(fn).schema["properties"].values())


def test_two_classes_of_one_name_stay_apart() -> None:
    def first() -> type:
        @dataclass
        class Item:
            a: int

        return Item

    def second() -> type:
        @dataclass
        class Item:
            b: str

        return Item

    def fn(x: Any, y: Any, z: Any) -> None: ...

    one, two = first(), second()
    fn.__annotations__ = {"x": list[one], "y": list[two], "z": list[one]}  # type: ignore[valid-type]
    schema = parameters(fn).schema

    def members(name: str) -> set[str]:
        items = schema["properties"][name]["items"]
        if "$ref" in items:
            items = schema["$defs"][items["$ref"].removeprefix("#/$defs/")]
        return set(items["properties"])

    assert (members("x"), members("y"), members("z")) == ({"a"}, {"b"}, {"a"})


def test_a_function_without_types_takes_plain_data() -> None:
    def fn(a, b=None): ...  # type: ignore[no-untyped-def]

    subject = parameters(fn)
    assert subject.parse({"a": [1, {"x": None}]}) == {"a": [1, {"x": None}], "b": None}
    assert subject.schema["properties"]["a"] == {}
