"""Exceptions: told in full, rebuilt only as classes that were handed over, never by a stored name."""

from __future__ import annotations

import json
import pickle
import socket
import sys
from pathlib import Path
from typing import Any, Self

import pytest

from perdure.codec import decode, encode, encode_error, restore_error
from perdure.codec.fault import MESSAGE_MOST, TRACE_MOST
from perdure.errors import Damaged, RemoteError, StaleEpoch


class InsufficientFunds(Exception):
    """An exception with a constructor of its own, which must not run again."""

    made = 0

    def __init__(self, code: int, *, detail: str) -> None:
        type(self).made += 1
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = {"text": detail, "pair": (1, 2)}
        self.response = socket.socket  # no part of what can be kept


class Narrower(InsufficientFunds):
    pass


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Demanding(Exception):
    def __new__(cls, one: int, two: int) -> Self:
        return super().__new__(cls, one, two)

    def __init__(self, one: int, two: int) -> None:
        super().__init__("only this")


def caught(make: Any) -> BaseException:
    try:
        make()
    except BaseException as error:  # noqa: BLE001
        return error
    raise AssertionError("nothing was raised")


def through_bytes(error: BaseException, *allowed: type[BaseException]) -> BaseException:
    """The error after a round through the store."""
    return restore_error(decode(encode(encode_error(error))), allowed)


def test_an_allowed_exception_comes_back_past_its_constructor() -> None:
    error = InsufficientFunds(7, detail="empty")
    before = InsufficientFunds.made
    back = through_bytes(error, ValueError, InsufficientFunds)
    assert InsufficientFunds.made == before
    assert type(back) is InsufficientFunds
    assert back.args == error.args
    assert str(back) == "7: empty"
    assert back.code == 7
    assert back.detail == {"text": "empty", "pair": (1, 2)}
    assert not hasattr(back, "response")


def test_a_subclass_comes_back_as_the_class_that_was_declared() -> None:
    error = Narrower(1, detail="x")
    assert type(through_bytes(error, InsufficientFunds)) is InsufficientFunds
    assert type(through_bytes(error, InsufficientFunds, Narrower)) is Narrower


def test_an_exception_that_was_not_declared_is_told_by_a_stand_in() -> None:
    """Field case O-027."""
    error = caught(lambda: json.loads("{"))
    back = through_bytes(error, OSError)
    assert isinstance(back, RemoteError)
    assert back.type_name == "JSONDecodeError"
    assert back.message == str(error)
    assert "json.loads" in back.trace
    assert back.code == "T214"
    assert type(through_bytes(ValueError("x"))) is RemoteError


def test_no_stored_name_is_ever_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored value may name os.system, or a class whose import does harm: nothing happens (O-096)."""
    mark = tmp_path / "harm"
    (tmp_path / "harmful.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Boom(Exception): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    stored = encode_error(ValueError("x"))
    for names in ([["harmful", "Boom"]], [["os", "system"]], [["builtins", "eval"]]):
        back = restore_error({**stored, "names": names, "args": ("touch " + str(mark),)}, [OSError])
        assert isinstance(back, RemoteError)
    for value in ({"__class__": "harmful.Boom"}, {"py/object": "os.system"}, ["!!python/object:os.system"]):
        assert decode(encode(value)) == value
    assert not mark.exists()
    assert "harmful" not in sys.modules


def test_a_script_and_its_import_are_the_same_module() -> None:
    stored = encode_error(InsufficientFunds(1, detail="x"))
    stored["names"][0][0] = "__main__"
    assert type(restore_error(stored, [InsufficientFunds])) is InsufficientFunds
    stored["names"][0][0] = "another.module"
    assert isinstance(restore_error(stored, [InsufficientFunds]), RemoteError)


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (caught(lambda: open("/does/not/exist")), ("errno", "filename", "strerror")),  # noqa: SIM115
        (caught(b"\xff".decode), ("reason", "start", "end", "object", "encoding")),
        (caught(lambda: {}["k"]), ()),  # type: ignore[index]
        (caught(lambda: json.loads("{")), ("msg", "pos", "lineno")),
        (StopIteration(3), ("value",)),
        (SystemExit(4), ("code",)),
        (ImportError("x", name="n"), ()),
        (StaleEpoch("old", epoch=3), ("what", "facts", "safe")),
        (TimeoutError(), ()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_the_interpreter_keep_their_facts(error: BaseException, facts: tuple[str, ...]) -> None:
    back = through_bytes(error, type(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.args == error.args
    for fact in facts:
        assert getattr(back, fact) == getattr(error, fact)


def test_notes_and_causes_are_told() -> None:
    def fail() -> None:
        try:
            raise KeyError("inner \udc81 \x00")
        except KeyError as inner:
            outer = ValueError("outer")
            outer.add_note("seen twice")
            raise outer from inner

    back = through_bytes(caught(fail), ValueError)
    assert back.__notes__ == ["seen twice"]
    stand_in = through_bytes(caught(fail))
    assert isinstance(stand_in, RemoteError)
    assert "inner" in stand_in.trace
    assert "direct cause" in stand_in.trace


def test_an_error_that_cannot_be_told_well_is_told_all_the_same() -> None:
    rude = encode_error(Rude())
    assert "RuntimeError" in rude["message"]
    encode(rude)
    opaque = ValueError("cannot keep", object())
    assert encode_error(opaque)["args"] is None
    back = through_bytes(opaque, ValueError)
    assert back.args == (str(opaque),)
    assert isinstance(through_bytes(Demanding(1, 2), Demanding), RemoteError)
    group = ExceptionGroup("many", [ValueError("a")])
    assert isinstance(through_bytes(group, ExceptionGroup), RemoteError)
    long = encode_error(ValueError("x" * (MESSAGE_MOST * 2)))
    assert len(long["message"]) == MESSAGE_MOST
    assert len(long["trace"]) <= TRACE_MOST + 10


def test_a_stand_in_survives_pickling_and_another_round() -> None:
    first = through_bytes(InsufficientFunds(1, detail="x"))
    again = pickle.loads(pickle.dumps(first))
    assert again.message == first.message  # type: ignore[attr-defined]
    second = through_bytes(first, RemoteError)
    assert type(second) is RemoteError
    assert second.type_name == "InsufficientFunds"


def test_value_bytes_are_taken_too() -> None:
    assert type(restore_error(encode(encode_error(ValueError("x"))), [ValueError])) is ValueError


@pytest.mark.parametrize(
    "change",
    [
        {"type": 1},
        {"names": None},
        {"names": [["a"]]},
        {"names": ["ab"]},
        {"args": [1]},
        {"attributes": []},
        {"trace": None},
        {"more": 1},
    ],
)
def test_data_that_is_no_error_is_damage(change: dict[str, Any]) -> None:
    with pytest.raises(Damaged):
        restore_error({**encode_error(ValueError("x")), **change})
    with pytest.raises(Damaged):
        restore_error(encode("no error"))
