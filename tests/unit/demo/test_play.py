"""When the play counts as a success, and what is said of a part that did not come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.agent import Finished, Held, Outcome
from perdure.cli.stage import draw_ending
from perdure.demo.play import Ending, Setting, _missing

PAID = {"receipt": "rf-1", "order_id": "o-77", "cents": 1200, "key": "k", "at": ""}


def ending(outcome: Outcome[Any], *, killed: bool, refunds: int, asked: int = 3) -> Ending:
    return Ending(outcome, killed, [PAID] * refunds, asked, 3, 0.5, 0.01, [])


@pytest.mark.parametrize(
    ("outcome", "killed", "refunds", "ok"),
    [
        (Finished("done"), True, 1, True),
        (Finished("done"), True, 2, False),
        (Finished("done"), True, 0, False),
        (Finished("done"), False, 1, False),
        (Held("unknown-outcome"), True, 1, False),
    ],
)
def test_only_one_refund_after_a_kill_and_a_good_end_is_a_success(
    capsys: pytest.CaptureFixture[str], outcome: Outcome[Any], killed: bool, refunds: int, ok: bool
) -> None:
    result = ending(outcome, killed=killed, refunds=refunds)
    assert result.ok is ok
    draw_ending(Setting(Path("."), Path("perdure.db"), "http://127.0.0.1:1", 1, "scripted"), result)
    said = capsys.readouterr().out
    assert ("✓ one refund" in said) is ok
    assert ("✗" in said) is not ok
    if killed and not ok:
        assert f"the bank has paid {refunds} times" in said


def test_a_model_that_was_asked_again_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    setting = Setting(Path("."), Path("perdure.db"), "http://127.0.0.1:1", 1, "scripted")
    draw_ending(setting, ending(Finished("done"), killed=True, refunds=1, asked=4))
    assert "asked 4 times, 1 of them again after the kill" in capsys.readouterr().out


def test_a_part_that_did_not_come_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "worker-1.log"
    log.write_text("one\ntwo\nthree\nfour\n")
    error = _missing(log, "the worker ended")
    assert (error.code, error.what, error.where) == ("U708", "the worker ended: two / three / four", str(log))
    assert _missing(tmp_path / "none.log", "the worker ended").what == "the worker ended"
