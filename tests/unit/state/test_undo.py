"""What a compensating cancel owes, by the history, and how far it has come, by the fold."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure import codec
from perdure.errors import Damaged
from perdure.state import events as e
from perdure.state.fold import fold, fold_all
from perdure.state.record import RunRecord
from perdure.state.undo import Progress, planned, progress, undo_path, undone_path

STARTED = e.RunStarted("trip", "1", 1, codec.encode("go"), codec.encode({}), codec.encode({}))
DONE = codec.encode("done")


def head(name: str, effect: e.Effect = "irreversible") -> e.CallHead:
    """A call without arguments."""
    return e.CallHead(name, effect, (), name.encode())


def made(path: str, name: str = "book", effect: e.Effect = "irreversible") -> list[e.AnyBody]:
    """A call that is done."""
    return [e.CallIntended(path, head(name, effect), path, 1, 0), e.CallSettled(path, "done", DONE)]


def events(*bodies: e.AnyBody) -> list[e.Event]:
    """A history."""
    return [e.Event(seq, 0, 1, body) for seq, body in enumerate(bodies, 1)]


def paths(acts: tuple[e.Owed, ...]) -> list[str]:
    """Where they were made."""
    return [act.path for act in acts]


def test_paths() -> None:
    assert undo_path("3:1.0") == "undo:3:1.0"
    assert undone_path("undo:3:1.0") == "3:1.0"
    assert undone_path("3:1.0") == ""


def test_what_is_done_in_the_end_is_owed_newest_first() -> None:
    """By a receipt, a verdict, a late receipt; across steps; in the order of settlement."""
    history = events(
        STARTED,
        e.CallIntended("1:0", head("book"), "a", 1, 0),
        *made("1:1"),
        e.CallUnknown("1:0", "timeout", 0),
        e.CallReconciled("1:0", "done", "hook", DONE),
        e.StepCommitted(1),
        e.CallIntended("2:0", head("book"), "b", 1, 0),
        e.CallUnknown("2:0", "timeout", 0),
        e.CallLate("2:0", 1, "done", DONE, used=True),
        e.CallSettled("2:1", "done", DONE, head("row", "transactional"), key="k"),
        *made("2:2", "mail"),
        *made("2:3", "look", "read"),
        *made("undo:9:9"),
    )
    plan = planned(history, lambda name: name != "mail")
    assert paths(plan.acts) == ["2:1", "2:0", "1:0", "1:1"]
    assert [(act.name, act.seq) for act in plan.acts][:2] == [("row", 11), ("book", 10)]
    assert plan.unsure == ()


def test_what_did_not_happen_or_nobody_knows_is_not() -> None:
    history = events(
        STARTED,
        e.CallIntended("1:0", head("book"), "a", 1, 0),
        e.CallSettled("1:0", "failed", DONE, final=False),
        e.CallIntended("1:1", head("book"), "b", 1, 0),
        e.CallUnknown("1:1", "timeout", 0),
        e.CallReconciled("1:1", "left-unknown", "policy"),
        e.CallIntended("1:2", head("book"), "c", 1, 0),
        e.CallUnknown("1:2", "timeout", 0),
        e.CallReconciled("1:2", "failed", "person:ada", DONE),
        e.CallLate("1:2", 1, "done", DONE, used=False),
        *made("1:3"),
    )
    plan = planned(history, lambda name: True)
    assert paths(plan.acts) == ["1:3"]
    assert paths(plan.unsure) == ["1:1"]


def test_progress_is_what_the_fold_says() -> None:
    """Undone, given up, and left; a try that came to nothing leaves it."""
    history = events(
        STARTED,
        *made("1:0"),
        *made("1:1"),
        *made("1:2"),
        e.CancelRequested("ada", "", compensate=True),
    )
    plan = planned(history, lambda name: True)
    record = fold_all(RunRecord(), history, codec.decode)
    assert progress(record) == Progress()

    def after(*bodies: e.AnyBody) -> RunRecord:
        folded = record
        for body in (plan, *bodies):
            folded = fold(folded, e.Event(folded.seq + 1, 0, 1, body), codec.decode)
        return folded

    assert paths(progress(after()).left) == ["1:2", "1:1", "1:0"]
    undo = e.CallIntended("undo:1:2", head("unbook", "idempotent"), "u", 1, 0)
    assert paths(progress(after(undo)).left) == ["1:2", "1:1", "1:0"]
    failed = e.CallSettled("undo:1:2", "failed", DONE, final=False)
    assert paths(progress(after(undo, failed)).left) == ["1:2", "1:1", "1:0"]
    given_up = e.CallReconciled("undo:1:2", "failed", "person:ada", DONE)
    now = progress(after(undo, failed, given_up, *made("undo:1:1", "unbook", "idempotent")))
    assert (paths(now.undone), paths(now.kept), paths(now.left)) == (["1:1"], ["1:2"], ["1:0"])


def test_a_plan_that_nobody_asked_for_is_damage() -> None:
    plan = e.UndoPlanned((e.Owed("1:0", "book", 3),))
    with pytest.raises(Damaged, match="nobody asked"):
        fold_all(RunRecord(), events(STARTED, e.CancelRequested("ada"), plan), codec.decode)
    asked = e.CancelRequested("ada", "", compensate=True)
    with pytest.raises(Damaged, match="nobody asked"):
        fold_all(RunRecord(), events(STARTED, asked, plan, plan), codec.decode)


def test_a_second_cancel_may_ask_for_it() -> None:
    """Who cancelled first stays the one who did; what was asked for is not taken back."""
    asked = e.CancelRequested("bo", "", compensate=True)
    bodies = (STARTED, e.CancelRequested("ada"), asked, e.CancelRequested("eve"))
    record = fold_all(RunRecord(), events(*bodies), codec.decode)
    assert (record.cancel, record.compensate) == ("ada", True)
    assert replace(record, compensate=False) != record
