"""Outcomes: one status each, and an error that says what to do where there is no result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.agent import Cancelled, Failed, Finished, Held, Outcome, Retired, Waiting
from perdure.errors import PerdureError, RunCancelled, RunFailed, RunHeld, RunRetired, RunWaiting

UNTIL = datetime(2026, 12, 1, tzinfo=UTC)


def test_a_result_is_unwrapped() -> None:
    assert Finished([1]).unwrap() == [1]
    assert Finished(None).unwrap() is None
    assert Finished(1).status == "succeeded"


@pytest.mark.parametrize(
    ("outcome", "status", "error", "told"),
    [
        (
            Waiting(("approval of refund",), (), UNTIL, run_id="o"),
            "waiting",
            RunWaiting,
            "approval of refund",
        ),
        (Held("unknown-outcome", ("perdure resolve o 1.1",), "no reply"), "held", RunHeld, "no reply"),
        (Failed("no money", "Refused", run_id="o"), "failed", RunFailed, "run o failed: Refused: no money"),
        (Cancelled("ana", "too late"), "cancelled", RunCancelled, "by ana: too late"),
        (Retired(run_id="o"), "retired", RunRetired, "run o was retired"),
    ],
)
def test_what_has_no_result_raises(
    outcome: Outcome[Any], status: str, error: type[PerdureError], told: str
) -> None:
    assert outcome.status == status
    with pytest.raises(error) as raised:
        outcome.unwrap()
    assert told in raised.value.what
    assert raised.value.run_id == outcome.run_id


def test_what_a_person_can_do_is_the_errors_remedy() -> None:
    with pytest.raises(RunHeld) as raised:
        Held("poison", ("perdure retry o", "perdure cancel o")).unwrap()
    assert raised.value.remedy == "perdure retry o | perdure cancel o"
    assert raised.value.remedies == ("perdure retry o", "perdure cancel o")
    with pytest.raises(RunWaiting) as waiting:
        Waiting(("sleep",), (), UNTIL).unwrap()
    assert waiting.value.until == UNTIL


def test_outcomes_are_made_for_match() -> None:
    outcome: Outcome[str] = Held("poison", ("perdure retry o",))
    match outcome:
        case Held(reason, remedies):
            assert (reason, remedies) == ("poison", ("perdure retry o",))
        case _:
            pytest.fail("not matched")
