"""Places in a state, as they are written and as they are found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import BadPlace
from perdure.timeline.place import MISSING, Place, found_at, parsed, value_at, written

STATE: dict[str, Any] = {
    "messages": [{"role": "user", "content": "hello"}, {"role": "tool"}],
    "orders": {"o-77": {"cents": 1200}},
    "odd": {7: "seven", "a.b": 1},
}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ()),
        ("messages", ("messages",)),
        ("messages[0].content", ("messages", 0, "content")),
        ("messages[-1]", ("messages", -1)),
        ("orders['o-77'].cents", ("orders", "o-77", "cents")),
        ('odd["a.b"]', ("odd", "a.b")),
        ("o-77", ("o-77",)),
    ],
)
def test_a_place_is_read(text: str, place: Place) -> None:
    assert parsed(text) == place


@pytest.mark.parametrize("text", ["a[", "a..b", ".a", "a[b]", "a['b]", "a]"])
def test_what_is_no_place_is_refused_and_says_where(text: str) -> None:
    with pytest.raises(BadPlace, match="from character"):
        parsed(text)


names = st.text(st.characters(codec="ascii", exclude_characters="'\\\"", categories=["L", "N", "P", "S"]))


@given(st.lists(names.filter(bool) | st.integers(0, 99), min_size=1).map(tuple))
def test_what_is_written_is_read_again(place: Place) -> None:
    text = written(place)
    assert parsed(text) == place, text


def test_values_are_found_by_key_by_index_and_from_the_end() -> None:
    assert value_at(STATE, ("messages", -1, "role")) == "tool"
    assert value_at(STATE, ("odd", 7)) == "seven"
    assert value_at(STATE, ("messages", 2)) is MISSING
    assert value_at(STATE, ("messages", "role")) is MISSING
    assert value_at(STATE, ()) is STATE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("messages[9]", r"messages has no \[9\]: it is a list of 2"),
        ("messages[0].text", "messages.0. has no text: it is an object with role, content"),
        ("orders['o-77'].cents.x", "it is the value 1200"),
        ("nothing", "state has no nothing: it is an object with messages, orders, odd"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(text: str, words: str) -> None:
    with pytest.raises(BadPlace, match=words):
        found_at(STATE, parsed(text))
