"""A Secret is its name, in every form in which Python and the codec can show or keep it."""

from __future__ import annotations

import base64
import copy
import json
import logging
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from perdure import codec
from perdure.codec import Shape
from perdure.codec.redaction import redacted, refuse_leak, secrets_in, shown, without_secrets
from perdure.codec.secret import FORMS_MOST, KNOWN, SHORTEST, Secret, resolver_scope, written_forms
from perdure.errors import BadSetting, SecretLeaked, SecretMissing, ShapeMismatch
from perdure.runtime.redacting import Redacting
from perdure.timeline.plain import brief, jsonable

KEY: Secret[str] = Secret("KEY")


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    KNOWN.forget()
    yield
    KNOWN.forget()


@dataclass
class Account:
    """A dataclass that holds one."""

    key: Secret[str]


class Box(msgspec.Struct):
    """A Struct that holds one."""

    key: Secret[str]


class Model(BaseModel):
    """A pydantic model that holds one."""

    key: Secret[str]


@pytest.mark.parametrize("kind", [Account, Box, Model])
def test_it_comes_back_in_records_of_every_kind(kind: Any) -> None:
    made = kind(key=KEY)
    data = codec.encode(made)
    assert Shape.of(kind).restore(codec.decode(data)) == made
    assert codec.decode(data) == {"key": KEY}


def test_it_comes_back_without_a_declared_type_and_as_a_key() -> None:
    for value in (KEY, [KEY], {KEY: (KEY, {KEY})}):
        assert codec.decode(codec.encode(value)) == value


def test_it_shows_its_name_alone() -> None:
    KNOWN.learn("KEY", "the value 123")
    assert repr(KEY) == "Secret('KEY')"
    assert f"{KEY} {KEY!r:>14}" == "[secret KEY]  Secret('KEY')"
    assert json.dumps(jsonable({"a": KEY})) == '{"a": "[secret KEY]"}'
    assert brief(KEY) == "[secret KEY]"
    assert pickle.loads(pickle.dumps(KEY)) == KEY
    assert copy.deepcopy(KEY) is copy.copy(KEY) is KEY
    assert vars(type(KEY)).get("__dict__") is None
    with pytest.raises(AttributeError):
        KEY.name = "x"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201])
def test_what_cannot_be_a_name(name: str) -> None:
    with pytest.raises(BadSetting):
        Secret(name)


def test_text_never_becomes_one() -> None:
    for read in (Shape.of(Secret[str]).restore, Shape.of(Secret[str]).parse, Shape.of(Secret).parse):
        with pytest.raises(ShapeMismatch):
            read("KEY")
    with pytest.raises(ValidationError):
        Model.model_validate({"key": "KEY"})


def test_a_resolver_is_asked_each_time() -> None:
    values = {"KEY": "first value"}
    token = resolver_scope.set(values)
    try:
        assert KEY.reveal() == "first value"
        values["KEY"] = "second value"
        assert KEY.reveal() == "second value"
        assert redacted("first value, second value") == "[secret KEY], [secret KEY]"
        for broken in ({}, {"KEY": ""}, lambda name: None, {"KEY": 5}):
            resolver_scope.set(broken)  # type: ignore[arg-type]
            with pytest.raises(SecretMissing):
                KEY.reveal()
    finally:
        resolver_scope.reset(token)


@settings(max_examples=50)
@given(st.text(min_size=SHORTEST, max_size=40), st.text(max_size=5), st.text(max_size=5))
def test_a_value_is_found_in_every_form(value: str, before: str, after: str) -> None:
    """Property: whatever surrounds it, no form of it is left, and what is left alone is left as it was."""
    KNOWN.forget()
    KNOWN.learn("KEY", value)
    data = value.encode("utf-8", "surrogatepass")
    for form in (value, quote(data, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1], data.hex()):
        text = before + form + after
        assert form not in redacted(text)
        assert "[secret KEY]" in redacted(text)
        with pytest.raises(SecretLeaked):
            refuse_leak(codec.encode([text]), "$")
    encoded = base64.b64encode(data).decode().rstrip("=")
    assert encoded not in redacted(f"Basic {encoded}==")


@given(
    st.recursive(st.none() | st.text() | st.binary() | st.integers(), lambda x: st.lists(x) | st.tuples(x))
)
def test_nothing_changes_where_nothing_is_known_or_found(value: Any) -> None:
    KNOWN.forget()
    assert shown(value) == without_secrets(value) == value
    KNOWN.learn("KEY", "\U0001f511 a value that nobody draws \U0001f511")
    assert shown(value) == without_secrets(value) == value


def test_trees_are_made_safe() -> None:
    KNOWN.learn("KEY", "sk-12345678")
    tree = {"sk-12345678": [("x sk-12345678", b"sk-12345678"), {"sk-12345678"}, KEY, 5]}
    safe = {"[secret KEY]": [("x [secret KEY]", b"[secret KEY]"), {"[secret KEY]"}, KEY, 5]}
    assert without_secrets(tree) == safe
    assert shown(tree) == {"[secret KEY]": [*safe["[secret KEY]"][:2], "[secret KEY]", 5]}
    assert list(secrets_in(Account(KEY))) == list(secrets_in({"a": [Box(KEY)]})) == [KEY]


def test_short_values_are_not_looked_for_and_old_ones_are_forgotten() -> None:
    KNOWN.learn("KEY", "x" * (SHORTEST - 1))
    assert KNOWN.forms == ()
    for number in range(FORMS_MOST):
        KNOWN.learn("KEY", f"value-{number:04}-?")
    assert len(KNOWN.forms) == FORMS_MOST
    assert redacted("value-1023-?") == "[secret KEY]"
    assert redacted("value-0000-?") == "value-0000-?"
    assert len(written_forms("value-0000-?")) > 1


def test_an_error_is_kept_without_it() -> None:
    KNOWN.learn("KEY", "sk-12345678")
    error = KeyError("sk-12345678")
    error.url = "https://x/?k=sk-12345678"  # type: ignore[attr-defined]
    try:
        raise error
    except KeyError as raised:
        stored = codec.encode_error(raised)
    assert b"12345678" not in codec.encode(stored)
    assert stored["args"] == ("[secret KEY]",)
    assert stored["attributes"] == {"url": "https://x/?k=[secret KEY]"}


def test_the_filter_makes_records_of_logging_safe(caplog: pytest.LogCaptureFixture) -> None:
    KNOWN.learn("KEY", "sk-12345678")
    caplog.handler.addFilter(safe := Redacting())
    try:
        try:
            raise ValueError("sk-12345678")
        except ValueError:
            logging.getLogger("any").exception("it was %s", {"k": "sk-12345678"})
        logging.getLogger("any").error("fine: %s", 5)
    finally:
        caplog.handler.removeFilter(safe)
    assert "12345678" not in caplog.text
    assert "it was {'k': '[secret KEY]'}" in caplog.text
    assert caplog.records[1].args == (5,)
