"""state and diff: a run's past on the command line."""

from __future__ import annotations

from pathlib import Path

from perdure import codec
from perdure.state import events as e
from tests.laws.test_damage_laws import everything
from tests.unit.cli.conftest import Command
from tests.unit.cli.stores import keep
from tests.unit.timeline.past import STARTED

LONG = "the quick brown fox jumps over the lazy dog and goes home before it rains again"
STORY: tuple[e.AnyBody, ...] = (
    STARTED,
    e.StepCommitted(1, (e.Set(("messages",), codec.encode(["hello", {"text": LONG}])),)),
    e.StepCommitted(2, (e.Set(("messages", 0), codec.encode("\x1b[31mhello")),)),
    e.StepCommitted(3, (e.Set(("messages", 1, "text"), codec.encode(LONG.replace("fox", "cat"))),)),
)


def test_state_shows_the_state_at_a_point_and_a_value_in_it(perdure: Command, store: Path) -> None:
    keep(store, "tale-1", STORY)
    assert perdure("state", "tale-1@1").out.splitlines()[0].startswith("tale-1@1   the state after 0 steps")
    document = perdure("state", "tale-1@2", "messages[0]", "--json").document
    assert document == {
        "run_id": "tale-1",
        "seq": 2,
        "step": 1,
        "state_version": 1,
        "place": "messages[0]",
        "value": "hello",
    }
    drawn = perdure("state", "tale-1").out
    assert "messages: 2 items" in drawn
    assert '  [0] "\\x1b[31mhello"' in drawn, "a terminal never gets a store's own control characters"


def test_state_folds_a_long_state_away_and_says_so(perdure: Command, store: Path) -> None:
    many = e.StepCommitted(1, (e.Set(("messages",), codec.encode([str(n) for n in range(500)])),))
    keep(store, "long-1", (STARTED, many))
    assert "… 301 lines more: --all" in perdure("state", "long-1").out
    assert '[499] "499"' in perdure("state", "long-1", "--all").out


def test_state_tells_which_event_set_a_value(perdure: Command, store: Path) -> None:
    keep(store, "tale-1", STORY)
    lines = perdure("state", "tale-1", "messages[0]", "--history").out.splitlines()
    assert [line.split()[0] for line in lines] == ["POINT", "@2", "@3"]
    document = perdure("state", "tale-1@2", "messages[0]", "--history", "--json").document
    assert [(one["seq"], one["step"], one["value"]) for one in document["set_by"]] == [(2, 1, "hello")]
    assert perdure("state", "tale-1", "nowhere", "--history").out == "nothing was ever at nowhere\n"


def test_bad_points_and_places_are_told_with_a_code(perdure: Command, store: Path) -> None:
    for arguments, code in [
        (("state", "order-1042@99"), "U703"),
        (("state", "order-1042@x"), "U703"),
        (("state", "order-1042", "found["), "U710"),
        (("state", "order-1042", "found[3]"), "U710"),
        (("diff", "order-1042@2", "nobody"), "S112"),
    ]:
        answer = perdure(*arguments)
        assert f"error[{code}]" in answer.err, answer.err
        assert answer.code != 0


def test_diff_shows_what_differs_and_only_that(perdure: Command, store: Path) -> None:
    keep(store, "tale-1", STORY)
    drawn = perdure("diff", "tale-1@2", "tale-1").out
    assert drawn.splitlines()[0] == "tale-1@2 → tale-1@4   2 places, 0 effects differ"
    assert "- fox" in drawn
    assert "+ cat" in drawn
    assert "lazy" not in drawn
    assert '~ messages[0]  "hello" → "\\x1b[31mhello"' in drawn
    document = perdure("diff", "tale-1@2", "tale-1@3", "--json").document
    assert document["changes"] == [{"place": "messages[0]", "was": "hello", "now": "\x1b[31mhello"}]
    assert "changes" not in perdure("diff", "tale-1@2", "tale-1@3", "--stat", "--json").document


def test_diff_of_two_runs_sets_their_effects_side_by_side(perdure: Command, store: Path) -> None:
    drawn = perdure("diff", "order-1042", "order-1043").out
    assert "0 places, 1 effect differ" in drawn
    assert 'refund(order_id="o-77", cents=1200) → "rf-1"' in drawn
    assert 'refund(order_id="o-77", cents=1200): unknown' in drawn


def test_looking_back_writes_nothing(perdure: Command, store: Path) -> None:
    """Law 14."""
    before = everything(store.parent)
    for arguments in (("state", "order-1042@5"), ("state", "order-1042", "found", "--history")):
        assert perdure(*arguments).code == 0
    assert perdure("diff", "order-1042@2", "order-1042").code == 0
    assert everything(store.parent) == before
