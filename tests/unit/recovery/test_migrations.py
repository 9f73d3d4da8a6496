"""Chains of migrations over plain data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from perdure.codec import Shape
from perdure.errors import MigrationFailed, MigrationGap, NotStorable, ShapeMismatch, StateNewer
from perdure.recovery.migrations import Chain, Migration


@dataclass
class State:
    """Today's."""

    first: str
    last: str
    cents: int = 0


def split(old: dict[str, Any]) -> dict[str, Any]:
    """One field becomes two."""
    first, _, last = old.pop("name").partition(" ")
    return {**old, "first": first, "last": last}


def cents(old: dict[str, Any]) -> dict[str, Any]:
    """Another type."""
    old["cents"] = int(old.pop("amount") * 100)
    return old


SHAPE = Shape.of(State)
CHAIN = Chain("desk", 3, {1: Migration(split), 2: Migration(cents, lossy=True)})
OLD = {"name": "Ana Li", "amount": Decimal("1.50")}


def test_a_chain_is_applied_in_order_and_changes_nothing_it_was_given() -> None:
    old = dict(OLD)
    made = CHAIN.apply(old, 1, SHAPE)
    assert made.state == {"first": "Ana", "last": "Li", "cents": 150}
    assert (made.from_version, made.to_version, made.lossy) == (1, 3, True)
    assert old == OLD
    assert CHAIN.oldest == 1


def test_from_its_middle_only_the_rest_is_applied() -> None:
    made = CHAIN.apply({"first": "Ana", "last": "Li", "amount": Decimal(2)}, 2, SHAPE)
    assert made.state["cents"] == 200
    whole = Chain("desk", 3, {2: Migration(lambda old: {**old, "last": "?"})})
    assert whole.apply({"first": "Ana"}, 2, SHAPE).state == {"first": "Ana", "last": "?", "cents": 0}
    assert not whole.apply({"first": "Ana"}, 2, SHAPE).lossy


def test_a_gap_is_found_where_it_is_declared_and_where_it_is_met() -> None:
    """Field case O-014."""
    gap = Chain("desk", 4, {1: Migration(split), 3: Migration(cents)})
    for meet in (gap.check, lambda: gap.apply(OLD, 1, SHAPE)):
        with pytest.raises(MigrationGap, match=r"from version 2 to 3: 1 -> 2, 2 -> \?, 3 -> 4") as caught:
            meet()
        assert caught.value.missing == 2
    assert gap.oldest == 3
    with pytest.raises(MigrationGap):
        Chain("desk", 3, {1: Migration(split)}).check()
    Chain("desk", 3, {2: Migration(cents)}).check()  # runs of version 1 are gone, or wait for older code
    Chain("desk", 3, {}).check()


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(
        ShapeMismatch, match=r"migrated from version 1 to 2, \$\.state\.last should be"
    ) as caught:
        Chain("desk", 2, {1: Migration(lambda old: {"first": "Ana", "last": 7})}).apply(OLD, 1, SHAPE)
    assert (caught.value.path, caught.value.expected) == ("$.state.last", "str")


def test_what_a_migration_raises_is_told() -> None:
    def fails(old: dict[str, Any]) -> dict[str, Any]:
        return {"x": old["missing"]}

    with pytest.raises(MigrationFailed, match="from version 1 raised KeyError: 'missing'") as caught:
        Chain("desk", 2, {1: Migration(fails, source="desk.py:3")}).apply(OLD, 1, SHAPE)
    assert (caught.value.where, caught.value.version) == ("desk.py:3", 1)
    with pytest.raises(MigrationFailed) as caught:
        Chain("desk", 2, {1: Migration(lambda old: {"x": object()})}).apply(OLD, 1, SHAPE)
    assert isinstance(caught.value.__cause__, NotStorable)


def test_newer_states_are_not_read() -> None:
    with pytest.raises(StateNewer, match="version 4"):
        CHAIN.apply(OLD, 4, SHAPE)


def test_a_mark_is_of_what_migrations_do() -> None:
    same: Any = Chain("other", 2, {1: Migration(lambda old: {**old, "a": 1})})
    again: Any = Chain("other", 2, {1: Migration(lambda old: {**old, "a": 1})})
    other: Any = Chain("other", 2, {1: Migration(lambda old: {**old, "a": 2})})
    assert same.mark == again.mark != other.mark
    assert Chain("desk", 2, {1: Migration(dict)}).mark != CHAIN.mark
