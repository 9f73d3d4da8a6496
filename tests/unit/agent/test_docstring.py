"""Docstrings: the text and a line for each parameter, in three styles."""

from __future__ import annotations

import pytest

from perdure.agent.docstring import read_docstring

NAMES = ("order_id", "cents", "note")

GOOGLE = """Pay an order back.

    More about it.

    Args:
        order_id: The order's number,
            as printed.
        cents (int, optional): How much: in cents.
        *note: Why.
        other: Not a parameter.

    Returns:
        The receipt.
"""
SPHINX = """Pay an order back.

    More about it.

    :param order_id: The order's number,
        as printed.
    :param int cents: How much: in cents.
    :type cents: int
    :param note: Why.
    :returns: The receipt.
    :raises ValueError: never
"""
NUMPY = """Pay an order back.

    More about it.

    Parameters
    ----------
    order_id : str
        The order's number,
        as printed.
    cents : int, optional
        How much: in cents.
    note
        Why.
    other : str
        Not a parameter.

    Returns
    -------
    str
        The receipt.
"""


@pytest.mark.parametrize("docstring", [GOOGLE, SPHINX, NUMPY], ids=["google", "sphinx", "numpy"])
def test_three_styles_tell_the_same(docstring: str) -> None:
    told = read_docstring(docstring, NAMES)
    assert told.parameters == {
        "order_id": "The order's number, as printed.",
        "cents": "How much: in cents.",
        "note": "Why.",
    }
    assert told.text.startswith("Pay an order back.\n\nMore about it.")
    assert "order" not in told.text.removeprefix("Pay an order back.")
    assert "Not a parameter" not in told.text


def test_plain_text_is_kept_whole() -> None:
    text = "Look at a: b.\n\nArgs: see the manual.\n\n    indented: example\n\nEnd."
    assert read_docstring(text, ("indented", "a")).text == text
    assert read_docstring(text, ("indented", "a")).parameters == {}
    assert read_docstring(None, NAMES).text == ""
    assert read_docstring("", NAMES).parameters == {}
    assert read_docstring("Args:", NAMES).text == "Args:"


def test_text_behind_the_section_is_kept() -> None:
    told = read_docstring("Pay.\n\nArgs:\n    cents: how much\n\nIt is final.", NAMES)
    assert told.text == "Pay.\n\nIt is final."
    assert told.parameters == {"cents": "how much"}
