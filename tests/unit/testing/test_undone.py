"""The judge of undos on trial: it must say so when one is missing, out of order, or of nothing."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import codec
from perdure.state import events as e
from perdure.testing.undone import Undone

DONE = codec.encode(None)
ASKED = e.CancelRequested("ada", "", compensate=True)
END = e.RunFinished("cancelled", codec.encode({"by": "ada"}))


def made(path: str, name: str = "book", outcome: Any = "done", final: bool = True) -> list[e.AnyBody]:
    """A call and its receipt."""
    head = e.CallHead(name, "irreversible", (), b"")
    return [e.CallIntended(path, head, path, 1, 0), e.CallSettled(path, outcome, DONE, final=final)]


def said(*bodies: e.AnyBody, undoable: frozenset[str] = frozenset()) -> list[str]:
    """Everything that the judge says of this history."""
    judge = Undone(undoable)
    events = [e.Event(seq, 0, 1, body) for seq, body in enumerate(bodies, 1)]
    return [what for event in events for what in judge.see(event)]


ACTS = (*made("1:0"), *made("1:1"), *made("1:2", "mail"))
FIRST, SECOND = e.Owed("1:0", "book", 2), e.Owed("1:1", "book", 4)
PLAN = e.UndoPlanned((SECOND, FIRST))


def test_an_orderly_compensation() -> None:
    assert said(*ACTS, ASKED, PLAN, *made("undo:1:1"), *made("undo:1:0"), END) == []
    assert said(*ACTS, e.CancelRequested("ada"), END) == []


@pytest.mark.parametrize(
    ("bodies", "what"),
    [
        ((*ACTS, e.CancelRequested("ada"), PLAN), "nobody asked"),
        ((*ACTS, ASKED, PLAN, PLAN), "it was done before"),
        ((*ACTS, ASKED, e.UndoPlanned((FIRST, SECOND))), "another order"),
        ((*ACTS, ASKED, e.UndoPlanned((SECOND,))), "book at 1:0 was done and is not to be undone"),
        ((*ACTS, ASKED, END), "book at 1:0 was done and is not to be undone"),
        ((*made("1:0", outcome="failed"), ASKED, e.UndoPlanned((FIRST,))), "was not done so"),
        ((*ACTS, ASKED, PLAN, *made("undo:1:0")), "called before undo:1:1 is settled"),
        (
            (*ACTS, ASKED, PLAN, *made("undo:1:1", outcome="failed", final=False), *made("undo:1:0")),
            "before undo",
        ),
        ((*ACTS, ASKED, PLAN, *made("undo:1:2")), "is in no plan"),
        ((*ACTS, ASKED, PLAN, *made("undo:1:1"), END), "book at 1:0 is not undone"),
    ],
)
def test_what_should_not_be(bodies: tuple[e.AnyBody, ...], what: str) -> None:
    found = said(*bodies, undoable=frozenset({"book"}))
    assert any(what in one for one in found), found
