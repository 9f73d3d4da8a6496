"""Stored values as JSON and as short text: nothing is lost silently, nothing can move a cursor."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.timeline.plain import brief, clean, jsonable, lines

HOSTILE = "\x1b[2Jred\x07\r\n\u202etxt.exe\u200b\ud800\x9b31m\U000e0041"


def test_clean_writes_everything_that_could_act_on_a_terminal_as_an_escape() -> None:
    assert clean(HOSTILE) == (r"\x1b[2Jred\x07\r\n\u202etxt.exe\u200b\ud800\x9b31m" + r"\U000e0041")


def test_clean_leaves_ordinary_text_of_any_script_alone() -> None:
    for text in ("plain", "café", "日本語", "مرحبا", "👩‍🚀", "€ 412"):
        assert clean(text) == text


@given(st.text(st.characters(categories=("Cc", "Cs", "Lu", "Ll", "Zs", "Cf")), max_size=40))
def test_cleaned_text_never_holds_a_control_character_and_always_encodes(text: str) -> None:
    shown = clean(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    shown.encode()


def test_lines_keeps_line_breaks_and_cleans_the_rest() -> None:
    assert lines("one\r\ntwo\x1b[0m\nthree") == ["one", "two\\x1b[0m", "three"]


ODD: list[tuple[Any, Any]] = [
    (1 << 60, {"$int": str(1 << 60)}),
    (float("nan"), {"$float": "nan"}),
    (float("-inf"), {"$float": "-inf"}),
    (b"\x00\xff", {"$bytes": "AP8="}),
    ({1: "a"}, {"$pairs": [[1, "a"]]}),
    ({"$bytes": "mine"}, {"$pairs": [["$bytes", "mine"]]}),
    ({"$a": 1, "b": 2}, {"$a": 1, "b": 2}),
    ((1, (2,)), [1, [2]]),
    ({3, 1, 2}, {"$set": [1, 2, 3]}),
    (Decimal("1.10"), {"$decimal": "1.10"}),
    (UUID(int=5), {"$uuid": str(UUID(int=5))}),
    (dt.datetime(2026, 11, 29, 14, tzinfo=dt.UTC), {"$datetime": "2026-11-29T14:00:00+00:00"}),
    (dt.date(2026, 11, 29), {"$date": "2026-11-29"}),
    (dt.time(14, 3), {"$time": "14:03:00"}),
    (dt.timedelta(minutes=2), {"$seconds": 120.0}),
    (1 + 2j, {"$complex": [1.0, 2.0]}),
    (PurePosixPath("/a/b"), {"$path": "/a/b"}),
    ("a\ud800", {"$text": "a\\ud800"}),
]


@pytest.mark.parametrize(("value", "expected"), ODD, ids=lambda value: type(value).__name__)
def test_what_json_cannot_say_is_written_with_its_kind(value: Any, expected: Any) -> None:
    assert jsonable(value) == expected
    json.dumps(jsonable(value), allow_nan=False).encode()


def test_an_unknown_object_is_named_and_never_asked_for_its_text() -> None:
    class Trap:
        def __repr__(self) -> str:
            raise AssertionError("a stored object was asked for its text")

    assert jsonable({"x": Trap()}) == {"x": {"$other": "Trap"}}
    assert brief([Trap()]) == "[<Trap>]"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        (["text"], '["text"]'),
        ({"order_id": "o-77", "cents": 1200}, '{order_id: "o-77", cents: 1200}'),
        ((True, None, 1.5), "[true, none, 1.5]"),
        (b"12345", "<5 bytes>"),
        (1 << 4000, "<integer of 4001 bits>"),
        ({"a": "\x1b[31m"}, '{a: "\\x1b[31m"}'),
        (dt.timedelta(seconds=90), "90 s"),
        ({}, "{}"),
    ],
)
def test_brief(value: Any, shown: str) -> None:
    assert brief(value) == shown


def test_brief_is_never_wider_than_asked_and_reads_no_more_than_fits() -> None:
    assert brief("x" * 1_000_000, 10) == "x" * 9 + "…"
    nested: Any = []
    for _ in range(5000):
        nested = [nested]
    assert len(brief(nested, 30)) == 30
