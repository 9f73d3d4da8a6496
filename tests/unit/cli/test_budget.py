"""`perdure budget`, and what lists, `why` and `show` say of money: the same sums everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import codec
from perdure.state import events as e
from perdure.state.amount import DOLLAR, Amount, Limits
from perdure.store.protocol import NEVER
from perdure.timeline.spending import Spending, tightest
from tests.unit.cli.conftest import Command
from tests.unit.cli.stores import keep, messages
from tests.unit.timeline.past import START, head

CHAT = head("chat", "read", n=1)
REMEDY = "perdure budget rich-1 --add usd=0.05 --why ..."

BODIES: tuple[e.AnyBody, ...] = (
    e.RunStarted(
        "refund-desk",
        "7",
        1,
        codec.encode("Refund o-77"),
        codec.encode({}),
        codec.encode({}),
        budget=Limits(usd=DOLLAR // 2, steps=30, own=("usd",)),
    ),
    e.CallIntended("1:0", CHAT, "k", 1, 0, 0, Amount(usd=150_000_000, tokens=1500)),
    e.CallSettled("1:0", "done", codec.encode("look"), usage=(1000, 500, 150_000_000)),
    e.CallIntended("1:1", CHAT, "k", 1, START, 0, Amount(usd=150_000_000, tokens=1500)),
    e.BudgetRaised("ana", Amount(usd=100_000_000), "more"),
    e.RunHeld("over-budget", "[B501] call 1:2 (chat) asks for $0.35 at worst", (REMEDY,), "1:2"),
)

NOTED = {
    "reason": "over-budget",
    "budget": {"usd": [150_000_000, 150_000_000, 600_000_000], "steps": [0, 0, 30]},
}


@pytest.fixture
def rich(store: Path) -> Path:
    """A store with a run that has a budget."""
    keep(store, "rich-1", BODIES, status="held", due_at=NEVER, info=codec.encode(NOTED))
    return store


def test_it_shows_each_limit_and_where_it_comes_from(perdure: Command, rich: Path) -> None:
    """Field case O-065."""
    answer = perdure("budget", "rich-1")
    assert answer.code == 0
    usd, steps = (line.split() for line in answer.out.splitlines()[1:3])
    assert usd[:5] == ["usd", "$0.15", "$0.15", "$0.60", "$0.30"]
    assert " ".join(usd[5:]) == "the run's own $0.50, raised by $0.10"
    assert steps[:3] == ["steps", "0", "steps"]
    assert "the agent's" in answer.out
    assert REMEDY in answer.out.replace("\n", "")
    document = perdure("budget", "rich-1", "--json").document
    assert document["budget"]["usd"] == {
        "spent": 0.15,
        "reserved": 0.15,
        "limit": 0.6,
        "left": 0.3,
        "source": "the run's own $0.50, raised by $0.10",
    }
    assert document["held_for_it"] is True
    assert document["spent"]["usd"] == 150_000_000


def test_a_run_without_limits_says_so(perdure: Command, store: Path) -> None:
    answer = perdure("budget", "order-1043")
    assert "has no limits; it has used $0.00" in answer.out
    assert perdure("budget", "order-1043", "--json").document["budget"] == {}


def test_more_is_one_message_with_who_and_why(perdure: Command, rich: Path) -> None:
    answer = perdure("budget", "rich-1", "--add", "usd=1", "--add", "steps=5", "--why", "ok", "--by", "ana")
    assert answer.code == 0
    assert "recorded: budget rich-1 + usd=1, steps=5, by ana" in answer.out
    [(kind, data)] = messages(rich, "rich-1")
    assert (kind, data) == ("budget", {"by": "ana", "note": "ok", "more": {"usd": DOLLAR, "steps": 5}})
    shown = perdure("budget", "rich-1").out
    assert "1 message came since; the next worker applies them" in shown
    assert "--add" not in shown, "what has been said is not proposed again"
    answer = perdure("budget", "rich-1", "--add", "usd=0.5", "--json")
    assert (answer.document["accepted"], answer.document["add"]) == ("budget", {"usd": 0.5})


@pytest.mark.parametrize(
    ("add", "exit_code", "code"),
    [
        ("usd=-1", 5, "B503"),
        ("tokens=7", 5, "B504"),
        ("usd=0", 5, "B504"),
        ("dollars=1", 2, "its kinds: usd"),
        ("usd=nan", 2, "C101"),
        ("usd", 2, ""),
        ("usd=many", 2, ""),
    ],
)
def test_what_it_refuses(perdure: Command, rich: Path, add: str, exit_code: int, code: str) -> None:
    """With a code and a remedy; nothing is written."""
    answer = perdure("budget", "rich-1", "--add", add)
    assert answer.code == exit_code, answer.err
    assert code in answer.err
    assert messages(rich, "rich-1") == []


def test_lists_why_and_show_tell_the_same(perdure: Command, rich: Path) -> None:
    assert "$0.15 of $0.60, $0.15 reserved" in perdure("runs").out
    [listed] = [run for run in perdure("runs", "--json").document["runs"] if run["run_id"] == "rich-1"]
    assert (listed["budget"]["usd"]["left"], listed["budget"]["steps"]["limit"]) == (0.3, 30)
    why = " ".join(perdure("why", "rich-1").out.split())
    assert "budget $0.15 of $0.60, $0.15 reserved (the run's own $0.50, raised by $0.10)" in why
    assert "budget 0 steps of 30 steps (the agent's)" in why
    shown = " ".join(perdure("show", "rich-1").out.split())
    assert "$0.15 of $0.60, $0.15 reserved" in shown
    assert "budget raised by ana" in shown
    assert perdure("show", "rich-1", "--json").document["budget"]["usd"]["spent"] == 0.15


def test_the_tightest_limit_is_named_once_it_is_gone() -> None:
    usd = Spending("usd", 10, 0, DOLLAR)
    assert tightest(()) == ""
    assert tightest((usd, Spending("steps", 29, 0, 30))) == "$0.00000001 of $1.00"
    assert tightest((usd, Spending("steps", 30, 0, 30))) == "30 steps of 30 steps"
