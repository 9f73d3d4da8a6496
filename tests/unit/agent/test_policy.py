"""Policies and verdicts: plain records that refuse what cannot work."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.agent import Budget, Done, Hybrid, NotDone, Price, Principal, Retry, Unknown, Usage
from perdure.errors import BadSetting

untyped: Callable[..., Any] = Principal
"""`Principal` without its types, for what type checkers refuse."""


@pytest.mark.parametrize("name", ["usd", "tokens", "steps", "calls", "seconds"])
def test_a_limit_is_not_negative(name: str) -> None:
    limits: dict[str, Any] = {name: -1}
    with pytest.raises(BadSetting, match=rf"Budget\({name}=-1\)"):
        Budget(**limits)
    with pytest.raises(BadSetting):
        Budget(usd=float("nan"))
    assert getattr(Budget(**{name: 0}), name) == 0


def test_prices_are_for_a_million_tokens() -> None:
    assert Price(input=0.25, output=2.0).cost(Usage(1_000_000, 500_000)) == 1_250_000_000
    assert Price(0.1, 0.2).cost(Usage(1, 1)) == 300
    assert Price(0.0375, 0).cost(Usage(1, 0)) == 38, "rounded up to the billionth"
    with pytest.raises(BadSetting):
        Price(float("inf"), 0)
    with pytest.raises(BadSetting):
        Price(-1, 0)
    with pytest.raises(BadSetting):
        Usage(0, -1)


def test_waits_double_up_to_their_most() -> None:
    retry = Retry(attempts=5, backoff=2.0, backoff_max=10.0)
    assert [retry.delay(attempt) for attempt in (1, 2, 3, 4, 5)] == [2.0, 4.0, 8.0, 10.0, 10.0]
    assert retry.delay(100_000) == 10.0
    assert Retry(backoff=0.0).delay(100_000) == 0.0


def test_roles_are_a_set() -> None:
    assert untyped("ana", ["finance", "finance"]).roles == frozenset({"finance"})
    with pytest.raises(BadSetting, match="one string"):
        untyped("ana", "finance")


def test_a_hybrid_has_exactly_one_rule() -> None:
    Hybrid(every=1)
    Hybrid(resume_within=timedelta(milliseconds=50))
    wrongs: list[Callable[[], object]] = [
        Hybrid,
        lambda: Hybrid(every=3, resume_within=timedelta(1)),
        lambda: Hybrid(every=0),
        lambda: Hybrid(resume_within=timedelta(0)),
    ]
    for wrong in wrongs:
        with pytest.raises(BadSetting):
            wrong()


def test_verdicts_can_be_returned_and_raised() -> None:
    assert Done(3) == Done(3)
    for kind in (NotDone, Unknown):
        with pytest.raises(kind, match="why"):
            raise kind("why")
        again = pickle.loads(pickle.dumps(kind("why")))
        assert type(again) is kind
        assert again.args == ("why",)
