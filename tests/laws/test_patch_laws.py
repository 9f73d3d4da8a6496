"""Laws of patches over random trees: applied, they give the new state; they grow with the change."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from perdure.state.patch import TEXT_FROM, Change, Put, diff, exact, same
from tests.unit.state.test_patch import Notebook, patched

SEED = 20260401

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-3, max_value=3),
    st.sampled_from([2**64, -(2**63) - 1, 10**40]),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf"), -2.5]),
    st.sampled_from(["", "a", "b", "\x00", "\udc80", "long text"]),
    st.sampled_from([b"", b"a"]),
    st.sampled_from([Decimal("1.0"), Decimal("1.00"), Decimal("NaN")]),
    st.sampled_from(
        [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))]
    ),
)
keys = st.one_of(
    st.sampled_from(["a", "b", "c", "d"]),
    st.sampled_from([0, 1, True, False, 1.0, None, b"a", (1,), (True,), float("nan"), frozenset({1})]),
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=5),
        st.sets(st.integers(0, 3), max_size=3),
    ),
    max_leaves=25,
)


@st.composite
def edited(draw: st.DrawFn, tree: Any, depth: int = 0) -> Any:
    """A tree like the one given, with a few places changed."""
    if depth > 4 or draw(st.integers(0, 9)) == 0:
        return draw(trees)
    if isinstance(tree, (list, tuple)):
        items = list(tree)
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(items)))
            action = draw(st.integers(0, 2))
            if action == 0:
                items.insert(at, draw(trees))
            elif action == 1 and at < len(items):
                del items[at]
            elif at < len(items):
                items[at] = draw(edited(items[at], depth + 1))
        return type(tree)(items)
    if isinstance(tree, dict):
        pairs = list(tree.items())
        if draw(st.integers(0, 3)) == 0:
            pairs = draw(st.permutations(pairs))
        changed = dict(pairs)
        for key in [key for key in changed if draw(st.booleans())]:
            changed[key] = draw(edited(changed[key], depth + 1))
        if draw(st.booleans()):
            changed[draw(keys)] = draw(trees)
        if draw(st.booleans()) and changed:
            del changed[draw(st.sampled_from(list(changed)))]
        return changed
    return tree


@seed(SEED)
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_was_diffed_is_what_comes_back(data: st.DataObject) -> None:
    old = data.draw(trees)
    new = data.draw(edited(old)) if data.draw(st.booleans()) else data.draw(trees)
    before = copy.deepcopy(old)
    back = patched(old, new)
    assert same(back, new)
    assert exact(back) == exact(new)
    assert same(old, before)
    assert (diff(old, new) == []) == (exact(old) == exact(new))
    assert diff(new, copy.deepcopy(new)) == []


@seed(SEED)
@settings(max_examples=200, deadline=None)
@given(st.text("ab\u00e4\U0001f600\udc80", max_size=600), st.text("ab\U0001f600", max_size=4), st.data())
def test_a_text_that_was_edited_is_what_comes_back(text: str, piece: str, data: st.DataObject) -> None:
    old = text + "x" * TEXT_FROM
    start = data.draw(st.integers(0, len(old)))
    stop = data.draw(st.integers(start, len(old)))
    new = old[:start] + piece + old[stop:]
    assert patched({"t": old}, {"t": new}) == {"t": new}
    raw, changed = (one.encode("utf-8", "surrogatepass") for one in (old, new))
    assert patched([raw], [changed]) == [changed]


@seed(SEED)
@settings(max_examples=100, deadline=None)
@given(trees, trees)
def test_same_is_what_exact_says(old: Any, new: Any) -> None:
    assert same(old, new) == (exact(old) == exact(new))


def weight(changes: list[Change]) -> int:
    """How much a patch writes: the scalars of its values and the length of its paths."""

    def scalars_in(value: Any) -> int:
        if isinstance(value, dict):
            return 1 + sum(map(scalars_in, value.values()))
        return 1 + sum(map(scalars_in, value)) if isinstance(value, (list, tuple)) else 1

    return sum(
        len(change.path)
        + (scalars_in(change.value) if isinstance(change, Put) else 1)
        + (sum(map(scalars_in, change.values)) if change.kind == "splice" else 0)
        for change in changes
    )


def conversation(length: int) -> dict[str, Any]:
    return {
        "title": "x",
        "by": {
            "ann": [
                {"role": "user", "content": f"{n}", "meta": {"n": n, "tags": ["a", "b"]}}
                for n in range(length)
            ],
            "bob": [],
        },
    }


@seed(SEED)
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 400), st.data())
def test_a_patch_grows_with_the_change_and_not_with_the_state(length: int, data: st.DataObject) -> None:
    """Field case O-016."""
    old = conversation(length)
    new = copy.deepcopy(old)
    messages = new["by"]["ann"]
    at = data.draw(st.integers(0, length - 1))
    match data.draw(st.sampled_from(["append", "deep", "both", "window", "insert", "remove"])):
        case "append":
            messages.append({"role": "user", "content": "new", "meta": {"n": -1, "tags": []}})
        case "deep":
            messages[at]["meta"]["tags"][1] = "changed"
        case "both":
            messages[at]["meta"]["n"] = -2
            messages.append({"role": "user", "content": "new", "meta": {"n": -1, "tags": []}})
        case "window":
            messages.append({"role": "user", "content": "new", "meta": {"n": -1, "tags": []}})
            del messages[0]
        case "insert":
            messages.insert(at, {"role": "user", "content": "new", "meta": {"n": -1, "tags": []}})
        case _:
            del messages[at]
    changes = diff(old, new)
    assert weight(changes) <= 24
    book = Notebook()
    assert same(patched(old, new), new)
    assert [book.op(change) for change in changes]
