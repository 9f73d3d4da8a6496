"""Personal data of every type that can be stored: sealed, the same when it is opened, by its key alone."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import BaseModel, ValidationError

from perdure import codec
from perdure.codec import Shape
from perdure.codec.personal import Personal
from perdure.codec.redaction import revealing, shown
from perdure.codec.sealed import Sealed, Vault
from perdure.errors import Damaged, ExtraMissing, KeyMissing, NotStorable, PersonalErased, ShapeMismatch
from perdure.timeline.plain import brief, jsonable
from tests.laws.test_codec_laws import VALUES

VAULT = Vault("r", b"k" * 32)


@pytest.fixture
def inside() -> Iterator[None]:
    """The run is in context."""
    with VAULT.entered():
        yield


@dataclass
class Person:
    """Personal data within records, in both directions."""

    name: Personal[str]
    friends: list[Personal[dict[str, int]]]


class Model(BaseModel):
    """The same in a pydantic model."""

    name: Personal[str]
    person: Personal[Person]


@settings(max_examples=60)
@given(VALUES)
def test_every_value_comes_back_and_has_one_sealed_form(value: Any) -> None:
    """Property: plain values of every kind, without a declared type and with one."""
    with VAULT.entered():
        data = codec.encode({"a": Personal(value)})
        assert data == codec.encode({"a": Personal(value)})
        again = Shape.of(dict[str, Personal[Any]]).restore(codec.decode(data))["a"].reveal()
        untyped = Shape.of(Any).restore(codec.decode(data))["a"].reveal()
        assert codec.encode(again) == codec.encode(untyped) == codec.encode(value)
    sealed = codec.decode(data)["a"]
    assert type(sealed) is Sealed
    with Vault("s", b"s" * 32).entered():
        assert codec.encode({"a": Personal(value)}) != data
        with pytest.raises(KeyMissing):
            Shape.of(Any).restore(sealed)


def test_records_hold_it(inside: None) -> None:
    person = Person(Personal("Ada"), [Personal({"a": 1})])
    model = Model(name=Personal("Ada"), person=Personal(person))
    for made in (person, model):
        data = codec.encode(made)
        assert b"Ada" not in data
        assert Shape.of(type(made)).restore(codec.decode(data)) == made
    assert Shape.of(Person).parse({"name": "Ada", "friends": [{"a": 1}]}) == person
    with pytest.raises(ValidationError) as refused:
        Model.model_validate({"name": 5, "person": person})
    assert "personal data that does not fit" in str(refused.value)


def test_what_does_not_fit_is_told_without_it(inside: None) -> None:
    for read, data in (
        (Shape.of(Personal[int]).parse, "CANARY"),
        (Shape.of(Personal[int]).restore, "CANARY"),
    ):
        with pytest.raises(ShapeMismatch) as refused:
            read(data)
        assert "CANARY" not in str(refused.value)
    with pytest.raises(NotStorable, match=r"\.reveal\(\)"):
        codec.encode([Personal(print)])


def test_looks_show_that_it_is_there() -> None:
    with VAULT.entered():
        plain = codec.plain({"a": Personal(["Ada"])})
    assert jsonable(plain) == shown(plain) == {"a": "[personal]"}
    assert brief(plain) == "{a: [personal]}"
    with VAULT.entered():
        assert jsonable(plain) == {"a": "[personal]"}
        with revealing():
            assert jsonable(plain) == {"a": ["Ada"]}
    with Vault("r", b"").entered(), revealing():
        assert jsonable(plain) == {"a": "[erased]"}
        with pytest.raises(PersonalErased):
            Shape.of(Any).restore(plain)


def test_what_was_changed_is_damage(inside: None) -> None:
    sealed = codec.plain(Personal("Ada"))
    broken = Sealed(sealed.data[:-1] + bytes([sealed.data[-1] ^ 1]))
    with pytest.raises(Damaged):
        Shape.of(Any).restore(broken)
    with pytest.raises(Damaged):
        codec.decode(b"\xc7\x03\x10abc")


def test_without_the_package_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError("No module named 'cryptography'")
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with Vault("r", os.urandom(32)).entered(), pytest.raises(ExtraMissing) as refused:
        codec.encode(Personal("Ada"))
    assert refused.value.remedy == 'pip install "perdure[crypto]"'
