"""Two points held against each other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import codec
from perdure.state import events as e
from perdure.state.fold import fold_all
from perdure.state.patch import same
from perdure.state.record import RunRecord
from perdure.store.protocol import RunRow
from perdure.timeline.comparison import Comparison, changes, compared
from perdure.timeline.moment import Moment
from perdure.timeline.place import MISSING
from tests.unit.timeline.past import RECONCILED, REFUND, events

ROW = RunRow("r", "desk", "1", "held", False, 1, None, 0, 0, 0, 9, 0, 0, b"", None, 0, 0)


def found(was: Any, now: Any) -> list[tuple[Any, Any, Any]]:
    return [(change.place, change.was, change.now) for change in changes(was, now)]


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [(("a",), 1, 2)]),
        ({"a": 1}, {"b": 1}, [(("a",), 1, MISSING), (("b",), MISSING, 1)]),
        ({"a": 1}, {"a": True}, [(("a",), 1, True)]),
        ({"l": [1, 2]}, {"l": [1, 2, 3]}, [(("l", 2), MISSING, 3)]),
        ({"l": [1, 2, 3]}, {"l": [2, 3]}, [(("l", 0), 1, MISSING)]),
        ([1, 2, 3], [1, 9, 3], [((1,), 2, 9)]),
        ([{"x": 1, "y": 2}], [{"x": 1, "y": 3}], [((0, "y"), 2, 3)]),
        ([1], (1,), [((), [1], (1,))]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [((), {"a": 1, "b": 2}, {"b": 2, "a": 1})]),
        (float("nan"), float("nan"), []),
    ],
)
def test_the_innermost_places_are_told(was: Any, now: Any, expected: Any) -> None:
    assert found(was, now) == expected


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


@given(plain, plain)
def test_nothing_differs_exactly_where_two_values_are_the_same(was: Any, now: Any) -> None:
    assert (found(was, now) == []) == same(was, now)
    assert all(not same(one, other) for _, one, other in found(was, now))


def at(bodies: tuple[e.AnyBody, ...]) -> tuple[Moment, list[e.Event]]:
    written = events(bodies)
    return Moment(ROW, len(written), fold_all(RunRecord(), written, codec.decode)), written


def between(one: tuple[e.AnyBody, ...], other: tuple[e.AnyBody, ...]) -> Comparison:
    (was, events_was), (now, events_now) = at(one), at(other)
    return compared(was, now, events_was, events_now)


def test_an_act_that_one_point_lacks_differs_and_reads_do_not_count() -> None:
    told = between(RECONCILED[:5], RECONCILED)
    assert [(deed.path, deed.was, deed.now and deed.now.name) for deed in told.differing] == [
        ("2/1", None, "refund")
    ]
    assert told.changes == ()


def test_the_same_act_with_another_outcome_differs_and_one_by_another_key_does_not() -> None:
    def ended(key: str, value: str) -> tuple[e.AnyBody, ...]:
        return (
            *RECONCILED[:6],
            e.CallIntended("2/1", REFUND, key, 1, 0),
            e.CallSettled("2/1", "done", codec.encode(value), None, key=key),
        )

    assert [deed.path for deed in between(ended("k", "a"), ended("k", "b")).differing] == ["2/1"]
    alike = between(ended("k", "a"), ended("other", "a"))
    assert alike.differing == ()
    assert len(alike.deeds) == 1
