"""The difference of two plain states and its application, case by case."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from perdure.errors import Damaged
from perdure.state.events import Delete, OddKey, Op, Ref, Set, Splice
from perdure.state.patch import Change, Cut, Drop, Edit, Grown, Other, Put, align, apply, diff, same


class Notebook:
    """Stands in for the codec: each value is written down, and its bytes are its eight-digit number."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def encode(self, value: Any) -> bytes:
        self.values.append(copy.deepcopy(value))
        return b"%08d" % (len(self.values) - 1)

    def read(self, data: bytes) -> Any:
        return copy.deepcopy(self.values[int(data)])

    def op(self, change: Change) -> Op:
        path = tuple(OddKey(self.encode(key.key)) if isinstance(key, Other) else key for key in change.path)
        if isinstance(change, Put):
            return Set(path, self.encode(change.value))
        if isinstance(change, Drop):
            return Delete(path)
        values = (change.piece,) if isinstance(change, Edit) else change.values
        return Splice(path, change.start, change.length, tuple(map(self.encode, values)))


def patched(old: Any, new: Any) -> Any:
    book = Notebook()
    return apply(old, [book.op(change) for change in diff(old, new)], {}, book.read)


NAN = float("nan")
PAIRS: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (0, False),
    ("a", b"a"),
    ([1], (1,)),
    ({1}, {True}),
    ({1}, frozenset({1})),
    ({(1, 2)}, {(1, True)}),
    ({1: "a"}, {True: "a"}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (Decimal("1.0"), Decimal("1.00")),
    (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
    (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 12, tzinfo=UTC, fold=1)),
    ([[]], [()]),
    ({}, []),
    (2**70, float(2**70)),
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_values_that_python_may_call_equal_are_not_the_same(old: Any, new: Any) -> None:
    for a, b in ((old, new), (new, old), ([0, old], [0, new]), ({"k": [old]}, {"k": [new]})):
        assert not same(a, b)
        assert diff(a, b)
        assert same(patched(a, b), b)


@pytest.mark.parametrize(
    "value",
    [
        NAN,
        -0.0,
        2**90,
        [NAN],
        {NAN: 1},
        {NAN},
        {(1, NAN): 2},
        {"a": {1, 2.0}},
        {frozenset({"a", "b", "c"})},
        "\udc80",
    ],
)
def test_a_value_is_the_same_as_its_copy(value: Any) -> None:
    twin = copy.deepcopy(value)
    assert same(value, twin)
    assert diff(value, twin) == []
    assert diff({"k": [value]}, {"k": [twin]}) == []


def test_two_nans_are_the_same() -> None:
    assert same(float("nan"), float("nan"))
    assert diff({"k": float("nan")}, {"k": float("nan")}) == []


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({"m": [1, 2]}, {"m": [1, 2, 3]}, [Cut("splice", ("m",), 2, 0, [3])]),
        ([], [1, 2], [Cut("splice", (), 0, 0, [1, 2])]),
        ([1, 2, 3], [1], [Cut("splice", (), 1, 2, [])]),
        ([1, 2, 3], [0, 1, 2, 3], [Cut("splice", (), 0, 0, [0])]),
        ([1, 2, 3, 4], [2, 3, 4, 5], [Cut("splice", (), 4, 0, [5]), Cut("splice", (), 0, 1, [])]),
        ([1, 2, 3], [1, 9, 3], [Cut("splice", (), 1, 1, [9])]),
        ([1, 2, 3, 4], [1, 8, 9, 4], [Cut("splice", (), 1, 2, [8, 9])]),
        (
            [{"a": 1, "b": 1}] * 3,
            [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 1}],
            [Put("set", (1, "b"), 2)],
        ),
        (
            [{"a": 1, "b": 1}, {"a": 2, "b": 2}],
            [{"a": 1, "b": 1}, {"a": 2, "b": 3}, {"a": 4, "b": 4}],
            [Cut("splice", (), 2, 0, [{"a": 4, "b": 4}]), Put("set", (1, "b"), 3)],
        ),
        ({"a": 1, "b": 2}, {"a": 1}, [Drop("delete", ("b",))]),
        ({"a": 1}, {"a": 1, "b": 2}, [Put("set", ("b",), 2)]),
        ({"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 3, "a": 1}, [Drop("delete", ("a",)), Put("set", ("a",), 1)]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [Drop("delete", ("a",)), Put("set", ("a",), 1)]),
        ({"a": 1, "b": 2, "c": 3}, {"c": 3, "b": 2, "a": 1}, [Put("set", (), {"c": 3, "b": 2, "a": 1})]),
        ({1: "a", 2: "b"}, {1: "a", 2: "c"}, [Put("set", (Other(2),), "c")]),
        ({1: "a", "k": 0}, {True: "a", "k": 0}, [Put("set", (), {True: "a", "k": 0})]),
        (
            {"k": 0, 1: "a"},
            {"k": 0, True: "a"},
            [Drop("delete", (Other(1),)), Put("set", (Other(True),), "a")],
        ),
        ({"a": 1}, {"a": 2}, [Put("set", (), {"a": 2})]),
        (
            {"a": 1, "deep": {"x": 1, "y": [1]}},
            {"a": 1, "deep": {"x": 1, "y": [1, 2]}},
            [Cut("splice", ("deep", "y"), 1, 0, [2])],
        ),
        ({(1,): 1, "k": 0}, {(1,): 2, "k": 0}, [Put("set", (Other((1,)),), 2)]),
        ({(NAN,): 1, "k": 0}, {(NAN,): 2, "k": 0}, [Put("set", (), {(NAN,): 2, "k": 0})]),
        ((1, 2), (1, 2, 3), [Cut("splice", (), 2, 0, [3])]),
    ],
)
def test_what_changed_is_what_the_patch_says(old: Any, new: Any, changes: list[Change]) -> None:
    before = copy.deepcopy(old)
    assert diff(old, new) == changes
    assert same(patched(old, new), new)
    assert same(old, before)


LONG = "".join(map(str, range(300)))


@pytest.mark.parametrize("kind", [str, str.encode])
@pytest.mark.parametrize(
    ("old", "new", "start", "count", "piece"),
    [
        (LONG, LONG + "more", len(LONG), 0, "more"),
        (LONG, "more" + LONG, 0, 0, "more"),
        (LONG, LONG[:400] + LONG[410:], 400, 10, ""),
        (LONG, LONG[:400] + "x" + LONG[400:], 400, 0, "x"),
        (LONG + "ab", LONG + "abab", len(LONG) + 2, 0, "ab"),
        (LONG + "abab", LONG + "ab", len(LONG) + 2, 2, ""),
    ],
)
def test_a_long_text_is_changed_where_it_changed(
    kind: Any, old: str, new: str, start: int, count: int, piece: str
) -> None:
    edit = Edit("edit", ("t",), start, count, kind(piece), kind(new))
    assert diff({"k": 0, "t": kind(old)}, {"k": 0, "t": kind(new)}) == [edit]
    assert same(patched({"k": 0, "t": kind(old)}, {"k": 0, "t": kind(new)}), {"k": 0, "t": kind(new)})


def test_a_short_or_another_text_is_written_anew() -> None:
    for old, new in (("short", "shorter"), (LONG, "x" * len(LONG)), (LONG, LONG.encode()), (LONG, "")):
        assert diff({"k": 0, "t": old}, {"k": 0, "t": new}) == [Put("set", ("t",), new)]


@pytest.mark.parametrize("value", [b"bytes", ["text"], 1])
def test_nothing_but_text_is_put_into_a_text(value: Any) -> None:
    book = Notebook()
    with pytest.raises(Damaged):
        apply({"t": LONG}, [Splice(("t",), 0, 0, (book.encode(value),))], {}, book.read)
    with pytest.raises(Damaged):
        apply({"t": LONG}, [Splice(("t",), len(LONG), 1, ())], {}, book.read)


def test_a_long_list_of_other_things_is_paired_by_position() -> None:
    old = [{"id": n, "seen": False} for n in range(300)]
    new = [{"id": n, "seen": True} for n in range(301)]
    changes = diff(old, new)
    assert len(changes) == 301
    assert all(change.kind == "splice" or change.path[1:] == ("seen",) for change in changes)
    assert same(patched(old, new), new)


def test_align_takes_the_shortest_edit() -> None:
    old, new = "abcdefgh", "abxdefhij"
    stretches = align(len(old), len(new), lambda i, j: old[i] == new[j])
    assert stretches == [(2, 3, 2, 3), (6, 7, 6, 6), (8, 8, 7, 9)]


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 600])
def test_shared_items_are_found_in_blocks(length: int) -> None:
    old = [{"n": n} for n in range(length)]
    assert diff(old, [*old, 1]) == [Cut("splice", (), length, 0, [1])]
    assert diff([*old, 1], old) == [Cut("splice", (), length, 1, [])]
    assert diff([*old, {"n": 1, "k": 1}], [*old, {"n": True, "k": 1}]) == [Put("set", (length, "n"), True)]


def test_a_list_that_has_grown_is_not_looked_at_again() -> None:
    base: list[Any] = [object(), object()]
    assert diff(base, Grown(base, [1])) == [Cut("splice", (), 2, 0, [1])]
    assert diff([1, 2], Grown([1], [3])) == [Cut("splice", (), 1, 1, [3])]
    assert diff({"k": 0, "l": base}, {"k": 0, "l": Grown(base, [1])}) == [Cut("splice", ("l",), 2, 0, [1])]


def test_apply_leaves_its_input_and_shares_what_it_does_not_touch() -> None:
    book = Notebook()
    old = {"a": [{"n": 1}, {"n": 2}], "b": {"deep": [1]}, "t": (1, [2], 3)}
    before = copy.deepcopy(old)
    new = apply(
        old,
        [
            Set(("a", 1, "n"), book.encode(9)),
            Splice(("a",), 2, 0, (book.encode({"n": 3}),)),
            Set(("a", 2, "n"), book.encode(4)),
            Splice(("t", 1), 1, 0, (book.encode(5),)),
        ],
        {},
        book.read,
    )
    assert same(old, before)
    assert same(new, {"a": [{"n": 1}, {"n": 9}, {"n": 4}], "b": {"deep": [1]}, "t": (1, [2, 5], 3)})
    assert new["a"][0] is old["a"][0]  # type: ignore[index]
    assert new["b"] is old["b"]


def test_apply_does_not_change_a_value_that_read_shares() -> None:
    shared: dict[str, Any] = {"n": 1}
    new = apply(
        [],
        [Splice((), 0, 0, (b"x", b"x")), Set((0, "n"), b"y")],
        {},
        lambda data: shared if data == b"x" else 2,
    )
    assert new == [{"n": 2}, {"n": 1}]
    assert shared == {"n": 1}


def test_a_reference_is_read_from_the_recorded_bytes() -> None:
    book = Notebook()
    recorded = b"junk" + book.encode("reply") + b"junk"
    assert apply([], [Splice((), 0, 0, (Ref(7, 4, 8),))], {7: recorded}, book.read) == ["reply"]
    assert apply({}, [Set(("a",), Ref(7, 4, 8))], {7: recorded}, book.read) == {"a": "reply"}


@pytest.mark.parametrize(
    "op",
    [
        Set(("missing", "x"), b""),
        Set(("list", 3), b""),
        Set(("list", -1), b""),
        Set(("list", "x"), b""),
        Set(("list", 0, "x"), b""),
        Set(("text", 0), b""),
        Set((1,), b""),
        Delete(()),
        Delete(("missing",)),
        Delete(("list", 0)),
        Splice(("list",), 4, 0, ()),
        Splice(("list",), 2, 2, ()),
        Splice(("list",), -1, 1, ()),
        Splice(("missing",), 0, 0, ()),
        Splice((), 0, 0, ()),
        Set(("list", 0), Ref(8, 0, 1)),
        Set(("list", 0), Ref(7, 2, 2)),
        Set(("list", 0), Ref(7, -1, 2)),
        Set(("list", 0), Ref(7, 0, 0)),
        Set((OddKey(b"unhashable"),), b""),
    ],
)
def test_a_place_or_reference_that_does_not_exist_is_damage(op: Op) -> None:
    state = {"list": [1, 2, 3], "text": "abc"}
    with pytest.raises(Damaged):
        apply(state, [op], {7: b"abc"}, lambda data: [] if data == b"unhashable" else 0)
    assert state == {"list": [1, 2, 3], "text": "abc"}
