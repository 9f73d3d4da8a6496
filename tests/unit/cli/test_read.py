"""Commands that look: what they show, that every id they print opens, and that they change nothing."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import codec
from perdure.state import events as e
from perdure.store.protocol import NEVER
from tests.unit.cli.conftest import Command
from tests.unit.cli.stores import fall_silent, keep, kill_worker_of
from tests.unit.timeline.past import CRASHED, STARTED, head


def words(perdure: Command, *arguments: str) -> dict[str, str]:
    listed = perdure("runs", "--json", *arguments).document["runs"]
    return {run["run_id"]: run["status"] for run in listed}


def test_runs_tells_each_way_to_stand_by_its_own_word(perdure: Command, store: Path) -> None:
    """Field case O-088."""
    keep(store, "dead-1", CRASHED[:7])
    kill_worker_of(store, "dead-1")
    keep(store, "mute-1", CRASHED[:7])
    asyncio.run(fall_silent(store, "mute-1"))
    keep(store, "late-1", (STARTED, e.WaitOpened("1/0", "sleep", 1)), status="waiting", due_at=1)
    assert words(perdure) == {
        "order-1042": "succeeded",
        "order-1043": "held",
        "nap-7": "waiting",
        "fresh-1": "ready",
        "dead-1": "interrupted",
        "mute-1": "silent",
        "late-1": "overdue",
    }


def test_a_killed_run_is_interrupted_for_show_and_why_as_well(perdure: Command, store: Path) -> None:
    keep(store, "dead-1", CRASHED[:7])
    kill_worker_of(store, "dead-1")
    assert perdure("show", "dead-1", "--json").document["run"]["status"] == "interrupted"
    why = perdure("why", "dead-1", "--json").document
    assert why["run"]["worker"] is None
    assert "worker w-mortal died" in why["why"]["headline"]


def test_runs_draws_a_line_for_each_run_and_what_is_needed(perdure: Command, store: Path) -> None:
    answer = perdure("runs")
    lines = answer.out.splitlines()
    assert lines[0].split() == ["ID", "AGENT", "STATUS", "SINCE", "EVENTS", "WHY"]
    assert re.search(r"order-1043 +refund-desk +held .* unknown-outcome: refund was called", answer.out)
    assert lines[-2] == "4 runs · 1 needs a person · 1 needs a worker"
    assert lines[-1] == "next  perdure why fresh-1"
    assert answer.code == 0


def test_every_id_that_runs_prints_can_be_opened(perdure: Command, store: Path) -> None:
    """Field case O-089."""
    ids = [line.split()[0] for line in perdure("runs").out.splitlines()[1:5]]
    assert len(set(ids)) == 4
    for run_id in ids:
        assert perdure("show", run_id).code == 0
        assert perdure("why", run_id).code == 0


def test_filters(perdure: Command, store: Path) -> None:
    assert set(words(perdure, "--status", "held", "--status", "ready")) == {"order-1043", "fresh-1"}
    assert set(words(perdure, "--open")) == {"order-1043", "nap-7", "fresh-1"}
    assert words(perdure, "--agent", "nobody") == {}
    assert perdure("runs", "--agent", "nobody").out == "no runs\n"
    shortened = perdure("runs", "--limit", "2", "--json").document
    assert (len(shortened["runs"]), shortened["more"]) == (2, True)
    assert perdure("runs", "--status", "lost").code == 2


def test_words_are_looked_for_beyond_the_first_page(
    perdure: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.cli.read.PAGE", 1)
    assert set(words(perdure, "--status", "succeeded", "--limit", "1")) == {"order-1042"}
    assert perdure("runs", "--limit", "4", "--json").document["more"] is False


def test_a_run_is_found_by_the_beginning_of_its_id(perdure: Command, store: Path) -> None:
    assert perdure("show", "nap", "--json").document["run"]["run_id"] == "nap-7"
    ambiguous = perdure("show", "order")
    assert ambiguous.code == 3
    assert "U702" in ambiguous.err
    assert "order-1042" in ambiguous.err
    assert "order-1043" in ambiguous.err
    assert perdure("why", "order", "--json").document["error"]["facts"]["matches"] == [
        "order-1043",
        "order-1042",
    ]
    assert perdure("show", "nobody").code == 3


def test_a_whole_id_wins_over_the_ids_that_it_begins(perdure: Command, store: Path) -> None:
    keep(store, "order-10", (STARTED,))
    for number in range(100, 112):
        keep(store, f"order-10-{number}", (STARTED,))
    assert perdure("show", "order-10", "--json").document["run"]["run_id"] == "order-10"
    assert "many runs" in perdure("show", "order-1").err


@pytest.mark.parametrize(
    "command", [("runs",), ("show", "x"), ("why", "x"), ("stats",), ("verify",), ("cancel", "x")]
)
def test_no_look_makes_a_store_that_is_not_there(
    perdure: Command, place: Path, command: tuple[str, ...]
) -> None:
    answer = perdure(*command)
    assert answer.code == 3
    assert str(place / "perdure.db") in answer.err
    elsewhere = perdure(*command, "--store", "elsewhere.db", "--json")
    assert elsewhere.document["error"]["facts"]["path"] == str(place / "elsewhere.db")
    assert list(place.iterdir()) == []


def test_an_empty_file_is_no_store_and_is_left_empty(perdure: Command, place: Path) -> None:
    (place / "perdure.db").touch()
    assert perdure("runs").code == 3
    assert (place / "perdure.db").stat().st_size == 0


def test_a_store_that_cannot_be_used_is_named_and_nothing_else_is_used(perdure: Command, place: Path) -> None:
    (place / "notes.txt").write_text("buy milk\n" * 100)
    answer = perdure("runs", "--store", "notes.txt")
    assert answer.code == 5
    assert "S106" in answer.err
    assert "notes.txt" in answer.err
    assert perdure("runs", "--store", "redis://x").code == 2


def test_show_draws_the_whole_story(perdure: Command, store: Path) -> None:
    out = perdure("show", "order-1042").out
    assert "order-1042   refund-desk   succeeded" in out
    assert '"Refund o-77"' in out
    refund = next(line for line in out.splitlines() if re.match(r"7 .* refund ", line))
    assert re.search(
        r'✓ +refund +irreversible +3.0 s +→ rf-1, known since @10   order_id="o-77", cents=1200$', refund
    )
    assert "✗  interrupted inside refund   carried on by worker w-2" in out
    assert "?  refund: outcome unknown   the worker died inside it" in out
    assert "=  refund: it had happened; not repeated   as its reconcile hook says · found by key" in out
    assert out.rstrip().endswith("result  paid back")


def test_show_a_held_run_ends_with_what_can_be_done(perdure: Command, store: Path) -> None:
    out = perdure("show", "order-1043").out
    assert "held  refund was called and its reply never came" in out
    assert "next  perdure resolve order-1042 2/1 --done RESULT" in out


def test_show_up_to_a_point(perdure: Command, store: Path) -> None:
    document = perdure("show", "order-1042@7", "--json").document
    assert [line["seq"] for line in document["timeline"]] == list(range(1, 8))
    call = document["timeline"][-1]["call"]
    assert (call["standing"], call["receipt"]) == ("open", None)
    assert "up to event 7 of 12" in perdure("show", "order-1042@7").out
    for wrong in ("order-1042@0", "order-1042@13", "order-1042@x", "order-1042@"):
        assert perdure("show", wrong).code == 3


def test_show_events_is_the_journal_itself(perdure: Command, store: Path) -> None:
    lines = perdure("show", "order-1042", "--events").out.splitlines()
    assert len(lines) == 12
    assert lines[6].split()[0] == "7"
    assert "call.intended" in lines[6]
    events = perdure("show", "order-1042", "--events", "--json").document["events"]
    assert [event["kind"] for event in events][-1] == "run.finished"


def test_a_long_run_is_folded_in_the_middle(perdure: Command, store: Path) -> None:
    calls = [e.CallSettled(f"1/{n}", "done", codec.encode(n), head(f"look{n}", "read")) for n in range(100)]
    keep(store, "long-1", (STARTED, *calls))
    folded = perdure("show", "long-1").out
    assert "… 55 lines folded, --all shows them" in folded
    assert "look0 " in folded
    assert "look99 " in folded
    assert "look50 " not in folded
    assert "look50 " in perdure("show", "long-1", "--all").out


def test_why_answers_on_one_screen(perdure: Command, store: Path) -> None:
    out = perdure("why", "order-1043").out
    assert "It needs a person: unknown-outcome." in out
    assert "refund 2/1 [irreversible]: outcome unknown (crash)" in out
    assert len(out.splitlines()) <= 24
    document = perdure("why", "order-1043", "--json").document
    assert document["run"]["needs"] == "person"
    assert document["why"]["remedies"][-1] == "perdure cancel order-1043"


def test_stats_counts(perdure: Command, store: Path) -> None:
    numbers = perdure("stats", "--json").document
    assert numbers["events"] == 12 + 10 + 2 + 1
    assert sum(numbers["runs"].values()) == 4
    assert "4: 1 held, 1 ready, 1 succeeded, 1 waiting" in perdure("stats").out


HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e\x9b31m\r"


def test_what_the_outside_wrote_cannot_act_on_the_terminal(perdure: Command, store: Path) -> None:
    fault = codec.encode(codec.encode_error(ValueError(HOSTILE)))
    called = e.CallHead(HOSTILE, "irreversible", ((HOSTILE, codec.encode({HOSTILE: HOSTILE})),), b"")
    bodies: tuple[e.AnyBody, ...] = (
        e.RunStarted(HOSTILE, HOSTILE, 1, codec.encode(HOSTILE), codec.encode({}), codec.encode({})),
        e.CallIntended("1/0", called, "k", 1, 0),
        e.RunResumed(HOSTILE, ("1/0",), (HOSTILE,)),
        e.CallUnknown("1/0", "error", 0, HOSTILE),
        e.CallReconciled("1/0", "not_done", HOSTILE, evidence=HOSTILE),
        e.CallIntended("1/0", called, "k", 2, 0),
        e.CallSettled("1/0", "failed", fault),
        e.CancelRequested(HOSTILE, HOSTILE),
        e.RunHeld(HOSTILE, HOSTILE, (HOSTILE,)),
    )
    info = codec.encode({"reason": HOSTILE, "detail": HOSTILE})
    keep(store, "evil-1", bodies, status="held", due_at=NEVER, info=info)
    for command in (
        ("runs",),
        ("show", "evil-1"),
        ("show", "evil-1", "--events"),
        ("why", "evil-1"),
        ("show", "evil-1", "--json"),
        ("show", "evil-1", "--events", "--json"),
        ("runs", "--json"),
        ("verify",),
        ("show", HOSTILE),
        ("show", f"evil-1@{HOSTILE}"),
    ):
        answer = perdure(*command)
        said = answer.out + answer.err
        assert not set(said) & {"\x1b", "\x07", "\x9b", "\r", "\u202e"}, command


def test_a_look_loads_no_agent_and_imports_nothing_that_the_store_names(place: Path, store: Path) -> None:
    named = codec.encode(
        {"$type": "os.system", "__reduce__": ["os.system", ["touch owned"]], "py/object": "antigravity"}
    )
    keep(store, "evil-1", (STARTED, e.CallSettled("1/0", "done", named, head("chat", "read"))))
    program = """
import sys
from perdure.cli import main
for command in ("runs", "show evil-1", "show evil-1 --events", "show evil-1 --json", "why evil-1", "verify"):
    try:
        main(command.split())
    except SystemExit as leaving:
        assert leaving.code == 0, command
    loaded = {"perdure.host", "antigravity"} & set(sys.modules)
    assert not loaded, (command, loaded)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (place / "owned").exists()
