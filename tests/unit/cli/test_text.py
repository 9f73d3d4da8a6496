"""Lines as a terminal shows them: their width, where they are cut, how they go on."""

from __future__ import annotations

import pytest

from perdure.cli.text import Text, width


@pytest.mark.parametrize(
    ("text", "columns"), [("", 0), ("plain", 5), ("naïve", 5), ("e\u0301", 1), ("日本", 4), ("a日", 3)]
)
def test_a_width_is_in_columns(text: str, columns: int) -> None:
    """Wide characters take two columns, combining ones none."""
    assert width(text) == columns


def test_pieces_keep_their_styles() -> None:
    """Colour is asked for; without it only the text is left."""
    line = Text.of("a ", ("bold", "bold red"), Text(" dim", "dim"))
    assert line.render(colour=False) == line.plain == "a bold dim"
    assert line.render(colour=True) == "a \x1b[31m\x1b[1mbold\x1b[0m\x1b[2m dim\x1b[0m"


@pytest.mark.parametrize(
    ("room", "shown"), [(20, "one two"), (7, "one two"), (6, "one t…"), (4, "one…"), (1, "…"), (0, "")]
)
def test_what_is_cut_off_is_told(room: int, shown: str) -> None:
    """A text that has no room ends in an ellipsis, and never takes more columns than there are."""
    short = Text.of("one ", ("two", "red")).shortened(room)
    assert short.plain == shown
    assert short.cells <= room


def test_a_wide_character_is_not_cut_in_half() -> None:
    """Where only half of it has room it is left out."""
    assert Text("日本語").shortened(4).plain == "日…"


def test_a_long_text_goes_on_below() -> None:
    """It is broken at spaces, in one style."""
    lines = Text("one two three", "dim").wrapped(7)
    assert [line.plain for line in lines] == ["one two", "three"]
    assert lines[1].pieces == [("three", "dim")]
    assert [line.plain for line in Text().wrapped(7)] == [""]
